//! Whether the daemon's main loop still answers.
//! In: questions of the port's thread, answers of the main loop. Out: alive or not, within a time.
//! The main loop sleeps on the pulse's descriptor beside its own, and never waits here.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};
use std::{fmt, io};

use floe_lock::{lock, wait_timeout};
use rustix::event::{EventfdFlags, eventfd};

/// For how long an answer holds, so that many questions do not keep the main loop busy.
const FRESH: Duration = Duration::from_millis(100);

/// The pulse of a main loop.
#[derive(Debug)]
pub struct Pulse {
    /// Readable once somebody has asked.
    asked: OwnedFd,
    state: Mutex<State>,
    has_answered: Condvar,
}

#[derive(Debug, Default)]
struct State {
    beats: u64,
    last: Option<Instant>,
    /// When nobody had answered in time.
    missed: Option<Instant>,
    is_over: bool,
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Silence {
    /// The loop does something else, or hangs.
    Silent,
    /// The loop has ended.
    Over,
}

impl fmt::Display for Silence {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Self::Silent => "the main loop does not answer",
            Self::Over => "the server is ending",
        })
    }
}

impl Pulse {
    /// The pulse of a loop that does not run yet.
    ///
    /// # Errors
    /// When the system has no descriptor for it.
    pub fn new() -> io::Result<Self> {
        let asked = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { asked, state: Mutex::default(), has_answered: Condvar::new() })
    }

    /// Becomes readable when somebody asks.
    #[must_use]
    pub fn asked(&self) -> BorrowedFd<'_> {
        self.asked.as_fd()
    }

    /// The main loop answers.
    pub fn beat(&self) {
        let mut count = [0; 8];
        // Empty if it was answered already.
        let _ = rustix::io::read(&self.asked, &mut count);
        let mut state = lock(&self.state);
        (state.beats, state.last) = (state.beats + 1, Some(Instant::now()));
        self.has_answered.notify_all();
    }

    /// The main loop has ended, and answers no more.
    pub fn end(&self) {
        lock(&self.state).is_over = true;
        self.has_answered.notify_all();
    }

    /// Asks the main loop, and waits for its answer for this long at most.
    pub(crate) fn ask(&self, patience: Duration) -> Result<(), Silence> {
        let asked = Instant::now();
        let mut state = lock(&self.state);
        let is_fresh = |at: Option<Instant>| at.is_some_and(|at| asked.saturating_duration_since(at) < FRESH);
        if !state.is_over && is_fresh(state.last) {
            return Ok(());
        }
        // Of many that ask a loop which hangs, one waits.
        if !state.is_over && is_fresh(state.missed) {
            return Err(Silence::Silent);
        }
        let before = state.beats;
        // A full count is readable as well.
        let _ = rustix::io::write(&self.asked, &1_u64.to_ne_bytes());
        while state.beats == before && !state.is_over {
            let Some(left) = patience.checked_sub(asked.elapsed()).filter(|left| !left.is_zero()) else {
                state.missed = Some(Instant::now());
                return Err(Silence::Silent);
            };
            state = wait_timeout(&self.has_answered, state, left);
        }
        if state.is_over { Err(Silence::Over) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustix::event::{PollFd, PollFlags, poll};

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_loop_that_looks_at_its_descriptor_answers_and_a_second_question_does_not_wake_it() {
        let pulse = Arc::new(Pulse::new().expect("a descriptor"));
        let looping = Arc::clone(&pulse);
        let main = std::thread::spawn(move || {
            poll(&mut [PollFd::from_borrowed_fd(looping.asked(), PollFlags::IN)], None).expect("asked");
            looping.beat();
        });
        assert_eq!(pulse.ask(LONG), Ok(()));
        main.join().expect("it ends");
        // Fresh however long this thread is kept from asking.
        lock(&pulse.state).last = Some(Instant::now() + LONG);
        assert_eq!(pulse.ask(Duration::ZERO), Ok(()), "nobody loops any more");
    }

    #[test]
    fn a_loop_that_hangs_or_has_ended_does_not_answer() {
        let pulse = Pulse::new().expect("a descriptor");
        assert_eq!(pulse.ask(Duration::from_millis(1)), Err(Silence::Silent));
        pulse.end();
        assert_eq!(pulse.ask(LONG), Err(Silence::Over));
    }
}
