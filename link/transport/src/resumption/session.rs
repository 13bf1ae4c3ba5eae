//! The state of a session's connections: their epoch, whether they are whole, who has left, and what heartbeats are open.
//! In: events of the connections and of the peer, each with the time. Out: what to close, what to say, and when time is up.
//! It has no clock, thread, lock or socket: the shell around it has them, and tests step it with a time of their own.

use std::time::Duration;

use floe_wire::Heartbeat;

use super::heartbeat::{HeartbeatTimer, LONGEST, Step};
use crate::error::Lost;

/// The time since the session began.
pub(super) type Time = Duration;

/// How a session's connections are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// All are there, or are being made.
    Whole,
    /// One has broken, and nobody has begun with new ones.
    Broken,
    /// This side has left them, and takes none before it goes on.
    Parked,
    /// Either side has left.
    Over,
}

/// What a server does with a connection that names its epoch and its channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It carries the channel.
    Taken,
    /// Its epoch, or the session, is over: it is closed, and nothing else happens.
    Late {
        /// The session's epoch.
        now: u64,
    },
    /// The session is parked: the connection is closed without a word, and the peer makes another.
    Parked,
    /// The channel has a connection of this epoch: a protocol violation.
    Twice,
}

/// Connections to be closed when no lock is held.
#[derive(Debug)]
#[must_use]
pub(super) struct Left<A> {
    /// The channels' connections of this epoch and earlier ones: newer ones may exist by then.
    pub(super) epoch: u64,
    /// The acknowledgement connections.
    pub(super) acknowledgements: [Option<A>; 2],
}

/// One look at a session in which something may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Look {
    /// The peer is to be told what has come.
    pub(super) tell: bool,
    pub(super) step: Step,
    /// The epoch of the acknowledgement connection; `None`: there is none, and nothing to do.
    pub(super) epoch: Option<u64>,
}

/// The state; `A` is an acknowledgement connection.
#[derive(Debug)]
pub(super) struct Session<A> {
    grace: Duration,
    epoch: u64,
    /// The last epoch that failed.
    failed: u64,
    /// When something was last heard of a peer that is missing.
    heard: Time,
    acknowledgements: Option<(A, u64)>,
    /// Whether the acknowledgement connection of a failed epoch is read to its end, for the peer's goodbye.
    hears_goodbye: bool,
    hearing: Option<A>,
    /// The channels that have a connection of this epoch, where the peer makes them.
    taken: Vec<u32>,
    heartbeat: HeartbeatTimer,
    /// The peer's last question, and when it came.
    asked: (u64, Option<Time>),
    peer_left: bool,
    /// Whether this side takes no connections now, and waits for nobody.
    parked: bool,
    /// This side has ended the session, and why.
    over: Option<Option<Lost>>,
}

/// What a session's connections remember, for another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SessionImage {
    /// The epoch that has broken.
    pub(crate) epoch: u64,
    /// This side's last question, and the peer's.
    pub(crate) questions: [u64; 2],
    /// The way to the peer and back, as long as it was lately.
    pub(crate) trip: Duration,
}

impl<A> Session<A> {
    /// Of a session whose channel `first` has its first connection.
    pub(super) fn new(grace: Duration, first: u32) -> Self {
        Self {
            grace,
            epoch: 1,
            failed: 0,
            heard: Time::ZERO,
            acknowledgements: None,
            hears_goodbye: false,
            hearing: None,
            taken: vec![first],
            heartbeat: HeartbeatTimer::default(),
            asked: (0, None),
            peer_left: false,
            parked: false,
            over: None,
        }
    }

    /// Leaves all connections and takes none before [`Session::unpark`]; nobody is waited for meanwhile. `None`: the
    /// session is over, or parked.
    pub(super) fn park(&mut self) -> Option<Left<A>> {
        if self.parked || self.link_state() == LinkState::Over {
            return None;
        }
        (self.failed, self.parked) = (self.epoch, true);
        Some(self.leave_broken())
    }

    /// The peer may make its connections again, and has all of the grace period for it.
    pub(super) fn unpark(&mut self, now: Time) {
        (self.parked, self.heard) = (false, now);
    }

    /// What it remembers.
    pub(super) fn image(&self) -> SessionImage {
        let (questions, trip) = ([self.heartbeat.asked(), self.asked.0], self.heartbeat.trip());
        SessionImage { epoch: self.epoch, questions, trip }
    }

    /// Becomes the session that another process remembers: its connections are broken. It is parked.
    pub(super) fn recall(&mut self, image: SessionImage) {
        let SessionImage { epoch, questions: [asks, asked], trip } = image;
        (self.epoch, self.failed, self.parked) = (epoch, epoch, true);
        self.heartbeat = HeartbeatTimer::after(asks, trip);
        self.asked = (asked, None);
        self.taken.clear();
    }

    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    pub(super) fn link_state(&self) -> LinkState {
        if self.over.is_some() || self.peer_left {
            LinkState::Over
        } else if self.parked {
            LinkState::Parked
        } else if self.failed >= self.epoch {
            LinkState::Broken
        } else {
            LinkState::Whole
        }
    }

    /// Whether bytes still come: `Ok(false)` where either side has left.
    pub(super) fn goes_on(&self) -> Result<bool, Lost> {
        match self.over {
            Some(Some(lost)) => Err(lost),
            Some(None) => Ok(false),
            None => Ok(!self.peer_left),
        }
    }

    /// Whether this side has ended it.
    pub(super) fn is_ended(&self) -> bool {
        self.over.is_some()
    }

    /// Whether a connection of this epoch is of use.
    pub(super) fn is_of(&self, epoch: u64) -> bool {
        self.epoch == epoch && self.failed < epoch && !self.parked && self.over.is_none()
    }

    /// Begins an epoch. `None`: it or a later one has begun before, or the session is over.
    pub(super) fn begin(&mut self, epoch: u64, now: Time) -> Option<Left<A>> {
        if epoch <= self.epoch || self.takes_none() {
            return None;
        }
        let left = self.leave_all();
        (self.epoch, self.heard) = (epoch, now);
        self.taken.clear();
        Some(left)
    }

    /// A connection that the peer made names its epoch and its channel. What a newer epoch leaves is to be closed.
    pub(super) fn admit(&mut self, epoch: u64, channel: u32, now: Time) -> (Admission, Option<Left<A>>) {
        let left = self.begin(epoch, now);
        if self.link_state() == LinkState::Parked {
            return (Admission::Parked, left);
        }
        if left.is_none() && (epoch != self.epoch || self.link_state() == LinkState::Over) {
            return (Admission::Late { now: self.epoch }, left);
        }
        if self.taken.contains(&channel) {
            return (Admission::Twice, left);
        }
        self.taken.push(channel);
        // A channel of the first epoch may be named late. Who reads it waits from now on, not since the session began.
        self.heard = now;
        (Admission::Taken, left)
    }

    /// A connection of this epoch has failed: the others are left, too. `None`: its epoch is over. So it is where the peer has
    /// left: each connection ends by itself then, behind what the peer has said last.
    pub(super) fn broke(&mut self, epoch: u64, now: Time) -> Option<Left<A>> {
        if self.epoch != epoch || self.failed >= epoch || self.peer_left {
            return None;
        }
        (self.failed, self.heard) = (epoch, now);
        Some(self.leave_broken())
    }

    /// Leaves all connections, but the one on which the peer may still say goodbye.
    fn leave_broken(&mut self) -> Left<A> {
        let mut left = self.leave_all();
        if self.hears_goodbye {
            self.hearing = left.acknowledgements[0].take();
        }
        left
    }

    /// Whether no connection is taken.
    fn takes_none(&self) -> bool {
        matches!(self.link_state(), LinkState::Over | LinkState::Parked)
    }

    /// This side ends it. `None`: it has done so before.
    pub(super) fn end(&mut self, lost: Option<Lost>) -> Option<Left<A>> {
        if self.over.is_some() {
            return None;
        }
        self.over = Some(lost);
        Some(self.leave_all())
    }

    /// The peer has said goodbye.
    pub(super) fn peer_says_goodbye(&mut self) {
        self.peer_left = true;
    }

    fn leave_all(&mut self) -> Left<A> {
        let acknowledgements = self.acknowledgements.take().map(|(connection, _)| connection);
        Left { epoch: self.epoch, acknowledgements: [acknowledgements, self.hearing.take()] }
    }

    /// Takes the acknowledgement connection of an epoch; one of another epoch comes back, to be closed.
    pub(super) fn hear(&mut self, epoch: u64, connection: A) -> Result<(), A> {
        if self.is_of(epoch) {
            self.acknowledgements = Some((connection, epoch));
            Ok(())
        } else {
            Err(connection)
        }
    }

    /// The acknowledgement connection and its epoch.
    pub(super) fn acknowledgements(&self) -> Option<(&A, u64)> {
        self.acknowledgements.as_ref().map(|(connection, epoch)| (connection, *epoch))
    }

    /// From now on the acknowledgement connection of a failed epoch is still read.
    pub(super) fn hear_goodbye(&mut self) {
        self.hears_goodbye = true;
    }

    /// The one that is still read.
    pub(super) fn hearing(&self) -> Option<&A> {
        self.hearing.as_ref()
    }

    /// The one that is still read, to be closed.
    pub(super) fn stop_hearing(&mut self) -> Option<A> {
        self.hearing.take()
    }

    pub(super) fn grace(&self) -> Duration {
        self.grace
    }

    /// When a peer that stays missing is given up.
    pub(super) fn deadline(&self) -> Time {
        if self.parked { Time::MAX } else { self.heard.saturating_add(self.grace) }
    }

    /// How long the peer may still be missing.
    pub(super) fn grace_left(&self, now: Time) -> Duration {
        if self.parked { self.grace } else { self.deadline().saturating_sub(now) }
    }

    /// Something was heard of a peer that is missing: the grace period begins anew.
    pub(super) fn heard(&mut self, now: Time) {
        self.heard = now;
    }

    /// The way to the peer and back took so long.
    pub(super) fn went(&mut self, trip: Duration) {
        self.heartbeat.went(trip);
    }

    /// What this side's heartbeat says, and whether its question is open.
    pub(super) fn heartbeat(&self) -> (Heartbeat, bool) {
        let asks = self.heartbeat.asked();
        (Heartbeat { asks, answers: self.asked.0 }, self.heartbeat.is_open(asks))
    }

    /// The peer's heartbeat. Whether it asks something new, which is to be answered at once.
    pub(super) fn hear_heartbeat(&mut self, Heartbeat { asks, answers }: Heartbeat, now: Time) -> bool {
        self.heartbeat.answered(answers);
        let is_new = asks > self.asked.0;
        if is_new {
            self.asked = (asks, Some(now));
        }
        is_new
    }

    /// Whether the peer has asked lately, and said nothing else since.
    pub(super) fn peer_waits(&self, now: Time) -> bool {
        self.asked.1.is_some_and(|since| now.saturating_sub(since) < 3 * LONGEST)
    }

    /// Whether a question has not been answered.
    pub(super) fn is_open(&self, question: u64) -> bool {
        self.heartbeat.is_open(question)
    }

    /// Nothing is in doubt.
    pub(super) fn calm(&mut self) {
        self.heartbeat.calm();
    }

    /// What is to be done `passed` after the last look, where something of this side `waits` or not, and bytes have come since
    /// on any channel or not.
    pub(super) fn look(&mut self, passed: Duration, waits: bool, has_heard: bool, now: Time) -> Look {
        let Some(epoch) = self.acknowledgements().map(|(_, epoch)| epoch) else {
            // Connections are being made, or are missing: their maker sees to that.
            self.calm();
            return Look { tell: false, step: Step::Nothing, epoch: None };
        };
        if has_heard {
            self.asked.1 = None;
        }
        let waits = waits || self.peer_waits(now);
        // The peer is told also where little comes: so a peer that was set back within a connection is found out.
        Look { tell: has_heard, step: self.heartbeat.tick(passed, waits, has_heard), epoch: Some(epoch) }
    }
}
