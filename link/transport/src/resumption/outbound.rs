//! One direction of a channel, from its writer's side: what is kept, and the connection that takes the next byte.
//! In: bytes to keep, counts of the peer, and connections that resume the channel. Out: where to write, and what to write again.
//! It writes nothing, waits for nobody and knows no clock; `P` is a connection's pipe, or a number in tests.

use super::history::{DigestImage, HistoryDigest};
use super::log::{Held, Impossible, Log, Part, Unkept};

/// Bytes of copies kept for one channel, at which its writer waits for the peer.
pub(super) const MOST_COPIED: usize = 4 << 20;

/// A connection and its epoch.
#[derive(Clone, Debug)]
pub(super) struct Under<P> {
    pub(super) pipe: P,
    pub(super) epoch: u64,
}

/// What a resumed connection is to be given next.
pub(super) enum CatchUp {
    Write(Part),
    /// Nothing: other writers go on with it, or with that of a later epoch.
    Done,
}

/// A large write whose bytes stay with its writer until the peer has them.
#[derive(Debug)]
pub(super) struct Through {
    start: u64,
    end: u64,
    /// The epoch in which it was written last.
    epoch: Option<u64>,
}

/// What the writer of a [`Through`] does next.
#[derive(Debug)]
pub(super) enum Next<P> {
    /// The peer has all of it.
    Done,
    /// Write the bytes from here on.
    Write(usize, Under<P>),
    /// Wait for the peer, or for a connection.
    Wait,
}

#[derive(Debug)]
pub(super) struct Outbound<P> {
    log: Log,
    /// The connection to write to, once it has what came before.
    under: Option<Under<P>>,
    /// The epoch whose connection is being given what came before.
    behind: Option<u64>,
    /// Nothing is kept any more, so what the peer says it has cannot be judged.
    is_over: bool,
}

impl<P> Default for Outbound<P> {
    fn default() -> Self {
        Self { log: Log::default(), under: None, behind: None, is_over: false }
    }
}

impl<P: Clone> Outbound<P> {
    /// Bytes that were sent and are not known to have arrived.
    pub(super) fn in_flight(&self) -> u64 {
        self.log.end() - self.log.acknowledged()
    }

    /// What is kept, for another process.
    pub(super) fn image(&self) -> Result<(DigestImage, Vec<u8>), Unkept> {
        self.log.image()
    }

    /// What another process keeps. `None`: it cannot be.
    pub(super) fn recall(acknowledged: &DigestImage, kept: &[u8]) -> Option<Self> {
        Some(Self { log: Log::recall(acknowledged, kept)?, ..Self::default() })
    }

    /// Whether a writer may keep more.
    pub(super) fn has_room(&self) -> bool {
        self.log.copied() < MOST_COPIED
    }

    /// Has `note` keep what is to be written; the connection to write it to.
    pub(super) fn keep(&mut self, note: impl FnOnce(&mut Log)) -> Option<Under<P>> {
        note(&mut self.log);
        self.under.clone()
    }

    /// Keeps `head`, and so many bytes behind it as with their writer; the connection to write both to.
    pub(super) fn begin_through(&mut self, head: &[u8], tail: usize) -> (Through, Option<Under<P>>) {
        self.log.append(head);
        let start = self.log.end();
        self.log.open_hole(tail);
        let epoch = self.under.as_ref().map(|under| under.epoch);
        (Through { start, end: self.log.end(), epoch }, self.under.clone())
    }

    /// What is next of a large write.
    pub(super) fn go_through(&mut self, through: &mut Through) -> Next<P> {
        if self.log.acknowledged() >= through.end {
            self.log.close_hole();
            return Next::Done;
        }
        let now = self.under.as_ref().map(|under| under.epoch);
        if now == through.epoch {
            return Next::Wait;
        }
        through.epoch = now;
        // What came before it has been written again by the thread that resumed the channel.
        let from = self.log.acknowledged().max(through.start) - through.start;
        match &self.under {
            Some(under) => Next::Write(usize::try_from(from).unwrap_or(usize::MAX), under.clone()),
            None => Next::Wait,
        }
    }

    /// The peer has these bytes, or more: connections overtake each other. What goes back is dropped without a lock.
    pub(super) fn acknowledge(&mut self, mark: HistoryDigest) -> Result<Vec<Held>, Impossible> {
        let is_known = self.is_over || mark.received <= self.log.acknowledged();
        if is_known { Ok(Vec::new()) } else { self.log.acknowledge(mark) }
    }

    /// Whether the peer can have these bytes.
    pub(super) fn check(&self, mark: HistoryDigest) -> Result<(), Impossible> {
        if self.is_over { Ok(()) } else { self.log.check(mark).map(drop) }
    }

    /// A connection of this epoch resumes the channel, whose peer has these bytes. What goes back is dropped without a lock.
    pub(super) fn resume(&mut self, epoch: u64, mark: HistoryDigest) -> Result<Vec<Held>, Impossible> {
        let free = self.log.acknowledge(mark)?;
        (self.under, self.behind) = (None, Some(epoch));
        Ok(free)
    }

    /// What the connection is to be given behind the byte `at`. When nothing is left, others write to it.
    pub(super) fn catch_up(&mut self, under: &Under<P>, at: u64) -> CatchUp {
        if self.behind != Some(under.epoch) {
            return CatchUp::Done;
        }
        let Some(part) = self.log.part(at) else {
            (self.under, self.behind) = (Some(under.clone()), None);
            return CatchUp::Done;
        };
        CatchUp::Write(part)
    }

    /// The session is over: everything goes back, to be dropped without a lock.
    pub(super) fn end(&mut self) -> Vec<Held> {
        (self.under, self.behind, self.is_over) = (None, None, true);
        self.log.clear()
    }

    /// Bytes that are kept in buffers.
    #[cfg(test)]
    pub(super) fn copied(&self) -> usize {
        self.log.copied()
    }
}
