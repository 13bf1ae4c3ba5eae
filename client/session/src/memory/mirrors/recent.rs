//! Pages of a mirror that were written lately. What the kernel says was written comes in, with the time; what may differ goes out.
//! A device that reads from storage into a page writes to it after the kernel has noted that, and is not noted again. So
//! a page is looked at for as long as that may take.
//! It is pure: it has no clock and looks at no memory.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::{Duration, Instant};

/// How long a page is looked at, at least, after it was found written: Linux gives a device 30 s for a request.
const SETTLES: Duration = Duration::from_secs(30);

/// Ranges that neither overlap nor touch, by first address.
#[derive(Debug, Default)]
struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    fn add(&mut self, range: &Range<u64>) {
        let (mut start, mut end) = (range.start, range.end);
        while let Some((its_start, its_end)) = self.0.range(..=end).next_back().map(|(start, end)| (*start, *end))
            && its_end >= start
        {
            self.0.remove(&its_start);
            (start, end) = (start.min(its_start), end.max(its_end));
        }
        self.0.insert(start, end);
    }
}

/// The pages.
#[derive(Debug)]
pub(super) struct Recent {
    /// Those of the present period and of the one before.
    all: Ranges,
    present: Ranges,
    since: Instant,
}

impl Recent {
    pub(super) fn new(now: Instant) -> Self {
        Self { all: Ranges::default(), present: Ranges::default(), since: now }
    }

    /// These were written. Returns all that may have been written since they were last looked at.
    pub(super) fn add(&mut self, now: Instant, written: &[Range<u64>]) -> Vec<Range<u64>> {
        if now.saturating_duration_since(self.since) >= SETTLES {
            (self.all, self.since) = (std::mem::take(&mut self.present), now);
        }
        for pages in written {
            self.all.add(pages);
            self.present.add(pages);
        }
        self.all.0.iter().map(|(start, end)| *start..*end).collect()
    }
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init, reason = "these are lists of ranges, some with one")]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_looked_at_for_as_long_as_a_device_may_still_write_to_it() {
        let begin = Instant::now();
        let mut recent = Recent::new(begin);
        let late = begin + SETTLES - Duration::from_secs(1);
        assert_eq!(recent.add(late, &[0x1000..0x2000]), [0x1000..0x2000]);
        assert_eq!(recent.add(late + SETTLES - Duration::from_millis(1), &[]), [0x1000..0x2000]);
        assert_eq!(recent.add(late + 2 * SETTLES, &[]), []);
    }

    #[test]
    fn pages_side_by_side_and_pages_written_again_are_one_range() {
        let now = Instant::now();
        let mut recent = Recent::new(now);
        assert_eq!(recent.add(now, &[0x1000..0x2000, 0x4000..0x5000]), [0x1000..0x2000, 0x4000..0x5000]);
        assert_eq!(recent.add(now, &[0x2000..0x3000, 0x4000..0x5000]), [0x1000..0x3000, 0x4000..0x5000]);
        assert_eq!(recent.add(now, &[0x0..0x9000]), [0x0..0x9000]);
        assert_eq!(recent.add(now, &[0x3000..0x4000]), [0x0..0x9000]);
    }
}
