//! Which ranges of a transfer buffer are in use.
//! In: lengths and releases, in any order. Out: offsets; ranges are given out round and round.
//! It touches no memory and waits for nobody.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

/// Ranges start at multiples of this, so that copies are aligned.
const ALIGNMENT: usize = 256;

/// Names a range that is in use. No other range of this process has it: a range may outlive its allocator, as data in
/// flight to a client do. Its release then frees nothing of another allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ticket(u64);

impl Ticket {
    fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// The ranges of a buffer, given out round and round.
#[derive(Debug)]
pub(crate) struct RangeAllocator {
    bytes: usize,
    /// The start of the next range, unless it does not fit before the end.
    head: usize,
    ranges: VecDeque<Range>,
}

#[derive(Debug)]
struct Range {
    ticket: Ticket,
    start: usize,
    released: bool,
}

impl RangeAllocator {
    pub(crate) fn new(bytes: usize) -> Self {
        Self { bytes, head: 0, ranges: VecDeque::new() }
    }

    /// A range of `length` bytes, or `None` while too much is in use (for ever, when it is longer than the buffer).
    pub(crate) fn allocate(&mut self, length: usize) -> Option<(Ticket, usize)> {
        let length = length.max(1).checked_next_multiple_of(ALIGNMENT)?;
        let start = self.place(length)?;
        let ticket = Ticket::next();
        self.ranges.push_back(Range { ticket, start, released: false });
        self.head = start + length;
        Some((ticket, start))
    }

    fn place(&self, length: usize) -> Option<usize> {
        let Some(oldest) = self.ranges.front().map(|range| range.start) else {
            return (length <= self.bytes).then_some(0);
        };
        if self.head > oldest {
            // Free: from the head to the end, and before the oldest.
            if self.bytes - self.head >= length { Some(self.head) } else { (oldest >= length).then_some(0) }
        } else {
            (oldest - self.head >= length).then_some(self.head)
        }
    }

    /// The range is not in use any more.
    pub(crate) fn release(&mut self, ticket: Ticket) {
        if let Some(range) = self.ranges.iter_mut().find(|range| range.ticket == ticket) {
            range.released = true;
        }
        while self.ranges.front().is_some_and(|range| range.released) {
            self.ranges.pop_front();
        }
    }

    /// Whether no range is in use.
    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Ranges in use.
    #[cfg(test)]
    fn in_use(&self) -> usize {
        self.ranges.iter().filter(|range| !range.released).count()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;

    #[test]
    fn ranges_follow_each_other_and_wrap() {
        let mut ranges = RangeAllocator::new(1024);
        let (first, at) = ranges.allocate(512).unwrap();
        assert_eq!(at, 0);
        assert_eq!(ranges.allocate(256).unwrap().1, 512);
        assert_eq!(ranges.allocate(512), None);
        ranges.release(first);
        assert_eq!(ranges.allocate(512).unwrap().1, 0);
        assert_eq!(ranges.allocate(512), None);
        assert_eq!(ranges.allocate(256), None, "the head has met the oldest range");
    }

    #[test]
    fn range_of_another_allocator_releases_nothing() {
        let (stale, _) = RangeAllocator::new(1024).allocate(512).unwrap();
        let mut ranges = RangeAllocator::new(1024);
        ranges.allocate(512).unwrap();
        ranges.release(stale);
        assert_eq!(ranges.in_use(), 1);
    }

    #[test]
    fn longer_than_the_buffer_is_never_given() {
        assert_eq!(RangeAllocator::new(1024).allocate(1025), None);
        assert_eq!(RangeAllocator::new(1024).allocate(usize::MAX), None);
        assert!(RangeAllocator::new(1024).allocate(1024).is_some());
    }

    #[test]
    fn releases_may_come_in_any_order() {
        let mut ranges = RangeAllocator::new(1024);
        let tickets: Vec<Ticket> = (0..4).map(|_| ranges.allocate(256).unwrap().0).collect();
        for ticket in tickets.iter().rev() {
            assert_eq!(ranges.allocate(256), None);
            ranges.release(*ticket);
        }
        assert_eq!(ranges.allocate(1024).unwrap().1, 0);
    }

    #[test]
    fn ranges_in_use_never_overlap() {
        let mut ranges = RangeAllocator::new(4096);
        let mut used: Vec<(Ticket, usize, usize)> = Vec::new();
        let mut state = 12345_usize;
        for _ in 0..10_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let length = (state >> 33) % 1500 + 1;
            if let Some((ticket, start)) = ranges.allocate(length) {
                assert!(start + length <= 4096);
                for (_, from, to) in &used {
                    assert!(start + length <= *from || start >= *to, "{start}+{length} overlaps {from}..{to}");
                }
                used.push((ticket, start, start + length));
            } else {
                assert!(!used.is_empty());
                let index = (state >> 20) % used.len();
                ranges.release(used.swap_remove(index).0);
            }
            assert_eq!(ranges.in_use(), used.len());
        }
    }
}
