//! A frame that carries many bytes, taken apart: its head first, then its data, straight to where they belong.
//! In: a frame's head and what comes behind it. Out: the head's numbers, and the data into memory of the caller's.
//! Data left unread break the link: what follows them cannot be found any more.

use floe_wire::FrameHeader;

use crate::error::LinkError;
use crate::frames::incoming::Incoming;

/// Bytes of a bulk frame's payload before its data: two 64-bit fields and the data's length.
pub(crate) const BULK_HEAD: usize = 20;
/// Where in the head the length stands.
const LENGTH_AT: usize = BULK_HEAD - 4;

/// A bulk frame whose data are still to be read: all of them, or the link is over.
#[derive(Debug)]
pub struct Bulk<'a> {
    kind: u16,
    sequence: u64,
    head: [u8; BULK_HEAD],
    left: usize,
    incoming: &'a mut Incoming,
}

impl<'a> Bulk<'a> {
    pub(crate) fn new(header: FrameHeader, head: [u8; BULK_HEAD], data: usize, incoming: &'a mut Incoming) -> Self {
        Self { kind: header.kind, sequence: header.sequence, head, left: data, incoming }
    }

    /// Which message it is.
    #[must_use]
    pub fn kind(&self) -> u16 {
        self.kind
    }

    /// The peer's count of its frames.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Bytes of data that have not been read.
    #[must_use]
    pub fn left(&self) -> usize {
        self.left
    }

    /// The payload with its data left out: what the message decodes from, with empty data.
    ///
    /// # Errors
    /// [`LinkError::Frame`] where the length in the head is not that of the data.
    pub fn hollow(&self) -> Result<[u8; BULK_HEAD], LinkError> {
        let mut head = self.head;
        let said = u32::from_le_bytes(head[LENGTH_AT..].try_into().expect("four bytes"));
        head[LENGTH_AT..].fill(0);
        if usize::try_from(said).is_ok_and(|said| said == self.left) {
            return Ok(head);
        }
        Err(LinkError::Length { said, is: self.left })
    }

    /// The payload's bytes before its data, as they came.
    #[must_use]
    pub fn head(&self) -> &[u8] {
        &self.head
    }

    /// Fills `target` with the next data.
    ///
    /// # Errors
    /// [`LinkError`] when the connection breaks.
    ///
    /// # Panics
    /// When there are not as many left.
    pub fn read(&mut self, target: &mut [u8]) -> Result<(), LinkError> {
        assert!(target.len() <= self.left, "{} bytes of data are asked for, left are: {}", target.len(), self.left);
        self.incoming.read_data(target)?;
        self.left -= target.len();
        if self.left == 0 {
            self.incoming.tell_of_large();
        }
        Ok(())
    }
}

impl Drop for Bulk<'_> {
    fn drop(&mut self) {
        if self.left > 0 {
            self.incoming.break_off();
        }
    }
}
