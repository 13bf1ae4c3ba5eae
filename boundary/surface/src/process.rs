//! Where the process stands: not initialised, initialised, forked off, or ending. Every exported function asks here
//! first, so that implementations see calls only while they may answer them. A panic below never reaches C.

use crate::trace;
use floe_abi::{CuResult, CudaError, CudaResult};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

/// `cuInit` has not succeeded yet.
const FRESH: u8 = 0;
/// Calls go through.
const RUNNING: u8 = 1;
/// The process was forked off one that was running; CUDA does not work there.
const FORKED: u8 = 2;
/// `exit` has begun.
const ENDING: u8 = 3;

static STATE: AtomicU8 = AtomicU8::new(FRESH);
static AT_EXIT: OnceLock<Box<dyn Fn() + Send + Sync>> = OnceLock::new();

/// Runs an exported function that needs `cuInit`.
#[doc(hidden)]
pub fn guard(name: &str, call: impl FnMut() -> CudaResult<()>) -> CuResult {
    match STATE.load(Ordering::Acquire) {
        RUNNING => caught(name, call),
        ENDING => refused(name, CudaError::DEINITIALIZED),
        _ => refused(name, CudaError::NOT_INITIALIZED),
    }
}

/// Runs an exported function that does not need `cuInit`.
#[doc(hidden)]
pub fn guard_always(name: &str, call: impl FnMut() -> CudaResult<()>) -> CuResult {
    caught(name, call)
}

/// Answers a call that may not reach the implementation.
#[cold]
fn refused(name: &str, error: CudaError) -> CuResult {
    trace::answered(name, error.into());
    error.into()
}

fn caught(name: &str, mut call: impl FnMut() -> CudaResult<()>) -> CuResult {
    trace::begins(name);
    // What a panic leaves half-done lies behind the implementation's own locks, which report it at the next call.
    // Called where it lies: it holds all of C's arguments.
    let answer = match catch_unwind(AssertUnwindSafe(&mut call)) {
        Ok(result) => result.into(),
        Err(_) => failed(name),
    };
    trace::answered(name, answer);
    answer
}

/// Answers a call that panicked.
#[cold]
fn failed(name: &str) -> CuResult {
    eprintln!("floe: {name} failed inside floe and answers CUDA_ERROR_UNKNOWN\n  please report the lines above");
    CudaError::UNKNOWN.into()
}

/// Whether `cuInit` may go on.
///
/// # Errors
/// NOT_INITIALIZED in a process forked off a running one, DEINITIALIZED at the process's end.
pub(crate) fn may_start() -> CudaResult<()> {
    match STATE.load(Ordering::Acquire) {
        FORKED => Err(CudaError::NOT_INITIALIZED),
        ENDING => Err(CudaError::DEINITIALIZED),
        _ => Ok(()),
    }
}

/// `cuInit` has succeeded: calls go through from now on, and `exiting` runs when the process ends.
pub(crate) fn started(exiting: impl Fn() + Send + Sync + 'static) {
    if AT_EXIT.set(Box::new(exiting)).is_ok() {
        // SAFETY: both functions are ours, take nothing and never unwind; they live as long as this library, which
        // glibc tells of its own unloading through the same list.
        unsafe {
            libc::atexit(at_exit);
            libc::pthread_atfork(None, None, Some(forked));
        }
        STATE.store(RUNNING, Ordering::Release);
    }
}

extern "C" fn at_exit() {
    if STATE.swap(ENDING, Ordering::AcqRel) != RUNNING {
        return;
    }
    if let Some(exiting) = AT_EXIT.get() {
        let _ = catch_unwind(AssertUnwindSafe(exiting));
    }
}

unsafe extern "C" fn forked() {
    STATE.store(FORKED, Ordering::Release);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panic_becomes_unknown() {
        assert_eq!(guard_always("cuTest", || panic!("on purpose")), CudaError::UNKNOWN.into());
    }

    #[test]
    fn success_and_errors_pass_through() {
        assert_eq!(guard_always("cuTest", || Ok(())), CuResult::SUCCESS);
        assert_eq!(guard_always("cuTest", || Err(CudaError::NOT_READY)).0, 600);
    }
}
