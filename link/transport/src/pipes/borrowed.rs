//! Borrowed buffers: memory sent from where it lies.
//! In: memory of its owner. Out: its bytes, as often as a pipe writes them, and how a socket may send them.
//! It keeps nothing: dropping the borrowed buffer gives the memory back to its owner.

/// Memory that is sent from where it lies. Its owner must not change it before this is dropped. That happens when the
/// pipe has taken the bytes, or never will.
pub trait BorrowedBuffer: Send {
    /// Its length in bytes.
    fn len(&self) -> usize;
    /// Whether it is empty.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Calls `write` once with all bytes, where they lie. The kernel also reads them later, if
    /// [`BorrowedBuffer::send_mode`] allows zero-copy sends.
    fn with_bytes(&self, write: &mut dyn FnMut(&[u8]));
    /// How a socket sends it.
    fn send_mode(&self) -> SendMode {
        SendMode::Copy
    }
}

/// How a socket sends a borrowed buffer. A peer may acknowledge bytes before it reads them: of a zero-copy send it then
/// sees the later contents of those pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendMode {
    /// Copied: the peer never sees later contents.
    Copy,
    /// Zero-copy, while the connection lasts: unsent bytes do not leave after its end. For memory that the device
    /// reads, and whose pages nobody else gets while a socket holds them.
    Pages,
    /// Zero-copy: the later contents of the pages are for the same peer.
    PagesForGood,
}
