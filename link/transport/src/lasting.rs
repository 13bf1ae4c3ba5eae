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
mod pipe;
mod place;
mod shared;
#[cfg(test)]
mod tests;

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use floe_wire::{Acknowledge, Decode as _, Leave, Message as _};

use crate::error::LinkError;
use crate::link::Link;
use crate::receiver::Receiver;
pub(crate) use place::Place;
use shared::{Shared, State};

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
    /// What is to be sent cannot be read, on this connection or another.
    Unreadable,
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

impl Places {
    /// Takes over a link on which both sides have said the same, as the session's own: what it carries from here on outlives
    /// it. A connection that breaks may be made again for `grace`.
    ///
    /// # Panics
    /// When bytes were read ahead of the frame that was received last.
    #[must_use]
    pub fn take_over(mut link: Link, grace: Duration) -> (Self, Link) {
        link.go_into_kernel();
        let reach = link.pipe().reach();
        let places = Self { shared: Arc::new(Shared::new(grace, reach)) };
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
    pub fn go_on(&self, place: u32, epoch: u64, mut link: Link, received: u64) -> Result<(), LinkError> {
        link.go_into_kernel();
        let shared = Arc::clone(&self.shared);
        let is_valid = move || shared.is_of(epoch);
        self.shared.place(place).attach(epoch, link.into_pipe(), received, is_valid)
    }

    /// Takes the connection for acknowledgements of an epoch; what is to be read by [`Places::listen`].
    #[must_use]
    pub fn hear(&self, epoch: u64, mut link: Link) -> Receiver {
        link.go_into_kernel();
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
