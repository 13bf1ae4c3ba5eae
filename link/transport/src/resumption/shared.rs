//! How the connections of one session are, and what is done with all of them at once.
//! In: breaks, ends, and counts that are to be told. Out: connections that are left, each at its place, and whoever waits for
//! that awake. No place is touched while the state is held.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use floe_wire::{Acknowledge, Beat, Leave};

use super::history::Mark;
use super::place::{self, Siblings};
use super::pulse::Pulse;
use super::waits::Waits;
use crate::error::{Failure, Lost};
use crate::frames::sender::Sender;
use crate::pipes::pipe::Reach;
use crate::pipes::socket_options::limit_silence;

/// Somebody tells the peer, and looks again before it stops.
const TELLING: u8 = 1;
/// The peer is to be told what it has not been.
const ASKED: u8 = 2;
/// The peer is to be told of all places.
const ASKED_ANEW: u8 = 4;

/// A place of this session.
type Place = place::Place<Shared>;

/// How a session's connections are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// They are there, or are being made.
    There,
    /// One has broken, and nobody has begun with new ones.
    Broken,
    /// Either side has left.
    Over,
}

#[derive(Debug)]
pub(super) struct Shared {
    grace: Duration,
    reach: Reach,
    state: Mutex<State>,
    /// What the peer is to be told, and whether somebody does.
    telling: AtomicU8,
    /// What waits for the peer.
    pub(super) waits: Arc<Waits>,
    pub(super) pulse: Mutex<Pulse>,
    /// Wakes who waits for another [`Standing`], or for the connection for acknowledgements.
    pub(super) changed: Condvar,
}

#[derive(Debug)]
pub(super) struct State {
    /// How often the connections have been made.
    pub(super) epoch: u64,
    /// The last time that failed.
    pub(super) failed: u64,
    /// When something was last heard of a peer that is not there.
    pub(super) since: Instant,
    pub(super) places: Vec<Arc<Place>>,
    pub(super) acknowledgements: Option<(Sender, u64)>,
    /// What carries them.
    pub(super) watched: Option<Arc<OwnedFd>>,
    /// The last question of the peer's, and when it came.
    pub(super) asked: (u64, Option<Instant>),
    /// Whether the one of an epoch that has failed is read to its end, and the one that is.
    pub(super) hears_out: bool,
    pub(super) heard_out: Option<Sender>,
    /// The peer has said that it leaves.
    pub(super) has_left: bool,
    /// This side has ended it, and why.
    pub(super) over: Option<Option<Lost>>,
}
/// Connections to be left, without a lock.
pub(super) struct Leaving {
    /// Of this epoch and those before; who leaves them may come so late that there are newer ones.
    epoch: u64,
    places: Vec<Arc<Place>>,
    acknowledgements: Option<Sender>,
    /// That of an epoch that has failed, still read.
    heard_out: Option<Sender>,
}

impl Leaving {
    pub(super) fn leave(self) {
        self.places.iter().for_each(|place| place.detach(self.epoch));
        [self.acknowledgements, self.heard_out].into_iter().flatten().for_each(|sender| sender.close());
    }
}

impl State {
    pub(super) fn standing(&self) -> Standing {
        if self.over.is_some() || self.has_left {
            Standing::Over
        } else if self.failed >= self.epoch {
            Standing::Broken
        } else {
            Standing::There
        }
    }

    pub(super) fn leave_all(&mut self) -> Leaving {
        let acknowledgements = self.acknowledgements.take().map(|(sender, _)| sender);
        self.watched = None;
        let heard_out = self.heard_out.take();
        Leaving { epoch: self.epoch, places: self.places.clone(), acknowledgements, heard_out }
    }

    /// As [`State::leave_all`], but what is to be heard out stays.
    pub(super) fn leave_failed(&mut self) -> Leaving {
        let mut leaving = self.leave_all();
        if self.hears_out {
            self.heard_out = leaving.acknowledgements.take();
        }
        leaving
    }
}

impl Shared {
    /// Of a session whose connections are being made for the first time.
    pub(super) fn new(grace: Duration, reach: Reach) -> Self {
        let state = State {
            epoch: 1,
            failed: 0,
            since: Instant::now(),
            places: Vec::new(),
            acknowledgements: None,
            watched: None,
            asked: (0, None),
            hears_out: false,
            heard_out: None,
            has_left: false,
            over: None,
        };
        Self {
            grace,
            reach,
            state: Mutex::new(state),
            telling: AtomicU8::new(0),
            waits: Arc::default(),
            pulse: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn place(self: &Arc<Self>, index: u32) -> Arc<Place> {
        let mut state = self.state();
        if let Some(place) = state.places.iter().find(|place| place.index == index) {
            return Arc::clone(place);
        }
        let place = Arc::new(Place::new(index, self.reach, Arc::downgrade(self), Arc::clone(&self.waits)));
        state.places.push(Arc::clone(&place));
        place
    }

    pub(super) fn is_of(&self, epoch: u64) -> bool {
        let state = self.state();
        state.epoch == epoch && state.failed < epoch && state.over.is_none()
    }

    fn tell_now(&self, mut anew: bool) {
        loop {
            let (sender, epoch, places) = {
                let state = self.state();
                let Some((sender, epoch)) = &state.acknowledgements else { return };
                (sender.clone(), *epoch, state.places.clone())
            };
            let mut sent = Ok(0);
            for place in places {
                if let Some(Mark { received, digest }) = place.untold(anew) {
                    sent = sent.and_then(|_| sender.queue(&Acknowledge { place: place.index, received, digest }));
                }
            }
            if sent.and_then(|_| sender.flush()).is_err() {
                self.broke(epoch);
            }
            let now = self.state().acknowledgements.as_ref().map(|(_, epoch)| *epoch);
            if now.is_none_or(|now| now == epoch) {
                return;
            }
            // It may have been said on a connection that was left in this moment.
            anew = true;
        }
    }

    pub(super) fn pulse(&self) -> MutexGuard<'_, Pulse> {
        self.pulse.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says which questions this side has and has heard, where there is a connection for it.
    pub(super) fn beat(&self) {
        let (asks, now) = (self.pulse().asked(), self.state());
        let Some((sender, epoch)) = &now.acknowledgements else { return };
        let (sender, epoch, answers, watched) = (sender.clone(), *epoch, now.asked.0, now.watched.clone());
        drop(now);
        if let Some(socket) = watched {
            limit_silence(&socket, self.pulse().is_open(asks));
        }
        if sender.send(&Beat { asks, answers }, |_| ()).is_err() {
            self.broke(epoch);
        }
    }

    /// The peer says which questions it has and has heard.
    pub(super) fn peer_beats(&self, Beat { asks, answers }: Beat) {
        self.pulse().answered(answers);
        if let Some(socket) = &self.state().watched {
            limit_silence(socket, false);
        }
        let is_new = {
            let mut state = self.state();
            let is_new = asks > state.asked.0;
            if is_new {
                state.asked = (asks, Some(Instant::now()));
            }
            is_new
        };
        if is_new {
            self.waits.wake();
            self.beat();
        }
    }

    /// How many bytes have come at all places.
    pub(super) fn received(&self) -> u64 {
        let places = self.state().places.clone();
        places.iter().map(|place| place.received()).fold(0, u64::wrapping_add)
    }

    pub(super) fn peer_leaves(&self) {
        let places = {
            let mut state = self.state();
            state.has_left = true;
            state.places.clone()
        };
        self.waits.end();
        self.changed.notify_all();
        places.iter().for_each(|place| place.nudge());
    }

    pub(super) fn say_leave(&self) {
        let sender = self.state().acknowledgements.as_ref().map(|(sender, _)| sender.clone());
        if let Some(sender) = sender {
            // A peer that does not hear it waits for as long as it may.
            let _ = sender.send(&Leave {}, |_| ());
        }
    }
}

impl Siblings for Shared {
    fn goes_on(&self) -> Result<bool, Failure> {
        let state = self.state();
        match state.over {
            Some(Some(lost)) => Err(Failure::Lost(lost)),
            Some(None) => Ok(false),
            None => Ok(!state.has_left),
        }
    }

    fn grace(&self) -> Duration {
        self.grace
    }

    fn grace_left(&self) -> Duration {
        self.grace.saturating_sub(self.state().since.elapsed())
    }

    /// A connection of this epoch has failed: the others are left, too. Not where the peer has left: each ends by itself
    /// then, behind what the peer has said last.
    fn broke(&self, epoch: u64) {
        let leaving = {
            let mut state = self.state();
            if state.epoch != epoch || state.failed >= epoch || state.has_left {
                return;
            }
            state.failed = epoch;
            state.since = Instant::now();
            state.leave_failed()
        };
        self.changed.notify_all();
        leaving.leave();
    }

    /// Has the peer told how many bytes have come at each place where it has not been told, or `anew` at all of them. One
    /// thread tells; others that ask meanwhile leave it to that one, so that who reads bulk data stands in no line here.
    fn tell(&self, anew: bool) {
        let asked = if anew { ASKED_ANEW } else { ASKED };
        if self.telling.fetch_or(asked | TELLING, Ordering::AcqRel) & TELLING != 0 {
            return;
        }
        loop {
            let asked = self.telling.swap(TELLING, Ordering::AcqRel);
            self.tell_now(asked & ASKED_ANEW != 0);
            if self.telling.compare_exchange(TELLING, 0, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                return;
            }
        }
    }

    fn end(&self, lost: Option<Lost>) {
        if self.state().over.is_some() {
            return;
        }
        self.say_leave();
        let leaving = {
            let mut state = self.state();
            if state.over.is_some() {
                return;
            }
            state.over = Some(lost);
            state.leave_all()
        };
        self.waits.end();
        self.changed.notify_all();
        leaving.places.iter().for_each(|place| place.end());
        leaving.leave();
    }
}
