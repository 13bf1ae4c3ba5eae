//! Host memory outside the reservation that kernels reach: ranges that their owner lends, at its own addresses.
//! In: ranges as they begin and end. Out: whether an access lies in one. Pages count whole, as a driver pins them.
//! Only where device addresses are the host's: the same number names the same byte.

use std::collections::BTreeMap;
use std::sync::RwLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A page of the host.
const PAGE: u64 = 4096;

/// The ranges of one address space.
#[derive(Default, Debug)]
pub(crate) struct Lent {
    /// Their number: kernels that stray where nothing is lent need no lock.
    count: AtomicUsize,
    /// Ends by starts; no two share a byte.
    ranges: RwLock<BTreeMap<u64, u64>>,
}

impl Lent {
    pub(super) fn add(&self, start: u64, end: u64) {
        let mut ranges = floe_lock::write(&self.ranges);
        ranges.insert(start, end);
        self.count.store(ranges.len(), Ordering::Release);
    }

    pub(super) fn remove(&self, start: u64) {
        let mut ranges = floe_lock::write(&self.ranges);
        ranges.remove(&start);
        self.count.store(ranges.len(), Ordering::Release);
    }

    /// Whether every byte is in the pages of one range.
    pub(crate) fn covers(&self, address: u64, bytes: u64) -> bool {
        if self.count.load(Ordering::Acquire) == 0 {
            return false;
        }
        let Some(end) = address.checked_add(bytes) else { return false };
        let ranges = floe_lock::read(&self.ranges);
        // The one that begins in this page or before it, and the one before that: two may share a page.
        ranges.range(..=address | (PAGE - 1)).rev().take(2).any(|(first, last)| {
            let is_before = first & !(PAGE - 1) <= address;
            is_before && last.checked_next_multiple_of(PAGE).is_none_or(|last| end <= last)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_a_range_are_covered_and_no_others() {
        let lent = Lent::default();
        assert!(!lent.covers(0x5000, 1));
        lent.add(0x5010, 0x5020);
        lent.add(0x5100, 0x7100);
        for (address, bytes) in [(0x5000, 4096), (0x5fff, 1), (0x5000, 0x3000), (0x7fff, 1)] {
            assert!(lent.covers(address, bytes), "{bytes} at {address:#x}");
        }
        for (address, bytes) in [(0x4fff, 1), (0x4fff, 2), (0x7fff, 2), (0x8000, 1), (u64::MAX, 1), (0x5000, u64::MAX)]
        {
            assert!(!lent.covers(address, bytes), "{bytes} at {address:#x}");
        }
        lent.remove(0x5100);
        assert!(lent.covers(0x5fff, 1) && !lent.covers(0x6000, 1));
        lent.remove(0x5010);
        assert!(!lent.covers(0x5010, 1));
    }
}
