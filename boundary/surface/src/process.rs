//! The state of the process: not initialised, initialised, forked off, or ending. Every exported function asks here
//! first, so implementations see calls only while they may answer them. They learn of each call's beginning and end. A
//! panic below never reaches C.

pub mod refusals;
pub(crate) mod trace;

use crate::{Beyond, Call};
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
pub fn guard<D: Beyond + ?Sized>(
    driver: &'static D,
    name: &'static str,
    call: impl FnMut(&'static D) -> CudaResult<()>,
) -> CuResult {
    match STATE.load(Ordering::Acquire) {
        RUNNING => caught(driver, name, call),
        ENDING => refused(name, CudaError::DEINITIALIZED),
        _ => refused(name, CudaError::NOT_INITIALIZED),
    }
}

/// Runs an exported function that does not need `cuInit`.
#[doc(hidden)]
pub fn guard_always<D: Beyond + ?Sized>(
    driver: &'static D,
    name: &'static str,
    call: impl FnMut(&'static D) -> CudaResult<()>,
) -> CuResult {
    caught(driver, name, call)
}

/// Answers a call that may not reach the implementation.
#[cold]
fn refused(name: &str, error: CudaError) -> CuResult {
    trace::answered(name, error.into());
    error.into()
}

fn caught<D: Beyond + ?Sized>(
    driver: &'static D,
    name: &'static str,
    mut call: impl FnMut(&'static D) -> CudaResult<()>,
) -> CuResult {
    trace::begins(name);
    // Outside of what catches panics: the call is over behind one, too.
    let present = Call::begin(driver, name);
    // State that a panic leaves half-done is behind the implementation's own locks, which report it at the next call.
    // The closure is called in place, not moved: it holds all of C's arguments.
    let answer = match catch_unwind(AssertUnwindSafe(|| call(driver))) {
        Ok(result) => result.into(),
        Err(_) => failed(name),
    };
    present.end(answer);
    trace::answered(name, answer);
    answer
}

/// Answers a call that panicked.
#[cold]
fn failed(name: &str) -> CuResult {
    eprintln!("floe: {name} failed inside floe and answers CUDA_ERROR_UNKNOWN\n  please report the lines above");
    CudaError::UNKNOWN.into()
}

/// Whether `cuInit` may continue.
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
        // SAFETY: both functions are ours, take nothing and never unwind. They live as long as this library, whose
        // unloading glibc handles through the same list.
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
    use floe_abi::{Context, Device};
    use std::sync::atomic::AtomicU32;

    use super::*;

    /// Counts the calls that began and those that ended.
    #[derive(Default)]
    struct Counting {
        began: AtomicU32,
        ended: AtomicU32,
    }

    impl Counting {
        fn leaked() -> &'static Self {
            Box::leak(Box::default())
        }

        fn counts(&self) -> [u32; 2] {
            [&self.began, &self.ended].map(|count| count.load(Ordering::Relaxed))
        }
    }

    impl Beyond for Counting {
        fn primary_context(&self, _device: Device) -> CudaResult<Context> {
            Err(CudaError::INVALID_DEVICE)
        }

        fn call_begins(&self, _name: &'static str) {
            self.began.fetch_add(1, Ordering::Relaxed);
        }

        fn call_ends(&self, _answer: CuResult) {
            self.ended.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn panic_becomes_unknown_and_ends_the_call() {
        let driver = Counting::leaked();
        assert_eq!(guard_always(driver, "cuTest", |_| panic!("on purpose")), CudaError::UNKNOWN.into());
        assert_eq!(driver.counts(), [1, 1]);
    }

    #[test]
    fn success_and_errors_pass_through_a_call_that_begins_and_ends_once() {
        let driver = Counting::leaked();
        let inside = |driver: &Counting| {
            assert_eq!(driver.counts(), [1, 0]);
            Ok(())
        };
        assert_eq!(guard_always(driver, "cuTest", inside), CuResult::SUCCESS);
        assert_eq!(guard_always(driver, "cuTest", |_| Err(CudaError::NOT_READY)).0, 600);
        assert_eq!(driver.counts(), [2, 2]);
    }

    #[test]
    fn a_call_that_is_refused_does_not_begin() {
        let driver = Counting::leaked();
        assert_eq!(guard(driver, "cuTest", |_| Ok(())), CudaError::NOT_INITIALIZED.into());
        assert_eq!(driver.counts(), [0, 0]);
    }
}
