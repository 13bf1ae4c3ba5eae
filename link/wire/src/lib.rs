//! Messages to bytes and back; no sockets, no clock.
//! In: message values, or the bytes of a frame from an untrusted peer. Out: bytes, or message values that borrow from
//! them. It never panics on foreign bytes, and never allocates more than a small multiple of its input. It knows
//! nothing of CUDA beyond the tables' types.
#![forbid(unsafe_code)]

mod ends;
mod error;
mod frame;
#[allow(missing_docs, reason = "a field is explained by its message's sentence in the table")]
mod generated;
mod handler;
mod ids;
mod image;
mod message;
mod printable;
mod reader;
mod recipe;
mod runs;
#[cfg(test)]
mod sample;
mod version;

pub use error::{DecodeError, Problem};
pub use floe_address::DevicePtr;
pub use frame::{
    CHUNK_BYTES, FrameHeader, HEADER_BYTES, PAYLOAD_LIMIT, PIECE_BYTES, SETUP_PAYLOAD_LIMIT, chunk_bytes,
    peer_chunk_bytes,
};
pub use generated::*;
pub use handler::{Handler, Recipient};
pub use ids::{
    ArrayId, BlockId, CommId, EventId, FunctionId, GraphId, KernelId, LibraryId, PeerLinkId, SignalsId, StreamId,
    SurfaceId, TextureId, TicketId,
};
pub use image::{Entry, Failure, Image, Own};
pub use message::{Call, Class, Decode, Message};
pub use printable::{MOST_WORDS, is_plain, printable, printable_within};
pub use reader::{Field, Reader};
pub use recipe::{Key, KeyPart, Object, ObjectKind, Recipe};
pub use runs::changed_runs;
pub use version::{NEWEST_VERSION, OLDEST_VERSION, version};

/// `Hello.magic`: "FLOE" as bytes.
pub const MAGIC: u32 = 0x454f_4c46;
/// First address of the window of vGPU 0.
pub const WINDOW_BASE: u64 = 0x2000_0000_0000;
/// Bytes of each vGPU's window; vGPU `ordinal` has the one at `WINDOW_BASE + ordinal * WINDOW_BYTES`.
pub const WINDOW_BYTES: u64 = 3 << 40;
/// The number of windows: vGPU ordinals are below it.
pub const WINDOW_COUNT: u32 = 16;

#[cfg(test)]
mod tests;
