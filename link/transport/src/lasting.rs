//! Links that outlive their connections.
//! In: a session's connections, each at its place, as often as they are made anew. Out: pipes that stay, and a pause where a
//! connection was.
//!
//! All connections of a session are of one epoch: when one breaks, all are left, and the client makes each of them again. At
//! every place both sides first say how many bytes they have; the other goes on behind them. How many bytes have come is also
//! said meanwhile, on a connection of its own that carries nothing else and is always read: so it comes through whatever the
//! others are full of, and what the peer has need not be kept. What this side's process is told of a peer that is gone for
//! good is that connection's end, too: the system ends it when the peer's machine does not answer.

mod log;
mod place;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use floe_wire::{Acknowledge, Decode as _, Leave, Message as _};

use crate::error::{Failure, LinkError};
use crate::link::Link;
use crate::pipe::Reach;
use crate::receiver::Receiver;
use crate::sender::Sender;
pub(crate) use place::Place;

/// The place of the session's own connection.
pub const OWN_PLACE: u32 = 0;
/// The place of the connection that carries acknowledgements.
pub const ACKNOWLEDGEMENTS_PLACE: u32 = u32::MAX;

/// Why a link is not made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// Nobody came back for so long.
    Grace(Duration),
    /// The session is not there any more.
    Gone,
}

/// What a connection for acknowledgements came to.
#[derive(Debug)]
pub enum Heard {
    /// The session goes on with other connections, or ends.
    Broke,
    /// The peer broke the contract.
    Contract(LinkError),
}

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

/// The connections of one session; threads share it by cloning.
#[derive(Clone, Debug)]
pub struct Places {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    grace: Duration,
    reach: Reach,
    state: Mutex<State>,
    /// Wakes who waits for another [`Standing`], or for the connection for acknowledgements.
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    /// How often the connections have been made.
    epoch: u64,
    /// The last time that failed.
    failed: u64,
    /// When something was last heard of a peer that is not there.
    since: Instant,
    places: Vec<Arc<Place>>,
    acknowledgements: Option<(Sender, u64)>,
    /// Whether the one of an epoch that has failed is read to its end, and the one that is.
    hears_out: bool,
    heard_out: Option<Sender>,
    /// The peer has said that it leaves.
    has_left: bool,
    /// This side has ended it, and why.
    over: Option<Option<Lost>>,
}

impl Places {
    /// Takes over a link on which both sides have said the same, as the session's own: what it carries from here on outlives
    /// it. A connection that breaks may be made again for `grace`.
    ///
    /// # Panics
    /// When bytes were read ahead of the frame that was received last.
    #[must_use]
    pub fn take_over(link: Link, grace: Duration) -> (Self, Link) {
        let reach = link.pipe().reach();
        let state = State {
            epoch: 1,
            failed: 0,
            since: Instant::now(),
            places: Vec::new(),
            acknowledgements: None,
            hears_out: false,
            heard_out: None,
            has_left: false,
            over: None,
        };
        let places =
            Self { shared: Arc::new(Shared { grace, reach, state: Mutex::new(state), changed: Condvar::new() }) };
        let place = places.shared.place(OWN_PLACE);
        // Nothing has been said at this place, so nothing can be wrong.
        let _ = place.attach(1, link.pipe(), 0, || true);
        let link = link.go_on_at(place);
        (places, link)
    }

    /// When connections break, the one with acknowledgements is still read: that the peer leaves may come behind the ends of the
    /// others. For the side that waits for new ones; it ends with these, or by [`Places::end_hearing`].
    pub fn hear_out(&self) {
        self.shared.state().hears_out = true;
    }

    /// Whoever has not said anything by now has not left.
    pub fn end_hearing(&self) {
        let heard_out = self.shared.state().heard_out.take();
        if let Some(sender) = heard_out {
            sender.close();
        }
    }

    /// The link at a place, on which nothing has been said; it is to be had once. There need not be a connection.
    #[must_use]
    pub fn link(&self, place: u32) -> Link {
        Link::over(self.shared.place(place))
    }

    /// Whether a place has been named before.
    #[must_use]
    pub fn has(&self, place: u32) -> bool {
        self.shared.state().places.iter().any(|other| other.index == place)
    }

    /// All places there are but that of acknowledgements.
    #[must_use]
    pub fn all(&self) -> Vec<u32> {
        self.shared.state().places.iter().map(|place| place.index).collect()
    }

    /// How often connections have been made.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.shared.state().epoch
    }

    /// Begins with new connections: those of before are left. False: this time or a later one has begun before, or the
    /// session is over.
    #[must_use]
    pub fn begin(&self, epoch: u64) -> bool {
        let places = {
            let mut state = self.shared.state();
            if epoch <= state.epoch || state.over.is_some() {
                return false;
            }
            let leaving = state.leave_all();
            state.epoch = epoch;
            state.since = Instant::now();
            leaving
        };
        self.shared.changed.notify_all();
        places.leave();
        true
    }

    /// How many bytes have been read at a place; none is before it goes on. For the place of acknowledgements: 0.
    #[must_use]
    pub fn freeze(&self, place: u32) -> u64 {
        if place == ACKNOWLEDGEMENTS_PLACE { 0 } else { self.shared.place(place).freeze() }
    }

    /// Goes on at a place with a new connection, whose peer has read `received` bytes there. What it lacks is written first,
    /// which may take until it reads. A connection of another epoch is closed.
    ///
    /// # Errors
    /// [`LinkError::Acknowledgement`] where the peer cannot have read so many.
    ///
    /// # Panics
    /// When bytes were read ahead of the frame that was received last.
    pub fn go_on(&self, place: u32, epoch: u64, link: Link, received: u64) -> Result<(), LinkError> {
        let shared = Arc::clone(&self.shared);
        let is_valid = move || shared.is_of(epoch);
        self.shared.place(place).attach(epoch, link.into_pipe(), received, is_valid)
    }

    /// Takes the connection for acknowledgements of an epoch; what is to be read by [`Places::listen`].
    #[must_use]
    pub fn hear(&self, epoch: u64, link: Link) -> Receiver {
        link.watch_peer();
        let (sender, receiver) = link.halves();
        {
            let mut state = self.shared.state();
            if state.epoch == epoch && state.failed < epoch && state.over.is_none() {
                state.acknowledgements = Some((sender, epoch));
                self.shared.changed.notify_all();
            } else {
                sender.close();
            }
        }
        self.shared.tell(true);
        receiver
    }

    /// Reads a connection for acknowledgements until it ends, and has the others of its epoch end with it.
    pub fn listen(&self, epoch: u64, mut receiver: Receiver) -> Heard {
        let heard = loop {
            let frame = match receiver.next() {
                Ok(Some(frame)) => frame,
                Ok(None) => break Heard::Broke,
                Err(error) if error.is_broken_contract() && !matches!(error, LinkError::CutOff { .. }) => {
                    break Heard::Contract(error);
                }
                Err(_) => break Heard::Broke,
            };
            let heard = match frame.kind {
                Acknowledge::KIND => self.acknowledged(frame.payload),
                Leave::KIND => {
                    self.shared.peer_leaves();
                    Ok(())
                }
                got => Err(LinkError::Kind { expected: Acknowledge::KIND, got }),
            };
            if let Err(error) = heard {
                break Heard::Contract(error);
            }
        };
        self.shared.broke(epoch);
        heard
    }

    fn acknowledged(&self, payload: &[u8]) -> Result<(), LinkError> {
        let Acknowledge { place, received } = Acknowledge::decode(payload)?;
        let there = self.shared.state().places.iter().find(|other| other.index == place).cloned();
        let there = there.ok_or(LinkError::Acknowledgement { place, received, acknowledged: 0, sent: 0 })?;
        there.acknowledge(received)
    }

    /// A connection of this epoch cannot be made: all of it are left.
    pub fn broke(&self, epoch: u64) {
        self.shared.broke(epoch);
    }

    /// Something was heard of a peer that is not there: the grace period begins anew.
    pub fn heard(&self) {
        self.shared.state().since = Instant::now();
    }

    /// How long the peer may still be missing.
    #[must_use]
    pub fn grace_left(&self) -> Duration {
        self.shared.grace_left()
    }

    /// How long it may be missing altogether.
    #[must_use]
    pub fn grace(&self) -> Duration {
        self.shared.grace
    }

    /// Whether this side has ended the session, or the peer has left.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.standing() == Standing::Over
    }

    /// How the connections are.
    #[must_use]
    pub fn standing(&self) -> Standing {
        self.shared.state().standing()
    }

    /// Sleeps until they are otherwise than `seen`, or for `time`; how they are then.
    #[must_use]
    pub fn await_change(&self, seen: Standing, time: Option<Duration>) -> Standing {
        let unchanged = |state: &mut State| state.standing() == seen;
        let state = self.shared.state();
        let state = match time {
            None => self.shared.changed.wait_while(state, unchanged).unwrap_or_else(PoisonError::into_inner),
            Some(time) => {
                let waited = self.shared.changed.wait_timeout_while(state, time, unchanged);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        state.standing()
    }

    /// Tells the peer that this side leaves: connections that end from here on are not made again. A peer that is not told
    /// waits for the grace period. Waits for the connection for acknowledgements where it is being made, so long at most.
    pub fn say_leave(&self, patience: Duration) {
        let until = Instant::now() + patience;
        let mut state = self.shared.state();
        while state.acknowledgements.is_none() && state.over.is_none() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = self.shared.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(state);
        self.shared.say_leave();
    }

    /// The session is not there any more: whoever reads or writes hears it.
    pub fn give_up(&self) {
        self.shared.end(Some(Lost::Gone));
    }

    /// Ends it for this side; the peer is told.
    pub fn end(&self) {
        self.shared.end(None);
    }
}

/// Connections to be left, without a lock.
struct Leaving {
    /// Of this epoch and those before; who leaves them may come so late that there are newer ones.
    epoch: u64,
    places: Vec<Arc<Place>>,
    acknowledgements: Option<Sender>,
    /// That of an epoch that has failed, still read.
    heard_out: Option<Sender>,
}

impl Leaving {
    fn leave(self) {
        self.places.iter().for_each(|place| place.detach(self.epoch));
        [self.acknowledgements, self.heard_out].into_iter().flatten().for_each(|sender| sender.close());
    }
}

impl State {
    fn standing(&self) -> Standing {
        if self.over.is_some() || self.has_left {
            Standing::Over
        } else if self.failed >= self.epoch {
            Standing::Broken
        } else {
            Standing::There
        }
    }

    fn leave_all(&mut self) -> Leaving {
        let acknowledgements = self.acknowledgements.take().map(|(sender, _)| sender);
        let heard_out = self.heard_out.take();
        Leaving { epoch: self.epoch, places: self.places.clone(), acknowledgements, heard_out }
    }

    /// As [`State::leave_all`], but what is to be heard out stays.
    fn leave_failed(&mut self) -> Leaving {
        let mut leaving = self.leave_all();
        if self.hears_out {
            self.heard_out = leaving.acknowledgements.take();
        }
        leaving
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn place(self: &Arc<Self>, index: u32) -> Arc<Place> {
        let mut state = self.state();
        if let Some(place) = state.places.iter().find(|place| place.index == index) {
            return Arc::clone(place);
        }
        let place = Arc::new(Place::new(index, self.reach, Arc::downgrade(self)));
        state.places.push(Arc::clone(&place));
        place
    }

    fn is_of(&self, epoch: u64) -> bool {
        let state = self.state();
        state.epoch == epoch && state.failed < epoch && state.over.is_none()
    }

    /// Whether bytes still come: `Ok(false)` where either side has left.
    fn goes_on(&self) -> Result<bool, Failure> {
        let state = self.state();
        match state.over {
            Some(Some(lost)) => Err(Failure::Lost(lost)),
            Some(None) => Ok(false),
            None => Ok(!state.has_left),
        }
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

    /// Tells the peer how many bytes have come at each place where it has not been told, or `anew` at all of them.
    fn tell(&self, mut anew: bool) {
        loop {
            let (sender, epoch, places) = {
                let state = self.state();
                let Some((sender, epoch)) = &state.acknowledgements else { return };
                (sender.clone(), *epoch, state.places.clone())
            };
            let mut sent = Ok(0);
            for place in places {
                if let Some(received) = place.untold(anew) {
                    sent = sent.and_then(|_| sender.queue(&Acknowledge { place: place.index, received }));
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

    fn peer_leaves(&self) {
        let places = {
            let mut state = self.state();
            state.has_left = true;
            state.places.clone()
        };
        self.changed.notify_all();
        places.iter().for_each(|place| place.nudge());
    }

    fn say_leave(&self) {
        let sender = self.state().acknowledgements.as_ref().map(|(sender, _)| sender.clone());
        if let Some(sender) = sender {
            // A peer that does not hear it waits for as long as it may.
            let _ = sender.send(&Leave {}, |_| ());
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
        self.changed.notify_all();
        leaving.places.iter().for_each(|place| place.end());
        leaving.leave();
    }
}
