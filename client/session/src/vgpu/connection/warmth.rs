//! Keeps the way to the server and back warm while a thread waits for long.
//! In: a thread that waits, between two looks for its answer. Out: a `Ping` now and then.
//! After some milliseconds neither code nor data of the way are left in the processors' caches, at either end, and the answer
//! takes several times as long as right after a call: behind 16 ms of work 91 to 103 µs over a Unix socket and 93 to 139 over
//! TCP, 49 to 77 and 41 to 89 with this (an H200 host, two medians of each, in turns). The answer means nothing; what it says of
//! earlier failures counts as ever.

use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use floe_wire::Ping;

use super::Shared;
use super::pending::Expected;

/// What lies between two pings, and before the first. Who waits asleep does not ping.
const EVERY: Duration = Duration::from_millis(1);
/// Pings of one wait: for as long as a wait is looked at patiently.
const MOST: u32 = 100;

/// One thread's wait.
pub(super) struct Warmth<'a> {
    shared: &'a Shared,
    /// When the last ping left, or the first look was had.
    last: Cell<Option<Instant>>,
    left: Cell<u32>,
}

impl<'a> Warmth<'a> {
    /// The wait begins.
    pub(super) fn new(shared: &'a Shared) -> Self {
        Self { shared, last: Cell::new(None), left: Cell::new(MOST) }
    }

    /// Pings, where it is time `now`. Does not wait: the thread that calls this reads the link, and the server may write
    /// nothing more before that is read. A session has one ping out at a time, whoever waits.
    pub(super) fn keep(&self, now: Instant) {
        let last = self.last.get();
        if self.left.get() == 0 || last.is_some_and(|last| now.duration_since(last) < EVERY) {
            return;
        }
        self.last.set(Some(now));
        let shared = self.shared;
        if last.is_none() || shared.ping_is_out.load(Ordering::Acquire) {
            return;
        }
        let numbered = |sequence| {
            shared.ping_is_out.store(true, Ordering::Release);
            shared.pending.expect(sequence, Expected::Echo, &shared.errors);
        };
        // A link that is over is heard of by who reads it.
        if let Ok(Some(_)) = shared.sender.post_aside(&Ping {}, numbered) {
            self.left.set(self.left.get() - 1);
        }
    }
}
