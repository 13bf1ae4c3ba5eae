//! What threads that write do next, and how many of them are to be awake.
//! In: chunks, connections that come and go back, threads that come and sleep. Out: one thing to do after the other. It writes
//! nothing and waits for nobody.

use super::queue::{Chunk, Load, Queue};
use super::staging::{Copying, SLOT_BYTES, Staged, Staging};
use crate::frames::sender::Sender;
use crate::pipes::borrowed::SendMode;

/// What is in line, and who is there for it.
#[derive(Debug, Default)]
pub(super) struct Line {
    pub(super) queue: Queue,
    /// Chunks that have been copied, and those that are being: before all in the queue.
    pub(super) staging: Staging,
    /// All connections, to be closed.
    pub(super) all: Vec<Sender>,
    /// Those nobody writes on.
    pub(super) idle: Vec<Sender>,
    /// Threads that sleep, and those of them that have been woken and have not come yet.
    pub(super) sleeping: usize,
    pub(super) called: usize,
    /// Threads that look for something to do, and find it without being woken.
    pub(super) looking: usize,
    /// Threads that wait for their data to be gone.
    pub(super) watching: usize,
    pub(super) closed: bool,
}

/// What a thread prefers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum First {
    /// Connections have something to write.
    Write,
    /// Chunks are copied: it has come for its own.
    Copy,
}

/// Something to do.
pub(super) enum Step {
    /// Copy a chunk.
    Copy(Chunk, Copying),
    /// Give a connection a copy.
    Give(Staged, Sender),
    /// Give a connection a chunk from where it lies.
    Write(Chunk, Sender),
}

impl Line {
    /// The next thing to do. `None`: nothing, or nothing before something that another thread does.
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

    /// What has been copied leaves before anything else.
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

    /// How many chunks are in line.
    pub(super) fn chunks(&self) -> usize {
        self.queue.chunks() + self.staging.in_line()
    }

    /// How many sleeping threads have something to do, beside `busy` that are awake. They are called.
    pub(super) fn wakes(&mut self, busy: usize) -> usize {
        let to_give = self.staging.ready().min(self.idle.len());
        let room = if self.copies_next() { self.staging.room() } else { 0 };
        let wanted = to_give + self.queue.chunks().min(room.max(self.idle.len() - to_give));
        let wakes = wanted.saturating_sub(self.called + self.looking + busy).min(self.sleeping - self.called);
        self.called += wakes;
        wakes
    }
}
