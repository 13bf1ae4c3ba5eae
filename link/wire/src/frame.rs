//! The 16 bytes before every payload.
//! In: a header's fields or its bytes. Out: the other.
//! It refuses flags it does not know and lengths over a limit before anything is allocated for them.

use crate::error::{DecodeError, Problem};

/// Bytes of a frame's header.
pub const HEADER_BYTES: usize = 16;
/// The most bytes of bulk data one frame carries.
pub const PIECE_BYTES: usize = 4 << 20;
/// The least bytes of a transfer that one `Chunk` carries, but for its last, which carries what is left.
pub const CHUNK_BYTES: usize = 256 << 10;
/// The chunks of a transfer, at most.
const CHUNKS: usize = 4;

/// The bytes that one `Chunk` of a transfer of so many bytes carries, but for its last: as many times [`CHUNK_BYTES`] as the
/// transfer has begun four of these. Each chunk costs its reader about 10 µs beside its bytes.
#[must_use]
pub const fn chunk_bytes(transfer: usize) -> usize {
    let times = transfer.div_ceil(CHUNKS * CHUNK_BYTES);
    CHUNK_BYTES * if times == 0 { 1 } else { times }
}

/// The most bytes of a payload: a piece of bulk data and room for the fields beside it.
pub const PAYLOAD_LIMIT: u32 = (4 << 20) + (64 << 10);
/// The most bytes of a payload before a session is attached.
pub const SETUP_PAYLOAD_LIMIT: u32 = 64 << 10;

/// What stands before a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// Bytes of the payload.
    pub length: u32,
    /// Which message the payload is.
    pub kind: u16,
    /// Counts the sender's frames, from 1.
    pub sequence: u64,
}

impl FrameHeader {
    /// The header's bytes.
    #[must_use]
    #[inline]
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0..4].copy_from_slice(&self.length.to_le_bytes());
        bytes[4..6].copy_from_slice(&self.kind.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.sequence.to_le_bytes());
        bytes
    }

    /// Reads a header whose payload may have at most `limit` bytes.
    ///
    /// # Errors
    /// [`DecodeError`] on unknown flags or a length over `limit`.
    pub fn decode(bytes: &[u8; HEADER_BYTES], limit: u32) -> Result<Self, DecodeError> {
        let [l0, l1, l2, l3, k0, k1, f0, f1, sequence @ ..] = *bytes;
        let length = u32::from_le_bytes([l0, l1, l2, l3]);
        let flags = u16::from_le_bytes([f0, f1]);
        if flags != 0 {
            return Err(header_error("flags", 6, Problem::Flags(flags)));
        }
        if length > limit {
            return Err(header_error("length", 0, Problem::Length { length, limit }));
        }
        Ok(Self { length, kind: u16::from_le_bytes([k0, k1]), sequence: u64::from_le_bytes(sequence) })
    }
}

fn header_error(field: &'static str, offset: usize, problem: Problem) -> DecodeError {
    DecodeError { message: "frame", field, offset, problem }
}
