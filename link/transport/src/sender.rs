//! The outgoing direction of a link.
//! In: messages, from any thread. Out: frames with a sequence, in the order in which they got it; small ones together.
//! Posting waits for the socket only when much is unsent. Bulk bytes are written from where they lie.

use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use floe_wire::{FrameHeader, HEADER_BYTES, Message, PAYLOAD_LIMIT};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, Shutdown, sendmsg};

use crate::error::LinkError;

/// Unsent bytes at which a poster writes them itself, which also holds it back when the peer is slow.
const FLUSH_BYTES: usize = 64 << 10;
/// Trailing bytes from which on they are written from where they lie instead of being copied first.
const BULK_BYTES: usize = 32 << 10;
/// A buffer larger than this after a bulk frame is given back.
const KEPT_BYTES: usize = 8 << 20;
/// How long the flusher lets frames gather while they keep coming.
const GATHER: Duration = Duration::from_micros(30);
/// Rounds without a frame after which the flusher sleeps until it is woken.
const IDLE_ROUNDS: u32 = 20;

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
struct Shared {
    socket: Arc<OwnedFd>,
    outgoing: Mutex<Outgoing>,
    /// Held while bytes go to the socket, always taken before `outgoing`; holds the buffer that is being written.
    writing: Mutex<Vec<u8>>,
    /// Wakes the flusher.
    posted: Arc<Condvar>,
}

#[derive(Debug)]
struct Outgoing {
    buffer: Vec<u8>,
    sent: u64,
    state: State,
    /// Whether posted frames leave by themselves.
    flusher_runs: bool,
    flusher_sleeps: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    Closed,
    Broken(Errno),
}

impl Sender {
    pub(crate) fn new(socket: Arc<OwnedFd>, sent: u64) -> Self {
        let outgoing =
            Outgoing { buffer: Vec::new(), sent, state: State::Open, flusher_runs: false, flusher_sleeps: false };
        let shared = Shared {
            socket,
            outgoing: Mutex::new(outgoing),
            writing: Mutex::new(Vec::new()),
            posted: Arc::new(Condvar::new()),
        };
        let shared = Arc::new(shared);
        Self { _owner: Arc::new(Owner(Arc::clone(&shared))), shared }
    }

    /// How many frames have got a sequence.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.shared.outgoing().sent
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
        assert!(M::TAIL, "{} has no trailing bytes to fill", M::NAME);
        let mut outgoing = self.shared.open()?;
        let start = outgoing.begin();
        let tail = message.encode_head(&mut outgoing.buffer);
        assert!(tail.is_empty(), "the bytes of {} are given twice", M::NAME);
        let filled = outgoing.buffer.len();
        let count = u32::try_from(length).expect("a piece is far below 4 GiB");
        outgoing.buffer[filled - 4..].copy_from_slice(&count.to_le_bytes());
        outgoing.buffer.resize(filled + length, 0);
        fill(&mut outgoing.buffer[filled..]);
        let sequence = outgoing.finish(start, M::KIND, 0);
        self.shared.let_go(outgoing, Leave::Soon)?;
        Ok(sequence)
    }

    /// Gives everything posted so far to the socket.
    ///
    /// # Errors
    /// [`LinkError`] when the link is over.
    pub fn flush(&self) -> Result<(), LinkError> {
        self.shared.flush(&[])
    }

    /// Ends the link in both directions at once; the receiver's wait ends too. What is unsent is lost: flush first.
    pub fn close(&self) {
        let mut outgoing = self.shared.outgoing();
        if outgoing.state == State::Open {
            outgoing.state = State::Closed;
        }
        drop(outgoing);
        self.shared.posted.notify_all();
        // A socket that is not connected any more is as closed as it gets.
        let _ = rustix::net::shutdown(&*self.shared.socket, Shutdown::Both);
    }

    pub(crate) fn start_flusher(&self) {
        let shared = Arc::downgrade(&self.shared);
        let posted = Arc::clone(&self.shared.posted);
        let spawned = std::thread::Builder::new().name("floe-flush".into()).spawn(move || flush_soon(&shared, &posted));
        // Without the thread every post leaves at once instead.
        self.shared.outgoing().flusher_runs = spawned.is_ok();
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Leave {
    Soon,
    Now,
}

impl Shared {
    fn outgoing(&self) -> MutexGuard<'_, Outgoing> {
        self.outgoing.lock().unwrap_or_else(|poisoned| {
            // A thread died inside a frame: what is in the buffer may be half of one.
            let mut outgoing = poisoned.into_inner();
            outgoing.state = State::Broken(Errno::IO);
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
        let start = outgoing.begin();
        let tail = message.encode_head(&mut outgoing.buffer);
        if tail.len() < BULK_BYTES {
            outgoing.buffer.extend_from_slice(tail);
            let sequence = outgoing.finish(start, M::KIND, 0);
            numbered(sequence);
            self.let_go(outgoing, leave)?;
            return Ok(sequence);
        }
        // The socket must be ours before the frame gets its place, for its tail must follow directly.
        outgoing.buffer.truncate(start);
        drop(outgoing);
        self.write_bulk(message, numbered)
    }

    fn write_bulk<M: Message>(&self, message: &M, numbered: impl FnOnce(u64)) -> Result<u64, LinkError> {
        let mut writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut outgoing = self.open()?;
        let start = outgoing.begin();
        let tail = message.encode_head(&mut outgoing.buffer);
        let sequence = outgoing.finish(start, M::KIND, tail.len());
        numbered(sequence);
        std::mem::swap(&mut *writing, &mut outgoing.buffer);
        drop(outgoing);
        self.write(&mut writing, tail)?;
        Ok(sequence)
    }

    /// Ends a post: writes now, or leaves it to the flusher.
    fn let_go(&self, mut outgoing: MutexGuard<'_, Outgoing>, leave: Leave) -> Result<(), LinkError> {
        if leave == Leave::Now || !outgoing.flusher_runs || outgoing.buffer.len() >= FLUSH_BYTES {
            drop(outgoing);
            return self.flush(&[]);
        }
        if outgoing.flusher_sleeps {
            outgoing.flusher_sleeps = false;
            drop(outgoing);
            self.posted.notify_one();
        }
        Ok(())
    }

    fn flush(&self, tail: &[u8]) -> Result<(), LinkError> {
        let mut writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut outgoing = self.open()?;
        std::mem::swap(&mut *writing, &mut outgoing.buffer);
        drop(outgoing);
        self.write(&mut writing, tail)
    }

    fn write(&self, buffer: &mut Vec<u8>, tail: &[u8]) -> Result<(), LinkError> {
        let result = write_all(&self.socket, buffer, tail);
        buffer.clear();
        if buffer.capacity() > KEPT_BYTES {
            *buffer = Vec::new();
        }
        result.map_err(|source| {
            let mut outgoing = self.outgoing();
            if outgoing.state == State::Open {
                outgoing.state = State::Broken(source);
            }
            LinkError::system("sending", source)
        })
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // The link may be over; then there is nothing left to send.
        let _ = self.0.flush(&[]);
        let mut outgoing = self.0.outgoing();
        if outgoing.state == State::Open {
            outgoing.state = State::Closed;
        }
        drop(outgoing);
        self.0.posted.notify_all();
    }
}

impl State {
    fn check(self) -> Result<(), LinkError> {
        match self {
            Self::Open => Ok(()),
            Self::Closed => Err(LinkError::Closed),
            Self::Broken(source) => Err(LinkError::system("sending", source)),
        }
    }
}

impl Outgoing {
    /// Leaves room for a header; returns where it goes.
    fn begin(&mut self) -> usize {
        let start = self.buffer.len();
        self.buffer.extend_from_slice(&[0; HEADER_BYTES]);
        start
    }

    /// Writes the header of the frame that begins at `start` and has `outside` more bytes than the buffer.
    fn finish(&mut self, start: usize, kind: u16, outside: usize) -> u64 {
        let length = self.buffer.len() - start - HEADER_BYTES + outside;
        let length = u32::try_from(length).ok().filter(|length| *length <= PAYLOAD_LIMIT);
        let length = length.expect("the sender cuts bulk data into pieces");
        self.sent += 1;
        let header = FrameHeader { length, kind, sequence: self.sent };
        self.buffer[start..start + HEADER_BYTES].copy_from_slice(&header.encode());
        self.sent
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

/// The flusher: sends what was posted a moment after it was posted, together with what came in that moment.
fn flush_soon(shared: &Weak<Shared>, posted: &Condvar) {
    let mut idle = 0;
    loop {
        let Some(shared) = shared.upgrade() else { return };
        let mut outgoing = shared.outgoing();
        if outgoing.state != State::Open {
            return;
        }
        if outgoing.buffer.is_empty() {
            idle += 1;
        } else {
            idle = 0;
            drop(outgoing);
            if shared.flush(&[]).is_err() {
                return;
            }
            drop(shared);
            std::thread::sleep(GATHER);
            continue;
        }
        if idle < IDLE_ROUNDS {
            drop(outgoing);
            drop(shared);
            std::thread::sleep(GATHER);
            continue;
        }
        outgoing.flusher_sleeps = true;
        while outgoing.flusher_sleeps && outgoing.state == State::Open {
            match posted.wait(outgoing) {
                Ok(woken) => outgoing = woken,
                Err(_) => return,
            }
        }
        idle = 0;
    }
}
