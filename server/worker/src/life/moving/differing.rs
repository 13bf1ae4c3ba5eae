//! The pieces of two copies of blocks that differ, by their hashes.
//! In: blocks, and the hashes of both copies' units in the blocks' order. Out: pieces of neighbouring units.

use floe_device::{HASH_UNIT, UnitHash};

/// The hashes, as they came behind a word.
pub(crate) fn hashes_of(body: &[u8]) -> Vec<UnitHash> {
    let units = body.chunks_exact(UnitHash::BYTES).filter_map(|hash| hash.try_into().ok());
    units.map(UnitHash::of_bytes).collect()
}

/// Pieces whose hashes differ: block, offset in it, bytes. Blocks come with their sizes, in the hashes' order.
pub(crate) fn differing(
    blocks: impl Iterator<Item = (u64, u64)>,
    ours: &[UnitHash],
    theirs: &[UnitHash],
) -> Vec<(u64, u64, u64)> {
    let mut pieces: Vec<(u64, u64, u64)> = Vec::new();
    let mut units = ours.iter().zip(theirs);
    for (block, bytes) in blocks {
        for offset in (0..bytes).step_by(usize::try_from(HASH_UNIT).unwrap_or(usize::MAX)) {
            if units.next().is_none_or(|(our, their)| our == their) {
                continue;
            }
            match pieces.last_mut() {
                Some((last, start, bytes)) if *last == block && *start + *bytes == offset => *bytes += HASH_UNIT,
                _ => pieces.push((block, offset, HASH_UNIT)),
            }
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_that_differ_are_one_piece_and_blocks_are_not_joined() {
        let hash = |number| UnitHash([number, 0]);
        let ours: Vec<_> = [1, 2, 3, 4, 5].map(hash).to_vec();
        let theirs: Vec<_> = [0, 0, 3, 0, 0].map(hash).to_vec();
        let blocks = [(7, 4 * HASH_UNIT), (9, HASH_UNIT)];
        let pieces = differing(blocks.into_iter(), &ours, &theirs);
        assert_eq!(pieces, [(7, 0, 2 * HASH_UNIT), (7, 3 * HASH_UNIT, HASH_UNIT), (9, 0, HASH_UNIT)]);
        assert_eq!(differing(blocks.into_iter(), &ours, &ours), []);
    }
}
