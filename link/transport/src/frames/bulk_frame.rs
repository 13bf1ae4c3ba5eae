//! A frame that carries many bytes, read in two steps: first its head, then its data, straight into their place.
//! In: a frame's head and the bytes behind it. Out: the head's numbers, and the data in memory of the caller's.
//! Unread data break the link: the reader cannot find the next frame behind them.

use floe_wire::FrameHeader;

use crate::error::LinkError;
use crate::frames::incoming::Incoming;

/// Bytes of a bulk frame's payload before its data: two 64-bit fields and the data's length.
pub(crate) const BULK_HEAD: usize = 20;
/// The offset of the length in the head.
const LENGTH_AT: usize = BULK_HEAD - 4;

/// A bulk frame with unread data. The caller reads all of them, or the link breaks.
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

    /// The kind of its message.
    #[must_use]
    pub fn kind(&self) -> u16 {
        self.kind
    }

    /// The peer's count of its frames.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Unread bytes of data.
    #[must_use]
    pub fn left(&self) -> usize {
        self.left
    }

    /// The payload without its data: the message decodes from it, with empty data.
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

    /// Leaves it, of which no data have been read, for [`crate::Receiver::put_back`].
    pub(crate) fn leave(mut self) {
        self.left = 0;
    }

    /// The payload's bytes before its data, as received.
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
    /// When fewer are left.
    pub fn read(&mut self, target: &mut [u8]) -> Result<(), LinkError> {
        assert!(target.len() <= self.left, "{} bytes of data are wanted, left are: {}", target.len(), self.left);
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
