//! The incoming direction of a link.
//! In: the bytes of an untrusted peer. Out: frames in sequence, borrowed from a reused buffer. Of bulk frames, on
//! request, only the head: the caller reads the data straight into their place.
//! It refuses a frame over the limit before it allocates, and never skips a frame.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use floe_wire::{Decode as _, FrameHeader, HEADER_BYTES, PAYLOAD_LIMIT, Salt};

use crate::error::LinkError;
use crate::frames::bulk_frame::{BULK_HEAD, Bulk};
use crate::frames::halt::Halt;
use crate::frames::incoming::{Have, Incoming};
use crate::frames::outgoing::BULK_BYTES;
use crate::frames::reading::Wait;
use crate::frames::salt::is_salt;
use crate::frames::traffic::Traffic;
use crate::pipes::pipe::Pipe;
use crate::spin::{Expected, Spin};

/// The fewest bytes one read asks for, so that many small frames cost one system call.
const READ_AHEAD: usize = 256 << 10;
/// The same behind a bulk frame: another is likely, and bytes of it that are read ahead are copied once more.
const READ_AHEAD_OF_BULK: usize = 4 << 10;
/// The fewest payload bytes of a bulk frame.
const BULK_PAYLOAD: usize = 64 << 10;

/// A received frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The kind of its message.
    pub kind: u16,
    /// The peer's count of its frames, from 1.
    pub sequence: u64,
    /// The message's fields.
    pub payload: &'a [u8],
}

/// A received frame, when bulk frames are read in two steps.
#[derive(Debug)]
pub enum Arrival<'a> {
    /// A whole frame.
    Frame(Frame<'a>),
    /// The head of a bulk frame.
    Bulk(Bulk<'a>),
}

/// The result of a read without waiting.
#[derive(Debug)]
pub enum Now<'a> {
    /// A frame.
    Came(Arrival<'a>),
    /// No whole header yet.
    Nothing,
    /// The peer has closed the connection between two frames.
    Closed,
}

/// The incoming direction of a link; one thread at a time has it.
#[derive(Debug)]
pub struct Receiver {
    incoming: Incoming,
    received: u64,
    limit: u32,
    /// Whether the last frame was a bulk frame.
    after_bulk: bool,
    /// Bytes of the frame, or of the head of a bulk frame, that was given out last.
    last: usize,
}

/// A handle to wait until a link is readable, while another thread may read it.
#[derive(Clone, Debug)]
pub struct Readiness(Arc<dyn Pipe>);

impl Readiness {
    /// Sleeps until the link is readable or has ended; it may return too early.
    pub fn wait(&self) {
        // The next read reports a failed wait.
        let _ = self.0.wait(None);
    }

    /// Wakes the link's reader, if it sleeps there and the pipe can wake it. One that is about to sleep may do so: wake it
    /// again.
    pub fn wake(&self) {
        self.0.wake_readers();
    }

    /// Acknowledges everything that was read: it is in its place, and the peer may be waiting.
    pub(crate) fn tell_peer(&self) {
        self.0.taken();
    }
}

/// Whether a header has arrived.
enum Header {
    Is(FrameHeader),
    Nothing,
    Closed,
}

impl Receiver {
    pub(crate) fn new(pipe: Arc<dyn Pipe>, received: u64) -> Self {
        Self { incoming: Incoming::new(pipe), received, limit: PAYLOAD_LIMIT, after_bulk: false, last: 0 }
    }

    /// The way to ask its reader to stop at a frame's border. What was read and not given out stays, so that the reader
    /// may go on.
    #[must_use]
    pub fn halt(&self) -> Halt {
        self.incoming.reading.halt.clone()
    }

    /// Takes back the frame that was given out last: the next read gives it out again. Of a bulk frame no data have been
    /// read, and its head was left by [`Bulk::leave`].
    pub(crate) fn put_back(&mut self) {
        self.incoming.put_back(std::mem::take(&mut self.last));
        self.received -= 1;
    }

    /// Bytes that came behind the frames that were given out.
    pub(crate) fn ahead(&self) -> &[u8] {
        self.incoming.ahead()
    }

    /// Goes on where another process stopped.
    pub(crate) fn recall(&mut self, received: u64, ahead: &[u8], descriptor: Option<OwnedFd>) {
        self.received = received;
        self.incoming.recall(ahead);
        self.incoming.reading.descriptor = descriptor;
    }

    /// A duplicate of the descriptor that came and was not taken.
    pub(crate) fn duplicate_descriptor(&self) -> std::io::Result<Option<OwnedFd>> {
        self.incoming.reading.descriptor.as_ref().map(OwnedFd::try_clone).transpose()
    }

    /// Reads another pipe from here on. No byte beyond the last frame has been read.
    pub(crate) fn go_over(&mut self, pipe: Arc<dyn Pipe>) {
        self.assert_nothing_ahead();
        self.incoming.reading.pipe = pipe;
    }

    /// No byte beyond the last frame has been read.
    pub(crate) fn assert_nothing_ahead(&self) {
        self.incoming.assert_nothing_ahead();
    }

    /// Leaves acknowledgements to the reader.
    pub(crate) fn tell_nothing(&mut self) {
        self.incoming.tell_nothing();
    }

    /// The number of received frames.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Limits the payload of frames, in bytes.
    pub fn limit_payload(&mut self, bytes: u32) {
        self.limit = bytes;
    }

    /// Counts what comes from here on.
    pub fn count(&mut self, traffic: &Arc<Traffic>) {
        self.incoming.reading.traffic = Some(Arc::clone(traffic));
    }

    /// Sets how long a wait for bytes spins before it sleeps.
    pub fn set_spin(&mut self, spin: Spin) {
        self.incoming.reading.spin = spin;
    }

    /// Makes waits for bytes patient while `expected` says that some are expected.
    pub fn set_expected(&mut self, expected: Expected) {
        self.incoming.reading.expected = expected;
    }

    /// Sets whether it takes one descriptor that comes with a frame: the kernel closes all others.
    pub fn take_descriptors(&mut self, take: bool) {
        self.incoming.reading.wants_descriptors = take;
        if !take {
            self.incoming.reading.descriptor = None;
        }
    }

    /// The descriptor that came last, with the frame read last or one before it.
    pub fn descriptor(&mut self) -> Option<OwnedFd> {
        self.incoming.reading.take_descriptor()
    }

    /// Waits for the next frame; `None` when the peer has closed the connection between two frames.
    ///
    /// # Errors
    /// [`LinkError`] when the connection broke or the bytes are no frame.
    #[allow(clippy::should_implement_trait, reason = "a frame borrows from the receiver; an iterator's item cannot")]
    pub fn next(&mut self) -> Result<Option<Frame<'_>>, LinkError> {
        self.next_frame(READ_AHEAD, Wait::Always)
    }

    /// As [`Receiver::next`], but reads no byte beyond the frame, and waits only until `deadline`.
    ///
    /// # Errors
    /// As [`Receiver::next`], and [`LinkError::TimedOut`].
    pub fn next_exactly(&mut self, deadline: Option<Instant>) -> Result<Option<Frame<'_>>, LinkError> {
        self.next_frame(0, deadline.map_or(Wait::Always, Wait::Until))
    }

    /// As [`Receiver::next`], but large frames of the kind `bulk` come as their head: two 64-bit fields and the length
    /// of the data, which the caller reads.
    ///
    /// # Errors
    /// As [`Receiver::next`].
    pub fn next_arrival(&mut self, bulk: u16) -> Result<Option<Arrival<'_>>, LinkError> {
        match self.arrival(bulk, Wait::Always)? {
            Now::Came(arrival) => Ok(Some(arrival)),
            Now::Nothing | Now::Closed => Ok(None),
        }
    }

    /// As [`Receiver::next_arrival`], without waiting for a frame to begin. It waits for the rest of a frame.
    ///
    /// # Errors
    /// As [`Receiver::next`].
    pub fn arrival_now(&mut self, bulk: u16) -> Result<Now<'_>, LinkError> {
        self.arrival(bulk, Wait::Never)
    }

    /// Whether a whole frame has been read ahead: no wait on the pipe reports it.
    #[must_use]
    pub fn has_whole_frame(&self) -> bool {
        let bytes = self.incoming.ahead();
        let Some(length) = bytes.first_chunk::<4>() else { return false };
        bytes.len() >= HEADER_BYTES && bytes.len() - HEADER_BYTES >= size(u32::from_le_bytes(*length))
    }

    /// Whether bytes have been taken from the system and not given: those of a whole frame here, or any in the pipe. No
    /// wait that is under way reports them.
    #[must_use]
    pub fn is_ahead(&self) -> bool {
        self.has_whole_frame() || self.incoming.reading.pipe.is_ahead()
    }

    /// A handle on which any thread can wait until the link is readable.
    #[must_use]
    pub fn readiness(&self) -> Readiness {
        Readiness(Arc::clone(&self.incoming.reading.pipe))
    }

    fn next_frame(&mut self, ahead: usize, wait: Wait) -> Result<Option<Frame<'_>>, LinkError> {
        match self.header(ahead, wait)? {
            Header::Is(header) => self.whole(header, ahead, wait).map(Some),
            Header::Nothing | Header::Closed => Ok(None),
        }
    }

    fn arrival(&mut self, bulk: u16, wait: Wait) -> Result<Now<'_>, LinkError> {
        let ahead = if self.after_bulk { READ_AHEAD_OF_BULK } else { READ_AHEAD };
        let header = match self.header(ahead, wait)? {
            Header::Is(header) => header,
            Header::Nothing => return Ok(Now::Nothing),
            Header::Closed => return Ok(Now::Closed),
        };
        self.after_bulk = header.kind == bulk && size(header.length) >= BULK_PAYLOAD;
        if self.after_bulk {
            self.head_of_bulk(header, ahead).map(|bulk| Now::Came(Arrival::Bulk(bulk)))
        } else {
            self.whole(header, ahead, Wait::Always).map(|frame| Now::Came(Arrival::Frame(frame)))
        }
    }

    /// The header of the next frame, past salt frames. It stays in the buffer until the frame is taken.
    fn header(&mut self, ahead: usize, wait: Wait) -> Result<Header, LinkError> {
        loop {
            match self.any_header(ahead, wait)? {
                Header::Is(header) if is_salt(header.kind) && self.incoming.reading.pipe.has_history() => {
                    Salt::decode(self.whole(header, ahead, wait)?.payload)?;
                }
                header => return Ok(header),
            }
        }
    }

    fn any_header(&mut self, ahead: usize, wait: Wait) -> Result<Header, LinkError> {
        self.incoming.reading.halt.check()?;
        match self.incoming.begin(HEADER_BYTES, ahead, wait)? {
            Have::Enough => {}
            Have::Nothing => return Ok(Header::Nothing),
            Have::Closed => return Ok(Header::Closed),
        }
        let bytes = self.incoming.ahead()[..HEADER_BYTES].try_into().expect("a header's bytes");
        let header = FrameHeader::decode(bytes, self.limit)?;
        let expected = self.received + 1;
        if header.sequence != expected {
            return Err(LinkError::Sequence { expected, got: header.sequence });
        }
        Ok(Header::Is(header))
    }

    fn whole(&mut self, header: FrameHeader, ahead: usize, wait: Wait) -> Result<Frame<'_>, LinkError> {
        let length = size(header.length);
        self.incoming.have(HEADER_BYTES + length, ahead, wait)?;
        self.received = header.sequence;
        if length >= BULK_BYTES {
            self.incoming.tell_of_large();
        }
        self.last = HEADER_BYTES + length;
        let payload = &self.incoming.take(HEADER_BYTES + length)[HEADER_BYTES..];
        Ok(Frame { kind: header.kind, sequence: header.sequence, payload })
    }

    fn head_of_bulk(&mut self, header: FrameHeader, ahead: usize) -> Result<Bulk<'_>, LinkError> {
        self.incoming.have(HEADER_BYTES + BULK_HEAD, ahead, Wait::Always)?;
        self.last = HEADER_BYTES + BULK_HEAD;
        let head = self.incoming.take(HEADER_BYTES + BULK_HEAD)[HEADER_BYTES..].try_into().expect("a head's bytes");
        self.received = header.sequence;
        Ok(Bulk::new(header, head, size(header.length) - BULK_HEAD, &mut self.incoming))
    }
}

fn size(bytes: u32) -> usize {
    usize::try_from(bytes).expect("addresses have at least 32 bits")
}

#[cfg(test)]
mod tests;
