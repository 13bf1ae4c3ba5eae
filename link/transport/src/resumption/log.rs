//! What has been given to a connection and may not have arrived.
//! In: bytes as they are written, and how many the peer says it has. Out: the bytes it has not, for the next connection.
//! It writes nothing and waits for nobody. What is borrowed is kept, not copied, until the peer has it.

use std::collections::VecDeque;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};

use rustix::io::Errno;

use super::history::{DigestImage, HistoryDigest, RunningDigest};
use crate::pipes::borrowed::BorrowedBuffer;

/// A buffer is filled up to this before the next is begun.
const BUFFER_BYTES: usize = 64 << 10;
/// The most bytes of one direction that go to another process: what was sent and not acknowledged when the peer is slow.
pub(super) const MOST_CARRIED: usize = 256 << 20;
/// Buffers kept for use again.
const SPARE_BUFFERS: usize = 4;

/// Data of others, kept until the peer has them; who writes them holds the lock meanwhile.
#[derive(Clone)]
pub(super) struct Held(Arc<Mutex<Box<dyn BorrowedBuffer>>>);

impl Held {
    pub(super) fn new(borrowed: Box<dyn BorrowedBuffer>) -> Self {
        Self(Arc::new(Mutex::new(borrowed)))
    }

    /// Shows all of it.
    pub(super) fn with_bytes(&self, see: &mut dyn FnMut(&[u8])) {
        floe_lock::lock(&self.0).with_bytes(see);
    }
}

enum Data {
    Copied(Vec<u8>),
    Held(Held, usize),
}

/// Bytes that were written together, and the descriptor that goes with the first of them.
struct Entry {
    start: u64,
    data: Data,
    descriptor: Option<OwnedFd>,
}

impl Entry {
    fn len(&self) -> usize {
        match &self.data {
            Data::Copied(bytes) => bytes.len(),
            Data::Held(_, bytes) => *bytes,
        }
    }

    fn end(&self) -> u64 {
        self.start + self.len() as u64
    }
}

/// Bytes for the next connection, to be written without a lock.
pub(super) struct Part {
    /// Where they end.
    pub(super) end: u64,
    data: Data,
    /// So many bytes of what is held have arrived.
    skipped: usize,
    descriptor: Option<std::io::Result<OwnedFd>>,
}

impl Part {
    /// Gives them to `write`, with the descriptor that goes with them.
    ///
    /// # Errors
    /// Those of `write`; the system's own where there is no room for another descriptor.
    pub(super) fn write<E: From<Errno>>(
        &self,
        mut write: impl FnMut(&[u8], Option<BorrowedFd<'_>>) -> Result<(), E>,
    ) -> Result<(), E> {
        let descriptor = match &self.descriptor {
            None => None,
            Some(Ok(descriptor)) => Some(descriptor.as_fd()),
            Some(Err(error)) => return Err(Errno::from_io_error(error).unwrap_or(Errno::IO).into()),
        };
        match &self.data {
            Data::Copied(bytes) => write(bytes, descriptor),
            Data::Held(held, _) => {
                let mut outcome = Ok(());
                held.with_bytes(&mut |bytes| outcome = write(&bytes[self.skipped..], descriptor));
                outcome
            }
        }
    }
}

/// Why a peer cannot have what it says it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Impossible {
    /// The count lies outside what it can be.
    Outside { acknowledged: u64, sent: u64 },
    /// So many bytes were sent, but not these.
    Others,
}

/// Why what is kept cannot go to another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unkept {
    /// Some of it is with who writes it.
    Hole,
    /// A descriptor goes with it.
    Descriptor,
    /// It has so many bytes, more than go.
    TooMuch(u64),
}

/// The bytes of one direction that have been sent and not acknowledged.
#[derive(Default)]
pub(super) struct Log {
    /// The bytes that have arrived.
    acknowledged: RunningDigest,
    /// So many have been sent.
    end: u64,
    entries: VecDeque<Entry>,
    /// Bytes of buffers.
    copied: usize,
    /// So many bytes at the end are with who writes them, not here.
    hole: usize,
    spare: Vec<Vec<u8>>,
}

impl std::fmt::Debug for Log {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { acknowledged, end, copied, .. } = self;
        write!(formatter, "Log {{ acknowledged: {}, end: {end}, copied: {copied} }}", acknowledged.at())
    }
}

impl Log {
    /// How many bytes have been sent.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// How many of them have arrived, as far as is known.
    pub(super) fn acknowledged(&self) -> u64 {
        self.acknowledged.at()
    }

    /// Bytes that are kept in buffers.
    pub(super) fn copied(&self) -> usize {
        self.copied
    }

    /// What is kept, for another process: where the peer is known to be, and the bytes behind that.
    pub(super) fn image(&self) -> Result<(DigestImage, Vec<u8>), Unkept> {
        let left = self.end - self.acknowledged.at();
        let room = usize::try_from(left).ok().filter(|left| *left <= MOST_CARRIED).ok_or(Unkept::TooMuch(left))?;
        let mut kept = Vec::with_capacity(room);
        for entry in &self.entries {
            let at = self.acknowledged.at() + kept.len() as u64;
            let skipped = at.checked_sub(entry.start).ok_or(Unkept::Hole)?;
            let skipped = usize::try_from(skipped).unwrap_or(usize::MAX);
            if entry.descriptor.is_some() && skipped == 0 {
                return Err(Unkept::Descriptor);
            }
            match &entry.data {
                Data::Copied(bytes) => kept.extend_from_slice(bytes.get(skipped..).unwrap_or_default()),
                Data::Held(held, _) => {
                    held.with_bytes(&mut |bytes| kept.extend_from_slice(bytes.get(skipped..).unwrap_or_default()));
                }
            }
        }
        if kept.len() == room { Ok((self.acknowledged.image(), kept)) } else { Err(Unkept::Hole) }
    }

    /// Goes on with what another process keeps. `None`: that cannot be.
    pub(super) fn recall(acknowledged: &DigestImage, kept: &[u8]) -> Option<Self> {
        let acknowledged = RunningDigest::resume(acknowledged)?;
        acknowledged.at().checked_add(kept.len() as u64)?;
        let mut log = Self { end: acknowledged.at(), acknowledged, ..Self::default() };
        kept.chunks(BUFFER_BYTES).for_each(|bytes| log.append(bytes));
        Some(log)
    }

    /// Keeps a copy.
    pub(super) fn append(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        match self.entries.back_mut() {
            Some(Entry { data: Data::Copied(buffer), .. }) if buffer.len() + bytes.len() <= BUFFER_BYTES => {
                buffer.extend_from_slice(bytes);
            }
            _ => {
                let mut buffer = self.spare.pop().unwrap_or_default();
                buffer.extend_from_slice(bytes);
                self.entries.push_back(Entry { start: self.end, data: Data::Copied(buffer), descriptor: None });
            }
        }
        self.copied += bytes.len();
        self.end += bytes.len() as u64;
    }

    /// Keeps a copy and the descriptor that goes with its first byte.
    pub(super) fn append_with(&mut self, bytes: &[u8], descriptor: OwnedFd) {
        let entry = Entry { start: self.end, data: Data::Copied(bytes.to_vec()), descriptor: Some(descriptor) };
        self.entries.push_back(entry);
        self.copied += bytes.len();
        self.end += bytes.len() as u64;
    }

    /// Keeps what is borrowed.
    pub(super) fn hold(&mut self, held: Held, bytes: usize) {
        self.entries.push_back(Entry { start: self.end, data: Data::Held(held, bytes), descriptor: None });
        self.end += bytes as u64;
    }

    /// The next bytes are kept by who writes them, who appends nothing else before [`Log::close_hole`].
    pub(super) fn open_hole(&mut self, bytes: usize) {
        self.hole = bytes;
        self.end += bytes as u64;
    }

    /// The bytes of the hole have arrived, or never will.
    pub(super) fn close_hole(&mut self) {
        self.hole = 0;
    }

    /// Where the peer says it is; an error where it cannot be. How the bytes go on there that it has not.
    pub(super) fn check(&self, mark: HistoryDigest) -> Result<RunningDigest, Impossible> {
        let HistoryDigest { received, .. } = mark;
        if received < self.acknowledged.at() || received > self.end {
            return Err(Impossible::Outside { acknowledged: self.acknowledged.at(), sent: self.end });
        }
        let history = self.history(received);
        if history.mark() == mark { Ok(history) } else { Err(Impossible::Others) }
    }

    /// The bytes up to one that has been sent and not acknowledged before.
    fn history(&self, until: u64) -> RunningDigest {
        let mut history = self.acknowledged.clone();
        for entry in self.entries.iter().take_while(|entry| entry.start < until) {
            // A hole ends where the next entry begins, or has not ended.
            history.pass_over(entry.start.saturating_sub(history.at()));
            let skipped = usize::try_from(history.at() - entry.start).unwrap_or(usize::MAX);
            let end = usize::try_from(until - entry.start).map_or(entry.len(), |end| end.min(entry.len()));
            match &entry.data {
                Data::Copied(bytes) => history.absorb(&bytes[skipped..end]),
                Data::Held(..) => history.pass_over((end - skipped) as u64),
            }
        }
        history.pass_over(until - history.at());
        history
    }

    /// The peer has these bytes. What is not needed any more is returned, to be dropped without a lock.
    pub(super) fn acknowledge(&mut self, mark: HistoryDigest) -> Result<Vec<Held>, Impossible> {
        self.acknowledged = self.check(mark)?;
        let received = mark.received;
        let mut free = Vec::new();
        while self.entries.front().is_some_and(|entry| entry.end() <= received) {
            let Some(entry) = self.entries.pop_front() else { break };
            match entry.data {
                Data::Held(held, _) => free.push(held),
                Data::Copied(buffer) => self.recycle(buffer),
            }
        }
        Ok(free)
    }

    fn recycle(&mut self, mut buffer: Vec<u8>) {
        self.copied -= buffer.len();
        if buffer.capacity() <= BUFFER_BYTES && self.spare.len() < SPARE_BUFFERS {
            buffer.clear();
            self.spare.push(buffer);
        }
    }

    /// What is kept of the bytes from `at` on that have not arrived, in parts. `None`: nothing; a hole is not here.
    pub(super) fn part(&self, at: u64) -> Option<Part> {
        let at = at.max(self.acknowledged.at());
        let index = self.entries.partition_point(|entry| entry.end() <= at);
        let entry = self.entries.get(index)?;
        let skipped = usize::try_from(at.saturating_sub(entry.start)).unwrap_or(usize::MAX);
        let data = match &entry.data {
            Data::Copied(bytes) => Data::Copied(bytes[skipped..].to_vec()),
            Data::Held(held, bytes) => Data::Held(held.clone(), bytes - skipped),
        };
        // The peer that has the first byte has the descriptor.
        let descriptor = entry.descriptor.as_ref().filter(|_| skipped == 0).map(OwnedFd::try_clone);
        Some(Part { end: entry.end(), data, skipped, descriptor })
    }

    /// Gives everything up; to be dropped without a lock.
    pub(super) fn clear(&mut self) -> Vec<Held> {
        self.copied = 0;
        let entries = std::mem::take(&mut self.entries);
        let held = |entry: Entry| match entry.data {
            Data::Held(held, _) => Some(held),
            Data::Copied(_) => None,
        };
        entries.into_iter().filter_map(held).collect()
    }
}

#[cfg(test)]
mod tests;
