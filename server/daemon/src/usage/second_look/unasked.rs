//! Workers that compute without a turn, by the driver's own counters.
//! In: what each session had by the daemon's clock, and the part of the time since the last look for which the driver says that the
//! GPU computed for it. Out: who computes and has had nothing. It is pure.
//!
//! NVIDIA's driver looks every 200 ms who computes, and gives that process all of the 200 ms. That meters nobody: a program that wakes
//! at each look has what another one computed. But whoever had nothing for that long computes nothing at all.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use floe_shares::Usage;

/// Per cent of the time from which a look counts.
const MUCH: u32 = 25;
/// So many looks in a row end a session.
const LOOKS: u32 = 5;
/// Time without turns that a look may not know of: what sessions had and the moment of that are not read at once.
const BLUR: Duration = Duration::from_millis(50);

/// One session at a look.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    /// Its number.
    pub(super) session: u64,
    /// Its worker's process. A move gives it another one.
    pub(super) worker: u32,
    /// What it had until now.
    pub(super) usage: Usage,
    /// Per cent of the time since the last look.
    pub(super) computes: u32,
}

/// The sessions of one GPU, as the last look found them.
#[derive(Debug, Default)]
pub(super) struct Unasked {
    /// When the last look read what they had.
    last: Option<Instant>,
    sessions: BTreeMap<u64, Seen>,
}

#[derive(Debug, Clone, Copy)]
struct Seen {
    worker: u32,
    usage: Usage,
    /// Looks in a row before which it had nothing, though turns were taken.
    rested: u32,
    /// Looks in a row at which it computed all the same.
    computed: u32,
}

impl Unasked {
    /// A look, with what sessions had at this moment. Returns those that have computed without a turn at [`LOOKS`] looks in a row.
    pub(super) fn look(&mut self, now: Instant, rows: &[Row]) -> Vec<u64> {
        let passed = self.last.replace(now).map_or(Duration::ZERO, |last| now.saturating_duration_since(last));
        let before = std::mem::take(&mut self.sessions);
        let mut found = Vec::new();
        for &Row { session, worker, usage, computes } in rows {
            let Some(seen) = before.get(&session).filter(|seen| seen.worker == worker) else {
                self.sessions.insert(session, Seen { worker, usage, rested: 0, computed: 0 });
                continue;
            };
            let scheduled = usage.of.saturating_sub(seen.usage.of);
            let is_at_rest = usage.time == seen.usage.time && scheduled + BLUR >= passed;
            let rested = if is_at_rest { seen.rested.saturating_add(1) } else { 0 };
            // The first of the driver's 200 ms may have begun before the last look.
            let is_unasked = rested >= 2 && computes >= MUCH;
            let computed = if is_unasked { seen.computed + 1 } else { 0 };
            if computed >= LOOKS {
                found.push(session);
                continue;
            }
            self.sessions.insert(session, Seen { worker, usage, rested, computed });
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Looks every second at one session, which has had so much and computes so much at each. Returns the look that found it.
    fn found(looks: impl IntoIterator<Item = (Usage, u32)>) -> Option<usize> {
        found_at((0..).map(|look| SECOND * look).zip(looks))
    }

    /// The same with looks at these times.
    fn found_at(looks: impl IntoIterator<Item = (Duration, (Usage, u32))>) -> Option<usize> {
        let (mut unasked, begin) = (Unasked::default(), Instant::now());
        let row = |usage, computes| Row { session: 7, worker: 70, usage, computes };
        let mut look = |at, usage, computes| !unasked.look(begin + at, &[row(usage, computes)]).is_empty();
        looks.into_iter().map(|(at, (usage, computes))| look(at, usage, computes)).position(|is_found| is_found)
    }

    /// Turns are taken all the time, and at each look the session has had so much.
    fn taken(time: impl Fn(u32) -> Duration, computes: u32) -> impl Iterator<Item = (Usage, u32)> {
        (0..100).map(move |look| (Usage { time: time(look), of: SECOND * look }, computes))
    }

    #[test]
    fn who_computes_without_a_turn_is_found_after_some_looks_and_not_before() {
        // The first look is none, and the second may see what was before.
        assert_eq!(found(taken(|_| Duration::ZERO, MUCH)), Some(1 + 5));
        assert_eq!(found(taken(|_| SECOND * 9, 100)), Some(1 + 5));
        assert_eq!(found(taken(|_| Duration::ZERO, MUCH - 1)), None);
        let pauses = taken(|_| Duration::ZERO, 100).enumerate();
        assert_eq!(found(pauses.map(|(at, (usage, computes))| (usage, if at % 5 == 0 { 0 } else { computes }))), None);
    }

    #[test]
    fn who_has_had_anything_is_not_judged_by_a_counter_that_gives_it_others_time() {
        assert_eq!(found(taken(|look| Duration::from_nanos(look.into()), 100)), None);
        // Each fourth second.
        assert_eq!(found(taken(|look| Duration::from_millis((look / 4).into()), 100)), None);
    }

    #[test]
    fn who_need_not_ask_is_not_found() {
        let free = (0..100).map(|_| (Usage::default(), 100));
        assert_eq!(found(free), None);
        // Turns end and begin again.
        let half = (0..100).map(|look| (Usage { time: Duration::ZERO, of: SECOND / 2 * look }, 100));
        assert_eq!(found(half), None);
    }

    #[test]
    fn looks_that_take_long_hide_nobody_and_find_nobody_else() {
        // Each second look reads what sessions had 0.9 s later than the others.
        let at = |look: u32| SECOND * look + Duration::from_millis(if look.is_multiple_of(2) { 0 } else { 900 });
        let at_rest = (0..100).map(|look| (at(look), (Usage { time: Duration::ZERO, of: at(look) }, 100)));
        assert_eq!(found_at(at_rest), Some(1 + 5));
        // Ten seconds each, of which turns were taken in nine.
        let half = |look: u32| Usage { time: Duration::ZERO, of: SECOND * 9 * look };
        assert_eq!(found_at((0..100).map(|look| (SECOND * 10 * look, (half(look), 100)))), None);
    }

    #[test]
    fn a_session_with_another_worker_is_looked_at_anew() {
        let (mut unasked, begin) = (Unasked::default(), Instant::now());
        let mut look = |look: u32, worker| {
            let usage = Usage { time: Duration::ZERO, of: SECOND * look };
            unasked.look(begin + SECOND * look, &[Row { session: 7, worker, usage, computes: 100 }])
        };
        for number in 0..12 {
            assert!(look(number, if number < 6 { 70 } else { 71 }).is_empty(), "{number}");
        }
        assert_eq!(look(12, 71), [7]);
    }

    #[test]
    fn sessions_are_told_apart_and_forgotten_when_they_leave() {
        let (mut unasked, begin) = (Unasked::default(), Instant::now());
        let at = |look: u32| Usage { time: Duration::ZERO, of: SECOND * look };
        let row = |look, session, computes| Row { session, worker: 70, usage: at(look), computes };
        for look in 0..6 {
            let rows = [(1, 100), (2, 0), (3, 100)].map(|(session, computes)| row(look, session, computes));
            // The third comes late.
            let rows = &rows[..if look < 3 { 2 } else { 3 }];
            assert!(unasked.look(begin + SECOND * look, rows).is_empty(), "{look}");
        }
        let rows = [1, 3].map(|session| row(6, session, 100));
        assert_eq!(unasked.look(begin + SECOND * 6, &rows), [1]);
        assert_eq!(unasked.sessions.keys().copied().collect::<Vec<_>>(), [3]);
    }
}
