//! How a copy is cut for several connections. In: its bytes. Out: those of its transfers.

use std::ops::Range;

use floe_wire::{CHUNK_BYTES, PIECE_BYTES};

/// Bytes of data from which on they are worth several connections: with fewer there is nothing to share.
pub const STRIPED_FROM: usize = 2 * CHUNK_BYTES;
/// Bytes of a transfer: little is left to do when the last byte has come, and a command costs little beside so many.
const TRANSFER_BYTES: u64 = 4 * CHUNK_BYTES as u64;
/// Bytes of a copy from which on those in its middle are larger.
const LARGE_FROM: u64 = 16 << 20;
/// Bytes at either end of it that are not.
const ENDS_BYTES: u64 = 4 << 20;

/// How many bytes the next transfer of a copy of so many has, of which so many have been cut: few at the beginning, so that
/// something can be done with it soon, and at the end, so that little is left to do when the last byte has come.
#[must_use]
pub fn transfer_bytes(all: u64, done: u64) -> u64 {
    let left = all.saturating_sub(done);
    let is_large = all >= LARGE_FROM && done >= ENDS_BYTES;
    // The odd rest is the last transfer's, so that all of them begin at multiples of the small ones' size.
    let middle = left.saturating_sub(ENDS_BYTES) / TRANSFER_BYTES * TRANSFER_BYTES;
    if is_large && middle > 0 { middle.min(PIECE_BYTES as u64) } else { left.min(TRANSFER_BYTES) }
}

/// Where the transfers of a copy of so many bytes lie in it.
pub fn transfers(bytes: usize) -> impl Iterator<Item = Range<usize>> {
    let mut start = 0;
    std::iter::from_fn(move || {
        let next = usize::try_from(transfer_bytes(bytes as u64, start as u64)).ok().filter(|bytes| *bytes > 0)?;
        start += next;
        Some(start - next..start)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_cut_into_transfers_that_are_larger_in_the_middle_of_large_ones() {
        let cut = |all: usize| transfers(all).map(|place| place.len()).collect::<Vec<_>>();
        let mib = |sizes: &[usize]| sizes.iter().map(|size| size << 20).collect::<Vec<_>>();
        assert_eq!(cut(0), [0; 0]);
        assert_eq!(cut(700), [700]);
        assert_eq!(cut((16 << 20) - 1), [mib(&[1; 15]), vec![(1 << 20) - 1]].concat());
        assert_eq!(cut(16 << 20), mib(&[1, 1, 1, 1, 4, 4, 1, 1, 1, 1]));
        assert_eq!(cut((17 << 20) + 5), [mib(&[1, 1, 1, 1, 4, 4, 1, 1, 1, 1, 1]), vec![5]].concat());
        assert_eq!(cut((18 << 20) - 5), [mib(&[1, 1, 1, 1, 4, 4, 1, 1, 1, 1, 1]), vec![(1 << 20) - 5]].concat());
        assert_eq!(cut(23 << 20), mib(&[1, 1, 1, 1, 4, 4, 4, 3, 1, 1, 1, 1]));
        for all in [(16 << 20) + 1, (19 << 20) - 1, (64 << 20) + 77] {
            let sizes = cut(all);
            assert_eq!(sizes.iter().sum::<usize>(), all);
            assert!(sizes.iter().all(|size| *size <= PIECE_BYTES));
        }
    }
}
