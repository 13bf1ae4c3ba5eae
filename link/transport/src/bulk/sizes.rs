//! Cuts a copy into transfers for several connections. In: its size. Out: the sizes of its transfers.

use std::ops::Range;

use floe_wire::{CHUNK_BYTES, PIECE_BYTES};

/// The smallest copy that uses several connections: a smaller one has nothing to share.
pub const STRIPED_FROM: usize = 2 * CHUNK_BYTES;
/// Bytes of a transfer: little work is left when its last byte arrives, and its command costs little by comparison.
const TRANSFER_BYTES: u64 = 4 * CHUNK_BYTES as u64;
/// The smallest copy whose middle transfers are larger.
const LARGE_FROM: u64 = 16 << 20;
/// Bytes at either end of such a copy that keep small transfers.
const ENDS_BYTES: u64 = 4 << 20;

/// The size of the next transfer of a copy, given the copy's size and the bytes already cut. Transfers are small at the
/// beginning, so that the peer can start early. They are small at the end, so that little work is left when the last
/// byte arrives.
#[must_use]
pub fn transfer_bytes(all: u64, done: u64) -> u64 {
    let left = all.saturating_sub(done);
    let is_large = all >= LARGE_FROM && done >= ENDS_BYTES;
    // The last transfer takes the odd rest, so all begin at multiples of the small size.
    let middle = left.saturating_sub(ENDS_BYTES) / TRANSFER_BYTES * TRANSFER_BYTES;
    if is_large && middle > 0 { middle.min(PIECE_BYTES as u64) } else { left.min(TRANSFER_BYTES) }
}

/// The ranges of a copy's transfers.
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
