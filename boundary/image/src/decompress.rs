//! The two compressions of fat binaries.
//! In go compressed bytes and the size they should expand to, out come exactly that many bytes.
//! It never allocates more than the limit, nor much more than the compressed bytes can really give.

use std::io::Read;

use ruzstd::decoding::StreamingDecoder;

use crate::error::EntryProblem;

/// The most an LZ4 block can expand: one byte of a run length stands for 255 bytes.
const LZ4_RATIO: u64 = 255;
/// Bytes that an LZ4 block of any size may hold beyond that ratio: the first sequence's short match.
const LZ4_SLACK: u64 = 64;
/// First allocation for a zstd frame; it grows with what really comes out, not with what the header says.
const ZSTD_FIRST: u64 = 1 << 20;

fn checked_size(size: u64, limit: u64) -> Result<usize, EntryProblem> {
    let too_large = EntryProblem::ExpandedSize { size, limit };
    if size > limit { Err(too_large) } else { usize::try_from(size).map_err(|_| too_large) }
}

fn right_size(bytes: Vec<u8>, expected: u64) -> Result<Vec<u8>, EntryProblem> {
    let actual = bytes.len() as u64;
    if actual == expected { Ok(bytes) } else { Err(EntryProblem::WrongSize { actual, expected }) }
}

/// Expands an LZ4 block without frame to `size` bytes.
pub(crate) fn lz4(compressed: &[u8], size: u64, limit: usize) -> Result<Vec<u8>, EntryProblem> {
    let possible = (compressed.len() as u64).saturating_mul(LZ4_RATIO).saturating_add(LZ4_SLACK);
    let room = checked_size(size, (limit as u64).min(possible))?;
    let bytes = lz4_flex::block::decompress(compressed, room)
        .map_err(|error| EntryProblem::Damaged { method: "LZ4", reason: error.to_string() })?;
    right_size(bytes, size)
}

/// Expands a zstd frame to `size` bytes.
pub(crate) fn zstd(compressed: &[u8], size: u64, limit: usize) -> Result<Vec<u8>, EntryProblem> {
    checked_size(size, limit as u64)?;
    let damaged = |reason: String| EntryProblem::Damaged { method: "zstd", reason };
    let mut decoder = StreamingDecoder::new(compressed).map_err(|error| damaged(error.to_string()))?;
    let mut bytes = Vec::with_capacity(usize::try_from(size.min(ZSTD_FIRST)).unwrap_or(0));
    // One byte more than it should have shows a frame that holds too much without expanding all of it.
    let mut bounded = decoder.by_ref().take(size.saturating_add(1));
    bounded.read_to_end(&mut bytes).map_err(|error| damaged(error.to_string()))?;
    let frame = decoder.into_frame_decoder();
    if let (Some(written), Some(computed)) = (frame.get_checksum_from_data(), frame.get_calculated_checksum())
        && bytes.len() as u64 == size
        && written != computed
    {
        return Err(damaged(format!("its checksum is {computed:#010x}, {written:#010x} is written")));
    }
    right_size(bytes, size)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame with one raw block, the letter a, and its checksum: the low half of its XXH64, 0xd24ec4f1a98c6e5b.
    const FRAME: [u8; 14] = [0x28, 0xb5, 0x2f, 0xfd, 0x24, 1, 9, 0, 0, b'a', 0x5b, 0x6e, 0x8c, 0xa9];

    #[test]
    fn zstd_checksum_is_compared_where_there_is_one() {
        assert_eq!(zstd(&FRAME, 1, 1).expect("a good frame"), b"a");
        let mut frame = FRAME;
        frame[9] = b'b';
        let error = zstd(&frame, 1, 1).expect_err("another letter").to_string();
        assert!(error.contains("its checksum is") && error.ends_with("0xa98c6e5b is written"), "{error}");
    }

    #[test]
    fn zstd_frame_with_more_than_it_says_is_refused() {
        let error = zstd(&FRAME, 0, 10).expect_err("one byte too many");
        assert!(matches!(error, EntryProblem::WrongSize { actual: 1, expected: 0 }), "{error}");
    }

    #[test]
    fn lz4_block_expands_to_its_size_only() {
        let block = [0x10, b'a'];
        assert_eq!(lz4(&block, 1, 10).expect("a good block"), b"a");
        assert!(matches!(lz4(&block, 2, 10), Err(EntryProblem::WrongSize { actual: 1, expected: 2 })));
        assert!(matches!(lz4(&block, 11, 10), Err(EntryProblem::ExpandedSize { size: 11, limit: 10 })));
        assert!(matches!(lz4(&block, 1 << 40, usize::MAX), Err(EntryProblem::ExpandedSize { .. })));
        assert!(matches!(lz4(&[0xff], 5, 10), Err(EntryProblem::Damaged { .. })));
    }
}
