//! Decides what the writer threads do next, and how many of them to wake.
//! In: chunks, idle connections, and threads that run or park. Out: the steps, one at a time. It writes nothing and
//! never waits.

use super::queue::{Chunk, Load, Queue};
use super::staging::{Copying, SLOT_BYTES, Staged, Staging};
use crate::frames::sender::Sender;
use crate::pipes::borrowed::SendMode;

/// Queued chunks, and the connections and threads that serve them.
#[derive(Debug, Default)]
pub(super) struct Scheduler {
    pub(super) queue: Queue,
    /// Chunks that are copied or being copied; they precede all chunks of the queue.
    pub(super) staging: Staging,
    /// All connections, to be closed.
    pub(super) all: Vec<Sender>,
    /// Connections on which no thread is writing.
    pub(super) idle: Vec<Sender>,
    /// Parked threads; `called` counts those of them that were woken and do not run yet.
    pub(super) sleeping: usize,
    pub(super) called: usize,
    /// Threads that spin, and find work without being woken.
    pub(super) looking: usize,
    /// Threads that wait until their load is done.
    pub(super) watching: usize,
    pub(super) closed: bool,
}

/// A thread's preference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum First {
    /// Write, so that connections stay busy.
    Write,
    /// Copy chunks: the thread waits for its own load.
    Copy,
}

/// One step of a writer thread.
pub(super) enum Step {
    /// Copy a chunk.
    Copy(Chunk, Copying),
    /// Give a connection a copy.
    Give(Staged, Sender),
    /// Give a connection a chunk from where it lies.
    Write(Chunk, Sender),
}

impl Scheduler {
    /// The next step. `None`: there is none, or another thread has to finish its own first.
    pub(super) fn next(&mut self, first: First) -> Option<Step> {
        match first {
            First::Copy => self.copy().or_else(|| self.give()),
            First::Write => self.give().or_else(|| self.copy()),
        }
        .or_else(|| self.write())
    }

    fn copy(&mut self) -> Option<Step> {
        let copying = if self.copies_next() { self.staging.begin() } else { None }?;
        // There is a chunk to be copied.
        self.queue.pop().map(|chunk| Step::Copy(chunk, copying))
    }

    fn give(&mut self) -> Option<Step> {
        if self.idle.is_empty() {
            return None;
        }
        let staged = self.staging.next()?;
        self.idle.pop().map(|connection| Step::Give(staged, connection))
    }

    /// Writes a chunk from where it lies, but not while copied chunks are queued: those leave first.
    fn write(&mut self) -> Option<Step> {
        if self.idle.is_empty() || self.staging.in_line() > 0 {
            return None;
        }
        let chunk = self.queue.pop()?;
        self.idle.pop().map(|connection| Step::Write(chunk, connection))
    }

    /// Whether the next chunk of the queue is copied before a connection has it.
    fn copies_next(&self) -> bool {
        let suits = |(load, chunk): (&Load, usize)| {
            load.send_mode() == SendMode::Copy && chunk <= SLOT_BYTES && self.staging.suits(load.len())
        };
        self.queue.first().is_some_and(suits)
    }

    /// The number of queued chunks, copied ones included.
    pub(super) fn chunks(&self) -> usize {
        self.queue.chunks() + self.staging.in_line()
    }

    /// The number of parked threads to wake, given `busy` that are awake. It counts them as called.
    pub(super) fn wakes(&mut self, busy: usize) -> usize {
        let to_give = self.staging.ready().min(self.idle.len());
        let room = if self.copies_next() { self.staging.room() } else { 0 };
        let wanted = to_give + self.queue.chunks().min(room.max(self.idle.len() - to_give));
        let wakes = wanted.saturating_sub(self.called + self.looking + busy).min(self.sleeping - self.called);
        self.called += wakes;
        wakes
    }
}
