//! Errors a later call must report: a lost link, a context beyond use, the first failure of something posted. Codes come in
//! from the receiving thread, errors go out to the program's calls. It never forgets a sticky error before a reset, nor
//! reports a deferred one twice.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use floe_abi::{CudaError, CudaResult};

use crate::log::log;
use floe_lock::lock;

/// The errors of one session. All zero while nothing has failed.
#[derive(Debug, Default)]
pub(crate) struct Errors {
    /// The link is gone; nothing heals that.
    lost: AtomicU32,
    /// The context is beyond use until it is reset.
    sticky: AtomicU32,
    /// The first failure of a posted call that no call has reported yet.
    deferred: AtomicU32,
    /// Whether a call has reported one that stays, since the last reset.
    told: AtomicBool,
    /// Pinned memory that kernels do not reach and whose address a kernel was given last; 0: none.
    unreachable: AtomicU64,
    /// The frame of the last reset.
    ended: Mutex<u64>,
}

impl Errors {
    /// A reply or a delivery said that something failed.
    pub(crate) fn note(&self, error: CudaError) {
        let place = if error.is_sticky() { &self.sticky } else { &self.deferred };
        // The first one counts: later ones are mostly its consequences.
        let _ = place.compare_exchange(0, error.code(), Ordering::AcqRel, Ordering::Acquire);
        if let Some(at) = self.culprit(error) {
            log!(
                Error,
                "a kernel faulted that may have used pinned memory it cannot reach: {at:#x}\n  \
                 copy it to the device instead, or ask for its device pointer (cudaHostGetDevicePointer)"
            );
        }
    }

    /// The same of this frame, or of work up to it. What was before the last reset is over with its context.
    pub(crate) fn note_of(&self, frame: u64, error: CudaError) {
        let ended = lock(&self.ended);
        if frame >= *ended {
            self.note(error);
        }
    }

    /// A kernel's parameters hold what may be the address of pinned memory it does not reach. Numbers that only look
    /// like one are common, so the log names it only after a kernel has faulted.
    pub(crate) fn suspect(&self, at: u64) {
        self.unreachable.store(at, Ordering::Relaxed);
    }

    /// The memory a fault may be about, once.
    fn culprit(&self, error: CudaError) -> Option<u64> {
        let at = if error == CudaError::ILLEGAL_ADDRESS { self.unreachable.swap(0, Ordering::Relaxed) } else { 0 };
        (at != 0).then_some(at)
    }

    /// The link is over; the first error stays.
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

    /// Whether calls can do nothing, which is asked for no call.
    pub(crate) fn is_broken(&self) -> bool {
        [&self.lost, &self.sticky].into_iter().any(|place| place.load(Ordering::Acquire) != 0)
    }

    /// Whether calls can do anything.
    #[inline]
    pub(crate) fn check(&self) -> CudaResult<()> {
        for place in [&self.lost, &self.sticky] {
            if let Some(error) = CudaError::from_code(place.load(Ordering::Acquire)) {
                self.told.store(true, Ordering::Release);
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

    /// Whether a call has reported an error that stays, since the last reset.
    pub(crate) fn is_told(&self) -> bool {
        self.told.load(Ordering::Acquire)
    }

    /// The context was reset by this frame: it is usable again.
    pub(crate) fn reset(&self, frame: u64) {
        let mut ended = lock(&self.ended);
        *ended = frame.max(*ended);
        self.told.store(false, Ordering::Release);
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
        errors.reset(9);
        assert_eq!(errors.report(), Ok(()));
    }

    #[test]
    fn what_was_before_the_reset_fails_no_more() {
        let errors = Errors::default();
        errors.reset(7);
        errors.note_of(6, CudaError::ILLEGAL_ADDRESS);
        errors.note_of(6, CudaError::INVALID_VALUE);
        assert_eq!(errors.report(), Ok(()));
        // A reset may be posted, and fail.
        errors.note_of(7, CudaError::ILLEGAL_ADDRESS);
        assert_eq!(errors.report(), Err(CudaError::ILLEGAL_ADDRESS));
    }

    #[test]
    fn unreachable_memory_is_named_once_and_only_behind_a_fault() {
        let errors = Errors::default();
        assert_eq!(errors.culprit(CudaError::ILLEGAL_ADDRESS), None);
        errors.suspect(0x6000_0000_0001);
        assert_eq!(errors.culprit(CudaError::INVALID_VALUE), None);
        assert_eq!(errors.culprit(CudaError::ILLEGAL_ADDRESS), Some(0x6000_0000_0001));
        assert_eq!(errors.culprit(CudaError::ILLEGAL_ADDRESS), None);
    }

    #[test]
    fn a_lost_link_outlives_the_reset() {
        let errors = Errors::default();
        errors.lose(CudaError::DEVICE_UNAVAILABLE);
        errors.reset(9);
        assert_eq!(errors.check(), Err(CudaError::DEVICE_UNAVAILABLE));
    }
}
