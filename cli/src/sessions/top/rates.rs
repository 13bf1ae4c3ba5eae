//! Rates of sessions, from the differences between two looks.
//! In: the rows of a look. Out: the same rows with what their links carried per second. The server says to which moment its
//! counts belong, so no clock is read here.

use std::collections::BTreeMap;

use crate::servers::{Rate, SessionRow};

/// What a server's sessions had carried when their counts were seen last.
#[derive(Debug, Default)]
pub(super) struct Rates(BTreeMap<u64, Seen>);

#[derive(Debug, Clone, Copy)]
struct Seen {
    /// Bytes received, bytes sent, waits.
    counts: [u64; 3],
    /// Milliseconds after the session's begin.
    at: u64,
    rate: Option<Rate>,
}

impl Rates {
    /// Fills in the rates of these sessions, and forgets all others.
    pub(super) fn fill(&mut self, sessions: &mut [SessionRow]) {
        let mut before = std::mem::take(&mut self.0);
        for row in sessions {
            let now = Seen { counts: [row.received, row.sent, row.waits], at: row.counted_ms, rate: None };
            let seen = before.remove(&row.session).map_or(now, |seen| seen.then(now));
            row.rate = seen.rate;
            self.0.insert(row.session, seen);
        }
    }
}

impl Seen {
    /// What is known behind another look. One that knows nothing newer changes nothing, so that a rate lasts until the
    /// next counts come.
    fn then(self, now: Self) -> Self {
        let millis = now.at.saturating_sub(self.at);
        if millis == 0 {
            return self;
        }
        let [received, sent, waits] = [0, 1, 2].map(|which| {
            // A count that falls is a server's mistake or lie.
            per_second(now.counts[which].saturating_sub(self.counts[which]), millis)
        });
        Self { rate: Some(Rate { received, sent, waits }), ..now }
    }
}

fn per_second(count: u64, millis: u64) -> u64 {
    u64::try_from(u128::from(count) * 1000 / u128::from(millis)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::state::tests::session;
    use super::*;

    /// The rate that a look finds at a session with these counts.
    fn look(rates: &mut Rates, at: u64, [received, sent, waits]: [u64; 3]) -> Option<[u64; 3]> {
        let mut rows = [SessionRow { received, sent, waits, counted_ms: at, ..session("gpu1", 1, "x", 0) }];
        rates.fill(&mut rows);
        rows[0].rate.map(|rate| [rate.received, rate.sent, rate.waits])
    }

    #[test]
    fn a_rate_is_the_difference_by_the_servers_time_and_lasts_until_newer_counts_come() {
        let mut rates = Rates::default();
        assert_eq!(look(&mut rates, 5000, [1000, 100, 10]), None, "one look is no difference");
        assert_eq!(look(&mut rates, 7000, [5000, 100, 13]), Some([2000, 0, 1]));
        assert_eq!(look(&mut rates, 7000, [5000, 100, 13]), Some([2000, 0, 1]), "nothing newer is known");
        assert_eq!(look(&mut rates, 7500, [5001, 600, 13]), Some([2, 1000, 0]));
        assert_eq!(look(&mut rates, 9500, [5001, 600, 13]), Some([0, 0, 0]));
    }

    #[test]
    fn counts_and_times_that_cannot_be_make_no_rate_and_no_panic() {
        let mut rates = Rates::default();
        look(&mut rates, 5000, [1000, 1000, 1000]);
        assert_eq!(look(&mut rates, 4000, [0, 0, 0]), None, "a time that goes back is nothing new");
        assert_eq!(look(&mut rates, 6000, [0, 0, 0]), Some([0, 0, 0]), "counts that go back are nothing");
        assert_eq!(look(&mut rates, 6001, [u64::MAX; 3]), Some([u64::MAX; 3]));
        assert_eq!(look(&mut rates, u64::MAX, [0, u64::MAX, 0]), Some([0, 0, 0]));
    }

    #[test]
    fn a_session_that_has_gone_is_forgotten() {
        let mut rates = Rates::default();
        look(&mut rates, 5000, [0; 3]);
        rates.fill(&mut []);
        assert_eq!(look(&mut rates, 6000, [1000; 3]), None);
    }
}
