//! In: sizes, alignments and wished addresses of `cuMemAddressReserve`. Out: ranges of free device addresses, exactly
//! at the wish where it is free.
//! It knows addresses only: what is mapped there is no concern of it.

use std::collections::BTreeMap;
use std::ops::Range;

/// The reserved ranges inside one window of device addresses.
pub(crate) struct Reservations {
    window: Range<u64>,
    taken: BTreeMap<u64, u64>,
}

impl Reservations {
    pub(crate) fn new(window: Range<u64>) -> Self {
        Self { window, taken: BTreeMap::new() }
    }

    fn is_free(&self, start: u64, length: u64) -> bool {
        let Some(end) = start.checked_add(length) else { return false };
        if start < self.window.start || end > self.window.end {
            return false;
        }
        self.taken.range(..end).next_back().is_none_or(|(&other, &size)| other + size <= start)
    }

    /// Reserves `length` bytes at `wish` if that is aligned and free, otherwise at the highest free address. Wishes
    /// start at the low end of windows, so other reservations stay out of their way. `align` is a power of two.
    pub(crate) fn reserve(&mut self, length: u64, align: u64, wish: u64) -> Option<u64> {
        let start = if wish != 0 && wish.is_multiple_of(align) && self.is_free(wish, length) {
            wish
        } else {
            self.highest(length, align)?
        };
        self.taken.insert(start, length);
        Some(start)
    }

    fn highest(&self, length: u64, align: u64) -> Option<u64> {
        let mut end = self.window.end;
        for (&other, &size) in self.taken.iter().rev() {
            if let Some(start) = Self::below(end, length, align)
                && start >= other + size
            {
                return Some(start);
            }
            end = other;
        }
        Self::below(end, length, align).filter(|start| *start >= self.window.start)
    }

    fn below(end: u64, length: u64, align: u64) -> Option<u64> {
        end.checked_sub(length).map(|start| start & !(align - 1))
    }

    /// Gives back a range that was reserved with exactly this start and length.
    pub(crate) fn release(&mut self, start: u64, length: u64) -> bool {
        if self.taken.get(&start) != Some(&length) {
            return false;
        }
        self.taken.remove(&start);
        true
    }

    /// The reserved range that holds all of `[start, start + length)`.
    pub(crate) fn holding(&self, start: u64, length: u64) -> Option<Range<u64>> {
        let end = start.checked_add(length)?;
        let (&first, &size) = self.taken.range(..=start).next_back()?;
        (end <= first + size).then_some(first..first + size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: u64 = 0x2000_0000_0000;
    const TIB: u64 = 1 << 40;
    const GRANULE: u64 = 2 << 20;

    fn reservations() -> Reservations {
        Reservations::new(BASE..BASE + 8 * TIB)
    }

    #[test]
    fn free_wish_is_honoured_exactly_up_to_eight_windows() {
        let mut reservations = reservations();
        for window in 0..8 {
            let wish = BASE + window * TIB;
            assert_eq!(reservations.reserve(TIB, GRANULE, wish), Some(wish));
        }
        assert_eq!(reservations.reserve(GRANULE, GRANULE, 0), None);
    }

    #[test]
    fn taken_wish_gets_another_place() {
        let mut reservations = reservations();
        assert_eq!(reservations.reserve(GRANULE, GRANULE, BASE), Some(BASE));
        let other = reservations.reserve(GRANULE, GRANULE, BASE).expect("room");
        assert_ne!(other, BASE);
    }

    #[test]
    fn without_a_wish_the_highest_place_is_taken() {
        let mut reservations = reservations();
        assert_eq!(reservations.reserve(GRANULE, GRANULE, 0), Some(BASE + 8 * TIB - GRANULE));
        assert_eq!(reservations.reserve(GRANULE, GRANULE, 0), Some(BASE + 8 * TIB - 2 * GRANULE));
    }

    #[test]
    fn gaps_are_found_again() {
        let mut reservations = reservations();
        let first = reservations.reserve(4 * GRANULE, GRANULE, 0).expect("room");
        let second = reservations.reserve(GRANULE, GRANULE, 0).expect("room");
        assert!(reservations.release(first, 4 * GRANULE));
        assert_eq!(reservations.reserve(2 * GRANULE, GRANULE, 0), Some(first + 2 * GRANULE));
        assert!(second < first);
    }

    #[test]
    fn only_the_exact_range_can_be_released() {
        let mut reservations = reservations();
        let start = reservations.reserve(2 * GRANULE, GRANULE, 0).expect("room");
        assert!(!reservations.release(start, GRANULE));
        assert!(!reservations.release(start + GRANULE, GRANULE));
        assert!(reservations.release(start, 2 * GRANULE));
    }

    #[test]
    fn range_across_two_reservations_is_held_by_none() {
        let mut reservations = reservations();
        reservations.reserve(GRANULE, GRANULE, BASE);
        reservations.reserve(GRANULE, GRANULE, BASE + GRANULE);
        assert!(reservations.holding(BASE, GRANULE).is_some());
        assert!(reservations.holding(BASE, 2 * GRANULE).is_none());
    }

    #[test]
    fn larger_alignment_is_kept() {
        let mut reservations = reservations();
        reservations.reserve(GRANULE, GRANULE, 0);
        let start = reservations.reserve(GRANULE, 1 << 30, 0).expect("room");
        assert_eq!(start % (1 << 30), 0);
    }
}
