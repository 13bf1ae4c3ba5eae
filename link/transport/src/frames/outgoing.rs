//! Frames that have a sequence, but are not yet in the pipe.
//! In: messages. Out: segments in order: bytes of frames, each followed by a borrowed buffer or nothing. It writes
//! nothing and never waits.

use std::collections::VecDeque;
use std::sync::Arc;

use floe_wire::{FrameHeader, HEADER_BYTES, Message, PAYLOAD_LIMIT, Salt};

use crate::error::{Failure, LinkError};
use crate::frames::salt::{SALTED_FROM, salt};
use crate::frames::traffic::Traffic;
use crate::pipes::borrowed::BorrowedBuffer;

/// The fewest trailing bytes that are written from where they lie instead of being copied first.
pub(crate) const BULK_BYTES: usize = 32 << 10;
/// A larger buffer than this is freed instead of reused.
const KEPT_BYTES: usize = 1 << 20;
/// Buffers kept for reuse.
const KEPT_BUFFERS: usize = 4;

/// A part of the queued bytes.
pub(crate) struct Segment {
    pub(crate) bytes: Vec<u8>,
    /// The borrowed buffer behind the bytes.
    pub(crate) borrowed: Option<Box<dyn BorrowedBuffer>>,
}

/// Frames on their way to the pipe.
pub(crate) struct Outgoing {
    segments: VecDeque<Segment>,
    /// Frames behind all segments.
    buffer: Vec<u8>,
    /// Bytes in segments, without borrowed buffers.
    in_segments: usize,
    spare: Vec<Vec<u8>>,
    sent: u64,
    /// Where its bytes are counted.
    traffic: Option<Arc<Traffic>>,
    /// Whether a random word goes ahead of each large frame.
    is_salted: bool,
    pub(crate) state: State,
    /// Whether posted frames leave by themselves.
    pub(crate) flusher_runs: bool,
    pub(crate) flusher_sleeps: bool,
    /// A thread is writing earlier frames, and will also write those queued now.
    pub(crate) is_written: bool,
    /// The next poster writes its frame at once, unbatched: the device may be idle.
    pub(crate) is_quiet: bool,
}

/// Whether frames can still be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Open,
    Closed,
    Broken(Failure),
}

impl State {
    #[inline]
    pub(crate) fn check(&self) -> Result<(), LinkError> {
        if *self == Self::Open { Ok(()) } else { Err(self.refusal()) }
    }

    /// The error for a thread that wants to send.
    #[cold]
    fn refusal(&self) -> LinkError {
        match self {
            Self::Open | Self::Closed => LinkError::Closed,
            Self::Broken(failure) => LinkError::during("sending", *failure),
        }
    }
}

impl std::fmt::Debug for Outgoing {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Outgoing").field("sent", &self.sent).field("state", &self.state).finish_non_exhaustive()
    }
}

impl Outgoing {
    pub(crate) fn new(sent: u64, is_salted: bool) -> Self {
        Self {
            segments: VecDeque::new(),
            buffer: Vec::new(),
            in_segments: 0,
            spare: Vec::new(),
            sent,
            traffic: None,
            is_salted,
            state: State::Open,
            flusher_runs: false,
            flusher_sleeps: false,
            is_written: false,
            is_quiet: false,
        }
    }

    /// The number of frames with a sequence.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    /// Counts the frames that are added from here on.
    pub(crate) fn count(&mut self, traffic: &Arc<Traffic>) {
        self.traffic = Some(Arc::clone(traffic));
    }

    /// Goes on behind so many frames of another process.
    pub(crate) fn recall(&mut self, sent: u64) {
        self.sent = sent;
    }

    /// Bytes that are queued here.
    pub(crate) fn unsent(&self) -> usize {
        self.in_segments + self.buffer.len()
    }

    /// Whether nothing is queued.
    pub(crate) fn is_empty(&self) -> bool {
        self.segments.is_empty() && self.buffer.is_empty()
    }

    /// Whether borrowed buffers are queued.
    pub(crate) fn holds_lent(&self) -> bool {
        !self.segments.is_empty()
    }

    /// Appends a message, whose `length` trailing bytes `fill` appends; returns its sequence.
    pub(crate) fn add_filled<M: Message>(&mut self, message: &M, length: usize, fill: impl FnOnce(&mut [u8])) -> u64 {
        let start = self.begin_hollow(message, length);
        let filled = self.buffer.len();
        self.buffer.resize(filled + length, 0);
        fill(&mut self.buffer[filled..]);
        self.finish::<M>(start, 0)
    }

    /// Appends a message with fewer than `bulk` trailing bytes and returns its sequence; leaves any other alone.
    #[inline(always)]
    pub(crate) fn add_below<M: Message>(&mut self, message: &M, bulk: usize) -> Option<u64> {
        let start = self.begin();
        let tail = message.encode_head(&mut self.buffer);
        if tail.len() >= bulk {
            self.buffer.truncate(start);
            return None;
        }
        let start = self.salt(start, tail.len());
        self.buffer.extend_from_slice(tail);
        Some(self.finish::<M>(start, 0))
    }

    /// Appends a message without its trailing bytes, which the caller writes right behind the buffer.
    pub(crate) fn add_head<'m, M: Message>(&mut self, message: &'m M) -> (u64, &'m [u8]) {
        let start = self.begin();
        let tail = message.encode_head(&mut self.buffer);
        let start = self.salt(start, tail.len());
        (self.finish::<M>(start, tail.len()), tail)
    }

    /// Appends a message whose trailing bytes are borrowed.
    pub(crate) fn add_borrowed<M: Message>(&mut self, message: &M, borrowed: Box<dyn BorrowedBuffer>) -> u64 {
        let start = self.begin_hollow(message, borrowed.len());
        let sequence = self.finish::<M>(start, borrowed.len());
        let bytes = self.take_buffer();
        self.in_segments += bytes.len();
        self.segments.push_back(Segment { bytes, borrowed: Some(borrowed) });
        sequence
    }

    /// The next segment to send; `None`: nothing is queued.
    pub(crate) fn next_segment(&mut self) -> Option<Segment> {
        if let Some(segment) = self.segments.pop_front() {
            self.in_segments -= segment.bytes.len();
            self.is_written = true;
            return Some(segment);
        }
        (!self.buffer.is_empty()).then(|| Segment { bytes: self.next_buffer(), borrowed: None })
    }

    /// Takes the bytes behind all segments, to be written now.
    pub(crate) fn next_buffer(&mut self) -> Vec<u8> {
        self.is_written = true;
        self.take_buffer()
    }

    /// Gives everything to `write` at once. It does not where borrowed buffers are queued, another thread writes, or
    /// `write` refuses.
    #[inline]
    pub(crate) fn give(&mut self, write: impl FnOnce(&[u8]) -> Result<bool, Failure>) -> Result<bool, Failure> {
        let given = !self.is_written && self.segments.is_empty() && write(&self.buffer)?;
        if given {
            self.buffer.clear();
        }
        Ok(given)
    }

    fn take_buffer(&mut self) -> Vec<u8> {
        let spare = self.spare.pop().unwrap_or_default();
        std::mem::replace(&mut self.buffer, spare)
    }

    /// Takes back a written buffer, for reuse.
    pub(crate) fn recycle(&mut self, mut buffer: Vec<u8>) {
        self.is_written = false;
        if buffer.capacity() <= KEPT_BYTES && self.spare.len() < KEPT_BUFFERS {
            buffer.clear();
            self.spare.push(buffer);
        }
    }

    /// Ends everything, and returns the queued segments, to be dropped without a lock.
    pub(crate) fn end(&mut self, state: State) -> VecDeque<Segment> {
        if self.state == State::Open {
            self.state = state;
        }
        self.buffer = Vec::new();
        self.in_segments = 0;
        std::mem::take(&mut self.segments)
    }

    /// Leaves room for a header; returns its offset.
    #[inline]
    fn begin(&mut self) -> usize {
        let start = self.buffer.len();
        self.buffer.extend_from_slice(&[0; HEADER_BYTES]);
        start
    }

    /// Begins a message whose `length` trailing bytes the caller writes.
    fn begin_hollow<M: Message>(&mut self, message: &M, length: usize) -> usize {
        assert!(M::TAIL, "{} has no trailing bytes to fill", M::NAME);
        let start = self.begin();
        let tail = message.encode_head(&mut self.buffer);
        assert!(tail.is_empty(), "the bytes of {} are given twice", M::NAME);
        let count = u32::try_from(length).expect("a piece is far below 4 GiB");
        let end = self.buffer.len();
        self.buffer[end - 4..].copy_from_slice(&count.to_le_bytes());
        self.salt(start, length)
    }

    /// Puts a random word ahead of the frame at `start`, if it is large, and returns the frame's new start. The frame
    /// has `outside` more bytes than the buffer.
    #[inline]
    fn salt(&mut self, start: usize, outside: usize) -> usize {
        if !self.is_salted || self.buffer.len() - start - HEADER_BYTES + outside < SALTED_FROM {
            return start;
        }
        self.put_salt(start)
    }

    #[cold]
    fn put_salt(&mut self, start: usize) -> usize {
        let frame = self.buffer.split_off(start);
        self.begin();
        let tail = salt().encode_head(&mut self.buffer).len();
        self.finish::<Salt>(start, tail);
        let start = self.buffer.len();
        self.buffer.extend_from_slice(&frame);
        start
    }

    /// Writes the header of the frame at `start`, which has `outside` more bytes than the buffer.
    #[inline]
    fn finish<M: Message>(&mut self, start: usize, outside: usize) -> u64 {
        let length = self.buffer.len() - start - HEADER_BYTES + outside;
        if let Some(traffic) = &self.traffic {
            traffic.has_sent(HEADER_BYTES + length);
        }
        let length = u32::try_from(length).ok().filter(|length| *length <= PAYLOAD_LIMIT);
        let length = length.expect("the sender cuts bulk data into pieces");
        self.sent += 1;
        let header = FrameHeader { length, kind: M::KIND, sequence: self.sent };
        self.buffer[start..start + HEADER_BYTES].copy_from_slice(&header.encode());
        self.sent
    }
}
