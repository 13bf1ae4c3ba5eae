//! When a side that waits sends a heartbeat, and when it doubts that the peer is alive.
//! In: time that passes, whether something waits, whether bytes have come. Out: questions to send, and a doubt when one is not
//! answered in time. It has no clock and no sockets, and decides nothing: the caller finds out whether the peer is gone.

use std::time::Duration;

/// What lies between two looks while something waits.
pub(super) const TICK: Duration = Duration::from_millis(100);
/// What waits in silence asks after so long, and then after twice as long each time.
const FIRST: Duration = Duration::from_millis(150);
/// The longest time between two questions.
pub(super) const LONGEST: Duration = Duration::from_secs(5);
/// An answer that takes longer is doubtful, on a network whose way there and back is short.
const LEAST_DOUBT: Duration = Duration::from_millis(500);
/// So many times the way there and back an answer may take.
const TRIPS: u32 = 3;
/// On no network an answer takes longer: then the system has ended the connection.
const MOST_DOUBT: Duration = Duration::from_secs(20);

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Nothing,
    /// Say the question of this number.
    Ask(u64),
    /// The question of this number ought to have been answered.
    Doubt(u64),
}

/// Questions and answers of one session.
#[derive(Debug)]
pub(super) struct HeartbeatTimer {
    /// How long something has waited and nothing has come.
    silence: Duration,
    /// How long before the next question.
    pause: Duration,
    /// How long ago the last question was asked, where it has not been answered.
    open: Option<Duration>,
    /// At which age it is doubtful, again.
    doubt: Duration,
    asked: u64,
    /// The way there and back, as long as it was lately.
    trip: Duration,
}

impl Default for HeartbeatTimer {
    fn default() -> Self {
        Self {
            silence: Duration::ZERO,
            pause: FIRST,
            open: None,
            doubt: Duration::ZERO,
            asked: 0,
            trip: Duration::ZERO,
        }
    }
}

impl HeartbeatTimer {
    /// Goes on behind the questions of another process: the peer answers new ones only.
    pub(super) fn after(asked: u64, trip: Duration) -> Self {
        Self { asked, trip: trip.min(MOST_DOUBT), ..Self::default() }
    }

    /// The way there and back, as long as it was lately.
    pub(super) fn trip(&self) -> Duration {
        self.trip
    }

    /// `passed` since the last time. Whether something `waits`, and whether bytes have come on any channel meanwhile.
    pub(super) fn tick(&mut self, passed: Duration, waits: bool, has_heard: bool) -> Step {
        // Who was not given a processor for longer has not listened either.
        let passed = passed.min(2 * TICK);
        if !waits || has_heard {
            self.calm();
            return Step::Nothing;
        }
        if let Some(age) = &mut self.open {
            *age += passed;
            if *age < self.doubt {
                return Step::Nothing;
            }
            // It may be found to be there.
            self.doubt = *age + self.limit();
            return Step::Doubt(self.asked);
        }
        self.silence += passed;
        if self.silence < self.pause {
            return Step::Nothing;
        }
        self.silence = Duration::ZERO;
        self.pause = (2 * self.pause).min(LONGEST);
        self.asked = self.asked.wrapping_add(1);
        (self.open, self.doubt) = (Some(Duration::ZERO), self.limit());
        Step::Ask(self.asked)
    }

    /// Nothing is in doubt: other bytes have come, the wait is over, or there are other connections.
    pub(super) fn calm(&mut self) {
        (self.silence, self.pause, self.open) = (Duration::ZERO, FIRST, None);
    }

    /// The last question.
    pub(super) fn asked(&self) -> u64 {
        self.asked
    }

    /// Whether this question has not been answered.
    pub(super) fn is_open(&self, question: u64) -> bool {
        self.asked == question && self.open.is_some()
    }

    /// A question has been answered.
    pub(super) fn answered(&mut self, question: u64) {
        if let Some(took) = self.open.take_if(|_| self.asked == question) {
            self.went(took);
        }
    }

    /// The way there and back took so long.
    pub(super) fn went(&mut self, trip: Duration) {
        self.trip = trip.max(self.trip - self.trip / 8);
    }

    /// How long an answer may take.
    fn limit(&self) -> Duration {
        (TRIPS * self.trip).clamp(LEAST_DOUBT, MOST_DOUBT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets `time` pass while something waits, with answers that take `answer`; what was to be done, and when.
    fn wait(heartbeat: &mut HeartbeatTimer, time: Duration, answer: Option<Duration>) -> Vec<(u64, Step)> {
        let (mut done, mut asked) = (Vec::new(), None);
        let mut now = Duration::ZERO;
        while now < time {
            now += TICK;
            if let (Some((question, at)), Some(answer)) = (asked, answer)
                && now >= at + answer
            {
                heartbeat.answered(question);
                asked = None;
            }
            let step = heartbeat.tick(TICK, true, false);
            if let Step::Ask(question) = step {
                asked = Some((question, now));
            }
            if step != Step::Nothing {
                done.push((now.as_millis().try_into().expect("a short time"), step));
            }
        }
        done
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_wait_in_silence_asks_within_a_quarter_of_a_second_and_doubts_within_a_second() {
        let done = wait(&mut HeartbeatTimer::default(), SECOND, None);
        assert_eq!(done, [(200, Step::Ask(1)), (700, Step::Doubt(1))]);
    }

    #[test]
    fn short_waits_and_those_in_which_bytes_come_ask_nothing() {
        let mut heartbeat = HeartbeatTimer::default();
        for round in 0..1000 {
            let (waits, has_heard) = (round % 2 == 0, round % 3 == 0);
            assert_eq!(heartbeat.tick(TICK, waits, has_heard), Step::Nothing);
        }
    }

    #[test]
    fn a_long_wait_that_is_answered_asks_ever_less_often() {
        let mut heartbeat = HeartbeatTimer::default();
        let done = wait(&mut heartbeat, 60 * SECOND, Some(Duration::from_millis(1)));
        assert!(done.iter().all(|(_, step)| matches!(step, Step::Ask(_))), "{done:?}");
        assert!((10..=20).contains(&done.len()), "{done:?}");
        heartbeat.calm();
        assert_eq!(wait(&mut heartbeat, SECOND, None)[0].0, 200, "the next wait is a new one");
    }

    #[test]
    fn a_slow_network_is_not_doubted_and_its_time_is_learnt() {
        for trip in [300, 450] {
            let done = wait(&mut HeartbeatTimer::default(), 60 * SECOND, Some(Duration::from_millis(trip)));
            assert!(done.iter().all(|(_, step)| matches!(step, Step::Ask(_))), "{done:?}");
        }
        let mut heartbeat = HeartbeatTimer::default();
        heartbeat.went(SECOND);
        let done = wait(&mut heartbeat, 60 * SECOND, Some(2 * SECOND));
        assert!(done.iter().all(|(_, step)| matches!(step, Step::Ask(_))), "{done:?}");
    }

    #[test]
    fn what_was_doubted_and_found_to_be_there_is_doubted_again_later() {
        let mut heartbeat = HeartbeatTimer::default();
        let done = wait(&mut heartbeat, 2 * SECOND, None);
        assert_eq!(done, [(200, Step::Ask(1)), (700, Step::Doubt(1)), (1200, Step::Doubt(1)), (1700, Step::Doubt(1))]);
        assert!(heartbeat.is_open(1));
        heartbeat.answered(1);
        assert!(!heartbeat.is_open(1));
    }

    #[test]
    fn time_in_which_this_side_did_not_run_is_not_the_others() {
        let mut heartbeat = HeartbeatTimer::default();
        assert_eq!(heartbeat.tick(TICK, true, false), Step::Nothing);
        assert_eq!(heartbeat.tick(TICK, true, false), Step::Ask(1));
        // It was stopped; the answer may lie unread.
        assert_eq!(heartbeat.tick(60 * SECOND, true, false), Step::Nothing);
    }
}
