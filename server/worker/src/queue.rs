//! Commands that were read and not yet issued.
//! In: batches of frames, from the reader. Out: the same batches in the same order, to the issuer, and emptied ones back.
//! It holds a bounded number of bytes: a client that sends faster than the device works is held back by its socket.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use floe_transport::{Expected, Spin};

use crate::batch::Batch;

/// Bytes of waiting batches at which a session ends whose stream is held: what lets it go on comes behind everything posted
/// meanwhile, so reading must go on until then.
const BYTES_WHILE_HELD: usize = 1 << 30;
/// Emptied batches kept to be filled again: as many as an issuer that is busy for a moment falls behind.
const SPARE: usize = 16;

/// The line between reader and issuer.
#[derive(Debug)]
pub(crate) struct Queue {
    /// Bytes of waiting batches from which on the reader reads no further.
    limit: usize,
    line: Mutex<Line>,
    /// Wakes the issuer.
    filled: Condvar,
    /// Wakes the reader.
    emptied: Condvar,
    /// Grows with each batch, so that the issuer can look without the lock.
    pushed: AtomicUsize,
    spin: Spin,
    /// Set while a client waits for the device: it will go on when it has been told.
    expected: Expected,
}

#[derive(Debug, Default)]
struct Line {
    batches: VecDeque<Batch>,
    spare: Vec<Batch>,
    /// Bytes that wait or are being issued.
    bytes: usize,
    host_functions: usize,
    /// Batches of operations with waits for words of memory that are not over.
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

    /// The batch has been issued.
    fn take_back(&mut self, batch: Batch) {
        self.bytes = self.bytes.saturating_sub(batch.cost());
        if self.spare.len() < SPARE {
            self.spare.push(batch.emptied());
        }
    }
}

impl Queue {
    /// A queue of `limit` bytes, whose issuer looks again for a moment before it sleeps, and on while commands are expected.
    pub(crate) fn new(limit: usize, spin: Spin, expected: Expected) -> Self {
        Self {
            limit,
            line: Mutex::default(),
            filled: Condvar::new(),
            emptied: Condvar::new(),
            pushed: AtomicUsize::new(0),
            spin,
            expected,
        }
    }

    /// Whether a client waits for the device, so that its next commands are expected.
    pub(crate) fn expect(&self, is: bool) {
        self.expected.set(is);
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends a batch, after waiting for room, and leaves an empty one in its place.
    pub(crate) fn push(&self, batch: &mut Batch) -> Result<(), Overrun> {
        let mut line = self.line();
        loop {
            if line.is_held() && line.bytes >= BYTES_WHILE_HELD {
                return Err(Overrun);
            }
            // Whatever the limit, what is in line is never less than a batch.
            if line.is_held() || line.bytes == 0 || line.bytes < self.limit || line.closed {
                break;
            }
            line.reader_sleeps = true;
            line = self.emptied.wait(line).unwrap_or_else(PoisonError::into_inner);
        }
        line.reader_sleeps = false;
        line.bytes += batch.cost();
        let empty = line.spare.pop().unwrap_or_default();
        line.batches.push_back(std::mem::replace(batch, empty));
        self.pushed.fetch_add(1, Ordering::Release);
        if std::mem::take(&mut line.issuer_sleeps) {
            drop(line);
            self.filled.notify_one();
        }
        Ok(())
    }

    /// Gives the batch that was `issued` back and takes the next, after waiting for one. `None`: the queue is closed.
    pub(crate) fn next(&self, issued: Option<Batch>) -> Option<Batch> {
        let mut line = self.line();
        if let Some(batch) = issued {
            line.take_back(batch);
            if line.reader_sleeps && (line.bytes == 0 || line.bytes < self.limit) {
                self.emptied.notify_all();
            }
        }
        if line.batches.is_empty() && !line.closed {
            let seen = self.pushed.load(Ordering::Acquire);
            drop(line);
            // Nothing is concluded from this: it only passes the time before the sleep.
            let _ = self
                .spin
                .look_while(|| (self.pushed.load(Ordering::Acquire) != seen).then_some(()), || self.expected.is());
            line = self.line();
        }
        while line.batches.is_empty() && !line.closed {
            line.issuer_sleeps = true;
            line = self.filled.wait(line).unwrap_or_else(PoisonError::into_inner);
        }
        line.issuer_sleeps = false;
        if line.closed { None } else { line.batches.pop_front() }
    }

    /// The session is over: nobody waits here any more.
    pub(crate) fn close(&self) {
        self.line().closed = true;
        self.pushed.fetch_add(1, Ordering::Release);
        self.filled.notify_all();
        self.emptied.notify_all();
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
    use crate::batch::Command;
    use std::sync::Arc;

    const BYTES: usize = 1 << 20;

    fn queue() -> Queue {
        Queue::new(BYTES, Spin::default(), Expected::default())
    }

    /// A batch of one command.
    fn batch(sequence: u64, bytes: usize) -> Batch {
        let mut batch = Batch::default();
        batch.push(Command { sequence, kind: 1, payload: &vec![0; bytes], staged: None });
        batch
    }

    fn sequences(batch: &Batch) -> Vec<u64> {
        batch.commands().map(|command| command.sequence).collect()
    }

    #[test]
    fn full_queue_holds_the_reader_back_until_commands_are_issued() {
        let queue = Arc::new(queue());
        let filling = Arc::clone(&queue);
        let reader = std::thread::spawn(move || {
            for sequence in 0..3 {
                filling.push(&mut batch(sequence, BYTES)).unwrap();
            }
        });
        let mut issued = None;
        for sequence in 0..3 {
            let next = queue.next(issued.take()).unwrap();
            assert_eq!(sequences(&next), [sequence]);
            assert!(queue.line().batches.is_empty(), "one command fills the queue");
            issued = Some(next);
        }
        reader.join().unwrap();
    }

    #[test]
    fn host_function_keeps_the_reader_reading() {
        let queue = queue();
        queue.push(&mut batch(1, BYTES)).unwrap();
        queue.host_function_begins();
        queue.push(&mut batch(2, 10)).unwrap();
        let first = queue.next(None).unwrap();
        assert_eq!(sequences(&first), [1]);
        assert_eq!(sequences(&queue.next(Some(first)).unwrap()), [2]);
    }

    #[test]
    fn nothing_that_is_held_fills_the_queue_for_good() {
        let queue = queue();
        queue.host_function_begins();
        queue.line().bytes = BYTES_WHILE_HELD;
        assert_eq!(queue.push(&mut batch(1, 10)), Err(Overrun));
    }

    #[test]
    fn issued_batch_is_filled_again() {
        let queue = queue();
        let mut filling = batch(1, 1000);
        let cost = filling.cost();
        queue.push(&mut filling).unwrap();
        let issued = queue.next(None);
        queue.push(&mut filling).unwrap();
        drop(queue.next(issued));
        queue.push(&mut filling).unwrap();
        assert_eq!((filling.cost(), filling.is_empty()), (cost, true));
    }
}
