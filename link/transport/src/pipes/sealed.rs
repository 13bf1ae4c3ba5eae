//! Plain TCP, sealed by the token: a handshake after Noise's pattern NNpsk0, then records under keys of this
//! connection. In: the secret that both sides share, a link on which nothing has been sent. Out: a link that nobody
//! else reads or changes, with a peer that knows the token. The client's first message proves the token: a stranger
//! costs the server two hashes.

mod direction;
mod exact;
mod format;
mod handshake;
mod pipe;
mod refusal;

pub use direction::SealedKeys;
pub(crate) use format::{MAGIC, MOST_FIRST_BYTES, sealed_bytes};
pub(crate) use handshake::{Agreed, Opening, accept, first_is_of, open};
pub(crate) use pipe::Sealed;
