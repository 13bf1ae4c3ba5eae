//! The bytes of a sealed connection's handshake.
//! In: nothing. Out: the lengths of its messages, and the first bytes.
//! It holds no state.

/// The magic of a client that seals. Read as a frame's head it announces a longer payload than any frame has.
pub(crate) const MAGIC: [u8; 4] = *b"floe";
/// Bytes of the head of either handshake message: the magic, the version, the cipher of the records, whether a token's
/// number follows, zero.
pub(super) const HEAD: usize = 8;
/// Bytes of either message of Noise: a public key, and the tag of an empty payload.
pub(super) const MESSAGE: usize = 48;
/// Bytes of the first message of either side, without a token's number.
pub(crate) const FIRST_BYTES: usize = HEAD + MESSAGE;
/// The place of the byte that says whether a token's number follows the head of a client's message.
pub(super) const NUMBERED: usize = 6;
/// Bytes of a token's number.
pub(super) const NUMBER: usize = 8;
/// The most bytes of a client's first message.
pub(crate) const MOST_FIRST_BYTES: usize = FIRST_BYTES + NUMBER;

/// Bytes of the first message of a client that seals, as far as its first bytes tell.
pub(crate) fn sealed_bytes(first: &[u8]) -> usize {
    if first.get(NUMBERED) == Some(&1) { MOST_FIRST_BYTES } else { FIRST_BYTES }
}
