//! The session's turn on a GPU that it shares: whether the issuer may submit, and what was in flight when it stopped.
//! In: words of the thread that keeps turns (`life::turns`) and of the issuer. Out: the same to the other one.
//! It waits for nobody.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use floe_device::Device;

use crate::complete::events::CompletionEvent;
use crate::daemon::turn_notices::TurnEvent;

/// Submit as ever; keep little in flight; stop; keep still less in flight. What is above these bits counts stops: an issuer that
/// has not woken since the last one answers each.
const FREE: u64 = 0;
const PACED: u64 = 1;
pub(crate) const STOPPED: u64 = 2;
const BRIEF: u64 = 3;
pub(crate) const COUNT: u64 = 4;

/// Commands between two marks of a paced issuer. Twice as many are in flight at most.
const MOST_COMMANDS: u32 = 256;
/// Work between two marks, at least and at most: little beside a turn, much beside the price of a mark.
const LITTLE: [Duration; 2] = [Duration::from_micros(500), Duration::from_millis(2)];
/// The same where a turn may end at any time.
const LEAST: [Duration; 2] = [Duration::from_micros(80), Duration::from_micros(250)];

/// How much a session in its turn keeps in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ahead {
    /// As much as it likes: nobody waits.
    Any,
    /// Little, for others wait.
    Little,
    /// The least, for others may go at any time.
    Least,
}

/// Whether the issuer may submit, for its threads.
pub(crate) struct Turn<D: Device> {
    state: AtomicU64,
    events: Mutex<Option<Sender<TurnEvent>>>,
    /// What was in flight when the issuer stopped.
    in_flight: Mutex<Vec<Arc<CompletionEvent<D>>>>,
    /// How long that took in the last turn, in microseconds.
    drained: AtomicU32,
    /// Signs of life that the issuer has given while others waited.
    busy: AtomicU64,
}

impl<D: Device> Default for Turn<D> {
    fn default() -> Self {
        Self {
            state: AtomicU64::new(FREE),
            events: Mutex::default(),
            in_flight: Mutex::default(),
            drained: AtomicU32::new(0),
            busy: AtomicU64::new(0),
        }
    }
}

impl<D: Device> Turn<D> {
    /// The issuer tells this what it does. `None`: nobody listens any more.
    pub(crate) fn tell(&self, events: Option<Sender<TurnEvent>>) {
        *floe_lock::lock(&self.events) = events;
    }

    /// The issuer may submit.
    pub(crate) fn goes_on(&self, ahead: Ahead) {
        let word = match ahead {
            Ahead::Any => FREE,
            Ahead::Little => PACED,
            Ahead::Least => BRIEF,
        };
        self.set(word, 0);
    }

    /// The issuer is to stop at its next border.
    pub(crate) fn stops(&self) {
        self.set(STOPPED, COUNT);
    }

    /// One thread sets it.
    fn set(&self, word: u64, more: u64) {
        let count = self.state.load(Ordering::Relaxed) & !(COUNT - 1);
        self.state.store(count.wrapping_add(more) | word, Ordering::Release);
    }

    pub(crate) fn state(&self) -> u64 {
        self.state.load(Ordering::Acquire)
    }

    /// The number of the last stop.
    pub(crate) fn stop_number(&self) -> u64 {
        self.state() / COUNT
    }

    pub(crate) fn is_paced(&self) -> bool {
        self.state.load(Ordering::Relaxed) & PACED != 0
    }

    /// Work between two marks of a paced issuer, at least and at most.
    fn between_marks(&self) -> [Duration; 2] {
        if self.state() % COUNT == BRIEF { LEAST } else { LITTLE }
    }

    /// While others wait, the issuer has carried out a command, or waits before it takes the next.
    pub(crate) fn is_busy(&self) {
        // One thread counts.
        self.busy.store(self.busy.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// A number that changes while the issuer is busy.
    pub(crate) fn busy(&self) -> u64 {
        self.busy.load(Ordering::Relaxed)
    }

    /// What was in flight when the issuer stopped took so long.
    pub(crate) fn took_to_drain(&self, took: Duration) {
        self.drained.store(u32::try_from(took.as_micros()).unwrap_or(u32::MAX), Ordering::Relaxed);
    }

    /// The issuer has stopped, with this in flight.
    pub(crate) fn has_stopped_with(&self, in_flight: Vec<Arc<CompletionEvent<D>>>) {
        *floe_lock::lock(&self.in_flight) = in_flight;
    }

    /// What was in flight when the issuer stopped, and is not done.
    pub(crate) fn left(&self) -> usize {
        let mut in_flight = floe_lock::lock(&self.in_flight);
        // A failure is a way to be done.
        in_flight.retain(|completion| completion.outcome().is_none());
        in_flight.len()
    }

    pub(crate) fn say(&self, event: TurnEvent) {
        if let Some(events) = &*floe_lock::lock(&self.events) {
            let _ = events.send(event);
        }
    }
}

/// The pace of an issuer whose turn others wait for.
pub(crate) struct Pace<D: Device> {
    /// Commands from one mark to the next.
    pub(crate) each: u32,
    pub(crate) commands: u32,
    pub(crate) marks: Vec<Arc<CompletionEvent<D>>>,
    pub(crate) marked: Option<Instant>,
}

impl<D: Device> Default for Pace<D> {
    fn default() -> Self {
        Self { each: 1, commands: 0, marks: Vec::new(), marked: None }
    }
}

impl<D: Device> Pace<D> {
    /// Fewer commands where they are long, more where they are short.
    pub(crate) fn adapt(&mut self, now: Instant, turn: &Turn<D>) {
        if let Some(marked) = self.marked.replace(now) {
            let took = now.saturating_duration_since(marked);
            let [least, most] = turn.between_marks();
            if took > most {
                self.each = (self.each / 2).max(1);
            } else if took < least {
                self.each = (self.each * 2).min(MOST_COMMANDS);
            }
        }
    }

    /// A turn begins. Where what was in flight at the end of the last one took long, fewer commands are to be: a turn may be too
    /// short for a second mark, by which it would be seen.
    pub(crate) fn begin(&mut self, turn: &Turn<D>) {
        let drained = Duration::from_micros(turn.drained.swap(0, Ordering::Relaxed).into());
        let [_, most] = turn.between_marks();
        let mut each = self.each;
        // Twice as many as between two marks are in flight.
        let mut took = drained / 2;
        while took > most && each > 1 {
            (each, took) = (each / 2, took / 2);
        }
        *self = Self { each, ..Self::default() };
    }
}
