//! In: messages that explain an error. Out: lines on standard error. Notes appear where `FLOE_LOG` asks for them;
//! refusals also when the process ends with an error.
//! It never writes to standard output, which belongs to the program.

use std::fmt::Arguments;
use std::sync::OnceLock;

use floe_abi::CudaError;
use floe_surface::refusals;

fn is_on() -> bool {
    static ON: OnceLock<bool> = OnceLock::new();
    *ON.get_or_init(|| std::env::var("FLOE_LOG").is_ok_and(|value| is_for_notes(&value)))
}

fn is_for_notes(level: &str) -> bool {
    !matches!(level.trim().to_ascii_lowercase().as_str(), "" | "0" | "error" | "warn" | "warning")
}

/// A note for users who set `FLOE_LOG`.
pub(crate) fn note(message: Arguments<'_>) {
    if is_on() {
        eprintln!("floe: {message}");
    }
}

/// Why the program gets an error.
pub(crate) fn warn(message: Arguments<'_>) {
    refusals::refused(message);
}

/// As `warn`, but the same message only once in a process.
pub(crate) fn warn_once(message: Arguments<'_>) {
    refusals::refused_once(message);
}

/// Why a call that hands memory or events to another process fails.
pub(crate) fn refuse_between_processes(function: &str) -> CudaError {
    let advice = "export physical memory by a descriptor instead";
    warn(format_args!("{function} is not supported by the CPU device: {advice}"));
    CudaError::NOT_SUPPORTED
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_for_those_who_ask_for_more_than_refusals() {
        let levels = ["", "0", "error", "warn", "info", "debug", "1"].map(is_for_notes);
        assert_eq!(levels, [false, false, false, false, true, true, true]);
    }
}
