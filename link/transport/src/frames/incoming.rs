//! Bytes that have come and are not yet taken as frames.
//! In: a pipe's bytes, as many as are asked for and some ahead. Out: the same, in order, where they lie in a buffer that is used
//! again, or straight in memory of the caller's.
//! It knows no frames; behind data that were left unread it gives out nothing more.

use std::sync::Arc;

use crate::error::LinkError;
use crate::frames::reading::{Reading, Wait};
use crate::pipes::pipe::Pipe;

/// Whether bytes are there.
pub(crate) enum Have {
    Enough,
    Nothing,
    /// The peer closed before the first of them.
    Closed,
}

/// What has been read of a pipe.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) reading: Reading,
    buffer: Vec<u8>,
    /// The bytes of `buffer` that hold what is not yet taken.
    start: usize,
    end: usize,
}

impl Incoming {
    pub(crate) fn new(pipe: Arc<dyn Pipe>) -> Self {
        Self { reading: Reading::new(pipe), buffer: Vec::new(), start: 0, end: 0 }
    }

    /// What was read and not taken.
    #[inline]
    pub(crate) fn ahead(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Takes the next bytes, which are there.
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

    /// No byte beyond the last frame has been read.
    pub(crate) fn assert_nothing_ahead(&self) {
        assert_eq!(self.start, self.end, "bytes were read ahead");
    }

    /// Whoever reads says itself when what came is where it belongs.
    pub(crate) fn tell_nothing(&mut self) {
        self.reading.tells = false;
    }

    /// A large frame is where it belongs.
    pub(crate) fn tell_of_large(&self) {
        if self.reading.tells {
            self.reading.pipe.taken();
        }
    }

    /// Reads until `needed` bytes are there.
    #[inline]
    pub(crate) fn have(&mut self, needed: usize, ahead: usize, wait: Wait) -> Result<Have, LinkError> {
        if self.end - self.start >= needed {
            return Ok(Have::Enough);
        }
        let most = needed.max(ahead);
        self.make_room(most);
        while self.end - self.start < needed {
            // No further, though the buffer may have grown: what is read ahead of data is copied once more.
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

    /// Fills `target` with the bytes that come next, past any frame.
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

    /// Data of a bulk frame stay unread: nothing that follows can be told apart from them.
    pub(crate) fn break_off(&mut self) {
        self.reading.is_broken = true;
    }
}
