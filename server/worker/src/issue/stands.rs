//! Borders between two commands at which a test has a session stand until it has moved.
//! In: sequences of commands, from the daemon's environment; the command that is next. Out: whether to stand ahead of it.
//! Without sequences it says no, and nothing else.

use std::time::{Duration, Instant};

/// The daemon's variable with the sequences, divided by commas.
pub const STANDS_VARIABLE: &str = "FLOE_TEST_STAND_AT";
/// The longest time at one of them: perhaps nobody moves the session.
const MOST: Duration = Duration::from_secs(20);

/// What is ahead of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stands {
    /// Falling, so that the next is the last.
    ahead: Vec<u64>,
    /// The end of the present stand, and how often a move had been given up when it began.
    present: Option<(Instant, u64)>,
    /// The session has come from another worker, which has stood at those that are over.
    arrived: bool,
}

impl Stands {
    /// From the variable's text. What is no number is left out.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let mut ahead: Vec<u64> = text.split(',').filter_map(|number| number.trim().parse().ok()).collect();
        ahead.sort_unstable_by_key(|sequence| std::cmp::Reverse(*sequence));
        Self { ahead, present: None, arrived: false }
    }

    /// Those up to the session's next command are over.
    pub(crate) fn arrive(&mut self) {
        self.arrived = true;
    }

    /// Whether a border ahead of the command of this sequence is one of them.
    pub(crate) fn is_due(&self, sequence: u64) -> bool {
        self.ahead.last().is_some_and(|next| *next <= sequence)
    }

    /// Whether to stand ahead of the command of this sequence, at this time; `went_on`: how often a move was given up.
    /// Then the session goes on, since another may be possible later only.
    pub(crate) fn stands_at(&mut self, sequence: u64, now: impl Fn() -> Instant, went_on: u64) -> bool {
        if !self.is_due(sequence) {
            return false;
        }
        if std::mem::take(&mut self.arrived) {
            self.ahead.retain(|ahead| *ahead > sequence);
            return false;
        }
        let (until, before) = *self.present.get_or_insert_with(|| (now() + MOST, went_on));
        if now() < until && went_on == before {
            return true;
        }
        self.ahead.retain(|ahead| *ahead > sequence);
        self.present = None;
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_stands_once_at_each_sequence_for_a_bounded_time() {
        let mut stands = Stands::of("7, x,3");
        let begin = Instant::now();
        assert!(!stands.stands_at(2, || begin, 0));
        assert!(stands.stands_at(3, || begin, 0) && stands.stands_at(3, || begin, 0));
        assert!(!stands.stands_at(3, || begin + MOST, 0));
        assert!(!stands.stands_at(6, || begin, 0));
        assert!(stands.stands_at(8, || begin, 0), "also where the sequence itself is no command of the issuer's");
        assert!(!stands.stands_at(8, || begin + MOST, 0));
        assert!(!stands.stands_at(9, || begin, 0));
    }

    #[test]
    fn a_session_whose_move_was_given_up_goes_on() {
        let mut stands = Stands::of("3,5");
        let now = Instant::now();
        assert!(stands.stands_at(3, || now, 7) && stands.stands_at(3, || now, 7));
        assert!(!stands.stands_at(3, || now, 8) && !stands.stands_at(4, || now, 8));
        assert!(stands.stands_at(5, || now, 8));
    }

    #[test]
    fn a_session_that_came_stands_only_at_what_is_ahead() {
        let mut stands = Stands::of("3,7,9");
        stands.arrive();
        let now = Instant::now();
        assert!(!stands.stands_at(7, || now, 0));
        assert!(!stands.stands_at(8, || now, 0));
        assert!(stands.stands_at(9, || now, 0));
    }
}
