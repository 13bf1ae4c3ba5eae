//! The interface of all pipes: bytes in both directions between two processes.
//! In: bytes in parts, and threads that wait for bytes. Out: the same bytes at the other end, in order, or the end of
//! the pipe.
//! It knows no frames. A new transport is one file beside this: its pipe, and how to make one.

use std::fmt;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Failure, LinkError};
use crate::pipes::borrowed::{BorrowedBuffer, SendMode};

/// The peers that may be at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// A process of this machine: descriptors can go with bytes, and a write costs little.
    Machine,
    /// Any machine.
    Network,
}

/// The place for a descriptor that arrives with bytes. `None`: descriptors are not taken, and the kernel closes them.
pub type Slot<'a> = Option<&'a mut Option<OwnedFd>>;

/// Bytes in both directions. One thread at a time writes, one reads; any may wait and end it.
///
/// A failure is final: no byte follows in its direction. Nothing the peer does may harm this process.
pub trait Pipe: fmt::Debug + Send + Sync {
    /// Gives all of `head`, then all of `tail`, to the peer; waits while the peer does not read.
    ///
    /// # Errors
    /// `PIPE` or `CONNRESET` where the peer is gone, `AGAIN` after the time of [`Pipe::limit_writes`], or the system's
    /// own.
    fn write(&self, head: &[u8], tail: &[u8]) -> Result<(), Failure>;

    /// As [`Pipe::write`], but may send `tail` zero-copy: it stays unchanged until the peer acknowledges it, or the
    /// pipe ends. Bytes that have not arrived when the pipe ends never arrive. A peer that acknowledges too early may
    /// see later contents, so `tail` must be a buffer whose [`BorrowedBuffer::send_mode`] allows that.
    ///
    /// # Errors
    /// As [`Pipe::write`].
    fn write_kept(&self, head: &[u8], tail: &[u8], send_mode: SendMode) -> Result<(), Failure> {
        let _ = send_mode;
        self.write(head, tail)
    }

    /// As [`Pipe::write`], with a descriptor that the peer can take as soon as it has the first byte. Only for pipes
    /// within this machine.
    ///
    /// # Errors
    /// As [`Pipe::write`].
    fn write_with(&self, head: &[u8], tail: &[u8], descriptor: BorrowedFd<'_>) -> Result<(), Failure>;

    /// Gives all of `bytes` to the peer where that is cheaper than leaving them to another thread. False: nothing was
    /// sent.
    ///
    /// # Errors
    /// As [`Pipe::write`].
    fn write_now(&self, bytes: &[u8]) -> Result<bool, Failure> {
        let _ = bytes;
        Ok(false)
    }

    /// Whether [`Pipe::write_now`] usually succeeds: then no other thread is woken to write.
    fn is_prompt(&self) -> bool {
        false
    }

    /// As [`Pipe::write`], with a borrowed buffer behind `head`. It is given back when it has been written. Where the
    /// pipe may have to write it again, it is given back when the peer has it.
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

    /// As [`Pipe::read_now`], after sleeping until there is something. `None`: it was interrupted; call it again.
    ///
    /// # Errors
    /// The system's own.
    fn read(&self, target: &mut [u8], slot: Slot<'_>) -> Result<Option<usize>, Failure>;

    /// Sleeps until there is something to read, or the pipe has ended. False: `time` is over. True may be too early.
    ///
    /// # Errors
    /// The system's own.
    fn wait(&self, time: Option<Duration>) -> Result<bool, Failure>;

    /// Whether bytes have been taken from the system that no read has given yet. A wait that began before them does not
    /// report them.
    fn is_ahead(&self) -> bool {
        false
    }

    /// Acknowledges everything that was read: it is in its place, and the peer may be waiting.
    fn taken(&self) {}

    /// Whether a history digest covers its bytes: then large frames are salted.
    fn has_history(&self) -> bool {
        false
    }

    /// The last descriptor, where descriptors travel beside the bytes: it arrived before the first byte of its frame.
    fn descriptor(&self) -> Option<OwnedFd> {
        None
    }

    /// Ends both directions at once. All waits here and at the peer's end return, after the bytes already written.
    fn end(&self);

    /// Wakes the threads of this side that sleep in a read or a wait: they return without bytes, too early. Where that
    /// cannot be done, nothing happens.
    fn wake_readers(&self) {}

    /// The pipe as one that another process may continue, if it is.
    fn movable(&self) -> Option<&dyn Movable> {
        None
    }

    /// Who may be at the other end.
    fn reach(&self) -> Reach;
}

/// A pipe in memory of this machine, which another process may continue in this one's place.
pub trait Movable {
    /// What that process needs, at any time.
    ///
    /// # Errors
    /// The system's own, where it has no room for descriptors.
    fn parts(&self) -> std::io::Result<RingParts>;

    /// Writes nothing from here on: writers wait. Its end is this process's own matter meanwhile.
    fn hold(&self);

    /// The bytes that this side has written, and those that it has read.
    fn indices(&self) -> [u64; 2];

    /// Writes again, if no other process has used this side meanwhile; whether it does.
    fn let_write(&self) -> bool;
}

/// The descriptors that rings live by, for another process.
#[derive(Debug)]
pub struct RingParts {
    /// Their memory.
    pub memory: OwnedFd,
    /// Bytes of a ring in each direction.
    pub bytes: u64,
    /// Whether this side made the memory.
    pub offered: bool,
    /// The socket over which the two sides met: it shows when the peer is gone, and carries descriptors.
    pub socket: OwnedFd,
}

/// The transport to which two sides that met over a socket have agreed to switch.
pub trait Upgrade {
    /// Makes the pipe. `socket` is the one over which they met: it shows when the peer is gone, and carries
    /// descriptors.
    ///
    /// # Errors
    /// [`LinkError`] where the pipe cannot be made; then nothing has changed.
    fn into_pipe(self, socket: Arc<OwnedFd>) -> Result<Arc<dyn Pipe>, LinkError>;
}
