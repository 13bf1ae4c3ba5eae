//! A trace of driver calls, to find the one that fails or hangs. The name and the answer of each call come in, lines
//! with the thread's number go to stderr. `FLOE_TRACE=failures` writes calls that fail. `FLOE_TRACE=calls` also writes
//! every call as it begins, so a thread's last line is the call that it hangs in. Without either nothing is formatted,
//! and a call costs two comparisons more.

use floe_abi::{CuResult, CudaError};
use std::io::Write;
use std::sync::OnceLock;

/// The calls that are written.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Detail {
    Nothing,
    Failures,
    Calls,
}

#[inline]
fn detail() -> Detail {
    static DETAIL: OnceLock<Detail> = OnceLock::new();
    *DETAIL.get_or_init(|| parse(std::env::var("FLOE_TRACE").ok().as_deref()))
}

fn parse(value: Option<&str>) -> Detail {
    match value {
        None | Some("" | "0") => Detail::Nothing,
        Some("failures") => Detail::Failures,
        Some(_) => Detail::Calls,
    }
}

fn line(text: std::fmt::Arguments<'_>) {
    // SAFETY: gettid takes nothing and cannot fail.
    let thread = unsafe { libc::gettid() };
    // One write per line, so that those of several threads do not mix. A closed stderr is the program's wish.
    let _ = std::io::stderr().write_all(format!("floe[{thread}]: {text}\n").as_bytes());
}

/// A call begins.
#[inline]
pub(crate) fn begins(name: &str) {
    if detail() == Detail::Calls {
        line(format_args!("{name}"));
    }
}

/// A call has been answered.
#[inline]
pub(crate) fn answered(name: &str, answer: CuResult) {
    if detail() != Detail::Nothing {
        tell(name, answer);
    }
}

#[cold]
fn tell(name: &str, answer: CuResult) {
    if let Some(error) = CudaError::from_code(answer.0) {
        line(format_args!("{name}: {error}"));
    }
}

/// A function was looked up that floe does not have.
pub(crate) fn not_found(name: &str, version: i32) {
    if detail() != Detail::Nothing {
        line(format_args!("cuGetProcAddress: no function {name} of version {version}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_written_unless_asked_for() {
        assert_eq!([None, Some(""), Some("0")].map(parse), [Detail::Nothing; 3]);
        assert_eq!(parse(Some("failures")), Detail::Failures);
        assert_eq!(parse(Some("calls")), Detail::Calls);
    }
}
