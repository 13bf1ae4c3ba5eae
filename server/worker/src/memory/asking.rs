//! The way to ask the daemon for memory of the device, where it shares that out, or keeps some for others.
//! In: bytes that the session wants. Out: what it was granted. It asks no more often than the daemon hears.

use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use super::ledger::{Granted, Grants};
use crate::daemon::contract::{Asks, Report};
use crate::daemon::descriptor_passing::Taker;

/// The shortest time between two requests for memory. Each comes with a report of what is held, and the daemon hears a
/// multiple of that ([`MOST_REPORTS`](crate::daemon::contract::MOST_REPORTS)).
pub const ASK_EVERY: Duration = Duration::from_micros(250);
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
    /// Until when it does not ask again.
    pause: Instant,
}

impl Asking {
    /// Has the taker pass on answers to who asks by `say`.
    pub fn begin(taker: Taker, asks: Asks, say: impl Fn(&Report) + Send + 'static) -> (Taker, Option<Box<dyn Grants>>) {
        let (told, answers) = sync_channel(16);
        let asking: Box<dyn Grants> =
            Box::new(Self { say: Box::new(say), answers, granted: 0, asks, pause: Instant::now() });
        (taker.telling(told), Some(asking))
    }
}

impl Grants for Asking {
    fn ask(&mut self, total: u64) -> Granted {
        // The daemon takes a worker that reports without end for a hostile one.
        std::thread::sleep(self.pause.saturating_duration_since(Instant::now()));
        self.pause = Instant::now() + ASK_EVERY;
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
