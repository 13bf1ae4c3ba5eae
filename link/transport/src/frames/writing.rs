//! Decides which thread writes queued frames, and when.
//! In: frames with a sequence. Out: their bytes at the pipe, in that order. The poster writes them at once, a flush
//! does, or the flusher later. The writing thread holds `writing`, and no thread holds `outgoing` meanwhile.

use std::os::fd::BorrowedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};

use floe_wire::Message;
use rustix::io::Errno;

use crate::error::{Failure, LinkError};
use crate::frames::outgoing::{BULK_BYTES, Outgoing, Segment, State};
use crate::pipes::pipe::{Pipe, Reach};

/// Unsent bytes at which a poster writes them itself, if no other thread is writing.
const FLUSH_BYTES: usize = 64 << 10;
/// Unsent bytes at which a poster waits for the pipe: back-pressure on a program that posts faster than its peer reads.
const MOST_UNSENT: usize = 4 << 20;

/// When a frame leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leave {
    /// With later frames, or with a flush.
    WithOthers,
    /// By itself.
    Soon,
    /// Before the post returns if nothing large is ahead of it and nobody writes. Else by itself, and the caller does not stand for a
    /// peer that reads slowly.
    Readily,
    /// Before the post returns.
    Now,
}

/// The state that the threads of one outgoing direction share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) pipe: Arc<dyn Pipe>,
    outgoing: Mutex<Outgoing>,
    /// Held while bytes go to the pipe, always taken before `outgoing`.
    writing: Mutex<()>,
    /// Wakes the flusher.
    pub(crate) posted: Condvar,
    /// Whether the pipe is closed.
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

    /// Writes everything posted so far, then a frame whose trailing bytes go to the pipe from where they lie.
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

    /// Ends a post: writes now, or leaves that to the flusher.
    #[inline]
    pub(crate) fn let_go(&self, mut outgoing: MutexGuard<'_, Outgoing>, leave: Leave) -> Result<(), LinkError> {
        if self.is_prompt && leave != Leave::WithOthers && self.give(&mut outgoing)? {
            return Ok(());
        }
        self.let_stand(outgoing, leave)
    }

    /// As `let_go`, for bytes that the pipe did not take at once.
    fn let_stand(&self, mut outgoing: MutexGuard<'_, Outgoing>, leave: Leave) -> Result<(), LinkError> {
        let unsent = outgoing.unsent();
        let is_patient = leave == Leave::Readily && outgoing.flusher_runs;
        if self.is_prompt && (is_patient || leave == Leave::Soon && outgoing.flusher_runs && unsent < MOST_UNSENT) {
            self.leave_to_others(outgoing);
            return Ok(());
        }
        let has_nobody = !outgoing.flusher_runs && leave != Leave::WithOthers;
        if leave == Leave::Now || has_nobody || unsent >= MOST_UNSENT && !is_patient {
            // This sender waits for an answer, and the device may be idle behind it.
            outgoing.is_quiet |= leave == Leave::Now && self.is_local();
            drop(outgoing);
            return self.flush();
        }
        let is_much = unsent >= FLUSH_BYTES && !outgoing.holds_lent() && !is_patient;
        // The first frame of perhaps many: the flusher would have to wake first.
        let is_first = outgoing.is_quiet && leave != Leave::WithOthers;
        let is_ready = is_patient && unsent < FLUSH_BYTES && !outgoing.holds_lent();
        if !is_much && !is_first && !is_ready {
            return Ok(());
        }
        // The current writer may have done its last check already; then the flusher writes it.
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

    /// As `flush`, unless another thread is writing: then the posted frames leave soon anyway.
    fn flush_unless_busy(&self) -> Result<(), LinkError> {
        let _writing = match self.writing.try_lock() {
            Ok(writing) => writing,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Ok(()),
        };
        while self.write_segment()? {}
        Ok(())
    }

    /// Gives everything to a pipe that takes it at once. False: it still has to be written.
    #[inline]
    fn give(&self, outgoing: &mut Outgoing) -> Result<bool, LinkError> {
        match outgoing.give(|bytes| self.pipe.write_now(bytes)) {
            Ok(given) => Ok(given),
            Err(failure) => Err(broke(outgoing, failure)),
        }
    }

    /// Leaves queued frames to the current writer, or to the flusher if there is none.
    fn leave_to_others(&self, mut outgoing: MutexGuard<'_, Outgoing>) {
        let wakes = !outgoing.is_written && std::mem::take(&mut outgoing.flusher_sleeps);
        drop(outgoing);
        if wakes {
            self.posted.notify_one();
        }
    }

    /// Writes frames that were queued during a large write, as their posters expect. It leaves borrowed buffers to the
    /// flusher, which is awake for them. The caller holds `writing`.
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

    /// Writes the next queued segment. False: there is none. The caller holds `writing`.
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

    /// Ends the link after a failed write.
    fn said<T>(&self, written: Result<T, Failure>) -> Result<T, LinkError> {
        written.map_err(|failure| {
            self.end(State::Broken(failure));
            LinkError::during("sending", failure)
        })
    }

    /// Ends the link and gives borrowed buffers back to their owners.
    pub(crate) fn end(&self, state: State) {
        let unsent = self.outgoing().end(state);
        self.posted.notify_all();
        drop(unsent);
    }
}

/// A thread died inside a frame: the buffer may hold half of one.
#[cold]
fn cut_off(poisoned: PoisonError<MutexGuard<'_, Outgoing>>) -> MutexGuard<'_, Outgoing> {
    let mut outgoing = poisoned.into_inner();
    outgoing.end(State::Broken(Errno::IO.into()));
    outgoing
}

/// The pipe has failed. Borrowed buffers are given back later, without the lock.
#[cold]
fn broke(outgoing: &mut Outgoing, failure: Failure) -> LinkError {
    outgoing.state = State::Broken(failure);
    LinkError::during("sending", failure)
}
