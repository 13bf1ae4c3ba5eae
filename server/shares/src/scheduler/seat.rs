//! A session's seat: what it does by its last order, and what that means for others.
//! In: orders and reports, as its phase. Out: whether it has the GPU, wants it, keeps others from it.

use std::time::Duration;

use crate::terms::Member;

/// A unit that was told to stop and has not stopped after so long no longer keeps others waiting: it has a kernel that cannot be
/// preempted. From there on the driver's own time slices divide the GPU between it and them.
pub(crate) const OVERRUN: Duration = Duration::from_millis(500);
/// So long behind its stop a program that waited for what was in flight may go on: until then who has the turn keeps little in
/// flight, as if others waited.
const RETURNS: Duration = Duration::from_millis(2);

/// What a member had of the GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Time for which it had the GPU while the GPU was scheduled.
    pub time: Duration,
    /// Time for which the GPU was scheduled while the session was there.
    pub of: Duration,
}

/// What a session does by its last order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The GPU is not scheduled.
    Free,
    /// It has the GPU.
    Running { others_wait: bool, brief: bool },
    /// It was told to stop, and has not stopped.
    Stopping { since: Duration, wants: bool },
    /// It submits nothing more, and is not waited for.
    Holding { wants: bool },
    /// It has stopped.
    Resting { wants: bool },
}

/// What takes turns: all sessions of a user that have no terms of their own, or one session that has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Unit<U> {
    User(U),
    Session(u64),
}

/// What a unit with work is due now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Due<U> {
    pub(super) fraction: u64,
    /// Without a share: whose it is, and what all such units of this user are due together.
    pub(super) rest: Option<(U, u64)>,
}

/// What is kept of a user, so that several sessions, at once or one after another, have no more than one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// All its units without a share, which divide one fraction.
    Rest,
    /// Its sessions with a share that have left.
    Shares,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Seat<U> {
    pub(super) member: Member<U>,
    pub(super) phase: Phase,
    /// The number of its last order.
    pub(super) order: u64,
    /// When it stopped because it was told to. Its program is likely to go on in a moment.
    pub(super) stopped: Option<Duration>,
    pub(super) usage: Usage,
}

impl<U: Copy> Seat<U> {
    pub(super) fn unit(&self, number: u64) -> Unit<U> {
        if self.member.terms.are_any() { Unit::Session(number) } else { Unit::User(self.member.user) }
    }

    /// Whose it is, if it divides what shares leave.
    pub(super) fn rest(&self) -> Option<U> {
        (self.member.terms.share == 0).then_some(self.member.user)
    }

    pub(super) fn is_busy(&self) -> bool {
        matches!(self.phase, Phase::Running { .. } | Phase::Stopping { .. } | Phase::Holding { .. })
    }

    pub(super) fn wants(&self) -> bool {
        matches!(
            self.phase,
            Phase::Resting { wants: true } | Phase::Holding { wants: true } | Phase::Stopping { wants: true, .. }
        )
    }

    /// Its program was stopped a moment ago, and may go on until then.
    pub(super) fn returns_until(&self, now: Duration) -> Option<Duration> {
        let is_at_rest = matches!(self.phase, Phase::Resting { wants: false });
        self.stopped.filter(|_| is_at_rest).map(|at| at + RETURNS).filter(|until| now < *until)
    }

    /// Whether it keeps others from the GPU.
    pub(super) fn blocks(&self, now: Duration) -> bool {
        match self.phase {
            Phase::Running { .. } => true,
            Phase::Stopping { since, .. } => now < since + OVERRUN,
            _ => false,
        }
    }
}
