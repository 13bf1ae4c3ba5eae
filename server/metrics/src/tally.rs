//! What is counted since the server's start.
//! In: events, as they happen. Out: their numbers. Every event there can be has a number from the beginning, so that a
//! rate is known when it happens first. No label comes from a peer: labels are the names of the variants here.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use floe_lock::lock;

/// Makes an enum whose variants are values of a label.
macro_rules! labels {
    ($(#[$doc:meta])* $name:ident { $($(#[$its:meta])* $variant:ident = $label:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name { $($(#[$its])* $variant,)+ }

        impl $name {
            pub(crate) const ALL: &[Self] = &[$(Self::$variant,)+];

            pub(crate) fn label(self) -> &'static str {
                match self { $(Self::$variant => $label,)+ }
            }
        }
    };
}

labels! {
    /// How a session ended.
    SessionEnd {
        /// Its client left.
        ClientLeft = "client_left",
        /// Its worker said why: a fault of the GPU, a client that broke the protocol or did not come back.
        Reported = "reported",
        /// Its worker was killed for what it sent, or since it did not end in time.
        Misbehaved = "misbehaved",
        /// The daemon ended it: its user, the operator, a limit, the policy, a revoked token, or the server's end.
        Ordered = "ordered",
        /// Its worker ended by a signal: it crashed, or the system killed it.
        Signal = "signal",
        /// Its worker ended in another way, or could not be given its connection.
        Failed = "failed",
    }
}

labels! {
    /// Why a session was refused.
    SessionRefusal {
        /// The server has as many as it may.
        ServerFull = "server_full",
        /// The peer has as many as it may.
        PeerFull = "peer_full",
        /// There was no room for its guarantee, or too many waited.
        Memory = "memory",
        /// Others were promised too much of the GPU's time.
        Share = "share",
        /// There is no such GPU, or too many vGPUs were asked for.
        NoSuchGpu = "no_such_gpu",
        /// The policy does not let its user have it.
        Policy = "policy",
        /// A setting for the driver is wrong.
        Setting = "setting",
        /// The system lacks something.
        System = "system",
        /// Its worker did not start.
        Worker = "worker",
    }
}

labels! {
    /// Why a connection ended without what it came for.
    Refusal {
        /// It proved nothing, or asked for nothing, in time.
        Silent = "silent",
        /// It had proved nothing, and newer connections needed its place.
        Crowded = "crowded",
        /// A wrong token, a wrong key, or something that this peer may not have.
        NotPermitted = "not_permitted",
        /// No protocol version that both speak.
        Version = "version",
        /// It broke the protocol.
        Protocol = "protocol",
        /// The connection failed: it was cut, or is not sealed as it must be.
        Connection = "connection",
        /// What it asked for cannot be had now: a session, or a move.
        Request = "request",
        /// The server failed.
        Server = "server",
    }
}

labels! {
    /// What is done with a session that moves.
    MoveKind {
        /// It gets another worker, perhaps on another GPU.
        Move = "move",
        /// It gives up its GPU.
        Suspend = "suspend",
        /// It gets a GPU again.
        Resume = "resume",
    }
}

labels! {
    /// Why a move was given up.
    MoveFailure {
        /// The session's worker cannot leave.
        Source = "source",
        /// The new worker cannot take the session.
        Target = "target",
        /// No room for the session where it should go.
        NoRoom = "no_room",
        /// The program could not be paused for long enough.
        Retries = "retries",
        /// It took too long.
        Time = "time",
        /// Nobody wants it any more.
        Cancelled = "cancelled",
        /// The session or a worker ended, or could not change places at the last moment.
        Ended = "ended",
        /// A worker said what it may not.
        Protocol = "protocol",
        /// The server ends.
        ServerEnds = "server_ends",
    }
}

/// Something that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// A session has a worker.
    SessionStarted,
    /// A session with a worker has ended.
    SessionEnded(SessionEnd),
    /// A session was refused.
    SessionRefused(SessionRefusal),
    /// A connection was refused.
    Refused(Refusal),
    /// A move has begun.
    MoveBegun(MoveKind),
    /// A move is done.
    MoveDone(MoveKind),
    /// A move was given up.
    MoveGivenUp(MoveFailure),
}

/// The bounds of pauses, in seconds: from what nobody notices to what a network connection does not survive.
pub(crate) const PAUSE_BOUNDS: [f64; 12] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0];

/// How long programs were paused.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Pauses {
    /// The sum in seconds.
    pub(crate) sum: f64,
    /// By bound, each pause once; the last ones are above all bounds.
    pub(crate) counts: [u64; PAUSE_BOUNDS.len() + 1],
}

/// The numbers of events.
#[derive(Debug, Default)]
pub struct Tally {
    events: Mutex<BTreeMap<Event, u64>>,
    pauses: Mutex<Pauses>,
}

impl Tally {
    /// Counts an event.
    pub fn count(&self, event: Event) {
        *lock(&self.events).entry(event).or_default() += 1;
    }

    /// A move is done, for which a program was paused so long.
    pub fn moved(&self, kind: MoveKind, pause: Duration) {
        self.count(Event::MoveDone(kind));
        let seconds = pause.as_secs_f64();
        let place = PAUSE_BOUNDS.iter().position(|bound| seconds <= *bound).unwrap_or(PAUSE_BOUNDS.len());
        let mut pauses = lock(&self.pauses);
        pauses.sum += seconds;
        pauses.counts[place] += 1;
    }

    pub(crate) fn of(&self, event: Event) -> u64 {
        lock(&self.events).get(&event).copied().unwrap_or_default()
    }

    pub(crate) fn pauses(&self) -> Pauses {
        lock(&self.pauses).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_counts_under_the_least_bound_that_it_does_not_exceed() {
        let tally = Tally::default();
        for milliseconds in [5, 6, 60_000, 60_001] {
            tally.moved(MoveKind::Move, Duration::from_millis(milliseconds));
        }
        let pauses = tally.pauses();
        assert_eq!(pauses.counts, [1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1]);
        assert!((pauses.sum - 120.012).abs() < 1e-9);
        assert_eq!(tally.of(Event::MoveDone(MoveKind::Move)), 4);
        assert_eq!(tally.of(Event::MoveDone(MoveKind::Suspend)), 0);
    }
}
