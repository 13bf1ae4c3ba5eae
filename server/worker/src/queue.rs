//! Commands that were read and not yet issued.
//! In: frames, from the reader. Out: the same frames in the same order, to the issuer.
//! It holds a bounded number of bytes: a client that sends faster than the device works is held back by its socket.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use floe_transport::{Expected, Spin};

use crate::staging::Staged;

/// Bytes of waiting commands from which on the reader reads no further.
const BYTES: usize = 256 << 20;
/// The same while a stream is held: what lets it go on comes behind everything posted meanwhile, so reading must go on.
const BYTES_WHILE_HELD: usize = 4 << 30;
/// What a waiting command costs beside its payload.
const OVERHEAD: usize = 64;

/// One frame as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Command {
    pub(crate) sequence: u64,
    pub(crate) kind: u16,
    pub(crate) payload: Vec<u8>,
    /// Where its data lie, which the payload then lacks.
    pub(crate) staged: Option<Staged>,
}

/// The line between reader and issuer.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    line: Mutex<Line>,
    /// Wakes the issuer.
    filled: Condvar,
    /// Wakes the reader.
    emptied: Condvar,
    /// Grows with each command, so that the issuer can look without the lock.
    pushed: AtomicUsize,
    /// Bytes that wait or are being issued.
    bytes: AtomicUsize,
    spin: Spin,
    /// Set while a client waits for the device: it will go on when it has been told.
    expected: Expected,
}

#[derive(Debug, Default)]
struct Line {
    commands: VecDeque<Command>,
    host_functions: usize,
    /// Batches with waits for words of memory that are not over.
    waits: usize,
    issuer_sleeps: bool,
    reader_sleeps: bool,
    closed: bool,
}

/// The queue is full for good: a stream is held and what lets it go on may be what cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Overrun;

impl Line {
    fn is_held(&self) -> bool {
        self.host_functions > 0 || self.waits > 0
    }
}

impl Queue {
    /// A queue whose issuer looks again for a moment before it sleeps, and on while commands are expected.
    pub(crate) fn new(spin: Spin, expected: Expected) -> Self {
        Self { spin, expected, ..Self::default() }
    }

    /// Whether a client waits for the device, so that its next commands are expected.
    pub(crate) fn expect(&self, is: bool) {
        self.expected.set(is);
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends a command, after waiting for room.
    pub(crate) fn push(&self, command: Command) -> Result<(), Overrun> {
        let mut line = self.line();
        loop {
            let bytes = self.bytes.load(Ordering::SeqCst);
            if line.is_held() && bytes >= BYTES_WHILE_HELD {
                return Err(Overrun);
            }
            if line.is_held() || bytes < BYTES || line.closed {
                break;
            }
            line.reader_sleeps = true;
            line = self.emptied.wait(line).unwrap_or_else(PoisonError::into_inner);
        }
        line.reader_sleeps = false;
        self.bytes.fetch_add(command.payload.len() + OVERHEAD, Ordering::SeqCst);
        line.commands.push_back(command);
        self.pushed.fetch_add(1, Ordering::Release);
        if std::mem::take(&mut line.issuer_sleeps) {
            drop(line);
            self.filled.notify_one();
        }
        Ok(())
    }

    /// Takes everything that waits, after waiting for something. False: the queue is closed.
    pub(crate) fn take(&self, into: &mut VecDeque<Command>) -> bool {
        let mut line = self.line();
        if line.commands.is_empty() && !line.closed {
            let seen = self.pushed.load(Ordering::Acquire);
            drop(line);
            // Nothing is concluded from this: it only passes the time before the sleep.
            let _ = self
                .spin
                .look_while(|| (self.pushed.load(Ordering::Acquire) != seen).then_some(()), || self.expected.is());
            line = self.line();
        }
        while line.commands.is_empty() && !line.closed {
            line.issuer_sleeps = true;
            line = self.filled.wait(line).unwrap_or_else(PoisonError::into_inner);
        }
        line.issuer_sleeps = false;
        std::mem::swap(&mut line.commands, into);
        !line.closed
    }

    /// The session is over: nobody waits here any more.
    pub(crate) fn close(&self) {
        self.line().closed = true;
        self.pushed.fetch_add(1, Ordering::Release);
        self.filled.notify_all();
        self.emptied.notify_all();
    }

    /// A command that was taken has been issued.
    pub(crate) fn done(&self, payload: usize) {
        let before = self.bytes.fetch_sub(payload + OVERHEAD, Ordering::SeqCst);
        if before >= BYTES {
            self.wake_reader();
        }
    }

    /// A host function stands in a stream from now on.
    pub(crate) fn host_function_begins(&self) {
        self.line().host_functions += 1;
        self.wake_reader();
    }

    /// `count` host functions have returned, or will never run.
    pub(crate) fn host_functions_end(&self, count: usize) {
        let mut line = self.line();
        line.host_functions = line.host_functions.saturating_sub(count);
    }

    /// Whether a host function or a wait for a word of memory stands in a stream.
    pub(crate) fn has_held_streams(&self) -> bool {
        self.line().is_held()
    }

    /// A wait for a word of memory stands in a stream from now on.
    pub(crate) fn wait_begins(&self) {
        self.line().waits += 1;
        self.wake_reader();
    }

    /// One of these waits is over.
    pub(crate) fn wait_ends(&self) {
        let mut line = self.line();
        line.waits = line.waits.saturating_sub(1);
    }

    /// Whether such a wait stands in a stream. The command that ends it may be one that was not issued yet.
    pub(crate) fn has_waits(&self) -> bool {
        self.line().waits > 0
    }

    fn wake_reader(&self) {
        if self.line().reader_sleeps {
            self.emptied.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;
    use std::sync::Arc;

    fn command(sequence: u64, bytes: usize) -> Command {
        Command { sequence, kind: 1, payload: vec![0; bytes], staged: None }
    }

    #[test]
    fn full_queue_holds_the_reader_back_until_commands_are_issued() {
        let queue = Arc::new(Queue::default());
        let filling = Arc::clone(&queue);
        let reader = std::thread::spawn(move || {
            for sequence in 0..3 {
                filling.push(command(sequence, BYTES)).unwrap();
            }
        });
        let mut taken = VecDeque::new();
        for sequence in 0..3 {
            assert!(queue.take(&mut taken));
            let next = taken.pop_front().unwrap();
            assert_eq!((next.sequence, taken.len()), (sequence, 0), "one command fills the queue");
            queue.done(next.payload.len());
        }
        reader.join().unwrap();
    }

    #[test]
    fn host_function_keeps_the_reader_reading() {
        let queue = Queue::default();
        queue.push(command(1, BYTES)).unwrap();
        queue.host_function_begins();
        queue.push(command(2, 10)).unwrap();
        let mut taken = VecDeque::new();
        assert!(queue.take(&mut taken));
        assert_eq!(taken.len(), 2);
    }
}
