//! The incoming direction of a link.
//! In: the bytes of a peer that is not trusted. Out: frames in sequence, borrowed from a buffer that is used again.
//! It refuses a frame over the limit before it makes room for it, and it never skips a frame.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use floe_wire::{FrameHeader, HEADER_BYTES, PAYLOAD_LIMIT};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::error::LinkError;

/// How many bytes one read asks for at least, so that many small frames cost one system call.
const READ_AHEAD: usize = 256 << 10;

/// What came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Which message it is.
    pub kind: u16,
    /// The peer's count of its frames, from 1.
    pub sequence: u64,
    /// The message's fields.
    pub payload: &'a [u8],
}

/// The incoming direction of a link; one thread has it.
#[derive(Debug)]
pub struct Receiver {
    socket: Arc<OwnedFd>,
    received: u64,
    limit: u32,
    buffer: Vec<u8>,
    /// The bytes of `buffer` that hold what is not yet returned.
    start: usize,
    end: usize,
}

impl Receiver {
    pub(crate) fn new(socket: Arc<OwnedFd>, received: u64) -> Self {
        Self { socket, received, limit: PAYLOAD_LIMIT, buffer: Vec::new(), start: 0, end: 0 }
    }

    /// How many frames came in.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Limits the payload of frames, in bytes.
    pub fn limit_payload(&mut self, bytes: u32) {
        self.limit = bytes;
    }

    /// Waits for the next frame; `None` when the peer has closed the connection between two frames.
    ///
    /// # Errors
    /// [`LinkError`] when the connection broke or the bytes are no frame.
    #[allow(clippy::should_implement_trait, reason = "a frame borrows from the receiver; an iterator's item cannot")]
    pub fn next(&mut self) -> Result<Option<Frame<'_>>, LinkError> {
        self.next_frame(READ_AHEAD, None)
    }

    /// As [`Receiver::next`], but reads no byte beyond the frame and waits until `deadline` only.
    ///
    /// # Errors
    /// As [`Receiver::next`], and [`LinkError::TimedOut`].
    pub fn next_exactly(&mut self, deadline: Option<Instant>) -> Result<Option<Frame<'_>>, LinkError> {
        self.next_frame(0, deadline)
    }

    fn next_frame(&mut self, ahead: usize, deadline: Option<Instant>) -> Result<Option<Frame<'_>>, LinkError> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        if !self.have(HEADER_BYTES, ahead, deadline)? {
            return Ok(None);
        }
        let bytes = self.buffer[self.start..self.start + HEADER_BYTES].try_into().expect("a header's bytes");
        let header = FrameHeader::decode(bytes, self.limit)?;
        let expected = self.received + 1;
        if header.sequence != expected {
            return Err(LinkError::Sequence { expected, got: header.sequence });
        }
        let length = usize::try_from(header.length).expect("addresses have at least 32 bits");
        if !self.have(HEADER_BYTES + length, ahead, deadline)? {
            return Ok(None);
        }
        let payload = self.start + HEADER_BYTES;
        self.start = payload + length;
        self.received = expected;
        Ok(Some(Frame { kind: header.kind, sequence: expected, payload: &self.buffer[payload..payload + length] }))
    }

    /// Reads until `needed` bytes are there. False: the peer closed before the first of them.
    fn have(&mut self, needed: usize, ahead: usize, deadline: Option<Instant>) -> Result<bool, LinkError> {
        if self.end - self.start >= needed {
            return Ok(true);
        }
        self.make_room(needed.max(ahead));
        while self.end - self.start < needed {
            let until = if ahead == 0 { self.start + needed } else { self.buffer.len() };
            match self.read(until, deadline)? {
                0 if self.start == self.end => return Ok(false),
                0 => return Err(LinkError::CutOff { have: self.end - self.start, needed }),
                count => self.end += count,
            }
        }
        Ok(true)
    }

    fn make_room(&mut self, bytes: usize) {
        if self.buffer.len() - self.start < bytes {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            if self.buffer.len() < bytes {
                self.buffer.resize(bytes, 0);
            }
        }
    }

    fn read(&mut self, until: usize, deadline: Option<Instant>) -> Result<usize, LinkError> {
        loop {
            if let Some(deadline) = deadline {
                self.wait(deadline)?;
            }
            match rustix::io::read(&*self.socket, &mut self.buffer[self.end..until]) {
                Ok(count) => return Ok(count),
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(source) => return Err(LinkError::system("receiving", source)),
            }
        }
    }

    fn wait(&self, deadline: Instant) -> Result<(), LinkError> {
        let began = Instant::now();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let mut fds = [PollFd::new(&*self.socket, PollFlags::IN)];
            match poll(&mut fds, Some(&timespec(left))) {
                Ok(0) if left.is_zero() => {
                    let after = deadline.saturating_duration_since(began);
                    return Err(LinkError::TimedOut { what: "waiting for the peer's next frame".into(), after });
                }
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => return Ok(()),
                Err(source) => return Err(LinkError::system("waiting for the peer", source)),
            }
        }
    }
}

fn timespec(duration: Duration) -> Timespec {
    Timespec::try_from(duration).unwrap_or(Timespec { tv_sec: i64::from(i32::MAX), tv_nsec: 0 })
}
