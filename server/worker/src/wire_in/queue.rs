//! Commands that were read and not yet issued.
//! In: commands, from the reader: small ones each by itself, in the word queue, and what is large or has no room there in
//! batches. Out: the same commands in the order of their sequences, to the issuer; emptied batches back.
//! It holds a bounded number of bytes: a client that sends faster than the device works is held back by its socket.

mod word_queue;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering, fence};
use std::sync::{Condvar, Mutex, MutexGuard};

use floe_transport::{Expected, Spin};

use super::batch::{Batch, Command};
use word_queue::WordQueue;

/// Emptied batches kept to be filled again: as many as an issuer that is busy for a moment falls behind.
const SPARE: usize = 16;
/// Somebody has an errand for the issuer.
const ERRAND: u8 = 1;
/// The session has no turn on its GPU.
const NO_TURN: u8 = 2;

/// The line between reader and issuer.
#[derive(Debug)]
pub(crate) struct Queue {
    /// Bytes of waiting batches from which on the reader reads no further.
    limit: usize,
    /// Bytes of waiting batches at which a session with a held stream ends. The command that releases the stream comes
    /// behind everything posted meanwhile, so the worker reads until then.
    limit_while_held: usize,
    line: Mutex<Backlog>,
    /// Wakes the issuer.
    filled: Condvar,
    /// Wakes the reader.
    emptied: Condvar,
    word_queue: WordQueue,
    /// Grows with each batch and with the end, so that the issuer can look without the lock.
    pushed: AtomicUsize,
    issuer_sleeps: AtomicBool,
    /// Why the issuer is to come to the next border between two commands: bits; 0: it is not.
    interrupted: AtomicU8,
    spin: Spin,
    /// Set while a client waits for the device: it continues when it gets the answer.
    expected: Expected,
}

#[derive(Debug, Default)]
struct Backlog {
    batches: VecDeque<Batch>,
    spare: Vec<Batch>,
    /// Bytes that wait or are being issued.
    bytes: usize,
    host_functions: usize,
    /// Batches of operations with waits for words of memory that are not over.
    waits: usize,
    reader_sleeps: bool,
    closed: bool,
    /// Whether the reader waits for no room: the issuer rests.
    lets_pass: bool,
}

/// The issuer's part of the queue.
#[derive(Debug, Default)]
pub(crate) struct Issuing {
    /// Filled from the word queue.
    own: Batch,
    /// One of the reader's.
    batch: Option<Batch>,
    /// Batches it has had.
    had: usize,
}

/// The queue is full for good: a stream is held, and the frame that releases it may be unread.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Overrun;

impl Backlog {
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
    /// A queue of `limit` bytes, or of `limit_while_held` while a stream is held. Its issuer polls for a moment before
    /// it sleeps, and longer while commands are expected.
    pub(crate) fn new(limit: usize, limit_while_held: usize, spin: Spin, expected: Expected) -> Self {
        Self {
            limit,
            limit_while_held,
            line: Mutex::default(),
            filled: Condvar::new(),
            emptied: Condvar::new(),
            word_queue: WordQueue::new(),
            pushed: AtomicUsize::new(0),
            issuer_sleeps: AtomicBool::new(false),
            interrupted: AtomicU8::new(0),
            spin,
            expected,
        }
    }

    /// Whether a client waits for the device, so that its next commands are expected.
    pub(crate) fn expect(&self, is: bool) {
        self.expected.set(is);
    }

    fn line(&self) -> MutexGuard<'_, Backlog> {
        floe_lock::lock(&self.line)
    }

    /// Appends a batch, after waiting for room, and leaves an empty one in its place.
    pub(crate) fn push(&self, batch: &mut Batch) -> Result<(), Overrun> {
        let mut line = self.line();
        loop {
            if line.is_held() && line.bytes >= self.limit_while_held {
                return Err(Overrun);
            }
            // A batch always finds room in an empty queue, even one over the limit.
            if line.is_held() || line.bytes == 0 || line.bytes < self.limit || line.closed || line.lets_pass {
                break;
            }
            line.reader_sleeps = true;
            line = floe_lock::wait(&self.emptied, line);
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
        let is_written = self.word_queue.write(command);
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

    /// Has the issuer come to the next border between two commands for an errand, or no longer.
    pub(crate) fn interrupt(&self, is: bool) {
        self.set_interrupted(ERRAND, is);
    }

    /// Has the issuer come to the next border between two commands and wait for its turn, or no longer.
    pub(crate) fn interrupt_for_turn(&self, is: bool) {
        self.set_interrupted(NO_TURN, is);
        if !is {
            self.tell_issuer();
        }
    }

    fn set_interrupted(&self, reason: u8, is: bool) {
        if is {
            self.interrupted.fetch_or(reason, Ordering::Release);
            self.tell_issuer();
        } else {
            self.interrupted.fetch_and(!reason, Ordering::Release);
        }
    }

    /// Whether the issuer is wanted at the next border.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Acquire) != 0
    }

    /// Whether somebody has an errand for the issuer.
    pub(crate) fn has_errands(&self) -> bool {
        self.interrupted.load(Ordering::Acquire) & ERRAND != 0
    }

    /// Whether commands, or the end, came behind what the issuer had.
    pub(crate) fn has_waiting(&self, issuing: &Issuing) -> bool {
        self.word_queue.any() || self.pushed.load(Ordering::Acquire) != issuing.had
    }

    /// Sleeps at a border as long as there is no turn and no errand; with `heeds_commands` also no command. False: the
    /// queue is closed.
    pub(crate) fn rest(&self, issuing: &Issuing, heeds_commands: bool, has_no_turn: impl Fn() -> bool) -> bool {
        let mut line = self.line();
        loop {
            self.issuer_sleeps.store(true, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            let is_wanted = !has_no_turn() || self.has_errands() || (heeds_commands && self.has_waiting(issuing));
            if line.closed || is_wanted {
                break;
            }
            line = floe_lock::wait(&self.filled, line);
        }
        self.issuer_sleeps.store(false, Ordering::Relaxed);
        !line.closed
    }

    /// Gives back what the issuer had and takes what is next, if there is anything. `None`: there is nothing, or the queue is
    /// closed.
    pub(crate) fn next_at_hand<'a>(&self, issuing: &'a mut Issuing) -> Option<&'a Batch> {
        self.give_back(issuing);
        self.take(issuing)?.then(|| issuing.batch.as_ref().unwrap_or(&issuing.own))
    }

    /// Gives back what the issuer had and takes what is next, after waiting for it; nothing where it is interrupted.
    /// `None`: the queue is closed.
    pub(crate) fn next<'a>(&self, issuing: &'a mut Issuing) -> Option<&'a Batch> {
        self.give_back(issuing);
        while !self.take(issuing)? {
            if self.is_interrupted() {
                break;
            }
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
        // Commands of lower sequences were there before a command. So it looks for commands, then for batches, and
        // where there is a batch, for commands again.
        let written = self.word_queue.written();
        if self.pushed.load(Ordering::Acquire) == issuing.had {
            self.word_queue.take(&mut issuing.own, written, u64::MAX);
            return Some(!issuing.own.is_empty());
        }
        let mut line = self.line();
        if line.closed {
            return None;
        }
        let Some(batch) = line.batches.front() else { return Some(false) };
        self.word_queue.take(&mut issuing.own, self.word_queue.written(), batch.first().unwrap_or_default());
        if issuing.own.is_empty() {
            issuing.batch = line.batches.pop_front();
            issuing.had = issuing.had.wrapping_add(1);
        }
        Some(true)
    }

    fn has_something(&self, had: usize) -> bool {
        self.word_queue.any() || self.pushed.load(Ordering::Acquire) != had || self.is_interrupted()
    }

    fn sleep(&self, had: usize) {
        let mut line = self.line();
        loop {
            self.issuer_sleeps.store(true, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            if self.has_something(had) {
                break;
            }
            line = floe_lock::wait(&self.filled, line);
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

    /// Whether the reader waits for no room from here on: the issuer rests, and the reader is to rest, too.
    pub(crate) fn let_pass(&self, is: bool) {
        self.line().lets_pass = is;
        self.wake_reader();
    }

    /// Whether the reader waits for no room.
    pub(crate) fn lets_pass(&self) -> bool {
        self.line().lets_pass
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

    /// Host functions and waits for words that stand in streams.
    pub(crate) fn held(&self) -> (usize, usize) {
        let line = self.line();
        (line.host_functions, line.waits)
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
mod tests;
