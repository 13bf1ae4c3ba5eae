//! The clock of this process, and how far a server's profiler is ahead of it. In: round trips. Out: times of the server as
//! times of this process. A length stays as the server measured it: only the beginning is mapped.

use std::sync::OnceLock;
use std::time::Instant;

use floe_cupti::clock::{Line, Pair};

/// Nanoseconds of this process's monotonic clock. The first reading is one second: no time is 0.
pub(crate) fn now() -> u64 {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    let since = FIRST.get_or_init(Instant::now).elapsed();
    1_000_000_000 + u64::try_from(since.as_nanos()).unwrap_or(u64::MAX / 2)
}

/// What is known of a server's clock.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ServerClock {
    first: Pair,
    last: Pair,
}

impl ServerClock {
    /// As it was measured when recording began: this process's clock, and the server's.
    pub(super) fn new(first: Pair) -> Self {
        Self { first, last: first }
    }

    /// It was measured again.
    pub(super) fn measured(&mut self, last: Pair) {
        self.last = last;
    }

    /// A time of the server's, as this process has it.
    fn map(&self, server: u64) -> u64 {
        let turned = |pair: Pair| Pair { from: pair.to, to: pair.from };
        Line::through(turned(self.first), turned(self.last)).map(server)
    }

    /// A beginning and an end of the server's, as this process has them.
    pub(super) fn map_both(&self, begin: u64, end: u64) -> (u64, u64) {
        let mapped = self.map(begin);
        (mapped, mapped.saturating_add(end.saturating_sub(begin)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_ahead_and_fast_is_mapped_and_lengths_stay() {
        let mut clock = ServerClock::new(Pair { from: 1_000, to: 901_000 });
        assert_eq!(clock.map_both(901_500, 901_700), (1_500, 1_700));
        clock.measured(Pair { from: 2_000, to: 902_100 });
        assert_eq!(clock.map_both(901_550, 901_750), (1_500, 1_700), "a tenth too fast");
        assert_eq!(clock.map_both(901_550, 0), (1_500, 1_500), "an end before its beginning");
    }

    #[test]
    fn time_goes_on() {
        let first = now();
        assert!(first >= 1_000_000_000 && now() >= first);
    }
}
