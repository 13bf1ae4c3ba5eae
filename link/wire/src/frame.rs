//! The 16 bytes before every payload.
//! In: a header's fields or its bytes. Out: the other.
//! It refuses unknown flags, and lengths over a limit before anything is allocated for them.

use crate::error::{DecodeError, Problem};

/// Bytes of a frame's header.
pub const HEADER_BYTES: usize = 16;
/// The most bytes of bulk data one frame carries.
pub const PIECE_BYTES: usize = 4 << 20;
/// The fewest bytes of a transfer that one `Chunk` carries; only its last chunk may carry fewer.
pub const CHUNK_BYTES: usize = 256 << 10;
/// The most chunks of a transfer.
const CHUNKS: usize = 4;

/// The bytes of each `Chunk` of a transfer of so many bytes, except its last: [`CHUNK_BYTES`] for each begun four of
/// them in the transfer. A chunk costs its reader about 10 µs beside its bytes.
#[must_use]
pub const fn chunk_bytes(transfer: usize) -> usize {
    let times = transfer.div_ceil(CHUNKS * CHUNK_BYTES);
    CHUNK_BYTES * if times == 0 { 1 } else { times }
}

/// The bytes of each `Chunk` of a peer link's transfer of so many bytes, except its last: at least 32 of them, so that all
/// connections have some, of 1 to 4 MiB. Each costs both workers a copy by the device, with its event. With 1 MiB for all, a
/// copy of 1 GiB between two servers of one host (H200) had 0.75 of the rate.
#[must_use]
pub const fn peer_chunk_bytes(transfer: u64) -> u64 {
    match transfer >> 25 {
        0 | 1 => 1 << 20,
        2 | 3 => 2 << 20,
        _ => PIECE_BYTES as u64,
    }
}

/// The most bytes of a payload: a message piece and room for the fields beside it.
pub const PAYLOAD_LIMIT: u32 = (4 << 20) + (64 << 10);
/// The most bytes of a payload before a session is attached.
pub const SETUP_PAYLOAD_LIMIT: u32 = 64 << 10;

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// Bytes of the payload.
    pub length: u32,
    /// The kind of the payload's message.
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
