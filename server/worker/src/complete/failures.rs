//! Failures of commands nobody waits for.
//! In: the error and the name of a posted command. Out: the first of them, once, for the next reply.
//! A failure is logged when it happens, so that it has a name even when the program never asks.

use std::sync::atomic::{AtomicU32, Ordering};

use floe_abi::CudaError;

/// The first failure no reply has carried yet.
#[derive(Debug, Default)]
pub(crate) struct Failures(AtomicU32);

impl Failures {
    /// Remembers a failure, unless an earlier one is still unreported. True: it is remembered.
    pub(crate) fn note(&self, error: CudaError) -> bool {
        self.0.compare_exchange(0, error.code(), Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Whether a failure is still to be reported.
    pub(crate) fn any(&self) -> bool {
        self.peek() != 0
    }

    /// The failure that is to be reported; 0: none.
    pub(crate) fn peek(&self) -> u32 {
        self.0.load(Ordering::Acquire)
    }

    /// Takes the failure that is to be reported; 0: none.
    pub(crate) fn take(&self) -> u32 {
        self.0.swap(0, Ordering::AcqRel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_failure_is_reported_once() {
        let failures = Failures::default();
        assert_eq!(failures.take(), 0);
        assert!(failures.note(CudaError::INVALID_VALUE));
        assert!(!failures.note(CudaError::ILLEGAL_ADDRESS));
        assert_eq!((failures.take(), failures.take()), (1, 0));
    }
}
