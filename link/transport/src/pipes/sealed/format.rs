//! The bytes of a sealed connection's handshake.
//! In: nothing. Out: the lengths of its messages, and the first bytes.
//! It holds constants only.

/// The magic of a client that seals. Read as a frame's head it announces a longer payload than any frame has.
pub(crate) const MAGIC: [u8; 4] = *b"floe";
/// Bytes of the head of either handshake message: the magic, the version, the cipher of the records, zeros.
pub(super) const HEAD: usize = 8;
/// Bytes of either message of Noise: a public key, and the tag of an empty payload.
pub(super) const MESSAGE: usize = 48;
/// Bytes of the first message of either side.
pub(crate) const FIRST_BYTES: usize = HEAD + MESSAGE;
