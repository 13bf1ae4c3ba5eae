//! How a move ended: where the session is, why, and what it took.
//! In and out: plain data.
//! Sentences of workers stand in it as they were said: who shows them makes them safe.

use std::fmt;
use std::time::Duration;

use crate::phase::{Phase, Progress};
use crate::said::Side;

/// Why a session stays at its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// The source cannot leave.
    Source(String),
    /// The target cannot be the session.
    Target(String),
    /// The daemon has no place for the target.
    NotAdmitted(String),
    /// The source went on by itself once too often.
    Retries(String),
    /// A worker did not come out of this phase of the pause in time.
    Patience(Phase),
    /// The whole takes too long.
    TimeLimit(Phase),
    /// Who asked for it wants it no longer.
    Cancelled,
    /// The target has ended.
    TargetEnded,
    /// The session is over, at its source.
    SessionEnded,
    /// It could not be committed.
    NotCommitted(String),
    /// This worker said what it cannot say then.
    Nonsense(Side),
    /// The daemon ends.
    DaemonEnds,
}

impl fmt::Display for Why {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Source(why) | Self::Target(why) | Self::NotAdmitted(why) | Self::NotCommitted(why) => {
                to.write_str(why)
            }
            Self::Retries(why) => write!(to, "the program could not be paused for long enough: {why}"),
            Self::Patience(phase) => write!(to, "it takes too long in phase {phase}"),
            Self::TimeLimit(phase) => write!(to, "the time for a move is over in phase {phase}"),
            Self::Cancelled => to.write_str("it was cancelled"),
            Self::TargetEnded => to.write_str("the new worker ended; the server's log says why"),
            Self::SessionEnded => to.write_str("the session ended meanwhile"),
            Self::Nonsense(Side::Source) => to.write_str("the session's worker says what it may not now"),
            Self::Nonsense(Side::Target) => to.write_str("the new worker says what it may not now"),
            Self::DaemonEnds => to.write_str("the server ends"),
        }
    }
}

/// What a move took.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The time in each phase, in the order of [`Phase::ALL`], all retries together.
    pub times: [Duration; 9],
    /// The last phase.
    pub phase: Option<Phase>,
    /// How long the program stood, by the daemon's clock: the last time, and the longest.
    pub pause: Duration,
    /// The longest of its pauses.
    pub longest_pause: Duration,
    /// How often it went on and was paused again.
    pub retries: u32,
    /// What was copied.
    pub progress: Progress,
}

impl Record {
    pub(crate) fn add(&mut self, phase: Phase, time: Duration) {
        if let Some(sum) = Phase::ALL.iter().position(|its| *its == phase).and_then(|place| self.times.get_mut(place)) {
            *sum += time;
        }
    }

    /// The time of the whole move.
    #[must_use]
    pub fn total(&self) -> Duration {
        self.times.iter().sum()
    }

    /// The phases it was in, with their times.
    pub fn phases(&self) -> impl Iterator<Item = (Phase, Duration)> {
        let last = self.phase;
        let all = Phase::ALL.into_iter().zip(self.times);
        all.filter(move |(phase, time)| !time.is_zero() || Some(*phase) == last)
    }
}

/// The end of a move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The session is the target's.
    Moved(Record),
    /// The session was the target's, which has ended since.
    Lost(Record),
    /// The session is where it was, if it is.
    Stayed(Why, Record),
}

impl Outcome {
    /// What the move took.
    #[must_use]
    pub fn record(&self) -> &Record {
        match self {
            Self::Moved(record) | Self::Lost(record) | Self::Stayed(_, record) => record,
        }
    }
}
