//! The reader's turn: a thread that waits for an answer reads the link itself, so that no answer costs a hand-over. It passes the turn
//! to another waiting thread when it has its answer, and a background thread reads while nobody waits. Frames come in, `receive`
//! takes them where they belong, and every thread learns once that a link has ended.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use floe_transport::{Expected, Now, Readiness, Receiver, Spin};
use floe_wire::{Delivery, Message as _};

use super::Shared;
use super::receive::{End, take};
use super::waiter::Waiter;
use floe_lock::lock;

/// The background thread's rest after another thread has read. A program that waits in a loop reads for itself, and
/// each wake of this thread would cost it.
const REST: Duration = Duration::from_millis(2);

/// The incoming direction of one session's link.
#[derive(Debug)]
pub(super) struct Incoming {
    state: Mutex<State>,
    /// Wakes the background thread.
    changed: Condvar,
    readiness: Readiness,
    spin: Spin,
    /// Whether waiting threads poll for as long as the steps of programs take.
    patient: Expected,
}

#[derive(Debug)]
struct State {
    /// `None` while a thread reads.
    receiver: Option<Receiver>,
    /// Threads that wait while another reads.
    followers: Vec<Arc<Waiter>>,
    /// Grows whenever a thread that waits has read.
    turns: u64,
    /// The background thread rests.
    rests: bool,
    /// It rests until it is woken.
    rests_deeply: bool,
    /// It is to read although others have read just now.
    wanted: bool,
    over: bool,
}

/// The right to read, given back when dropped.
struct Turn<'a> {
    incoming: &'a Incoming,
    receiver: Option<Receiver>,
    /// The background thread is to continue reading.
    watch: bool,
}

impl Incoming {
    pub(super) fn new(mut receiver: Receiver, spin: Spin) -> Self {
        let patient = Expected::default();
        patient.set(true);
        receiver.set_spin(spin);
        receiver.set_expected(patient.clone());
        let readiness = receiver.readiness();
        let state = State {
            receiver: Some(receiver),
            followers: Vec::new(),
            turns: 0,
            rests: false,
            rests_deeply: false,
            wanted: false,
            over: false,
        };
        Self { state: Mutex::new(state), changed: Condvar::new(), readiness, spin, patient }
    }

    /// Whether threads that wait sleep soon, instead of looking again for as long as the steps of programs take.
    pub(super) fn sleep_soon(&self, soon: bool) {
        self.patient.set(!soon);
    }

    /// Waits until `is_over` says so, reading meanwhile or leaving that to another thread. The event that ends the wait
    /// also fills or nudges `waiter`.
    pub(super) fn wait(&self, shared: &Shared, waiter: &Arc<Waiter>, is_over: &dyn Fn() -> bool) {
        let _waiting = shared.waiting();
        let mut followed = false;
        while !is_over() {
            match self.take_turn(waiter) {
                Some(mut turn) => {
                    let read = turn.read_until(shared, is_over);
                    turn.watch = shared.host.is_busy();
                    self.finish(turn, shared, read);
                }
                None => {
                    followed = true;
                    waiter.sleep(self.spin);
                }
            }
        }
        if followed {
            self.leave(waiter);
        }
    }

    /// Reads what is there without waiting, unless another thread reads.
    pub(super) fn look(&self, shared: &Shared) {
        let receiver = {
            let mut state = lock(&self.state);
            state.turns += 1;
            state.receiver.take()
        };
        if let Some(receiver) = receiver {
            let mut turn = self.turn(receiver);
            let read = turn.read_now(shared);
            self.finish(turn, shared, read);
        }
    }

    /// Has the background thread read from now on: something will come that nobody waits for.
    pub(super) fn watch(&self) {
        let mut state = lock(&self.state);
        // Also where it is about to rest.
        state.wanted = true;
        if state.rests {
            drop(state);
            self.changed.notify_all();
        }
    }

    /// The background thread: reads while nobody waits.
    pub(super) fn run(&self, shared: &Shared) {
        let mut seen = 0;
        while self.rest(&mut seen) {
            self.readiness.wait();
            let receiver = lock(&self.state).receiver.take();
            if let Some(receiver) = receiver {
                let mut turn = self.turn(receiver);
                let read = turn.read_now(shared);
                self.finish(turn, shared, read);
            }
        }
    }

    /// Lets the background thread rest while others read; `seen` is the turns it knows of. False: the link is over.
    fn rest(&self, seen: &mut u64) -> bool {
        let mut state = lock(&self.state);
        while !state.over {
            let is_read = state.receiver.is_none();
            if !is_read && (state.wanted || *seen == state.turns) {
                (state.rests, state.wanted) = (false, false);
                *seen = state.turns;
                return true;
            }
            state.rests = true;
            state.rests_deeply = is_read && *seen == state.turns;
            *seen = state.turns;
            state = self.pause(state);
        }
        false
    }

    fn pause<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        if state.rests_deeply {
            return floe_lock::wait(&self.changed, state);
        }
        floe_lock::wait_timeout(&self.changed, state, REST)
    }

    fn take_turn(&self, waiter: &Arc<Waiter>) -> Option<Turn<'_>> {
        let mut state = lock(&self.state);
        match state.receiver.take() {
            Some(receiver) => {
                state.turns += 1;
                drop(state);
                Some(self.turn(receiver))
            }
            None => {
                state.followers.push(Arc::clone(waiter));
                None
            }
        }
    }

    fn turn(&self, receiver: Receiver) -> Turn<'_> {
        Turn { incoming: self, receiver: Some(receiver), watch: false }
    }

    /// Ends a turn; where the link is over, says so to everybody.
    fn finish(&self, mut turn: Turn<'_>, shared: &Shared, read: Result<(), End>) {
        if let Err(end) = read {
            match end.is_told {
                true => shared.ended(end.error, &end.reason),
                false => shared.lose(end.error, &end.reason),
            }
            lock(&self.state).over = true;
            turn.receiver = None;
            self.changed.notify_all();
        }
    }

    /// A thread that was let wait does not need its turn any more.
    fn leave(&self, waiter: &Arc<Waiter>) {
        let mut state = lock(&self.state);
        state.followers.retain(|other| !Arc::ptr_eq(other, waiter));
        if state.receiver.is_some() || state.over {
            state.pass_on();
        }
    }
}

impl State {
    /// Gives the turn to a thread that waits.
    fn pass_on(&mut self) {
        if let Some(next) = self.followers.pop() {
            next.nudge();
        }
    }
}

impl Turn<'_> {
    fn receiver(&mut self) -> &mut Receiver {
        self.receiver.as_mut().expect("the turn has the receiver until it ends")
    }

    /// Reads and waits until `is_over` says so.
    fn read_until(&mut self, shared: &Shared, is_over: &dyn Fn() -> bool) -> Result<(), End> {
        while !is_over() {
            match self.receiver().next_arrival(Delivery::KIND)? {
                Some(arrival) => take(shared, arrival)?,
                None => return Err(End::closed()),
            }
        }
        // Bytes that were read ahead, here or by the pipe, would not wake any thread any more.
        while self.receiver().is_ahead() && self.take_next(shared)? {}
        Ok(())
    }

    /// Reads what is there.
    fn read_now(&mut self, shared: &Shared) -> Result<(), End> {
        while self.take_next(shared)? {}
        Ok(())
    }

    /// Takes the next frame. False: there is none yet.
    fn take_next(&mut self, shared: &Shared) -> Result<bool, End> {
        match self.receiver().arrival_now(Delivery::KIND)? {
            Now::Came(arrival) => take(shared, arrival).map(|()| true),
            Now::Nothing => Ok(false),
            Now::Closed => Err(End::closed()),
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let incoming = self.incoming;
        let mut state = lock(&incoming.state);
        // Without a receiver the link is over, and each follower hears it from the one before.
        state.receiver = self.receiver.take();
        state.pass_on();
        state.wanted |= self.watch && state.rests;
        let wake = state.rests_deeply || state.wanted;
        state.rests_deeply = false;
        drop(state);
        if wake {
            incoming.changed.notify_all();
        }
    }
}
