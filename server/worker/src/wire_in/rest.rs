//! A reading thread that can be asked to rest at a frame's border.
//! In: the thread with its receiver, and requests. Out: the resting thread's receiver, to be looked at; or the reason why
//! the thread reads no more. What was read and not given out stays in the receiver.

use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use floe_transport::{Halt, Readiness, Receiver};

use crate::life::ending::InputEnd;

/// Pause between two looks whether a reader rests or waits: a pipe in memory may have to wake it again.
const LOOK: Duration = Duration::from_micros(200);

/// One connection's reader, as others see it.
#[derive(Debug)]
pub(crate) struct Rest {
    halt: Halt,
    readiness: Readiness,
    place: Mutex<Place>,
    /// Wakes the resting thread.
    changed: Condvar,
}

#[derive(Debug)]
enum Place {
    Reads,
    Rests(Box<Receiver>),
    Over,
}

impl Rest {
    /// Of the reader that this receiver will have.
    pub(crate) fn of(receiver: &Receiver) -> Arc<Self> {
        let (halt, readiness) = (receiver.halt(), receiver.readiness());
        Arc::new(Self { halt, readiness, place: Mutex::new(Place::Reads), changed: Condvar::new() })
    }

    /// Reads with `read` until the connection ends; rests in between where it is asked to.
    pub(crate) fn run(&self, receiver: Receiver, mut read: impl FnMut(&mut Receiver) -> InputEnd) -> InputEnd {
        let mut receiver = Box::new(receiver);
        loop {
            match read(&mut receiver) {
                InputEnd::Stopped => receiver = self.rest(receiver),
                end => {
                    *floe_lock::lock(&self.place) = Place::Over;
                    return end;
                }
            }
        }
    }

    /// Rests until it may go on.
    fn rest(&self, receiver: Box<Receiver>) -> Box<Receiver> {
        let mut place = floe_lock::lock(&self.place);
        *place = Place::Rests(receiver);
        loop {
            match std::mem::replace(&mut *place, Place::Reads) {
                Place::Rests(receiver) if !self.halt.is_asked() => return receiver,
                still => *place = still,
            }
            place = floe_lock::wait(&self.changed, place);
        }
    }

    /// Asks the reader to rest at the next border.
    pub(crate) fn ask(&self) {
        self.halt.ask();
    }

    /// Waits until the reader rests, or only waits for bytes, and gives out no other frame. False: not by `deadline`, or
    /// it reads no more.
    pub(crate) fn await_border(&self, deadline: Instant) -> bool {
        self.look_until(deadline, || self.halt.is_waiting() || self.rests())
    }

    /// Waits until the reader rests. False: not by `deadline`, or it reads no more.
    pub(crate) fn await_rest(&self, deadline: Instant) -> bool {
        self.look_until(deadline, || {
            self.readiness.wake();
            self.rests()
        })
    }

    fn look_until(&self, deadline: Instant, is_there: impl Fn() -> bool) -> bool {
        loop {
            if self.is_over() {
                return false;
            }
            if is_there() {
                return true;
            }
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Whether its connection has ended, and nobody reads there any more.
    pub(crate) fn is_over(&self) -> bool {
        matches!(*floe_lock::lock(&self.place), Place::Over)
    }

    fn rests(&self) -> bool {
        matches!(*floe_lock::lock(&self.place), Place::Rests(_))
    }

    /// Takes the resting reader's receiver, to be given back by [`Rest::give_back`]. `None`: it does not rest.
    pub(crate) fn take(&self) -> Option<Box<Receiver>> {
        let mut place = floe_lock::lock(&self.place);
        match std::mem::replace(&mut *place, Place::Reads) {
            Place::Rests(receiver) => Some(receiver),
            other => {
                *place = other;
                None
            }
        }
    }

    /// Gives a receiver back that was taken: its thread still rests.
    pub(crate) fn give_back(&self, receiver: Box<Receiver>) {
        *floe_lock::lock(&self.place) = Place::Rests(receiver);
    }

    /// Lets the reader read on.
    pub(crate) fn go_on(&self) {
        self.halt.withdraw();
        drop(floe_lock::lock(&self.place));
        self.changed.notify_all();
    }
}
