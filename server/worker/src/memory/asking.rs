//! The way to ask the daemon for memory of the device, where it shares that out, or keeps some for others.
//! In: bytes that the session wants. Out: what it was granted. In the long run it asks no more often than the daemon hears.

use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use super::ledger::{Granted, Grants};
use crate::daemon::contract::{Asks, Report};
use crate::daemon::descriptor_passing::Taker;

/// The time for one request for memory, in the long run. Each may be followed by a report that memory was returned. Both are less
/// than half of what the daemon hears ([`MOST_REPORTS`](crate::daemon::contract::MOST_REPORTS)).
pub const ASK_EVERY: Duration = Duration::from_micros(250);
/// The time whose requests may come at once, if there were none before: 128. Most programs never wait for their turn.
const AT_ONCE: Duration = Duration::from_millis(32);
/// The longest wait for a grant of memory; the daemon answers at once.
const GRANT_WAIT: Duration = Duration::from_secs(10);

/// The way to ask the daemon for memory of the device.
pub struct Asking {
    say: Box<dyn Fn(&Report) + Send>,
    answers: Receiver<Granted>,
    /// The granted bytes.
    granted: u64,
    /// Why it asks.
    asks: Asks,
    pace: Pace,
}

/// How far requests are ahead of one in [`ASK_EVERY`].
struct Pace {
    /// When the next one would be due.
    due: Instant,
}

impl Pace {
    /// How long a request waits for its turn.
    fn turn(&mut self, now: Instant) -> Duration {
        let due = self.due.max(now);
        self.due = due + ASK_EVERY;
        due.saturating_duration_since(now).saturating_sub(AT_ONCE)
    }
}

impl Asking {
    /// Has the taker pass on answers to who asks by `say`.
    pub fn begin(taker: Taker, asks: Asks, say: impl Fn(&Report) + Send + 'static) -> (Taker, Option<Box<dyn Grants>>) {
        let (told, answers) = sync_channel(16);
        let asking: Box<dyn Grants> =
            Box::new(Self { say: Box::new(say), answers, granted: 0, asks, pace: Pace { due: Instant::now() } });
        (taker.telling(told), Some(asking))
    }
}

impl Grants for Asking {
    fn ask(&mut self, total: u64) -> Granted {
        // The daemon takes a worker that reports without end for a hostile one.
        std::thread::sleep(self.pace.turn(Instant::now()));
        // An answer that came too late is to another question.
        while self.answers.try_recv().is_ok() {}
        (self.say)(&Report::Wants(total));
        let nothing = Granted { total: self.granted, left: 0 };
        let granted = self.answers.recv_timeout(GRANT_WAIT).unwrap_or(nothing);
        self.granted = granted.total;
        granted
    }

    fn hold(&mut self, total: u64) {
        self.granted = total;
        (self.say)(&Report::Keeps(total));
    }

    fn is_of_divided_device(&self) -> bool {
        self.asks == Asks::OfDividedDevice
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::contract::MOST_REPORTS;

    const BURST: u32 = 128;

    #[test]
    fn a_burst_of_requests_waits_for_nothing_and_the_next_ones_for_their_turn() {
        assert_eq!(ASK_EVERY * BURST, AT_ONCE);
        let now = Instant::now();
        let mut pace = Pace { due: now };
        for request in 0..=BURST {
            assert_eq!(pace.turn(now), Duration::ZERO, "{request}");
        }
        for turn in 1..10 {
            assert_eq!(pace.turn(now), ASK_EVERY * turn);
        }
        // After a quiet time a burst may come again, and no larger one.
        let later = now + Duration::from_secs(3600);
        let waits = (0..2 * BURST).filter(|_| pace.turn(later) > Duration::ZERO).count();
        assert_eq!(waits, BURST as usize - 1);
    }

    #[test]
    fn a_second_brings_less_than_half_of_what_the_daemon_hears() {
        let begin = Instant::now();
        let (mut pace, mut now, mut requests) = (Pace { due: begin }, begin, 0);
        while now - begin < Duration::from_secs(1) {
            now += pace.turn(now);
            requests += 1;
        }
        assert!(requests > 4000 && requests * 2 < MOST_REPORTS / 2, "{requests}");
    }
}
