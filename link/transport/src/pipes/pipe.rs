//! What a link is made of: bytes in both directions between two processes.
//! In: bytes in parts, and whoever waits for bytes. Out: the same bytes at the other end, in order, or the end of the pipe.
//! It knows no frames. A new transport is one file beside this: its pipe, and how one comes about.

use std::fmt;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Failure, LinkError};
use crate::pipes::borrowed::{BorrowedBuffer, SendMode};

/// Who may be at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// A process of this machine: descriptors can go with bytes, and a write costs little.
    Machine,
    /// Any machine.
    Network,
}

/// Where a descriptor goes that comes with bytes; `None`: descriptors are not taken, and the system closes them unseen.
pub type Slot<'a> = Option<&'a mut Option<OwnedFd>>;

/// Bytes in both directions. One thread at a time writes, one reads; any may wait and end it.
///
/// Whatever fails is final: no byte goes in the failed direction after it. Nothing the peer does may harm this process.
pub trait Pipe: fmt::Debug + Send + Sync {
    /// Gives all of `head`, then all of `tail`, to the peer; waits while the peer does not read.
    ///
    /// # Errors
    /// `PIPE` or `CONNRESET` where the peer is gone, `AGAIN` after the time of [`Pipe::limit_writes`], or the system's own.
    fn write(&self, head: &[u8], tail: &[u8]) -> Result<(), Failure>;

    /// As [`Pipe::write`], where `tail` stays as it is until the peer says that it has it, or the pipe is ended: nobody has to
    /// copy it. What is not in the peer's hands when the pipe is ended does not get there. A peer that has said so too early
    /// may see what is there later: only for data that [`BorrowedBuffer::send_mode`] says it of.
    ///
    /// # Errors
    /// As [`Pipe::write`].
    fn write_kept(&self, head: &[u8], tail: &[u8], send_mode: SendMode) -> Result<(), Failure> {
        let _ = send_mode;
        self.write(head, tail)
    }

    /// As [`Pipe::write`], with a descriptor that the peer can have as soon as it has the first byte. Only where the pipe
    /// reaches no further than this machine.
    ///
    /// # Errors
    /// As [`Pipe::write`].
    fn write_with(&self, head: &[u8], tail: &[u8], descriptor: BorrowedFd<'_>) -> Result<(), Failure>;

    /// Gives all of `bytes` to the peer where that is cheaper than leaving them to another thread. False: nothing was given.
    ///
    /// # Errors
    /// As [`Pipe::write`].
    fn write_now(&self, bytes: &[u8]) -> Result<bool, Failure> {
        let _ = bytes;
        Ok(false)
    }

    /// Whether [`Pipe::write_now`] does so as a rule: then nobody else is told that there is something to write.
    fn is_prompt(&self) -> bool {
        false
    }

    /// As [`Pipe::write`], with what is borrowed behind `head`. It goes back when it is not needed any more: when it has been
    /// written, or where the pipe may have to write it again, when the peer has it.
    ///
    /// # Errors
    /// As [`Pipe::write`].
    fn write_borrowed(&self, head: &[u8], borrowed: Box<dyn BorrowedBuffer>) -> Result<(), Failure> {
        let mut written = Ok(());
        borrowed.with_bytes(&mut |data| written = self.write(head, data));
        written
    }

    /// Limits the time one write may be stuck; `None`: for ever.
    ///
    /// # Errors
    /// The system's own.
    fn limit_writes(&self, time: Option<Duration>) -> Result<(), Failure>;

    /// Reads what is there. `None`: nothing yet; 0 bytes: the peer has ended the pipe and everything has been read.
    ///
    /// # Errors
    /// The system's own.
    fn read_now(&self, target: &mut [u8], slot: Slot<'_>) -> Result<Option<usize>, Failure>;

    /// As [`Pipe::read_now`], after sleeping until there is something. `None`: it was disturbed, and is called again.
    ///
    /// # Errors
    /// The system's own.
    fn read(&self, target: &mut [u8], slot: Slot<'_>) -> Result<Option<usize>, Failure>;

    /// Sleeps until there is something to read or the pipe has ended, or `time` is over: then false. True may be too early.
    ///
    /// # Errors
    /// The system's own.
    fn wait(&self, time: Option<Duration>) -> Result<bool, Failure>;

    /// Everything that was read is where it belongs, and the peer may be waiting to hear that.
    fn taken(&self) {}

    /// Whether what went through it is told from what another history would have sent: then large frames are salted.
    fn has_history(&self) -> bool {
        false
    }

    /// The descriptor that came last, where it does not come with bytes: it was there before the first byte of its frame.
    fn descriptor(&self) -> Option<OwnedFd> {
        None
    }

    /// Ends both directions at once: who waits here or at the peer's end hears it, after what has been written already.
    fn end(&self);

    /// Who may be at the other end.
    fn reach(&self) -> Reach;
}

/// What two sides that have met over a socket have agreed to go over to.
pub trait Upgrade {
    /// The pipe. `socket` is the one over which they met: it can tell when the peer is gone, and carries descriptors.
    ///
    /// # Errors
    /// [`LinkError`] where it does not come about; then nothing has changed.
    fn into_pipe(self, socket: Arc<OwnedFd>) -> Result<Arc<dyn Pipe>, LinkError>;
}
