//! Which addresses of a range are taken. Lengths, alignments and wishes come in, start addresses go out, first fit from the
//! bottom. It knows nothing of what the addresses hold, and an address it gave is not given again before it is released.

use std::collections::BTreeMap;
use std::ops::Range;

/// The taken parts of one address range.
#[derive(Debug)]
pub(crate) struct Addresses {
    whole: Range<u64>,
    /// Start to length.
    taken: BTreeMap<u64, u64>,
}

impl Addresses {
    /// A range with nothing taken.
    pub(crate) fn new(whole: Range<u64>) -> Self {
        Self { whole, taken: BTreeMap::new() }
    }

    /// Takes `length` bytes at a multiple of `alignment` (a power of two): at `wish` if that is free and inside, else
    /// at the first place that fits. `None` where nothing fits.
    pub(crate) fn reserve(&mut self, length: u64, alignment: u64, wish: Option<u64>) -> Option<u64> {
        if length == 0 || !alignment.is_power_of_two() {
            return None;
        }
        let start = wish
            .filter(|start| start % alignment == 0 && self.is_free(*start, length))
            .or_else(|| self.first_fit(length, alignment))?;
        self.taken.insert(start, length);
        Some(start)
    }

    /// Gives back what `reserve` gave; `false` where start or length differ from any such range.
    pub(crate) fn release(&mut self, start: u64, length: u64) -> bool {
        if self.taken.get(&start) != Some(&length) {
            return false;
        }
        self.taken.remove(&start);
        true
    }

    /// Whether anything is taken.
    pub(crate) fn is_used(&self) -> bool {
        !self.taken.is_empty()
    }

    /// The taken range that holds this address.
    pub(crate) fn find(&self, address: u64) -> Option<Range<u64>> {
        let (start, length) = self.taken.range(..=address).next_back()?;
        let range = *start..start + length;
        range.contains(&address).then_some(range)
    }

    fn is_free(&self, start: u64, length: u64) -> bool {
        let Some(end) = start.checked_add(length) else {
            return false;
        };
        if start < self.whole.start || end > self.whole.end {
            return false;
        }
        self.taken.range(..end).next_back().is_none_or(|(other, other_length)| other + other_length <= start)
    }

    fn first_fit(&self, length: u64, alignment: u64) -> Option<u64> {
        let mut candidate = self.whole.start.checked_next_multiple_of(alignment)?;
        for (start, taken) in &self.taken {
            if candidate.checked_add(length)? <= *start {
                break;
            }
            candidate = candidate.max((start + taken).checked_next_multiple_of(alignment)?);
        }
        (candidate.checked_add(length)? <= self.whole.end).then_some(candidate)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_wish_is_honoured_when_free_and_inside() {
        let mut addresses = Addresses::new(0x1000..0x9000);
        assert_eq!(addresses.reserve(0x1000, 0x1000, Some(0x4000)), Some(0x4000));
        assert_eq!(addresses.reserve(0x1000, 0x1000, Some(0x4000)), Some(0x1000));
        assert_eq!(addresses.reserve(0x1000, 0x1000, Some(0x10000)), Some(0x2000));
        assert_eq!(addresses.reserve(0x1000, 0x1000, Some(0x3800)), Some(0x3000));
    }

    #[test]
    fn a_full_range_gives_none() {
        let mut addresses = Addresses::new(0..0x2000);
        assert!(addresses.reserve(0x2000, 1, None).is_some());
        assert_eq!(addresses.reserve(1, 1, None), None);
    }

    #[test]
    fn only_exactly_what_was_taken_is_released() {
        let mut addresses = Addresses::new(0..0x4000);
        let start = addresses.reserve(0x1000, 1, None).unwrap();
        assert!(!addresses.release(start, 0x800));
        assert!(addresses.release(start, 0x1000));
        assert!(!addresses.release(start, 0x1000));
    }

    #[test]
    fn lengths_near_the_end_of_the_address_space_do_not_wrap() {
        let mut addresses = Addresses::new(0..u64::MAX);
        assert_eq!(addresses.reserve(u64::MAX, 1 << 20, Some(1 << 20)), Some(0));
        assert_eq!(addresses.reserve(u64::MAX, 1 << 20, None), None);
    }

    proptest! {
        #[test]
        fn ranges_never_overlap_and_are_aligned(
            steps in prop::collection::vec((any::<bool>(), 1u64..0x3000, 0u32..14, any::<prop::sample::Index>()), 1..200)
        ) {
            let mut addresses = Addresses::new(0x1000..0x20_000);
            let mut held: Vec<(u64, u64)> = Vec::new();
            for (take, length, shift, pick) in steps {
                if take || held.is_empty() {
                    if let Some(start) = addresses.reserve(length, 1 << shift, None) {
                        prop_assert_eq!(start % (1 << shift), 0);
                        prop_assert!(start >= 0x1000 && start + length <= 0x20_000);
                        for (other, other_length) in &held {
                            prop_assert!(start + length <= *other || other + other_length <= start);
                        }
                        held.push((start, length));
                    }
                } else {
                    let (start, length) = held.swap_remove(pick.index(held.len()));
                    prop_assert!(addresses.release(start, length));
                }
            }
        }
    }
}
