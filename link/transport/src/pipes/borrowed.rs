//! Data that are sent from where they lie.
//! In: memory of its owner. Out: its bytes, as often as they are to be written, and how a socket may be given them.
//! It keeps nothing: the owner has its memory back when the loan is dropped.

/// Data of somebody else's that are sent from where they lie. They stay as they are until this is dropped, which happens
/// when they have been given to the pipe, or never will be.
pub trait BorrowedBuffer: Send {
    /// How many bytes.
    fn len(&self) -> usize;
    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Calls `write` once with all of them, where they lie: what [`BorrowedBuffer::send_mode`] says goes as pages is read later, too.
    fn with_bytes(&self, write: &mut dyn FnMut(&[u8]));
    /// How a socket is given them.
    fn send_mode(&self) -> SendMode {
        SendMode::Copy
    }
}

/// How a socket is given what is borrowed. A peer that says that it has bytes and reads them later sees what is in the place of
/// pages then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendMode {
    /// Copied: what is in their place later is not the peer's.
    Copy,
    /// As the pages they lie in, while the connection lasts: what has not left when it is ended does not leave. For memory that
    /// is the device's to read, and whose pages nobody else has while a socket holds them.
    Pages,
    /// As the pages they lie in: what is in their place later is for the same peer.
    PagesForGood,
}
