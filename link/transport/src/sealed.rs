//! Plain TCP, sealed by the token: a handshake after Noise's pattern NNpsk0, then records under keys of this connection.
//! In: the secret both sides share, a link on which nothing has been said. Out: a link whose bytes nobody else reads or
//! changes, and which only a peer that knows the token has.
//! The client's first message proves the token: a stranger costs the server two hashes.

mod direction;
mod handshake;
mod pipe;
mod refusal;

pub use direction::SealedKeys;
pub(crate) use handshake::{Agreed, Opening, accept, first_is_of, open};
pub(crate) use pipe::Sealed;
pub use refusal::Unsealed;

/// Bytes that tell a client that seals from others. As the head of a frame they would be a payload longer than any.
pub(crate) const MAGIC: [u8; 4] = *b"floe";
/// Bytes of the head of either handshake message: the magic, the version of this sealing, the cipher of the records, zeros.
const HEAD: usize = 8;
/// Bytes of either message of Noise: a public key, and the tag of an empty payload.
const MESSAGE: usize = 48;
/// Bytes of the first message of either side.
pub(crate) const FIRST_BYTES: usize = HEAD + MESSAGE;
