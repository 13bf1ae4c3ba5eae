//! The queue of page faults, for the thread that asks the fault handler. A faulting thread queues its fault, which lies
//! on its own stack, and sleeps; the serving thread takes all faults out and stores each outcome. A faulting thread is
//! in a signal handler, so it takes no lock and no memory.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use rustix::thread::futex;

/// Not decided yet.
const QUEUED: u32 = 0;
const RETRIES: u32 = 1;
const REFUSED: u32 = 2;

/// One thread's page fault, and its outcome.
#[derive(Debug)]
pub(crate) struct QueuedFault {
    pub(crate) address: u64,
    pub(crate) writes: bool,
    pub(crate) in_host_function: bool,
    outcome: AtomicU32,
    next: AtomicPtr<QueuedFault>,
}

/// Grows with every outcome: faulting threads sleep on it. It is a word of its own, since a fault is gone when its thread continues.
static OUTCOMES: AtomicU32 = AtomicU32::new(0);

/// A queue.
#[derive(Debug)]
pub(crate) struct FaultQueue {
    last: AtomicPtr<QueuedFault>,
    /// Grows with every queued fault.
    calls: AtomicU32,
}

impl QueuedFault {
    pub(crate) fn new(address: u64, writes: bool, in_host_function: bool) -> Self {
        let next = AtomicPtr::new(ptr::null_mut());
        Self { address, writes, in_host_function, outcome: AtomicU32::new(QUEUED), next }
    }
}

impl FaultQueue {
    pub(crate) const fn new() -> Self {
        Self { last: AtomicPtr::new(ptr::null_mut()), calls: AtomicU32::new(0) }
    }

    /// Queues the fault and sleeps until it has an outcome; true if the thread may retry.
    pub(crate) fn wait(&self, fault: &QueuedFault) -> bool {
        let own = ptr::from_ref(fault).cast_mut();
        let mut before = self.last.load(Ordering::Relaxed);
        loop {
            fault.next.store(before, Ordering::Relaxed);
            match self.last.compare_exchange_weak(before, own, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => break,
                Err(other) => before = other,
            }
        }
        self.calls.fetch_add(1, Ordering::Release);
        let _ = futex::wake(&self.calls, futex::Flags::PRIVATE, 1);
        loop {
            let seen = OUTCOMES.load(Ordering::Acquire);
            match fault.outcome.load(Ordering::Acquire) {
                QUEUED => drop(futex::wait(&OUTCOMES, futex::Flags::PRIVATE, seen, None)),
                outcome => return outcome == RETRIES,
            }
        }
    }

    /// Serves all faults, for ever. If `decide` panics, its fault is refused, and the others are served.
    pub(crate) fn serve(&self, decide: impl Fn(&QueuedFault) -> bool) -> ! {
        loop {
            let seen = self.calls.load(Ordering::Acquire);
            let mut fault = self.last.swap(ptr::null_mut(), Ordering::Acquire);
            if fault.is_null() {
                let _ = futex::wait(&self.calls, futex::Flags::PRIVATE, seen, None);
            }
            while !fault.is_null() {
                fault = Self::serve_one(fault, &decide);
            }
        }
    }

    /// Serves one fault; returns the next one.
    fn serve_one(fault: *mut QueuedFault, decide: &impl Fn(&QueuedFault) -> bool) -> *mut QueuedFault {
        // SAFETY: its thread sleeps in `wait`, so the fault exists until its outcome is stored below, the last use of it.
        let fault = unsafe { &*fault };
        let next = fault.next.load(Ordering::Relaxed);
        let retries = catch_unwind(AssertUnwindSafe(|| decide(fault))).unwrap_or(false);
        let outcome = if retries { RETRIES } else { REFUSED };
        fault.outcome.store(outcome, Ordering::Release);
        OUTCOMES.fetch_add(1, Ordering::Release);
        let _ = futex::wake(&OUTCOMES, futex::Flags::PRIVATE, u32::MAX >> 1);
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static QUEUE: FaultQueue = FaultQueue::new();

    #[test]
    fn each_fault_gets_its_own_outcome() {
        std::thread::spawn(|| QUEUE.serve(|fault| fault.address.is_multiple_of(2)));
        let wait = |address: u64| QUEUE.wait(&QueuedFault::new(address, false, false));
        let threads: Vec<_> = (0..4)
            .map(|thread| std::thread::spawn(move || (0..500).all(|turn| wait(4 * turn + thread) == (thread % 2 == 0))))
            .collect();
        assert!(threads.into_iter().all(|thread| thread.join().expect("no panic")));
    }

    #[test]
    fn a_panic_refuses_one_fault_and_the_next_is_served() {
        static PANICS: FaultQueue = FaultQueue::new();
        std::thread::spawn(|| {
            PANICS.serve(|fault| {
                assert_ne!(fault.address, 1, "what this case is about");
                true
            })
        });
        assert_eq!(
            [0, 1, 2, 1, 3].map(|address| PANICS.wait(&QueuedFault::new(address, false, false))),
            [true, false, true, false, true]
        );
    }
}
