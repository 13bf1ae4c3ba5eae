//! The outgoing direction of a link.
//! In: messages, from any thread. Out: frames with a sequence, in its order; small ones in batches.
//! A post waits for the pipe only when much is unsent. Bulk data are written from where they lie.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use floe_wire::Message;

use crate::error::LinkError;
use crate::frames::flusher;
use crate::frames::outgoing::State;
use crate::frames::traffic::Traffic;
use crate::frames::writing::{Leave, Shared};
use crate::pipes::borrowed::BorrowedBuffer;
use crate::pipes::pipe::Pipe;

/// The outgoing direction of a link; threads share it by cloning.
#[derive(Clone, Debug)]
pub struct Sender {
    shared: Arc<Shared>,
    _owner: Arc<Owner>,
}

/// Ends the flusher when the last sender is dropped.
#[derive(Debug)]
struct Owner(Arc<Shared>);

impl Sender {
    pub(crate) fn new(pipe: Arc<dyn Pipe>, sent: u64) -> Self {
        let shared = Arc::new(Shared::new(pipe, sent));
        Self { _owner: Arc::new(Owner(Arc::clone(&shared))), shared }
    }

    /// The number of frames with a sequence.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.shared.outgoing().sent()
    }

    /// Counts the frames that are sent from here on, by all that share it.
    pub fn count(&self, traffic: &Arc<Traffic>) {
        self.shared.outgoing().count(traffic);
    }

    /// The number of frames with a sequence, all of which the pipe has. `None`: some are still on their way there, or the
    /// link is over.
    pub(crate) fn at_rest(&self) -> Option<u64> {
        let outgoing = self.shared.outgoing();
        let rests = outgoing.state == State::Open && outgoing.is_empty() && !outgoing.is_written;
        rests.then(|| outgoing.sent())
    }

    /// Goes on behind so many frames of another process.
    pub(crate) fn recall(&self, sent: u64) {
        self.shared.outgoing().recall(sent);
    }

    /// The pipe that it writes to.
    pub(crate) fn pipe(&self) -> Arc<dyn Pipe> {
        Arc::clone(&self.shared.pipe)
    }

    /// Queues a message and returns its sequence. It leaves soon by itself, ahead of everything posted later.
    ///
    /// # Errors
    /// [`LinkError`] when the link is over.
    pub fn post(&self, message: &impl Message) -> Result<u64, LinkError> {
        self.shared.submit(message, |_| (), Leave::Soon)
    }

    /// As [`Sender::post`], and on return the pipe has the message. `numbered` runs with the sequence before any byte
    /// leaves and before another frame gets one. So the caller can note who waits for the answer, in order.
    ///
    /// # Errors
    /// [`LinkError`] when the link is over; `numbered` may have run.
    pub fn send(&self, message: &impl Message, numbered: impl FnOnce(u64)) -> Result<u64, LinkError> {
        self.shared.submit(message, numbered, Leave::Now)
    }

    /// As [`Sender::post`], with `numbered` as in [`Sender::send`], leaving as the caller says.
    ///
    /// # Errors
    /// As [`Sender::send`].
    pub fn post_numbered(
        &self,
        message: &impl Message,
        numbered: impl FnOnce(u64),
        leave: Leave,
    ) -> Result<u64, LinkError> {
        self.shared.submit(message, numbered, leave)
    }

    /// As [`Sender::post`], but small messages may stay until the next [`Sender::flush`], which the caller owes.
    ///
    /// # Errors
    /// [`LinkError`] when the link is over.
    pub fn queue(&self, message: &impl Message) -> Result<u64, LinkError> {
        self.shared.submit(message, |_| (), Leave::WithOthers)
    }

    /// Posts a message whose `length` trailing `bytes` `fill` writes in place: `message` has them empty. `fill` gets a
    /// zeroed slice.
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

    /// Posts a message whose trailing `bytes` are borrowed: `message` has them empty. Does not wait until they are
    /// written.
    ///
    /// # Errors
    /// [`LinkError`] when the link is over.
    ///
    /// # Panics
    /// As [`Sender::post_filled`].
    pub fn post_borrowed(&self, message: &impl Message, borrowed: Box<dyn BorrowedBuffer>) -> Result<u64, LinkError> {
        let mut outgoing = self.shared.open()?;
        let sequence = outgoing.add_borrowed(message, borrowed);
        let flusher_runs = outgoing.flusher_runs;
        // Only the flusher writes data that may take long.
        (outgoing.flusher_sleeps, outgoing.is_quiet) = (false, false);
        drop(outgoing);
        if flusher_runs {
            self.shared.posted.notify_one();
        } else {
            self.shared.flush()?;
        }
        Ok(sequence)
    }

    /// As [`Sender::send`] of a message whose trailing bytes are borrowed: `message` has them empty. On return the pipe
    /// has the bytes, and may keep them until the peer has them.
    ///
    /// # Errors
    /// [`LinkError`] when the link is over.
    ///
    /// # Panics
    /// As [`Sender::post_filled`].
    pub fn send_borrowed(&self, message: &impl Message, borrowed: Box<dyn BorrowedBuffer>) -> Result<u64, LinkError> {
        let sequence = self.shared.open()?.add_borrowed(message, borrowed);
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
        // Without the thread every post writes at once.
        self.shared.outgoing().flusher_runs = flusher::start(&self.shared);
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // If the link is over, there is nothing left to send.
        let _ = self.0.flush();
        self.0.end(State::Closed);
    }
}
