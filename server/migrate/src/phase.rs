//! The phases of a move, by the names that code, log and command line use, and how far a move has come.
//! In and out: plain data. Nothing here decides anything.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A phase of a move. The program runs in the first four and in the last one; in the others it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The source says what the session holds. The daemon admits the target and starts it.
    Admit,
    /// The target makes the session's objects, by the messages that made them, and compares replies, addresses, numbers.
    Replay,
    /// Memory is opened to the target: blocks by the broker, host memory by its descriptors.
    Lend,
    /// The target copies memory while the program runs.
    Precopy,
    /// The source stops at a border between two commands.
    Park,
    /// Everything that was issued comes to its end, and the client is told of it.
    Drain,
    /// What has changed is copied, the last state goes over, and both compare what they have.
    Finish,
    /// The daemon's one step: the session is the target's.
    Switch,
    /// The source gives back what it had.
    Release,
}

impl Phase {
    /// All of them, in order.
    pub const ALL: [Self; 9] = [
        Self::Admit,
        Self::Replay,
        Self::Lend,
        Self::Precopy,
        Self::Park,
        Self::Drain,
        Self::Finish,
        Self::Switch,
        Self::Release,
    ];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Admit => "admit",
            Self::Replay => "replay",
            Self::Lend => "lend",
            Self::Precopy => "precopy",
            Self::Park => "park",
            Self::Drain => "drain",
            Self::Finish => "finish",
            Self::Switch => "switch",
            Self::Release => "release",
        }
    }

    /// Its number on the wire: its place in [`Self::ALL`].
    #[must_use]
    pub fn number(self) -> u32 {
        self as u32
    }

    /// The phase of this number.
    #[must_use]
    pub fn numbered(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| phase.number() == number)
    }

    /// Whether the program stands in it.
    #[must_use]
    pub fn is_pause(self) -> bool {
        (Self::Park..=Self::Switch).contains(&self)
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// How far a move has come, by a worker's own count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Bytes of memory that were copied, in all rounds.
    #[serde(default)]
    pub bytes: u64,
    /// Bytes of memory that the session has.
    #[serde(default)]
    pub of: u64,
    /// Rounds of copying that are over.
    #[serde(default)]
    pub rounds: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_is_its_place_in_the_order() {
        for (number, phase) in (0..).zip(Phase::ALL) {
            assert_eq!((phase.number(), Phase::numbered(number)), (number, Some(phase)));
        }
        assert_eq!(Phase::numbered(9), None);
        assert!(Phase::ALL.is_sorted());
    }

    #[test]
    fn the_program_stands_from_park_to_switch() {
        let pause: Vec<_> = Phase::ALL.into_iter().filter(|phase| phase.is_pause()).map(Phase::name).collect();
        assert_eq!(pause, ["park", "drain", "finish", "switch"]);
    }
}
