//! Who writes what stands in line, and when.
//! In: frames that have their sequence. Out: their bytes at the pipe, in that order: at once, by who posts or flushes, or by the
//! flusher. Whoever writes holds `writing`, and nobody holds the line meanwhile.

use std::os::fd::BorrowedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};

use floe_wire::Message;
use rustix::io::Errno;

use crate::error::{Failure, LinkError};
use crate::frames::outgoing::{BULK_BYTES, Outgoing, Segment, State};
use crate::pipes::pipe::{Pipe, Reach};

/// Unsent bytes at which a poster writes them itself, if nobody else is writing.
const FLUSH_BYTES: usize = 64 << 10;
/// Unsent bytes at which a poster waits for the pipe: it holds back who posts faster than the peer reads.
const MOST_UNSENT: usize = 4 << 20;

/// When a frame leaves.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leave {
    /// With those that follow, or with a flush.
    WithOthers,
    /// By itself.
    Soon,
    /// Before the post returns.
    Now,
}

/// What the threads of one outgoing direction share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) pipe: Arc<dyn Pipe>,
    outgoing: Mutex<Outgoing>,
    /// Held while bytes go to the pipe, always taken before `outgoing`.
    writing: Mutex<()>,
    /// Wakes the flusher.
    pub(crate) posted: Condvar,
    /// Whether the pipe is.
    is_prompt: bool,
}

impl Shared {
    pub(crate) fn new(pipe: Arc<dyn Pipe>, sent: u64) -> Self {
        Self {
            is_prompt: pipe.is_prompt(),
            outgoing: Mutex::new(Outgoing::new(sent, pipe.has_history())),
            pipe,
            writing: Mutex::new(()),
            posted: Condvar::new(),
        }
    }

    #[inline]
    pub(crate) fn outgoing(&self) -> MutexGuard<'_, Outgoing> {
        self.outgoing.lock().unwrap_or_else(cut_off)
    }

    #[inline]
    pub(crate) fn open(&self) -> Result<MutexGuard<'_, Outgoing>, LinkError> {
        let outgoing = self.outgoing();
        outgoing.state.check()?;
        Ok(outgoing)
    }

    pub(crate) fn submit<M: Message>(
        &self,
        message: &M,
        numbered: impl FnOnce(u64),
        leave: Leave,
    ) -> Result<u64, LinkError> {
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
    pub(crate) fn write_with<M: Message>(
        &self,
        message: &M,
        descriptor: BorrowedFd<'_>,
        numbered: impl FnOnce(u64),
    ) -> Result<u64, LinkError> {
        let _writing = floe_lock::lock(&self.writing);
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
        let _writing = floe_lock::lock(&self.writing);
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
    pub(crate) fn let_go(&self, mut outgoing: MutexGuard<'_, Outgoing>, leave: Leave) -> Result<(), LinkError> {
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
            // Who sends now waits for an answer, and behind that the device has nothing to do.
            outgoing.is_quiet |= leave == Leave::Now && self.is_local();
            drop(outgoing);
            return self.flush();
        }
        let is_much = unsent >= FLUSH_BYTES && !outgoing.holds_lent();
        // The first of what may be many: the flusher would have to wake first.
        let is_first = outgoing.is_quiet && leave == Leave::Soon;
        if !is_much && !is_first {
            return Ok(());
        }
        // Who is writing may have looked for more already; then it is the flusher's.
        let wakes = std::mem::take(&mut outgoing.flusher_sleeps);
        outgoing.is_quiet = false;
        drop(outgoing);
        if wakes {
            self.posted.notify_one();
        }
        self.flush_unless_busy()
    }

    pub(crate) fn flush(&self) -> Result<(), LinkError> {
        if self.is_prompt && self.give(&mut *self.open()?)? {
            return Ok(());
        }
        let _writing = floe_lock::lock(&self.writing);
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

    /// Writes what came while something large was written, as whoever posted it expects, but nothing that is borrowed: for that
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
        let Some(Segment { bytes, borrowed }) = self.open()?.next_segment() else { return Ok(false) };
        match borrowed {
            Some(borrowed) => {
                self.said(self.pipe.write_borrowed(&bytes, borrowed))?;
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

    /// The link is over: what is borrowed goes back to its owners.
    pub(crate) fn end(&self, state: State) {
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

/// The pipe has failed. What is borrowed goes back later, when nobody holds the lock.
#[cold]
fn broke(outgoing: &mut Outgoing, failure: Failure) -> LinkError {
    outgoing.state = State::Broken(failure);
    LinkError::during("sending", failure)
}
