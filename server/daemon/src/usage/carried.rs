//! What sessions' links have carried, as their workers say it.
//! In: a worker's counts, each since it has the session. Out: what came on, and counts that never fall.
//! It believes no worker more than a link could carry.

use std::time::{Duration, Instant};

use floe_worker::contract::Counts;

/// The most bytes in a second and direction that a worker is believed: several times what one processor copies.
const MOST_BYTES: u64 = 256 << 30;
/// The most answered requests in a second that a worker is believed: several times what one processor answers.
const MOST_WAITS: u64 = 100_000_000;
/// The time in which a worker says a change: it looks once a second.
const TELLS_WITHIN: Duration = Duration::from_secs(1);
/// How late a worker's word may be.
const LATE: Duration = Duration::from_millis(500);

/// What a worker has said of its session's link.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Said {
    counts: Counts,
    /// When it said something first, and last.
    times: Option<(Instant, Instant)>,
}

impl Said {
    /// What it has counted, as far as it is believed.
    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }

    /// Takes its word, and returns what came on.
    pub(crate) fn takes(&mut self, said: Counts, now: Instant) -> Counts {
        let first = self.times.map_or(now, |(first, _)| first);
        let seconds = now.saturating_duration_since(first).as_secs().saturating_add(TELLS_WITHIN.as_secs());
        let before = self.counts;
        let believed = |before: u64, said: u64, most: u64| said.min(most.saturating_mul(seconds)).max(before);
        self.counts = Counts {
            received: believed(before.received, said.received, MOST_BYTES),
            sent: believed(before.sent, said.sent, MOST_BYTES),
            waits: believed(before.waits, said.waits, MOST_WAITS),
        };
        self.times = Some((first, now));
        Counts {
            received: self.counts.received - before.received,
            sent: self.counts.sent - before.sent,
            waits: self.counts.waits - before.waits,
        }
    }

    /// The time up to which its counts are known. It says only what changes: while it is silent, each of its looks at the
    /// counts has found what it said last.
    pub(crate) fn known(&self, now: Instant) -> Instant {
        let Some((_, last)) = self.times else { return now };
        let looks = now.saturating_duration_since(last).saturating_sub(LATE).as_secs();
        last + TELLS_WITHIN.saturating_mul(u32::try_from(looks).unwrap_or(u32::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(received: u64, sent: u64, waits: u64) -> Counts {
        Counts { received, sent, waits }
    }

    #[test]
    fn counts_that_go_back_stay_and_those_that_leap_are_what_a_link_could_carry() {
        let (mut said, start) = (Said::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(said.takes(counts(100, 10, 1), at(0)), counts(100, 10, 1));
        assert_eq!(said.takes(counts(90, 20, 0), at(1)), counts(0, 10, 0));
        assert_eq!(said.counts(), counts(100, 20, 1));
        let all = counts(u64::MAX, u64::MAX, u64::MAX);
        said.takes(all, at(2));
        assert_eq!(said.counts(), counts(3 * MOST_BYTES, 3 * MOST_BYTES, 3 * MOST_WAITS));
        assert_eq!(said.takes(all, at(2)), counts(0, 0, 0), "saying it often gives no more");
        said.takes(all, at(u64::from(u32::MAX)));
        assert_eq!(said.counts().received, u64::MAX);
        assert_eq!(said.counts().plus(all), all);
    }

    #[test]
    fn the_counts_of_a_worker_that_is_silent_are_known_up_to_its_last_look() {
        let (mut said, start) = (Said::default(), Instant::now());
        let at = |millis| start + Duration::from_millis(millis);
        assert_eq!(said.known(at(700)), at(700), "nothing was carried");
        said.takes(counts(1, 1, 1), at(1000));
        for (now, known) in [(1000, 1000), (2499, 1000), (2500, 2000), (3499, 2000), (11_600, 11_000), (0, 1000)] {
            assert_eq!(said.known(at(now)), at(known), "{now}");
        }
    }
}
