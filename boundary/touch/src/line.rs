//! Threads that stand at a closed page, in line for the thread that asks the handler. Who stands puts its place, which lies on
//! its own stack, into the line and sleeps; who serves takes all of them out and says to each how it ended. No lock and no
//! memory is taken by who stands: it is in a signal's handler.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use rustix::thread::futex;

/// Not decided yet.
const STANDS: u32 = 0;
const GOES_ON: u32 = 1;
const IS_REFUSED: u32 = 2;

/// One thread's place.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) address: u64,
    pub(crate) writes: bool,
    pub(crate) in_turn: bool,
    outcome: AtomicU32,
    next: AtomicPtr<Place>,
}

/// Grows with every outcome: what those who stand sleep at. A word of its own, since a place is gone when its thread goes on.
static OUTCOMES: AtomicU32 = AtomicU32::new(0);

/// A line.
#[derive(Debug)]
pub(crate) struct Line {
    last: AtomicPtr<Place>,
    /// Grows with every place in line.
    calls: AtomicU32,
}

impl Place {
    pub(crate) fn new(address: u64, writes: bool, in_turn: bool) -> Self {
        let next = AtomicPtr::new(ptr::null_mut());
        Self { address, writes, in_turn, outcome: AtomicU32::new(STANDS), next }
    }
}

impl Line {
    pub(crate) const fn new() -> Self {
        Self { last: AtomicPtr::new(ptr::null_mut()), calls: AtomicU32::new(0) }
    }

    /// Stands until somebody has served the place; whether the thread may go on.
    pub(crate) fn stand(&self, place: &Place) -> bool {
        let own = ptr::from_ref(place).cast_mut();
        let mut before = self.last.load(Ordering::Relaxed);
        loop {
            place.next.store(before, Ordering::Relaxed);
            match self.last.compare_exchange_weak(before, own, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => break,
                Err(other) => before = other,
            }
        }
        self.calls.fetch_add(1, Ordering::Release);
        let _ = futex::wake(&self.calls, futex::Flags::PRIVATE, 1);
        loop {
            let seen = OUTCOMES.load(Ordering::Acquire);
            match place.outcome.load(Ordering::Acquire) {
                STANDS => drop(futex::wait(&OUTCOMES, futex::Flags::PRIVATE, seen, None)),
                outcome => return outcome == GOES_ON,
            }
        }
    }

    /// Serves all who stand, and those who come, for ever. Who decides may panic: the place is refused, and the others are
    /// served.
    pub(crate) fn serve(&self, decide: impl Fn(&Place) -> bool) -> ! {
        loop {
            let seen = self.calls.load(Ordering::Acquire);
            let mut place = self.last.swap(ptr::null_mut(), Ordering::Acquire);
            if place.is_null() {
                let _ = futex::wait(&self.calls, futex::Flags::PRIVATE, seen, None);
            }
            while !place.is_null() {
                place = Self::serve_one(place, &decide);
            }
        }
    }

    /// Serves one; the next one in line.
    fn serve_one(place: *mut Place, decide: &impl Fn(&Place) -> bool) -> *mut Place {
        // SAFETY: its thread stands in `stand`, so the place is there until its outcome is stored below, the last use of it.
        let place = unsafe { &*place };
        let next = place.next.load(Ordering::Relaxed);
        let goes_on = catch_unwind(AssertUnwindSafe(|| decide(place))).unwrap_or(false);
        let outcome = if goes_on { GOES_ON } else { IS_REFUSED };
        place.outcome.store(outcome, Ordering::Release);
        OUTCOMES.fetch_add(1, Ordering::Release);
        let _ = futex::wake(&OUTCOMES, futex::Flags::PRIVATE, u32::MAX >> 1);
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static LINE: Line = Line::new();

    #[test]
    fn each_who_stands_hears_its_own_outcome() {
        std::thread::spawn(|| LINE.serve(|place| place.address.is_multiple_of(2)));
        let stand = |address: u64| LINE.stand(&Place::new(address, false, false));
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                std::thread::spawn(move || (0..500).all(|turn| stand(4 * turn + thread) == (thread % 2 == 0)))
            })
            .collect();
        assert!(threads.into_iter().all(|thread| thread.join().expect("no panic")));
    }

    #[test]
    fn a_panic_refuses_one_place_and_the_next_is_served() {
        static PANICS: Line = Line::new();
        std::thread::spawn(|| {
            PANICS.serve(|place| {
                assert_ne!(place.address, 1, "what this case is about");
                true
            })
        });
        assert_eq!(
            [0, 1, 2, 1, 3].map(|address| PANICS.stand(&Place::new(address, false, false))),
            [true, false, true, false, true]
        );
    }
}
