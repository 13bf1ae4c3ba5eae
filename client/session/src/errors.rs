//! Errors a later call must report: a lost link, a context beyond use, the first failure of something posted. Codes come in
//! from the receiving thread, errors go out to the program's calls. It never forgets a sticky error before a reset, nor
//! reports a deferred one twice.

use std::sync::atomic::{AtomicU32, Ordering};

use floe_abi::{CudaError, CudaResult};

/// The errors of one session. All zero while nothing has failed.
#[derive(Debug, Default)]
pub(crate) struct Errors {
    /// The link is gone; nothing heals that.
    lost: AtomicU32,
    /// The context is beyond use until it is reset.
    sticky: AtomicU32,
    /// The first failure of a posted call that no call has reported yet.
    deferred: AtomicU32,
}

impl Errors {
    /// A reply or a delivery said that something failed.
    pub(crate) fn note(&self, error: CudaError) {
        let place = if error.is_sticky() { &self.sticky } else { &self.deferred };
        // The first one counts: later ones are mostly its consequences.
        let _ = place.compare_exchange(0, error.code(), Ordering::AcqRel, Ordering::Acquire);
    }

    /// The link is over.
    pub(crate) fn lose(&self, error: CudaError) {
        let _ = self.lost.compare_exchange(0, error.code(), Ordering::AcqRel, Ordering::Acquire);
    }

    /// Whether the link is over.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire) != 0
    }

    /// The error the link ended with; DEVICE_UNAVAILABLE before that is known.
    pub(crate) fn lost(&self) -> CudaError {
        CudaError::from_code(self.lost.load(Ordering::Acquire)).unwrap_or(CudaError::DEVICE_UNAVAILABLE)
    }

    /// Whether calls can do anything.
    #[inline]
    pub(crate) fn check(&self) -> CudaResult<()> {
        for place in [&self.lost, &self.sticky] {
            if let Some(error) = CudaError::from_code(place.load(Ordering::Acquire)) {
                return Err(error);
            }
        }
        Ok(())
    }

    /// As `check`, and reports a posted call's failure, once.
    #[inline]
    pub(crate) fn report(&self) -> CudaResult<()> {
        self.check()?;
        // A plain load first: this runs on every launch, and there is almost never anything to take.
        if self.deferred.load(Ordering::Acquire) == 0 {
            return Ok(());
        }
        match CudaError::from_code(self.deferred.swap(0, Ordering::AcqRel)) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// The context was reset: it is usable again.
    pub(crate) fn reset(&self) {
        self.sticky.store(0, Ordering::Release);
        self.deferred.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deferred_error_is_reported_once() {
        let errors = Errors::default();
        errors.note(CudaError::INVALID_VALUE);
        errors.note(CudaError::NOT_FOUND);
        assert_eq!(errors.check(), Ok(()));
        assert_eq!(errors.report(), Err(CudaError::INVALID_VALUE));
        assert_eq!(errors.report(), Ok(()));
    }

    #[test]
    fn a_sticky_error_stays_until_the_reset() {
        let errors = Errors::default();
        errors.note(CudaError::ILLEGAL_ADDRESS);
        assert_eq!(errors.report(), Err(CudaError::ILLEGAL_ADDRESS));
        assert_eq!(errors.check(), Err(CudaError::ILLEGAL_ADDRESS));
        errors.reset();
        assert_eq!(errors.report(), Ok(()));
    }

    #[test]
    fn a_lost_link_outlives_the_reset() {
        let errors = Errors::default();
        errors.lose(CudaError::DEVICE_UNAVAILABLE);
        errors.reset();
        assert_eq!(errors.check(), Err(CudaError::DEVICE_UNAVAILABLE));
    }
}
