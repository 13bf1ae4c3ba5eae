//! Received bytes that are not yet taken as frames.
//! In: a pipe's bytes, as many as the caller wants and some ahead. Out: the same bytes in order, in a reused buffer or
//! straight in memory of the caller's. It knows no frames, and gives out nothing behind unread data.

use std::sync::Arc;

use crate::error::LinkError;
use crate::frames::reading::{Reading, Wait};
use crate::pipes::pipe::Pipe;

/// Whether bytes are there.
pub(crate) enum Have {
    Enough,
    Nothing,
    /// The peer closed before the first byte.
    Closed,
}

/// The bytes read from a pipe.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) reading: Reading,
    buffer: Vec<u8>,
    /// The untaken bytes of `buffer`.
    start: usize,
    end: usize,
}

impl Incoming {
    pub(crate) fn new(pipe: Arc<dyn Pipe>) -> Self {
        Self { reading: Reading::new(pipe), buffer: Vec::new(), start: 0, end: 0 }
    }

    /// Bytes that were read and not taken.
    #[inline]
    pub(crate) fn ahead(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Takes the next bytes, which have been read.
    #[inline]
    pub(crate) fn take(&mut self, bytes: usize) -> &[u8] {
        let from = self.start;
        self.start += bytes;
        &self.buffer[from..self.start]
    }

    /// Reads the `needed` bytes that begin a frame.
    #[inline]
    pub(crate) fn begin(&mut self, needed: usize, ahead: usize, wait: Wait) -> Result<Have, LinkError> {
        if self.reading.is_broken {
            return Err(LinkError::Closed);
        }
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        self.have(needed, ahead, wait)
    }

    /// The bytes that were taken last are untaken again: nothing was read since.
    pub(crate) fn put_back(&mut self, bytes: usize) {
        self.start -= bytes;
    }

    /// Begins with bytes that another process read ahead.
    pub(crate) fn recall(&mut self, ahead: &[u8]) {
        self.assert_nothing_ahead();
        self.buffer = ahead.to_vec();
        (self.start, self.end) = (0, ahead.len());
    }

    /// No byte beyond the last frame has been read.
    pub(crate) fn assert_nothing_ahead(&self) {
        assert_eq!(self.start, self.end, "bytes were read ahead");
    }

    /// Leaves acknowledgements to the reader.
    pub(crate) fn tell_nothing(&mut self) {
        self.reading.tells = false;
    }

    /// Acknowledges a large frame, which is in its place.
    pub(crate) fn tell_of_large(&self) {
        if self.reading.tells {
            self.reading.pipe.taken();
        }
    }

    /// Reads until `needed` bytes have arrived.
    #[inline]
    pub(crate) fn have(&mut self, needed: usize, ahead: usize, wait: Wait) -> Result<Have, LinkError> {
        if self.end - self.start >= needed {
            return Ok(Have::Enough);
        }
        let most = needed.max(ahead);
        self.make_room(most);
        self.reading.halt.begins_to_wait();
        let have = self.read_until(needed, most, wait)?;
        self.reading.halt.has_waited()?;
        Ok(have)
    }

    /// Reads up to `most` bytes, until `needed` have arrived.
    fn read_until(&mut self, needed: usize, most: usize, wait: Wait) -> Result<Have, LinkError> {
        while self.end - self.start < needed {
            // No further, though the buffer may have grown: data that are read ahead are copied once more.
            let until = self.start + most;
            let read = self.reading.read(&mut self.buffer[self.end..until], wait)?;
            match read {
                None => return Ok(Have::Nothing),
                Some(0) if self.start == self.end => return Ok(Have::Closed),
                Some(0) => return Err(LinkError::CutOff { have: self.end - self.start, needed }),
                Some(count) => self.end += count,
            }
        }
        Ok(Have::Enough)
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

    /// Fills `target` with the next bytes, regardless of frames.
    pub(crate) fn read_data(&mut self, target: &mut [u8]) -> Result<(), LinkError> {
        let buffered = target.len().min(self.end - self.start);
        let (first, mut rest) = target.split_at_mut(buffered);
        first.copy_from_slice(&self.buffer[self.start..self.start + buffered]);
        self.start += buffered;
        let needed = rest.len();
        while !rest.is_empty() {
            match self.reading.read(rest, Wait::Always)? {
                Some(0) | None => return Err(LinkError::CutOff { have: needed - rest.len(), needed }),
                Some(count) => rest = &mut rest[count..],
            }
        }
        Ok(())
    }

    /// Marks a bulk frame's data as left unread: nothing behind them can be read.
    pub(crate) fn break_off(&mut self) {
        self.reading.is_broken = true;
    }
}
