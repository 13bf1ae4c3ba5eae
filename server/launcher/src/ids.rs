//! A range of ids, each of a user and of a group, that the operator set aside for workers.
//! In: the operator's text. Out: the range, or why it cannot be one. It asks nobody whose the ids are.
//! The last id is no user's: what ends processes that users have left behind runs as it.

use std::fmt;
use std::str::FromStr;

/// Ids below are the system's own users.
const LEAST: u32 = 1000;
/// 2^32 - 1 is no id, and 2^32 - 2 is nobody's on some systems.
const GREATEST: u32 = u32::MAX - 2;
/// The most ids: more than a server has sessions.
const MOST: u32 = 1024;

/// Ids from the first to the last, of users and of groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ids {
    first: u32,
    last: u32,
}

/// A text is no range of ids for workers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotIds {
    /// It has another form.
    #[error("not FIRST-LAST")]
    Form,
    /// Its end comes before its beginning.
    #[error("the last id is below the first")]
    Order,
    /// It names users of the system, or no user.
    #[error("ids for workers are from {LEAST} to {GREATEST}")]
    System,
    /// It has one id, or none.
    #[error("at least two ids are needed: the last one is for ending what users have left behind")]
    Few,
    /// It has too many.
    #[error("a server has {MOST} ids at most")]
    Many,
}

impl Ids {
    /// The first.
    #[must_use]
    pub fn first(self) -> u32 {
        self.first
    }

    /// The id of no user's.
    #[must_use]
    pub fn last(self) -> u32 {
        self.last
    }

    /// Whether this id is one for users.
    #[must_use]
    pub fn contains(self, id: u32) -> bool {
        (self.first..self.last).contains(&id)
    }

    /// Those for users.
    pub fn of_users(self) -> impl Iterator<Item = u32> {
        self.first..self.last
    }

    /// All of them.
    pub fn all(self) -> impl Iterator<Item = u32> {
        self.first..=self.last
    }

    /// The one for users behind `id`; the first behind the last.
    #[must_use]
    pub fn after(self, id: u32) -> u32 {
        if id.saturating_add(1) >= self.last { self.first } else { id + 1 }
    }
}

impl FromStr for Ids {
    type Err = NotIds;

    fn from_str(text: &str) -> Result<Self, NotIds> {
        let number = |text: &str| text.trim().parse().map_err(|_| NotIds::Form);
        let (first, last) = text.split_once('-').ok_or(NotIds::Form)?;
        let (first, last): (u32, u32) = (number(first)?, number(last)?);
        match last.checked_sub(first) {
            None => Err(NotIds::Order),
            _ if first < LEAST || last > GREATEST => Err(NotIds::System),
            Some(0) => Err(NotIds::Few),
            Some(more) if more >= MOST => Err(NotIds::Many),
            Some(_) => Ok(Self { first, last }),
        }
    }
}

impl fmt::Display for Ids {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{}", self.first, self.last)
    }
}
