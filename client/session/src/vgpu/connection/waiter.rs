//! The wait of one thread for one answer, or for its turn to read.
//! In: the answer, or a nudge. Out: the answer, once.
//! It reads nothing itself.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use floe_abi::{CudaError, CudaResult};
use floe_transport::Spin;

use super::pending::Answer;
use floe_lock::lock;

/// The answer of a call that is in flight.
#[derive(Debug)]
pub(crate) struct Ticket {
    pub(super) waiter: Arc<Waiter>,
}

impl Ticket {
    /// Whether there is an answer.
    pub(crate) fn is_answered(&self) -> bool {
        self.waiter.is_filled()
    }

    /// Whether there is one, which is a success.
    pub(crate) fn is_success(&self) -> bool {
        self.waiter.status() == Some(Ok(()))
    }
}

/// One thread that waits.
#[derive(Debug, Default)]
pub(super) struct Waiter {
    slot: Mutex<Slot>,
    woken: Condvar,
    /// Whether there is an answer or a nudge, so that the thread can look without the lock.
    stirred: AtomicBool,
}

#[derive(Debug, Default)]
struct Slot {
    answer: Option<CudaResult<Answer>>,
    nudged: bool,
    sleeps: bool,
}

impl Waiter {
    /// The answer is here.
    pub(super) fn fill(&self, answer: CudaResult<Answer>) {
        self.change(|slot| slot.answer = Some(answer));
    }

    /// Something has changed: the thread is to look.
    pub(super) fn nudge(&self) {
        self.change(|slot| slot.nudged = true);
    }

    fn change(&self, change: impl FnOnce(&mut Slot)) {
        let mut slot = lock(&self.slot);
        change(&mut slot);
        self.stirred.store(true, Ordering::Release);
        if slot.sleeps {
            drop(slot);
            self.woken.notify_all();
        }
    }

    /// Whether the answer is here.
    pub(super) fn is_filled(&self) -> bool {
        self.stirred.load(Ordering::Acquire) && lock(&self.slot).answer.is_some()
    }

    /// The answer, when it is here.
    pub(super) fn take(&self) -> Option<CudaResult<Answer>> {
        lock(&self.slot).answer.take()
    }

    /// How it was answered, if the answer is here; it stays.
    pub(super) fn status(&self) -> Option<CudaResult<()>> {
        let slot = lock(&self.slot);
        let answer = slot.answer.as_ref()?;
        Some(answer.as_ref().map_err(|error| *error).and_then(|answer| match CudaError::from_code(answer.status) {
            Some(error) => Err(error),
            None => Ok(()),
        }))
    }

    /// Waits for the answer or a nudge.
    pub(super) fn sleep(&self, spin: Spin) {
        let _ = spin.look(|| self.stirred.load(Ordering::Acquire).then_some(()));
        let mut slot = lock(&self.slot);
        while slot.answer.is_none() && !slot.nudged {
            slot.sleeps = true;
            slot = floe_lock::wait(&self.woken, slot);
        }
        slot.sleeps = false;
        slot.nudged = false;
        self.stirred.store(slot.answer.is_some(), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nudge_wakes_once_and_an_answer_stays() {
        let waiter = Waiter::default();
        waiter.nudge();
        waiter.sleep(Spin::default());
        assert!(!waiter.is_filled());
        waiter.fill(Ok(Answer::default()));
        waiter.sleep(Spin::default());
        assert!(waiter.is_filled());
        assert!(waiter.take().is_some());
        assert!(!waiter.is_filled());
    }
}
