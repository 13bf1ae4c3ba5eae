//! Two clocks, and times of one as times of the other. In: pairs of both, taken together. Out: a line through two pairs.
//! It reads no clock.

/// Both clocks at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pair {
    /// The one whose times are mapped.
    pub from: u64,
    /// The one that they are mapped to.
    pub to: u64,
}

/// Reads `to` between two readings of `from`, so many times, and takes the pair whose readings of `from` were nearest.
/// Where a reading of `to` fails it is left out.
pub fn pair(readings: usize, from: impl Fn() -> u64, to: impl Fn() -> Option<u64>) -> Option<Pair> {
    let read = |_| {
        let before = from();
        let to = to()?;
        let took = from().saturating_sub(before);
        Some((took, Pair { from: before + took / 2, to }))
    };
    (0..readings).filter_map(read).min_by_key(|(took, _)| *took).map(|(_, pair)| pair)
}

/// A line through two pairs.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    first: Pair,
    from: i128,
    to: i128,
}

impl Line {
    /// Through both; where they are of one moment, the clocks are taken to have one pace.
    #[must_use]
    pub fn through(first: Pair, last: Pair) -> Self {
        let (from, to) = (last.from.saturating_sub(first.from), last.to.saturating_sub(first.to));
        let (from, to) = if from == 0 { (1, 1) } else { (from.into(), to.into()) };
        Self { first, from, to }
    }

    /// A time of the one clock as the other has it.
    #[must_use]
    pub fn map(&self, from: u64) -> u64 {
        let after = i128::from(from) - i128::from(self.first.from);
        // A clock that lies may go as fast as it likes.
        let to = i128::from(self.first.to).saturating_add(after.saturating_mul(self.to) / self.from);
        u64::try_from(to.max(0)).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;

    #[test]
    fn times_are_mapped_to_a_clock_of_another_pace() {
        let first = Pair { from: 1_000, to: 50_000 };
        let line = Line::through(first, Pair { from: 2_000, to: 52_500 });
        assert_eq!([1_000, 1_500, 2_000].map(|time| line.map(time)), [50_000, 51_250, 52_500]);
        assert_eq!(line.map(900), 49_750, "before the first pair, too");
        assert_eq!(Line::through(first, first).map(1_007), 50_007);
        assert_eq!(Line::through(Pair::default(), Pair { from: 1, to: u64::MAX }).map(u64::MAX), u64::MAX);
    }

    #[test]
    fn the_pair_that_was_read_fastest_counts() {
        let now = std::cell::Cell::new(0);
        let from = || {
            now.set(now.get() + if now.get() < 40 { 10 } else { 1 });
            now.get()
        };
        let found = pair(5, from, || Some(7)).unwrap();
        assert!(found.to == 7 && found.from > 40, "the first readings took ten times as long: {found:?}");
        assert_eq!(pair(5, from, || None), None);
    }
}
