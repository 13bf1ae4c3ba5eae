//! The pieces of two copies of blocks that differ, by their hashes.
//! In: blocks, and the hashes of both copies' units in the blocks' order. Out: pieces of neighbouring units.

use floe_device::{HASH_UNIT, HashKey, UnitHash};

use crate::life::moving::arrive::wanted::Refused;

/// The hashes of one copy by a key, until anything of it changes.
#[derive(Debug, Default)]
pub(crate) struct Hashed(Option<(HashKey, Vec<UnitHash>)>);

impl Hashed {
    pub(crate) fn keep(&mut self, key: HashKey, hashes: Vec<UnitHash>) {
        self.0 = Some((key, hashes));
    }

    /// The copy changes.
    pub(crate) fn forget(&mut self) {
        self.0 = None;
    }

    /// The hashes by this key, once.
    pub(crate) fn take(&mut self, key: HashKey) -> Option<Vec<UnitHash>> {
        self.0.take().filter(|(its, _)| *its == key).map(|(_, hashes)| hashes)
    }
}

/// The key of two points that another worker has drawn.
pub(crate) fn key_of(points: [u64; 2]) -> Result<HashKey, Refused> {
    HashKey::of_points(points).ok_or_else(|| "no points of a hash".into())
}

/// The hashes, as they came behind a word.
pub(crate) fn hashes_of(body: &[u8]) -> &[UnitHash] {
    body.as_chunks().0
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

/// Pieces (offset, bytes) of which one begins where the one before ends are one, also beyond the end of a block: one call for the
/// whole takes less time than one for each part.
pub(crate) fn joined(pieces: impl IntoIterator<Item = (u64, u64)>) -> Vec<(u64, u64)> {
    let mut all: Vec<(u64, u64)> = Vec::new();
    for (offset, bytes) in pieces {
        match all.last_mut() {
            Some((start, length)) if *start + *length == offset => *length += bytes,
            _ => all.push((offset, bytes)),
        }
    }
    all
}

/// Bytes between two pieces that are hashed together with them: that takes less time than another launch.
const NEAR: u64 = 16 << 20;

/// Ranges that hold all these pieces, from the first of near ones to the last: offset, bytes, and the number of its first unit.
/// `runs` are what there is: offset and bytes, in order, as the pieces' offsets are.
pub(crate) fn together(runs: &[(u64, u64)], pieces: &[(u64, u64)]) -> Vec<(u64, u64, u64)> {
    let (mut all, mut pieces, mut units) = (Vec::new(), pieces.iter().peekable(), 0);
    for &(start, bytes) in runs {
        let mut ranges: Vec<(u64, u64, u64)> = Vec::new();
        while let Some(&(offset, count)) = pieces.next_if(|(offset, _)| *offset < start + bytes) {
            match ranges.last_mut() {
                Some((from, length, _)) if offset - (*from + *length) <= NEAR => *length = offset + count - *from,
                _ => ranges.push((offset, count, units + (offset - start) / HASH_UNIT)),
            }
        }
        all.append(&mut ranges);
        units += bytes / HASH_UNIT;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_that_touch_are_copied_together() {
        assert_eq!(joined([(0, 4), (4, 4), (12, 4), (16, 8), (30, 2)]), [(0, 8), (12, 12), (30, 2)]);
        assert_eq!(joined([]), []);
    }

    #[test]
    fn near_pieces_of_a_run_are_hashed_together() {
        let runs = [(0, 4 * NEAR), (8 * NEAR, NEAR)];
        let unit = HASH_UNIT;
        let pieces = [(unit, unit), (3 * unit, unit), (3 * NEAR, 2 * unit), (8 * NEAR, unit), (9 * NEAR - unit, unit)];
        let units = |bytes: u64| bytes / HASH_UNIT;
        let expected = [(unit, 3 * unit, 1), (3 * NEAR, 2 * unit, units(3 * NEAR)), (8 * NEAR, NEAR, units(4 * NEAR))];
        assert_eq!(together(&runs, &pieces), expected);
        assert_eq!(together(&runs, &[]), []);
    }

    #[test]
    fn neighbours_that_differ_are_one_piece_and_blocks_are_not_joined() {
        let hash = |number| -> UnitHash { [number; 16] };
        let ours: Vec<_> = [1, 2, 3, 4, 5].map(hash).to_vec();
        let theirs: Vec<_> = [0, 0, 3, 0, 0].map(hash).to_vec();
        let blocks = [(7, 4 * HASH_UNIT), (9, HASH_UNIT)];
        let pieces = differing(blocks.into_iter(), &ours, &theirs);
        assert_eq!(pieces, [(7, 0, 2 * HASH_UNIT), (7, 3 * HASH_UNIT, HASH_UNIT), (9, 0, HASH_UNIT)]);
        assert_eq!(differing(blocks.into_iter(), &ours, &ours), []);
    }
}
