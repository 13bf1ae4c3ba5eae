//! A session's seat: what it does by its last order, and what that means for others.
//! In: orders and reports, as its phase. Out: whether it has the GPU, wants it, keeps others from it.

use std::time::Duration;

use crate::terms::Member;

/// A unit that was told to stop and has not stopped after so long no longer keeps others waiting: it has a kernel that cannot be
/// preempted. From there on the driver's own time slices divide the GPU between it and them.
pub(crate) const OVERRUN: Duration = Duration::from_millis(20);
/// So long a session that cannot be stopped keeps its user's others from beginning beside it. They may be what it waits for.
pub(crate) const STANDS: Duration = Duration::from_secs(2);
/// So long behind its last work a program may go on: until then who has the turn keeps little in flight, as if others waited.
/// What is in flight cannot be called back, and a program that synchronizes is away for a moment each time.
pub(crate) const RETURNS: Duration = Duration::from_millis(20);

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
    /// It was told to stop, and has not stopped. It keeps others waiting until then.
    Stopping { until: Duration, wants: bool },
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
    /// Whose it is, among which of its units.
    pub(super) user: (U, Kind),
    /// What all of those are due together.
    pub(super) of_user: u64,
}

/// A user's units, which have an account together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// Those without a share, which divide one fraction.
    Rest,
    /// Those with a share.
    Shares,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Seat<U> {
    pub(super) member: Member<U>,
    /// The session whose place it takes, as long as that is there.
    pub(super) beside: Option<u64>,
    pub(super) phase: Phase,
    /// The number of its last order.
    pub(super) order: u64,
    /// When it last had nothing in flight any more. Its program is likely to go on in a moment.
    pub(super) left: Option<Duration>,
    /// When it was last told to go.
    pub(super) began: Duration,
    /// When it was last told to stop.
    pub(super) told: Duration,
    /// Whether it did not stop in time when it last was told to, or has not stopped yet.
    pub(super) overran: bool,
    pub(super) usage: Usage,
}

impl<U: Copy> Seat<U> {
    pub(super) fn unit(&self, number: u64) -> Unit<U> {
        if self.member.terms.are_any() { Unit::Session(number) } else { Unit::User(self.member.user) }
    }

    pub(super) fn kind(&self) -> Kind {
        if self.member.terms.share == 0 { Kind::Rest } else { Kind::Shares }
    }

    pub(super) fn is_busy(&self) -> bool {
        matches!(self.phase, Phase::Running { .. } | Phase::Stopping { .. } | Phase::Holding { .. })
    }

    pub(super) fn runs(&self) -> bool {
        matches!(self.phase, Phase::Running { .. })
    }

    pub(super) fn wants(&self) -> bool {
        matches!(
            self.phase,
            Phase::Resting { wants: true } | Phase::Holding { wants: true } | Phase::Stopping { wants: true, .. }
        )
    }

    /// Whether it has the GPU, or wants it.
    pub(super) fn has_work(&self) -> bool {
        self.is_busy() || self.wants()
    }

    /// It worked a moment ago, and may go on until then.
    pub(super) fn returns_until(&self, now: Duration) -> Option<Duration> {
        let is_at_rest = matches!(self.phase, Phase::Resting { wants: false });
        self.left.filter(|_| is_at_rest).map(|at| at + RETURNS).filter(|until| now < *until)
    }

    /// Whether it computes beside whoever has the turn, or is likely to in a moment.
    pub(super) fn is_company(&self, now: Duration) -> bool {
        self.computes() || self.returns_until(now).is_some()
    }

    /// Whether it has the GPU, and waits for nobody as far as is known.
    pub(super) fn computes(&self) -> bool {
        matches!(self.phase, Phase::Running { .. } | Phase::Stopping { .. })
    }

    /// Whether it was told to stop, and has not stopped in time.
    pub(super) fn overruns(&self, now: Duration) -> bool {
        matches!(self.phase, Phase::Stopping { .. }) && now >= self.told + OVERRUN
    }

    /// Until when it keeps its user's other sessions from beginning, where it does.
    pub(super) fn stands_until(&self) -> Duration {
        self.began + STANDS
    }

    /// Whether it keeps others from the GPU.
    pub(super) fn blocks(&self, now: Duration) -> bool {
        match self.phase {
            Phase::Running { .. } => true,
            Phase::Stopping { until, .. } => now < until,
            _ => false,
        }
    }
}
