//! The queue of requests that wait for room on a GPU, first come, first served.
//! In: requests as they come and leave, what is free to be promised, the time. Out: whether one waits, goes or is too late.
//! Pure: it has no clock, wakes nobody and takes no memory. A large request is not overtaken by smaller ones behind it, unless it
//! has waited for very long: it may wait for what its own peer holds, and others would wait with it. The limit per peer comes
//! before the limit for all, so that one peer meets its own first.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::entrance::limits::{Share, Source};

/// Requests that wait at once: each has a connection and a thread.
const WAITING: Share = Share { all: 128, each: 16 };
/// A request that has waited for so long, and does not fit, holds up nobody any more. It stays first as soon as it fits.
const HOLDS: Duration = Duration::from_secs(600);

/// What is promised of a GPU.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Room {
    /// Bytes of its memory.
    pub(crate) bytes: u64,
    /// Thousandths of its time.
    pub(crate) share: u32,
}

impl Room {
    /// Whether this holds what another wants.
    pub(crate) fn holds(self, wanted: Self) -> bool {
        wanted.bytes <= self.bytes && wanted.share <= self.share
    }

    /// Of this, what another has too little of.
    fn beyond(self, free: Self) -> Self {
        let bytes = if self.bytes > free.bytes { self.bytes } else { 0 };
        let share = if self.share > free.share { self.share } else { 0 };
        Self { bytes, share }
    }

    /// What is left of this.
    fn without(self, taken: Self) -> Self {
        Self { bytes: self.bytes.saturating_sub(taken.bytes), share: self.share.saturating_sub(taken.share) }
    }

    /// Whether two want of the same.
    fn competes(self, other: Self) -> bool {
        (self.bytes != 0 && other.bytes != 0) || (self.share != 0 && other.share != 0)
    }
}

/// A request for what is promised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Waiter {
    pub(crate) gpu: u32,
    /// What it has asked for.
    pub(crate) wants: Room,
    /// The peer whose share it counts for; `None`: the server's own user, who has none.
    pub(crate) source: Option<Source>,
    /// When it began to wait.
    pub(crate) since: Instant,
    /// When it stops waiting.
    pub(crate) until: Instant,
}

/// What becomes of a waiter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// It is the first, and there is room.
    Go,
    /// It waits behind so many others of its GPU.
    Wait(usize),
    /// Its time is up.
    Late(usize),
    /// It would wait in vain: contexts were measured meanwhile, and beside one its GPU has less for a guarantee.
    Never,
}

/// Why a request may not wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum QueueFull {
    /// The server's limit.
    #[error("this server has reached its limit of waiting requests: {0}")]
    All(usize),
    /// The peer's share of it.
    #[error("this client's address or user has reached its limit of waiting requests here: {0}")]
    OfPeer(usize),
}

/// All requests that wait. Numbers are in the order of arrival.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    last: u64,
    waiters: BTreeMap<u64, Waiter>,
}

impl Queue {
    /// Adds a waiter behind all others. Returns its number.
    pub(crate) fn join(&mut self, waiter: Waiter) -> Result<u64, QueueFull> {
        let Share { all, each } = WAITING;
        let is_its = |other: &&Waiter| waiter.source.is_some() && other.source == waiter.source;
        if self.waiters.values().filter(is_its).count() >= each {
            return Err(QueueFull::OfPeer(each));
        }
        if self.waiters.len() >= all {
            return Err(QueueFull::All(all));
        }
        self.last += 1;
        self.waiters.insert(self.last, waiter);
        Ok(self.last)
    }

    /// Forgets a waiter, which may have left before.
    pub(crate) fn leave(&mut self, number: u64) {
        self.waiters.remove(&number);
    }

    /// What becomes of a waiter now, where so much of its GPU is free to be promised, of so much at most. It stays until it
    /// leaves.
    pub(crate) fn turn(&self, number: u64, (free, most): (Room, Room), now: Instant) -> Turn {
        // One that has left has no time either.
        let Some(waiter) = self.waiters.get(&number) else { return Turn::Late(0) };
        let others = self.waiters.range(..number).filter(|(_, other)| other.gpu == waiter.gpu);
        let ahead = ahead_of(waiter.wants, others.map(|(_, other)| other), free, now);
        if ahead == 0 && free.holds(waiter.wants) {
            Turn::Go
        } else if !most.holds(waiter.wants) {
            Turn::Never
        } else if now >= waiter.until {
            Turn::Late(ahead)
        } else {
            Turn::Wait(ahead)
        }
    }

    /// The number of waiters for a GPU that a further one that wants this waits for, where so much is free.
    pub(crate) fn ahead(&self, gpu: u32, wants: Room, free: Room, now: Instant) -> usize {
        ahead_of(wants, self.waiters.values().filter(|waiter| waiter.gpu == gpu), free, now)
    }

    /// The number of waiters.
    pub(crate) fn count(&self) -> usize {
        self.waiters.len()
    }
}

/// Those of the earlier ones that one who wants this waits for, where so much is free. One that lacks something keeps others only
/// from that, and from what they would take of the rest that it wants.
fn ahead_of<'a>(wants: Room, earlier: impl Iterator<Item = &'a Waiter>, free: Room, now: Instant) -> usize {
    let mut left = free;
    let holds_up = |waiter: &&Waiter| {
        let (fits, lacking) = (free.holds(waiter.wants), waiter.wants.beyond(free));
        let has_waited = now.saturating_duration_since(waiter.since) >= HOLDS;
        if !waiter.wants.competes(wants) || has_waited && !fits {
            return false;
        }
        if fits || lacking.competes(wants) {
            return true;
        }
        left = left.without(waiter.wants);
        !left.holds(wants)
    };
    earlier.filter(holds_up).count()
}

#[cfg(test)]
mod tests;
