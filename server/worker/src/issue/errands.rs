//! Work that another thread has the issuer do between two commands.
//! In: errands, and a wish that the issuer stays parked. Out: each errand's result, or that the issuer did not come to a
//! border in time. An errand that was not begun in time never runs.
//! It knows nothing of what is issued, and costs a session nothing as long as nobody asks.

use std::collections::VecDeque;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Instant;

type Errand<I> = Box<dyn FnOnce(&mut I) + Send>;

/// Errands for an issuer `I`.
pub(crate) struct Errands<I> {
    state: Mutex<State<I>>,
    changed: Condvar,
    /// Has the issuer come to the next border, or no longer.
    interrupt: Box<dyn Fn(bool) + Send + Sync>,
}

struct State<I> {
    waiting: VecDeque<Waiting<I>>,
    last: u64,
    parked: bool,
    /// How often a move was given up.
    went_on: u64,
    is_over: bool,
}

struct Waiting<I> {
    number: u64,
    /// The issuer stays at its border when it has done this.
    parks: bool,
    errand: Errand<I>,
}

/// Why an errand was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotDone {
    /// The issuer came to no border in time.
    #[error("the session came to no border between two commands in time")]
    Late,
    /// The session is over.
    #[error("the session is over")]
    Over,
}

impl<I> Errands<I> {
    /// For an issuer that `interrupt` brings to its next border.
    pub(crate) fn new(interrupt: impl Fn(bool) + Send + Sync + 'static) -> Arc<Self> {
        let state = State { waiting: VecDeque::new(), last: 0, parked: false, went_on: 0, is_over: false };
        Arc::new(Self { state: Mutex::new(state), changed: Condvar::new(), interrupt: Box::new(interrupt) })
    }

    fn state(&self) -> MutexGuard<'_, State<I>> {
        floe_lock::lock(&self.state)
    }

    /// Has the issuer do something at its next border, and waits for it. Once begun, it is waited for however long it takes.
    pub(crate) fn call<T: Send + 'static>(
        &self,
        deadline: Instant,
        errand: impl FnOnce(&mut I) -> T + Send + 'static,
    ) -> Result<T, NotDone> {
        self.ask(deadline, false, errand)
    }

    /// Has the issuer stand at its next border until the result is dropped.
    pub(crate) fn park(self: &Arc<Self>, deadline: Instant) -> Result<Parked<I>, NotDone> {
        self.ask(deadline, true, |_| ())?;
        Ok(Parked { errands: Arc::clone(self) })
    }

    fn ask<T: Send + 'static>(
        &self,
        deadline: Instant,
        parks: bool,
        errand: impl FnOnce(&mut I) -> T + Send + 'static,
    ) -> Result<T, NotDone> {
        let (done, result) = sync_channel(1);
        // Nobody listens any more only when the caller panicked.
        let errand: Errand<I> = Box::new(move |issuer| drop(done.send(errand(issuer))));
        let number = self.add(parks, errand)?;
        match result.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(result) => return Ok(result),
            Err(RecvTimeoutError::Disconnected) => return Err(NotDone::Over),
            Err(RecvTimeoutError::Timeout) => {}
        }
        let mut state = self.state();
        let before = state.waiting.len();
        state.waiting.retain(|waiting| waiting.number != number);
        if state.waiting.len() < before {
            return Err(NotDone::Late);
        }
        drop(state);
        result.recv().map_err(|_| NotDone::Over)
    }

    fn add(&self, parks: bool, errand: Errand<I>) -> Result<u64, NotDone> {
        let mut state = self.state();
        if state.is_over {
            return Err(NotDone::Over);
        }
        state.last += 1;
        let number = state.last;
        state.waiting.push_back(Waiting { number, parks, errand });
        // Under the lock, as its contrary is.
        (self.interrupt)(true);
        drop(state);
        self.changed.notify_all();
        Ok(number)
    }

    /// The issuer is at a border: it does what waits, and returns when nothing does and nobody keeps it parked. False: the
    /// session is over.
    pub(crate) fn attend(&self, issuer: &mut I) -> bool {
        while let Some(errand) = self.next() {
            errand(issuer);
        }
        !self.is_over()
    }

    /// A move was given up, or a pause of it.
    pub(crate) fn goes_on(&self) {
        self.state().went_on += 1;
    }

    /// How often that was.
    pub(crate) fn went_on(&self) -> u64 {
        self.state().went_on
    }

    /// Whether the session is over.
    pub(crate) fn is_over(&self) -> bool {
        self.state().is_over
    }

    fn next(&self) -> Option<Errand<I>> {
        let mut state = self.state();
        loop {
            if state.is_over {
                state.waiting.clear();
                return None;
            }
            if let Some(Waiting { parks, errand, .. }) = state.waiting.pop_front() {
                state.parked |= parks;
                return Some(errand);
            }
            if !state.parked {
                (self.interrupt)(false);
                return None;
            }
            state = floe_lock::wait(&self.changed, state);
        }
    }

    /// The session is over: nobody waits here any more.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        state.is_over = true;
        let unbegun = std::mem::take(&mut state.waiting);
        drop(state);
        drop(unbegun);
        self.changed.notify_all();
    }
}

/// An issuer that stands at a border. It goes on when this is dropped.
pub(crate) struct Parked<I> {
    errands: Arc<Errands<I>>,
}

impl<I> Parked<I> {
    /// Has the standing issuer do something.
    pub(crate) fn call<T: Send + 'static>(
        &self,
        deadline: Instant,
        errand: impl FnOnce(&mut I) -> T + Send + 'static,
    ) -> Result<T, NotDone> {
        self.errands.call(deadline, errand)
    }
}

impl<I> Drop for Parked<I> {
    fn drop(&mut self) {
        self.errands.state().parked = false;
        self.errands.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use super::*;

    const LONG: Duration = Duration::from_secs(300);

    /// An issuer that counts, and comes to a border when it is interrupted.
    fn counting() -> (Arc<Errands<u64>>, Arc<AtomicBool>, std::thread::JoinHandle<u64>) {
        let (interrupted, stop) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let seen = Arc::clone(&interrupted);
        let errands = Errands::new(move |is| seen.store(is, Ordering::SeqCst));
        let (own, over) = (Arc::clone(&errands), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            let mut count = 0;
            while !over.load(Ordering::SeqCst) {
                count += 1;
                if interrupted.load(Ordering::SeqCst) {
                    own.attend(&mut count);
                }
            }
            own.close();
            count
        });
        (errands, stop, thread)
    }

    #[test]
    fn errands_run_between_commands_and_nothing_is_issued_while_parked() {
        let (errands, stop, thread) = counting();
        let soon = || Instant::now() + LONG;
        let first = errands.call(soon(), |count| *count).unwrap();
        let parked = errands.park(soon()).unwrap();
        let standing = parked.call(soon(), |count| *count).unwrap();
        assert!(standing >= first);
        std::thread::sleep(Duration::from_millis(5));
        assert_eq!(errands.call(soon(), |count| *count), Ok(standing), "anybody's errands are done while it is parked");
        drop(parked);
        while errands.call(soon(), |count| *count).unwrap() == standing {}
        stop.store(true, Ordering::SeqCst);
        assert!(thread.join().unwrap() > standing);
        assert_eq!(errands.call(soon(), |count| *count), Err(NotDone::Over));
        assert_eq!(errands.park(soon()).map(drop), Err(NotDone::Over));
    }

    #[test]
    fn an_errand_that_is_not_begun_in_time_never_runs() {
        let errands = Errands::<u64>::new(|_| {});
        assert_eq!(errands.call(Instant::now(), |count| *count += 1), Err(NotDone::Late));
        assert_eq!(errands.park(Instant::now()).map(drop), Err(NotDone::Late));
        let mut count = 0;
        errands.attend(&mut count);
        assert_eq!(count, 0);
    }

    #[test]
    fn the_end_of_a_session_lets_a_parked_issuer_go() {
        let (errands, stop, thread) = counting();
        let parked = errands.park(Instant::now() + LONG).unwrap();
        stop.store(true, Ordering::SeqCst);
        errands.close();
        thread.join().unwrap();
        assert_eq!(parked.call(Instant::now() + LONG, |count| *count), Err(NotDone::Over));
    }
}
