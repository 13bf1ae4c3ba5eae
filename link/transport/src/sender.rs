//! The outgoing direction of a link.
//! In: messages, from any thread. Out: frames with a sequence, in the order in which they got it; small ones together.
//! Posting waits for the pipe only when much is unsent. Bulk bytes are written from where they lie.

use std::os::fd::BorrowedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};

use floe_wire::Message;
use rustix::io::Errno;

use crate::error::{Failure, LinkError};
use crate::flusher;
use crate::outgoing::{Lent, Outgoing, Segment, State};
use crate::pipe::{Pipe, Reach};

/// Unsent bytes at which a poster writes them itself, if nobody else is writing.
const FLUSH_BYTES: usize = 64 << 10;
/// Unsent bytes at which a poster waits for the pipe: it holds back who posts faster than the peer reads.
const MOST_UNSENT: usize = 4 << 20;
/// Trailing bytes from which on they are written from where they lie instead of being copied first.
pub(crate) const BULK_BYTES: usize = 32 << 10;

/// The outgoing direction of a link; threads share it by cloning.
#[derive(Clone, Debug)]
pub struct Sender {
    shared: Arc<Shared>,
    _owner: Arc<Owner>,
}

/// Ends the flusher when the last sender goes.
#[derive(Debug)]
struct Owner(Arc<Shared>);

#[derive(Debug)]
pub(crate) struct Shared {
    pipe: Arc<dyn Pipe>,
    outgoing: Mutex<Outgoing>,
    /// Held while bytes go to the pipe, always taken before `outgoing`.
    writing: Mutex<()>,
    /// Wakes the flusher.
    pub(crate) posted: Condvar,
    /// Whether the pipe is.
    is_prompt: bool,
}

impl Sender {
    pub(crate) fn new(pipe: Arc<dyn Pipe>, sent: u64) -> Self {
        let shared = Arc::new(Shared {
            is_prompt: pipe.is_prompt(),
            pipe,
            outgoing: Mutex::new(Outgoing::new(sent)),
            writing: Mutex::new(()),
            posted: Condvar::new(),
        });
        Self { _owner: Arc::new(Owner(Arc::clone(&shared))), shared }
    }

    /// How many frames have got a sequence.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.shared.outgoing().sent()
    }

    /// Queues a message and returns its sequence. It leaves soon by itself, ahead of everything posted later.
    ///
    /// # Errors
    /// [`LinkError`] when the link is over.
    pub fn post(&self, message: &impl Message) -> Result<u64, LinkError> {
        self.shared.submit(message, |_| (), Leave::Soon)
    }

    /// As [`Sender::post`], and on return the message has been given to the pipe.
    /// `numbered` runs with the sequence before any byte leaves and before another frame gets one, so that who waits for the
    /// answer can be noted, and what is noted is in order.
    ///
    /// # Errors
    /// [`LinkError`] when the link is over; `numbered` may have run.
    pub fn send(&self, message: &impl Message, numbered: impl FnOnce(u64)) -> Result<u64, LinkError> {
        self.shared.submit(message, numbered, Leave::Now)
    }

    /// As [`Sender::post`], with `numbered` as in [`Sender::send`].
    ///
    /// # Errors
    /// As [`Sender::send`].
    pub fn post_numbered(&self, message: &impl Message, numbered: impl FnOnce(u64)) -> Result<u64, LinkError> {
        self.shared.submit(message, numbered, Leave::Soon)
    }

    /// As [`Sender::post_numbered`], only where nothing stands in line, and without ever waiting for the pipe, so that who
    /// reads the link may do it: a sleeping flusher is woken to write it. `None`: it is not posted.
    ///
    /// # Errors
    /// As [`Sender::send`].
    pub fn post_aside(&self, message: &impl Message, numbered: impl FnOnce(u64)) -> Result<Option<u64>, LinkError> {
        let shared = &*self.shared;
        let mut outgoing = shared.open()?;
        if !outgoing.is_empty() || !outgoing.flusher_runs {
            return Ok(None);
        }
        let Some(sequence) = outgoing.add_below(message, BULK_BYTES) else { return Ok(None) };
        numbered(sequence);
        if !(shared.is_prompt && shared.give(&mut outgoing)?) {
            shared.leave_to_others(outgoing);
        }
        Ok(Some(sequence))
    }

    /// As [`Sender::post`], but small messages may stay until the next [`Sender::flush`], which the caller owes.
    ///
    /// # Errors
    /// [`LinkError`] when the link is over.
    pub fn queue(&self, message: &impl Message) -> Result<u64, LinkError> {
        self.shared.submit(message, |_| (), Leave::WithOthers)
    }

    /// Posts a message whose trailing `bytes` are `length` bytes that `fill` writes in place: `message` has them empty.
    /// `fill` gets a zeroed slice.
    ///
    /// # Errors
    /// [`LinkError`] when the link is over.
    ///
    /// # Panics
    /// When the message has no trailing `bytes`, has them not empty, or `length` is over the limit of a payload.
    pub fn post_filled<M: Message>(
        &self,
        message: &M,
        length: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<u64, LinkError> {
        let mut outgoing = self.shared.open()?;
        let sequence = outgoing.add_filled(message, length, fill);
        self.shared.let_go(outgoing, Leave::Soon)?;
        Ok(sequence)
    }

    /// Posts a message whose trailing `bytes` are lent: `message` has them empty. Nobody waits for them to be written.
    ///
    /// # Errors
    /// [`LinkError`] when the link is over.
    ///
    /// # Panics
    /// As [`Sender::post_filled`].
    pub fn post_lent(&self, message: &impl Message, lent: Box<dyn Lent>) -> Result<u64, LinkError> {
        let mut outgoing = self.shared.open()?;
        let sequence = outgoing.add_lent(message, lent);
        let flusher_runs = outgoing.flusher_runs;
        // Nobody but the flusher writes what may take long.
        (outgoing.flusher_sleeps, outgoing.is_quiet) = (false, false);
        drop(outgoing);
        if flusher_runs {
            self.shared.posted.notify_one();
        } else {
            self.shared.flush()?;
        }
        Ok(sequence)
    }

    /// As [`Sender::send`] of a message whose trailing bytes are lent: `message` has them empty. On return they have been given
    /// to the pipe, which may keep them until the peer has them.
    ///
    /// # Errors
    /// [`LinkError`] when the link is over.
    ///
    /// # Panics
    /// As [`Sender::post_filled`].
    pub fn send_lent(&self, message: &impl Message, lent: Box<dyn Lent>) -> Result<u64, LinkError> {
        let sequence = self.shared.open()?.add_lent(message, lent);
        self.shared.flush()?;
        Ok(sequence)
    }

    /// Whether the link can carry descriptors: the peer is on this machine.
    #[must_use]
    pub fn carries_descriptors(&self) -> bool {
        self.shared.is_local()
    }

    /// As [`Sender::send`], with a descriptor of which the peer's receiver may take a duplicate.
    ///
    /// # Errors
    /// As [`Sender::send`]; [`LinkError::NoDescriptors`] with nothing sent where the link carries none.
    pub fn send_with(
        &self,
        message: &impl Message,
        descriptor: BorrowedFd<'_>,
        numbered: impl FnOnce(u64),
    ) -> Result<u64, LinkError> {
        if self.carries_descriptors() {
            self.shared.write_with(message, descriptor, numbered)
        } else {
            Err(LinkError::NoDescriptors)
        }
    }

    /// Gives everything posted so far to the pipe.
    ///
    /// # Errors
    /// [`LinkError`] when the link is over.
    pub fn flush(&self) -> Result<(), LinkError> {
        self.shared.flush()
    }

    /// Ends the link in both directions at once; the receiver's wait ends too. What is unsent is lost: flush first.
    pub fn close(&self) {
        self.shared.end(State::Closed);
        self.shared.pipe.end();
    }

    pub(crate) fn start_flusher(&self) {
        // Without the thread every post leaves at once instead.
        self.shared.outgoing().flusher_runs = flusher::start(&self.shared);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Leave {
    WithOthers,
    Soon,
    Now,
}

impl Shared {
    #[inline]
    pub(crate) fn outgoing(&self) -> MutexGuard<'_, Outgoing> {
        self.outgoing.lock().unwrap_or_else(cut_off)
    }

    #[inline]
    fn open(&self) -> Result<MutexGuard<'_, Outgoing>, LinkError> {
        let outgoing = self.outgoing();
        outgoing.state.check()?;
        Ok(outgoing)
    }

    fn submit<M: Message>(&self, message: &M, numbered: impl FnOnce(u64), leave: Leave) -> Result<u64, LinkError> {
        let mut outgoing = self.open()?;
        let Some(sequence) = outgoing.add_below(message, BULK_BYTES) else {
            // The pipe must be ours before the frame gets its place, for its tail must follow directly.
            drop(outgoing);
            return self.write_bulk(message, numbered);
        };
        numbered(sequence);
        self.let_go(outgoing, leave)?;
        Ok(sequence)
    }

    /// Writes everything posted so far, then a frame that a descriptor goes with.
    fn write_with<M: Message>(
        &self,
        message: &M,
        descriptor: BorrowedFd<'_>,
        numbered: impl FnOnce(u64),
    ) -> Result<u64, LinkError> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let mut outgoing = self.open()?;
            if outgoing.is_empty() {
                let (sequence, tail) = outgoing.add_head(message);
                numbered(sequence);
                let buffer = outgoing.next_buffer();
                drop(outgoing);
                self.said(self.pipe.write_with(&buffer, tail, descriptor))?;
                self.outgoing().recycle(buffer);
                return self.write_rest().map(|()| sequence);
            }
            drop(outgoing);
            self.write_segment()?;
        }
    }

    /// Writes a frame whose trailing bytes go to the pipe from where they lie, and everything before it.
    fn write_bulk<M: Message>(&self, message: &M, numbered: impl FnOnce(u64)) -> Result<u64, LinkError> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let mut outgoing = self.open()?;
            if !outgoing.holds_lent() {
                let (sequence, tail) = outgoing.add_head(message);
                numbered(sequence);
                let buffer = outgoing.next_buffer();
                drop(outgoing);
                self.write(buffer, tail)?;
                return self.write_rest().map(|()| sequence);
            }
            drop(outgoing);
            self.write_segment()?;
        }
    }

    /// Whether the peer is on this machine, for certain.
    pub(crate) fn is_local(&self) -> bool {
        self.pipe.reach() == Reach::Machine
    }

    /// Ends a post: writes now, or leaves it to the flusher.
    #[inline]
    fn let_go(&self, mut outgoing: MutexGuard<'_, Outgoing>, leave: Leave) -> Result<(), LinkError> {
        if self.is_prompt && leave != Leave::WithOthers && self.give(&mut outgoing)? {
            return Ok(());
        }
        self.let_stand(outgoing, leave)
    }

    /// As `let_go`, for what the pipe has not taken at once.
    fn let_stand(&self, mut outgoing: MutexGuard<'_, Outgoing>, leave: Leave) -> Result<(), LinkError> {
        let unsent = outgoing.unsent();
        if self.is_prompt && leave == Leave::Soon && outgoing.flusher_runs && unsent < MOST_UNSENT {
            self.leave_to_others(outgoing);
            return Ok(());
        }
        if leave == Leave::Now || !outgoing.flusher_runs && leave == Leave::Soon || unsent >= MOST_UNSENT {
            drop(outgoing);
            return self.flush();
        }
        if unsent >= FLUSH_BYTES && !outgoing.holds_lent() {
            drop(outgoing);
            return self.flush_unless_busy();
        }
        if outgoing.is_quiet && leave == Leave::Soon {
            // The first of what may be many, and the device has nothing to do: the flusher would have to wake first.
            outgoing.is_quiet = false;
            let wakes = std::mem::take(&mut outgoing.flusher_sleeps);
            drop(outgoing);
            if wakes {
                self.posted.notify_one();
            }
            return self.flush_unless_busy();
        }
        Ok(())
    }

    pub(crate) fn flush(&self) -> Result<(), LinkError> {
        if self.is_prompt && self.give(&mut *self.open()?)? {
            return Ok(());
        }
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        while self.write_segment()? {}
        Ok(())
    }

    /// As `flush`, unless somebody else is writing: then what is posted leaves soon anyway.
    fn flush_unless_busy(&self) -> Result<(), LinkError> {
        let _writing = match self.writing.try_lock() {
            Ok(writing) => writing,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Ok(()),
        };
        while self.write_segment()? {}
        Ok(())
    }

    /// Gives everything to a pipe that takes it at once. False: it is to be written.
    #[inline]
    fn give(&self, outgoing: &mut Outgoing) -> Result<bool, LinkError> {
        match outgoing.give(|bytes| self.pipe.write_now(bytes)) {
            Ok(given) => Ok(given),
            Err(failure) => Err(broke(outgoing, failure)),
        }
    }

    /// What stands in line is written by who is writing already, else by the flusher.
    fn leave_to_others(&self, mut outgoing: MutexGuard<'_, Outgoing>) {
        let wakes = !outgoing.is_written && std::mem::take(&mut outgoing.flusher_sleeps);
        drop(outgoing);
        if wakes {
            self.posted.notify_one();
        }
    }

    /// Writes what came while something large was written, as whoever posted it expects, but nothing that is lent: for that
    /// the flusher is awake. The caller holds `writing`.
    fn write_rest(&self) -> Result<(), LinkError> {
        loop {
            let outgoing = self.open()?;
            if outgoing.is_empty() || outgoing.holds_lent() {
                return Ok(());
            }
            drop(outgoing);
            self.write_segment()?;
        }
    }

    /// Writes what is next in line. False: there is nothing. The caller holds `writing`.
    fn write_segment(&self) -> Result<bool, LinkError> {
        let Some(Segment { bytes, lent }) = self.open()?.next_segment() else { return Ok(false) };
        match lent {
            Some(lent) => {
                self.said(self.pipe.write_lent(&bytes, lent))?;
                self.outgoing().recycle(bytes);
            }
            None => self.write(bytes, &[])?,
        }
        Ok(true)
    }

    fn write(&self, buffer: Vec<u8>, tail: &[u8]) -> Result<(), LinkError> {
        self.said(self.pipe.write(&buffer, tail))?;
        self.outgoing().recycle(buffer);
        Ok(())
    }

    /// A write that failed ends the link.
    fn said<T>(&self, written: Result<T, Failure>) -> Result<T, LinkError> {
        written.map_err(|failure| {
            self.end(State::Broken(failure));
            LinkError::during("sending", failure)
        })
    }

    /// The link is over: what is lent goes back to its owners.
    fn end(&self, state: State) {
        let unsent = self.outgoing().end(state);
        self.posted.notify_all();
        drop(unsent);
    }
}

/// A thread died inside a frame: what is in the buffer may be half of one.
#[cold]
fn cut_off(poisoned: PoisonError<MutexGuard<'_, Outgoing>>) -> MutexGuard<'_, Outgoing> {
    let mut outgoing = poisoned.into_inner();
    outgoing.end(State::Broken(Errno::IO.into()));
    outgoing
}

/// The pipe has failed. What is lent goes back later, when nobody holds the lock.
#[cold]
fn broke(outgoing: &mut Outgoing, failure: Failure) -> LinkError {
    outgoing.state = State::Broken(failure);
    LinkError::during("sending", failure)
}

impl Drop for Owner {
    fn drop(&mut self) {
        // The link may be over; then there is nothing left to send.
        let _ = self.0.flush();
        self.0.end(State::Closed);
    }
}
