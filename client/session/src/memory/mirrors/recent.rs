//! Pages of a mirror that may differ from what the server has, where the kernel notes writes. A look comes in; pages to compare
//! go out. It has no clock and touches no memory: who looks asks the kernel for it.
//!
//! The kernel notes a write when a thread, a system call or a new pin for writing meets a protected page. Who has the page
//! pinned already writes to it unseen. So it matters which pages are protected anew, and when:
//!
//! - A page that anything has pinned for writing is either noted as written since its last protection, or was found written
//!   by that protection. Both are compared at each look. The latter settle.
//! - A page that settles is let go by a look that comes `SETTLES` after its protection at the earliest and finds that the
//!   process has nothing pinned or locked. This look compares it once more. By then requests to storage, which the
//!   kernel does not count, are over. Pins for good are counted: some only after they are made (`io_uring`), but not
//!   30 s later. Pins that are gone wrote before this look asked.
//! - A pin that comes later meets a protected page, and is noted. So nothing that comes and goes between two looks is missed.
//!
//! While pages settle none is protected. Pages that are written all the time cost a page fault in 30 s.

use std::ops::Range;
use std::time::{Duration, Instant};

/// How long a page settles, at least: Linux gives a device 30 s for a request.
const SETTLES: Duration = Duration::from_secs(30);

/// What a look asks about one mirror.
pub(super) trait Asked {
    fn now(&mut self) -> Instant;
    /// The pages written since they were protected.
    fn written(&mut self) -> Vec<Range<u64>>;
    /// The same, and protects them in the same moment.
    fn protect(&mut self) -> Vec<Range<u64>>;
    /// Whether the process has memory pinned or locked.
    fn devices_may_write(&mut self) -> bool;
}

/// The pages that settle.
#[derive(Debug)]
pub(super) struct Recent {
    /// Found written by the last protection, in order.
    settling: Vec<Range<u64>>,
    /// When that was, or when it was last found that devices may write.
    since: Instant,
}

impl Recent {
    pub(super) fn new(now: Instant) -> Self {
        Self { settling: Vec::new(), since: now }
    }

    /// The pages among `all` that may differ from what the last look saw. Compare them after this.
    pub(super) fn suspects(&mut self, all: &Range<u64>, asked: &mut impl Asked) -> Vec<Range<u64>> {
        if self.settling.is_empty() {
            if asked.written().is_empty() {
                return Vec::new();
            }
        } else if asked.now().saturating_duration_since(self.since) < SETTLES {
            let is_all = self.settling.first().is_some_and(|first| first.start <= all.start && first.end >= all.end);
            return if is_all { vec![all.clone()] } else { union(asked.written(), &self.settling) };
        } else if asked.devices_may_write() {
            self.since = asked.now();
            return union(asked.written(), &self.settling);
        }
        let settled = std::mem::replace(&mut self.settling, asked.protect());
        // After the protection: a request that was under way until then may take that long from now on.
        self.since = asked.now();
        union(settled, &self.settling)
    }

    /// Has the time gone by that pages settle.
    #[cfg(test)]
    pub(super) fn pass_period(&mut self) {
        self.since -= SETTLES;
    }
}

/// The pages of both, in order.
fn union(mut pages: Vec<Range<u64>>, others: &[Range<u64>]) -> Vec<Range<u64>> {
    pages.extend_from_slice(others);
    pages.sort_unstable_by_key(|range| range.start);
    pages.dedup_by(|next, kept| {
        let touches = next.start <= kept.end;
        if touches {
            kept.end = kept.end.max(next.end);
        }
        touches
    });
    pages
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init, reason = "these are lists of ranges, some with one")]
mod tests {
    use super::*;

    const PAGES: Range<u64> = 0x1000..0x9000;

    /// A kernel, and how often it was asked what.
    #[derive(Default)]
    struct Kernel {
        seconds: u64,
        written: Vec<Range<u64>>,
        pinned: bool,
        looks: u32,
        protections: u32,
        statuses: u32,
    }

    /// Its clock begins with the first question.
    struct Clocked(Kernel, Instant);

    impl Clocked {
        fn new() -> (Self, Recent) {
            let begin = Instant::now();
            (Self(Kernel::default(), begin), Recent::new(begin))
        }

        fn counts(&self) -> (u32, u32, u32) {
            (self.0.looks, self.0.protections, self.0.statuses)
        }
    }

    impl Asked for Clocked {
        fn now(&mut self) -> Instant {
            self.1 + Duration::from_secs(self.0.seconds)
        }

        fn written(&mut self) -> Vec<Range<u64>> {
            self.0.looks += 1;
            self.0.written.clone()
        }

        fn protect(&mut self) -> Vec<Range<u64>> {
            self.0.protections += 1;
            std::mem::take(&mut self.0.written)
        }

        fn devices_may_write(&mut self) -> bool {
            self.0.statuses += 1;
            self.0.pinned
        }
    }

    #[test]
    fn a_quiet_look_is_one_question_and_reads_no_status() {
        let (mut kernel, mut recent) = Clocked::new();
        for look in 1..=100 {
            kernel.0.seconds += 1;
            assert_eq!(recent.suspects(&PAGES, &mut kernel), []);
            assert_eq!(kernel.counts(), (look, 0, 0));
        }
    }

    #[test]
    fn pages_written_all_the_time_are_protected_once_in_30_s() {
        let (mut kernel, mut recent) = Clocked::new();
        for second in 0..300 {
            (kernel.0.seconds, kernel.0.written) = (second, vec![0x2000..0x3000]);
            assert_eq!(recent.suspects(&PAGES, &mut kernel), [0x2000..0x3000]);
        }
        assert_eq!((kernel.0.protections, kernel.0.statuses), (10, 9));
    }

    #[test]
    fn a_page_is_compared_once_more_when_a_device_can_write_to_it_no_more() {
        let (mut kernel, mut recent) = Clocked::new();
        kernel.0.written = vec![0x2000..0x3000];
        assert_eq!(recent.suspects(&PAGES, &mut kernel), [0x2000..0x3000]);
        // However long the program makes no call: what came meanwhile was not noted.
        kernel.0.seconds = 1000;
        assert_eq!(recent.suspects(&PAGES, &mut kernel), [0x2000..0x3000]);
        assert_eq!(recent.suspects(&PAGES, &mut kernel), []);
        // Written late in a period, it has a whole one from its own protection on.
        kernel.0.written = vec![0x4000..0x5000];
        assert_eq!(recent.suspects(&PAGES, &mut kernel), [0x4000..0x5000]);
        (kernel.0.seconds, kernel.0.written) = (1029, vec![0x6000..0x7000]);
        assert_eq!(recent.suspects(&PAGES, &mut kernel), [0x4000..0x5000, 0x6000..0x7000]);
        kernel.0.seconds = 1030;
        assert_eq!(recent.suspects(&PAGES, &mut kernel), [0x4000..0x5000, 0x6000..0x7000]);
        kernel.0.seconds = 1059;
        assert_eq!(recent.suspects(&PAGES, &mut kernel), [0x6000..0x7000]);
        kernel.0.seconds = 1060;
        assert_eq!(recent.suspects(&PAGES, &mut kernel), [0x6000..0x7000]);
        assert_eq!(recent.suspects(&PAGES, &mut kernel), []);
    }

    #[test]
    fn while_memory_is_pinned_no_page_is_let_go_and_what_came_meanwhile_is_found() {
        let (mut kernel, mut recent) = Clocked::new();
        (kernel.0.pinned, kernel.0.written) = (true, vec![PAGES]);
        for second in 0..200 {
            kernel.0.seconds = second;
            assert_eq!(recent.suspects(&PAGES, &mut kernel), [PAGES]);
        }
        assert_eq!((kernel.0.protections, kernel.0.statuses), (1, 6));
        kernel.0.pinned = false;
        kernel.0.seconds += 30;
        assert_eq!(recent.suspects(&PAGES, &mut kernel), [PAGES]);
        assert_eq!(recent.suspects(&PAGES, &mut kernel), []);
        assert_eq!(kernel.0.statuses, 7);
    }

    #[test]
    fn while_all_pages_settle_the_kernel_is_asked_nothing() {
        let (mut kernel, mut recent) = Clocked::new();
        kernel.0.written = vec![0x0..0x9000];
        assert_eq!(recent.suspects(&PAGES, &mut kernel), [0x0..0x9000]);
        kernel.0.seconds = 29;
        assert_eq!(recent.suspects(&PAGES, &mut kernel), [PAGES]);
        assert_eq!(kernel.counts(), (1, 1, 0));
    }

    #[test]
    fn pages_side_by_side_are_one_range() {
        assert_eq!(union(vec![0x4000..0x5000, 0x1000..0x2000], &[]), [0x1000..0x2000, 0x4000..0x5000]);
        assert_eq!(union(vec![0x2000..0x3000], &[0x1000..0x2000, 0x4000..0x5000]), [0x1000..0x3000, 0x4000..0x5000]);
        assert_eq!(union(vec![0x0..0x9000], &[0x3000..0x4000, 0x4000..0xa000]), [0x0..0xa000]);
    }
}
