//! The channels of one session, as the client and the worker hold them.
//! In: connections that were made, acknowledgements and heartbeats of the peer. Out: links that resume, and the link state.
//! It makes no connection: the client does, and the server waits for it.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use floe_wire::{Acknowledge, Decode as _, Goodbye, Heartbeat, Message as _};

use super::channel::{ChannelMemory, Siblings as _};
use super::heartbeat::{Step, TICK};
use super::history::HistoryDigest;
use super::log::Unkept;
use super::session::{Admission, LinkState, SessionImage};
use super::shared::{Acknowledgements, Shared, State};
use super::waits::Wait;
use crate::error::{LinkError, Lost};
use crate::frames::receiver::Receiver;
use crate::link::Link;
use crate::pipes::pipe::Reach;

/// The channel of the session's own connection.
pub const MAIN_CHANNEL: u32 = 0;
/// The channel of the connection that carries acknowledgements.
pub const ACKNOWLEDGEMENT_CHANNEL: u32 = u32::MAX;
/// The longest time for what is said there. It carries so little that its buffers are never full, unless the peer asks and
/// does not read.
const SAYING: Duration = Duration::from_secs(2);

/// What a connection for acknowledgements came to.
#[derive(Debug)]
pub enum Heard {
    /// The session goes on with other connections, or ends.
    Broke,
    /// The peer broke the contract.
    Contract(LinkError),
}

/// A question whether the peer is there, which ought to have been answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Doubt {
    epoch: u64,
    question: u64,
}

/// The connections of one session; threads share it by cloning.
#[derive(Clone, Debug)]
pub struct Channels {
    shared: Arc<Shared>,
}

impl Channels {
    /// Takes over a link on which both sides have said the same, as the session's own: what it carries from here on outlives
    /// it. A connection that breaks may be made again for `grace`.
    ///
    /// # Panics
    /// When bytes were read ahead of the frame that was received last.
    #[must_use]
    pub fn take_over(link: Link, grace: Duration) -> (Self, Link) {
        let reach = link.pipe().reach();
        let channels = Self { shared: Arc::new(Shared::new(grace, reach, MAIN_CHANNEL)) };
        let channel = channels.shared.channel(MAIN_CHANNEL);
        // Nothing has been said on this channel, so nothing can be wrong.
        let _ = channel.attach(1, link.pipe(), HistoryDigest::none(), || true);
        let link = link.go_on_over(channel);
        (channels, link)
    }

    /// The connections of a session that another process has, parked: what they remember comes later. The link is that of
    /// the main channel, on which nothing may be sent before.
    pub(crate) fn expecting(grace: Duration, reach: Reach) -> (Self, Link) {
        let channels = Self { shared: Arc::new(Shared::new(grace, reach, MAIN_CHANNEL)) };
        let _ = channels.park();
        let link = channels.link(MAIN_CHANNEL);
        (channels, link)
    }

    /// Leaves all connections, takes no others, and waits for nobody before [`Channels::unpark`]: then the client may make
    /// its connections again, here or in another process. Readers stop with [`LinkError::Stopped`]; bytes of theirs that
    /// came and were not read come again. Writers wait. False: the session is over, or parked.
    #[must_use]
    pub fn park(&self) -> bool {
        self.shared.park()
    }

    /// Goes on: the client has all of the grace period to make its connections.
    pub fn unpark(&self) {
        self.shared.unpark();
    }

    /// Whether the connection with acknowledgements is there.
    #[must_use]
    pub fn hears(&self) -> bool {
        self.shared.state().session.acknowledgements().is_some()
    }

    /// Bytes that were sent and are not known to have arrived.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        let channels = self.shared.state().channels.clone();
        channels.iter().map(|channel| channel.in_flight()).fold(0, u64::saturating_add)
    }

    /// What the session remembers beside its channels.
    pub(crate) fn image(&self) -> SessionImage {
        self.shared.state().session.image()
    }

    /// What a channel remembers.
    pub(crate) fn memory(&self, channel: u32) -> Result<ChannelMemory, Unkept> {
        self.shared.channel(channel).image()
    }

    /// Becomes the session that another process remembers, parked.
    pub(crate) fn recall(&self, image: SessionImage) {
        self.shared.recall(image);
    }

    /// The same of a channel. False: that cannot be.
    pub(crate) fn recall_channel(&self, channel: u32, memory: &ChannelMemory) -> bool {
        self.shared.channel(channel).recall(memory)
    }

    /// When connections break, the one with acknowledgements is still read: that the peer leaves may come behind the ends of the
    /// others. For the side that waits for new ones; it ends with these, or by [`Channels::stop_hearing`].
    pub fn hear_goodbye(&self) {
        self.shared.state().session.hear_goodbye();
    }

    /// Whoever has not said anything by now has not left.
    pub fn stop_hearing(&self) {
        let hearing = self.shared.state().session.stop_hearing();
        if let Some(connection) = hearing {
            connection.sender.close();
        }
    }

    /// The link on a channel, on which nothing has been said; it is to be had once. There need not be a connection.
    #[must_use]
    pub fn link(&self, channel: u32) -> Link {
        Link::over(self.shared.channel(channel))
    }

    /// Whether a channel has been named before.
    #[must_use]
    pub fn has(&self, channel: u32) -> bool {
        self.shared.state().channels.iter().any(|other| other.index == channel)
    }

    /// All channels there are but that of acknowledgements.
    #[must_use]
    pub fn all(&self) -> Vec<u32> {
        self.shared.state().channels.iter().map(|channel| channel.index).collect()
    }

    /// How often connections have been made.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.shared.state().session.epoch()
    }

    /// Begins with new connections: those of before are left. False: this time or a later one has begun before, or the
    /// session is over.
    #[must_use]
    pub fn begin(&self, epoch: u64) -> bool {
        self.shared.begin(epoch)
    }

    /// What this side does with a connection that the peer made for a channel of an epoch, which begins with the first of it.
    #[must_use]
    pub fn admit(&self, epoch: u64, channel: u32) -> Admission {
        self.shared.admit(epoch, channel)
    }

    /// What has been read on a channel; none is before it goes on. The channel of acknowledgements has no history.
    #[must_use]
    pub fn freeze(&self, channel: u32) -> HistoryDigest {
        if channel == ACKNOWLEDGEMENT_CHANNEL { HistoryDigest::none() } else { self.shared.channel(channel).freeze() }
    }

    /// As [`Channels::freeze`], unless the epoch is over: a thread that comes late stops nobody who reads on the next
    /// epoch's connection.
    #[must_use]
    pub fn freeze_in(&self, epoch: u64, channel: u32) -> Option<HistoryDigest> {
        let is_now = || self.epoch() == epoch;
        if channel == ACKNOWLEDGEMENT_CHANNEL {
            return is_now().then(HistoryDigest::none);
        }
        self.shared.channel(channel).freeze_if(is_now)
    }

    /// Whether a peer that says it has read this on a channel can have.
    ///
    /// # Errors
    /// [`LinkError::Acknowledgement`] where it cannot have read so many bytes, [`LinkError::History`] where it has read others.
    pub fn check(&self, channel: u32, mark: HistoryDigest) -> Result<(), LinkError> {
        if channel == ACKNOWLEDGEMENT_CHANNEL { Ok(()) } else { self.shared.channel(channel).check(mark) }
    }

    /// Resumes a channel with a new connection, whose peer has read this there. What it lacks is written first,
    /// which may take until it reads. A connection of another epoch is closed.
    ///
    /// # Errors
    /// As [`Channels::check`].
    ///
    /// # Panics
    /// When bytes were read ahead of the frame that was received last.
    pub fn resume(&self, channel: u32, epoch: u64, link: Link, mark: HistoryDigest) -> Result<(), LinkError> {
        let shared = Arc::clone(&self.shared);
        let is_valid = move || shared.is_of(epoch);
        self.shared.channel(channel).attach(epoch, link.into_pipe(), mark, is_valid)
    }

    /// Takes the connection for acknowledgements of an epoch; what is to be read by [`Channels::listen`]. A peer that does not
    /// read it breaks it: nobody waits there for long, least of all who ends the session.
    #[must_use]
    pub fn hear(&self, epoch: u64, link: Link) -> Receiver {
        link.watch_peer();
        // A socket that takes no limit is no connection any more, which shows in what is said there.
        let _ = link.limit_writes(Some(SAYING));
        let socket = link.own_socket();
        let (sender, receiver) = link.halves();
        let late = self.shared.state().session.hear(epoch, Acknowledgements { sender, socket });
        match late {
            Ok(()) => self.shared.changed.notify_all(),
            Err(late) => late.sender.close(),
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
                Heartbeat::KIND => Heartbeat::decode(frame.payload).map_err(LinkError::from).map(|heartbeat| {
                    self.shared.hear_heartbeat(heartbeat);
                }),
                Goodbye::KIND => {
                    self.shared.peer_says_goodbye();
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
        let Acknowledge { channel, received, digest } = Acknowledge::decode(payload)?;
        let there = self.shared.state().channels.iter().find(|other| other.index == channel).cloned();
        let there = there.ok_or(LinkError::Acknowledgement { channel, received, acknowledged: 0, sent: 0 })?;
        there.acknowledge(HistoryDigest { received, digest })
    }

    /// Something of this side waits for the peer, until the wait is dropped: while that is long, the peer is asked whether it is
    /// there.
    #[must_use]
    pub fn wait(&self) -> Wait<'_> {
        self.shared.waits.begin()
    }

    /// The way to the peer and back took so long.
    pub fn went(&self, trip: Duration) {
        self.shared.state().session.went(trip);
    }

    /// Asks the peer now and then while something waits, here or there, and no byte comes; returns with the first question that
    /// ought to have been answered. `None`: the session is over. For one thread.
    ///
    /// A peer that has not answered may be stopped, or have no processor: the caller finds out otherwise that its connections
    /// are dead, and leaves them by [`Channels::broke_in`].
    #[must_use]
    pub fn await_doubt(&self) -> Option<Doubt> {
        let (mut last, mut received) = (Instant::now(), self.shared.received());
        loop {
            if !self.shared.waits.any() && !self.peer_waits() {
                self.shared.state().session.calm();
                if !self.shared.waits.rest() {
                    return None;
                }
                last = Instant::now();
            }
            if !self.shared.waits.pass(TICK) {
                return None;
            }
            let (now, came) = (Instant::now(), self.shared.received());
            let has_heard = std::mem::replace(&mut received, came) != came;
            if let Some(doubt) = self.look(now - last, has_heard) {
                return Some(doubt);
            }
            last = now;
        }
    }

    /// One look of who asks.
    fn look(&self, passed: Duration, has_heard: bool) -> Option<Doubt> {
        let waits = self.shared.waits.any();
        let now = self.shared.now();
        let look = self.shared.state().session.look(passed, waits, has_heard, now);
        if look.tell {
            self.shared.tell(false);
        }
        match look.step {
            Step::Nothing => None,
            Step::Ask(_) => {
                self.shared.send_heartbeat();
                None
            }
            Step::Doubt(question) => look.epoch.map(|epoch| Doubt { epoch, question }),
        }
    }

    /// Whether the peer has asked lately, and said nothing else since.
    fn peer_waits(&self) -> bool {
        self.shared.state().session.peer_waits(self.shared.now())
    }

    /// The connections that a question was asked on are dead, unless it has been answered.
    pub fn broke_in(&self, doubt: Doubt) {
        let Doubt { epoch, question } = doubt;
        let is_open = self.shared.state().session.is_open(question);
        if is_open {
            self.shared.broke(epoch);
        }
    }

    /// A connection of this epoch cannot be made: all of it are left.
    pub fn broke(&self, epoch: u64) {
        self.shared.broke(epoch);
    }

    /// Something was heard of a peer that is not there: the grace period begins anew.
    pub fn heard(&self) {
        let now = self.shared.now();
        self.shared.state().session.heard(now);
    }

    /// How long the peer may still be missing.
    #[must_use]
    pub fn grace_left(&self) -> Duration {
        self.shared.grace_left()
    }

    /// How long it may be missing altogether.
    #[must_use]
    pub fn grace(&self) -> Duration {
        self.shared.grace()
    }

    /// Whether this side has ended the session, or the peer has left.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.link_state() == LinkState::Over
    }

    /// How the connections are.
    #[must_use]
    pub fn link_state(&self) -> LinkState {
        self.shared.state().session.link_state()
    }

    /// Sleeps until they are otherwise than `seen`, or for `time`; how they are then.
    #[must_use]
    pub fn await_change(&self, seen: LinkState, time: Option<Duration>) -> LinkState {
        let unchanged = |state: &mut State| state.session.link_state() == seen;
        let state = self.shared.state();
        let state = match time {
            None => self.shared.changed.wait_while(state, unchanged).unwrap_or_else(PoisonError::into_inner),
            Some(time) => {
                let waited = self.shared.changed.wait_timeout_while(state, time, unchanged);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        state.session.link_state()
    }

    /// Tells the peer that this side leaves: connections that end from here on are not made again. A peer that is not told
    /// waits for the grace period. Waits for the connection for acknowledgements where it is being made, so long at most.
    pub fn say_goodbye(&self, patience: Duration) {
        let until = Instant::now() + patience;
        let mut state = self.shared.state();
        while state.session.acknowledgements().is_none() && !state.session.is_ended() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = floe_lock::wait_timeout(&self.shared.changed, state, left);
        }
        drop(state);
        self.shared.say_goodbye();
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

#[cfg(test)]
mod tests;
