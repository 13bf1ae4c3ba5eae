//! Commands that were read and not yet issued.
//! In: commands, from the reader: small ones each by itself, in a ring of words, and what is large or has no room there in
//! batches. Out: the same commands in the order of their sequences, to the issuer; emptied batches back.
//! It holds a bounded number of bytes: a client that sends faster than the device works is held back by its socket.

mod words;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use floe_transport::{Expected, Spin};

use crate::batch::{Batch, Command};
use words::Words;

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
    words: Words,
    /// Grows with each batch and with the end, so that the issuer can look without the lock.
    pushed: AtomicUsize,
    issuer_sleeps: AtomicBool,
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
    reader_sleeps: bool,
    closed: bool,
}

/// What the issuer has of the queue.
#[derive(Debug, Default)]
pub(crate) struct Issuing {
    /// Filled from the ring of words.
    own: Batch,
    /// One of the reader's.
    batch: Option<Batch>,
    /// Batches it has had.
    had: usize,
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
            words: Words::new(),
            pushed: AtomicUsize::new(0),
            issuer_sleeps: AtomicBool::new(false),
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
        drop(line);
        self.tell_issuer();
        Ok(())
    }

    /// Appends a command at once and waits for nothing. False: it is for a batch. The issuer sees it while it looks, and
    /// may be about to sleep: before the reader waits it owes [`Queue::tell_issuer`].
    pub(crate) fn push_small(&self, command: &Command<'_>) -> bool {
        let is_written = self.words.write(command);
        self.wake_issuer();
        is_written
    }

    /// Wakes the issuer, if it sleeps or is about to although there is something.
    pub(crate) fn tell_issuer(&self) {
        // Beside the one in `sleep`: either that sees what was written, or this that it sleeps.
        fence(Ordering::SeqCst);
        self.wake_issuer();
    }

    /// Wakes the issuer once for each time it says that it sleeps.
    fn wake_issuer(&self) {
        if self.issuer_sleeps.load(Ordering::Relaxed) && self.issuer_sleeps.swap(false, Ordering::Relaxed) {
            // With the lock it is either asleep or has not looked yet.
            drop(self.line());
            self.filled.notify_one();
        }
    }

    /// Gives back what the issuer had and takes what is next, after waiting for it. `None`: the queue is closed.
    pub(crate) fn next<'a>(&self, issuing: &'a mut Issuing) -> Option<&'a Batch> {
        self.give_back(issuing);
        while !self.take(issuing)? {
            let has_something = || self.has_something(issuing.had).then_some(());
            // Nothing is concluded from this: it only passes the time before the sleep.
            if self.spin.look_while(has_something, |_| self.expected.is()).is_none() {
                self.sleep(issuing.had);
            }
        }
        Some(issuing.batch.as_ref().unwrap_or(&issuing.own))
    }

    /// Gives back what the issuer had, so that the reader has room.
    pub(crate) fn give_back(&self, issuing: &mut Issuing) {
        issuing.own.empty();
        if let Some(issued) = issuing.batch.take() {
            let mut line = self.line();
            line.take_back(issued);
            if line.reader_sleeps && (line.bytes == 0 || line.bytes < self.limit) {
                self.emptied.notify_all();
            }
        }
    }

    /// Whether something came behind what the issuer had, or the queue is closed.
    pub(crate) fn has_more(&self, issuing: &Issuing) -> bool {
        self.has_something(issuing.had)
    }

    /// Takes what is next without waiting; whether there was anything. `None`: the queue is closed.
    fn take(&self, issuing: &mut Issuing) -> Option<bool> {
        // Whatever is of a lower sequence than a command was there before it: so commands are looked for, then batches, and
        // where there is a batch, commands again.
        let written = self.words.written();
        if self.pushed.load(Ordering::Acquire) == issuing.had {
            self.words.take(&mut issuing.own, written, u64::MAX);
            return Some(!issuing.own.is_empty());
        }
        let mut line = self.line();
        if line.closed {
            return None;
        }
        let Some(batch) = line.batches.front() else { return Some(false) };
        self.words.take(&mut issuing.own, self.words.written(), batch.first().unwrap_or_default());
        if issuing.own.is_empty() {
            issuing.batch = line.batches.pop_front();
            issuing.had = issuing.had.wrapping_add(1);
        }
        Some(true)
    }

    fn has_something(&self, had: usize) -> bool {
        self.words.any() || self.pushed.load(Ordering::Acquire) != had
    }

    fn sleep(&self, had: usize) {
        let mut line = self.line();
        loop {
            self.issuer_sleeps.store(true, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            if self.has_something(had) {
                break;
            }
            line = self.filled.wait(line).unwrap_or_else(PoisonError::into_inner);
        }
        self.issuer_sleeps.store(false, Ordering::Relaxed);
    }

    /// The session is over: nobody waits here any more.
    pub(crate) fn close(&self) {
        self.line().closed = true;
        self.pushed.fetch_add(1, Ordering::Release);
        self.tell_issuer();
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

    fn push_small(queue: &Queue, sequence: u64) {
        assert!(queue.push_small(&Command { sequence, kind: 1, payload: &[7; 10], staged: None }));
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
        let mut issuing = Issuing::default();
        for sequence in 0..3 {
            assert_eq!(sequences(queue.next(&mut issuing).unwrap()), [sequence]);
            assert!(queue.line().batches.is_empty(), "one command fills the queue");
        }
        reader.join().unwrap();
    }

    #[test]
    fn host_function_keeps_the_reader_reading() {
        let queue = queue();
        queue.push(&mut batch(1, BYTES)).unwrap();
        queue.host_function_begins();
        queue.push(&mut batch(2, 10)).unwrap();
        let mut issuing = Issuing::default();
        assert_eq!(sequences(queue.next(&mut issuing).unwrap()), [1]);
        assert_eq!(sequences(queue.next(&mut issuing).unwrap()), [2]);
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
        let mut issuing = Issuing::default();
        let mut filling = batch(1, 1000);
        let cost = filling.cost();
        queue.push(&mut filling).unwrap();
        assert!(queue.next(&mut issuing).is_some());
        queue.push(&mut filling).unwrap();
        assert!(queue.next(&mut issuing).is_some());
        queue.push(&mut filling).unwrap();
        assert_eq!((filling.cost(), filling.is_empty()), (cost, true));
    }

    #[test]
    fn small_commands_and_batches_come_out_by_their_sequences() {
        let (queue, mut issuing) = (queue(), Issuing::default());
        [1, 2].into_iter().for_each(|sequence| push_small(&queue, sequence));
        queue.push(&mut batch(3, 10)).unwrap();
        push_small(&queue, 4);
        queue.push(&mut batch(5, 10)).unwrap();
        queue.push(&mut batch(6, 10)).unwrap();
        push_small(&queue, 7);
        let mut out = Vec::new();
        while out.len() < 7 {
            out.extend(sequences(queue.next(&mut issuing).unwrap()));
        }
        assert_eq!(out, [1, 2, 3, 4, 5, 6, 7]);
        push_small(&queue, 8);
        queue.close();
        assert!(queue.next(&mut issuing).is_none());
    }

    #[test]
    fn nothing_is_lost_or_overtaken_between_two_threads_and_nobody_sleeps_for_good() {
        const COMMANDS: u64 = 200_000;
        for spin in ["0", "100"] {
            let queue = Arc::new(Queue::new(BYTES, Spin::new(Some(spin)), Expected::default()));
            let filling = Arc::clone(&queue);
            let reader = std::thread::spawn(move || {
                let mut open = Batch::default();
                for sequence in 0..COMMANDS {
                    // Bursts of all lengths, a batch now and then, and a stop behind each.
                    let burst = sequence % 1009;
                    let command = Command { sequence, kind: 1, payload: &sequence.to_le_bytes(), staged: None };
                    if !open.is_empty() || burst % 97 == 96 || !filling.push_small(&command) {
                        open.push(command);
                    }
                    if burst % 101 == 100 || burst == 0 {
                        if open.is_empty() {
                            filling.tell_issuer();
                        } else {
                            filling.push(&mut open).unwrap();
                        }
                        if burst == 0 {
                            std::thread::sleep(std::time::Duration::from_micros(50));
                        }
                    }
                }
                if open.is_empty() { filling.tell_issuer() } else { filling.push(&mut open).unwrap() }
            });
            let (mut issuing, mut expected) = (Issuing::default(), 0);
            while expected < COMMANDS {
                for command in queue.next(&mut issuing).unwrap().commands() {
                    assert_eq!((command.sequence, command.payload), (expected, &expected.to_le_bytes()[..]));
                    expected += 1;
                }
            }
            reader.join().unwrap();
        }
    }
}
