//! The outgoing direction of a link.
//! In: messages, from any thread. Out: frames with a sequence, in the order in which they got it; small ones together.
//! Posting waits for the socket only when much is unsent. Bulk bytes are written from where they lie.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};

use floe_wire::Message;
use rustix::cmsg_space;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown, sendmsg, sockopt};

use crate::error::LinkError;
use crate::flusher;
use crate::outgoing::{Lent, Outgoing, Segment, State};

/// Unsent bytes at which a poster writes them itself, if nobody else is writing.
const FLUSH_BYTES: usize = 64 << 10;
/// Unsent bytes at which a poster waits for the socket: it holds back who posts faster than the peer reads.
const MOST_UNSENT: usize = 4 << 20;
/// Trailing bytes from which on they are written from where they lie instead of being copied first.
const BULK_BYTES: usize = 32 << 10;

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
    socket: Arc<OwnedFd>,
    outgoing: Mutex<Outgoing>,
    /// Held while bytes go to the socket, always taken before `outgoing`.
    writing: Mutex<()>,
    /// Wakes the flusher.
    pub(crate) posted: Condvar,
}

impl Sender {
    pub(crate) fn new(socket: Arc<OwnedFd>, sent: u64) -> Self {
        let shared = Shared {
            socket,
            outgoing: Mutex::new(Outgoing::new(sent)),
            writing: Mutex::new(()),
            posted: Condvar::new(),
        };
        let shared = Arc::new(shared);
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

    /// As [`Sender::post`], and on return the message has been given to the socket.
    /// `numbered` runs with the sequence before any byte leaves, so that who waits for the answer can be noted.
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

    /// Whether the link can carry descriptors: the peer's socket is of this machine.
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

    /// Gives everything posted so far to the socket.
    ///
    /// # Errors
    /// [`LinkError`] when the link is over.
    pub fn flush(&self) -> Result<(), LinkError> {
        self.shared.flush()
    }

    /// Ends the link in both directions at once; the receiver's wait ends too. What is unsent is lost: flush first.
    pub fn close(&self) {
        self.shared.end(State::Closed);
        // A socket that is not connected any more is as closed as it gets.
        let _ = rustix::net::shutdown(&*self.shared.socket, Shutdown::Both);
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
    pub(crate) fn outgoing(&self) -> MutexGuard<'_, Outgoing> {
        self.outgoing.lock().unwrap_or_else(|poisoned| {
            // A thread died inside a frame: what is in the buffer may be half of one.
            let mut outgoing = poisoned.into_inner();
            outgoing.end(State::Broken(Errno::IO));
            outgoing
        })
    }

    fn open(&self) -> Result<MutexGuard<'_, Outgoing>, LinkError> {
        let outgoing = self.outgoing();
        outgoing.state.check()?;
        Ok(outgoing)
    }

    fn submit<M: Message>(&self, message: &M, numbered: impl FnOnce(u64), leave: Leave) -> Result<u64, LinkError> {
        let mut outgoing = self.open()?;
        let Some(sequence) = outgoing.add_below(message, BULK_BYTES) else {
            // The socket must be ours before the frame gets its place, for its tail must follow directly.
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
                let buffer = outgoing.take_buffer();
                drop(outgoing);
                // The descriptor goes with the first byte, so the receiver has it when it has the frame.
                let sent = self.said(write_first(&self.socket, &buffer, descriptor))?;
                self.said(write_all(&self.socket, &buffer[sent..], tail))?;
                self.outgoing().recycle(buffer);
                return Ok(sequence);
            }
            drop(outgoing);
            self.write_segment()?;
        }
    }

    /// Writes a frame whose trailing bytes go to the socket from where they lie, and everything before it.
    fn write_bulk<M: Message>(&self, message: &M, numbered: impl FnOnce(u64)) -> Result<u64, LinkError> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let mut outgoing = self.open()?;
            if !outgoing.holds_lent() {
                let (sequence, tail) = outgoing.add_head(message);
                numbered(sequence);
                let buffer = outgoing.take_buffer();
                drop(outgoing);
                self.write(buffer, tail)?;
                return Ok(sequence);
            }
            drop(outgoing);
            self.write_segment()?;
        }
    }

    /// Whether the peer's socket is of this machine, and no network's.
    pub(crate) fn is_local(&self) -> bool {
        sockopt::socket_domain(&*self.socket) == Ok(AddressFamily::UNIX)
    }

    /// Ends a post: writes now, or leaves it to the flusher.
    fn let_go(&self, mut outgoing: MutexGuard<'_, Outgoing>, leave: Leave) -> Result<(), LinkError> {
        let unsent = outgoing.unsent();
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

    /// Writes what is next in line. False: there is nothing. The caller holds `writing`.
    fn write_segment(&self) -> Result<bool, LinkError> {
        let Some(Segment { bytes, lent }) = self.open()?.next_segment() else { return Ok(false) };
        let mut result = Ok(());
        let mut buffer = Some(bytes);
        if let Some(lent) = lent {
            lent.lend(&mut |data| result = self.write(buffer.take().unwrap_or_default(), data));
        }
        result?;
        buffer.map_or(Ok(()), |bytes| self.write(bytes, &[]))?;
        Ok(true)
    }

    fn write(&self, buffer: Vec<u8>, tail: &[u8]) -> Result<(), LinkError> {
        self.said(write_all(&self.socket, &buffer, tail))?;
        self.outgoing().recycle(buffer);
        Ok(())
    }

    /// A write that failed ends the link.
    fn said<T>(&self, written: Result<T, Errno>) -> Result<T, LinkError> {
        written.map_err(|source| {
            self.end(State::Broken(source));
            LinkError::system("sending", source)
        })
    }

    /// The link is over: what is lent goes back to its owners.
    fn end(&self, state: State) {
        let unsent = self.outgoing().end(state);
        self.posted.notify_all();
        drop(unsent);
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // The link may be over; then there is nothing left to send.
        let _ = self.0.flush();
        self.0.end(State::Closed);
    }
}

/// Writes the first of the bytes with a descriptor; how many.
fn write_first(socket: &OwnedFd, bytes: &[u8], descriptor: BorrowedFd<'_>) -> Result<usize, Errno> {
    let descriptors = [descriptor];
    let mut room = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut room);
    control.push(SendAncillaryMessage::ScmRights(&descriptors));
    loop {
        match sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL) {
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
}

fn write_all(socket: &OwnedFd, mut head: &[u8], mut tail: &[u8]) -> Result<(), Errno> {
    while !head.is_empty() || !tail.is_empty() {
        let parts = [IoSlice::new(head), IoSlice::new(tail)];
        // No SIGPIPE: the client's library lives in a program that may not expect one.
        match sendmsg(socket, &parts, &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL) {
            Ok(count) => {
                let from_head = count.min(head.len());
                head = &head[from_head..];
                tail = &tail[count - from_head..];
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
