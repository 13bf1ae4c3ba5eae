//! The bytes of a sealed connection's handshake.
//! In: nothing. Out: how long its messages are, and how the first one begins.
//! It holds constants only.

/// Bytes that tell a client that seals from others. As the head of a frame they would be a payload longer than any.
pub(crate) const MAGIC: [u8; 4] = *b"floe";
/// Bytes of the head of either handshake message: the magic, the version of this sealing, the cipher of the records, zeros.
pub(super) const HEAD: usize = 8;
/// Bytes of either message of Noise: a public key, and the tag of an empty payload.
pub(super) const MESSAGE: usize = 48;
/// Bytes of the first message of either side.
pub(crate) const FIRST_BYTES: usize = HEAD + MESSAGE;
