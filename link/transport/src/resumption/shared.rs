//! The lock, clock and sockets around a session's state.
//! In: breaks, ends, and acknowledgements that are due. Out: connections that are closed, acknowledgements and heartbeats that
//! are sent, and waiting threads that are woken. It touches no channel while the state is locked.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use floe_wire::{Acknowledge, Goodbye, Heartbeat};
use rustix::net::{Shutdown, shutdown};

use super::channel::{self, Siblings};
use super::history::HistoryDigest;
use super::session::{Admission, Left, Session, SessionImage, Time};
use super::waits::Waits;
use crate::error::{Failure, Lost};
use crate::frames::sender::Sender;
use crate::pipes::pipe::Reach;
use crate::pipes::socket_options::limit_silence;

/// Somebody tells the peer, and looks again before it stops.
const TELLING: u8 = 1;
/// The peer is to be told what it has not been.
const ASKED: u8 = 2;
/// The peer is to be told of all channels.
const ASKED_ANEW: u8 = 4;

/// A channel of this session.
type Channel = channel::Channel<Shared>;

#[derive(Debug)]
pub(super) struct Shared {
    began: Instant,
    reach: Reach,
    state: Mutex<State>,
    /// What the peer is to be told, and whether somebody does.
    telling: AtomicU8,
    /// As the state has it, for each write.
    parked: AtomicBool,
    /// What waits for the peer.
    pub(super) waits: Arc<Waits>,
    /// Wakes whoever waits for another link state, or for the connection for acknowledgements.
    pub(super) changed: Condvar,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) session: Session<Acknowledgements>,
    pub(super) channels: Vec<Arc<Channel>>,
}

/// A connection for acknowledgements.
#[derive(Clone, Debug)]
pub(super) struct Acknowledgements {
    pub(super) sender: Sender,
    /// What carries it, where the system can tell how long the peer is silent.
    pub(super) socket: Option<Arc<OwnedFd>>,
}

impl Acknowledgements {
    /// Ends it for the peer's reader, so that it makes new connections at once, also where nobody reads its others. What it
    /// says itself is still heard.
    fn say_nothing_more(&self) {
        match &self.socket {
            // A socket that is not connected needs no shutdown.
            Some(socket) => _ = shutdown(socket, Shutdown::Write),
            None => self.sender.close(),
        }
    }
}

/// Connections to be left, without a lock.
pub(super) struct Leaving {
    left: Left<Acknowledgements>,
    channels: Vec<Arc<Channel>>,
}

impl Leaving {
    pub(super) fn leave(self) {
        self.channels.iter().for_each(|channel| channel.detach(self.left.epoch));
        self.left.acknowledgements.into_iter().flatten().for_each(|connection| connection.sender.close());
    }
}

impl State {
    pub(super) fn leaving(&self, left: Left<Acknowledgements>) -> Leaving {
        Leaving { left, channels: self.channels.clone() }
    }

    fn acknowledgements(&self) -> Option<(Acknowledgements, u64)> {
        self.session.acknowledgements().map(|(connection, epoch)| (connection.clone(), epoch))
    }
}

impl Shared {
    /// Of a session whose connections are being made for the first time.
    pub(super) fn new(grace: Duration, reach: Reach, first: u32) -> Self {
        Self {
            began: Instant::now(),
            reach,
            state: Mutex::new(State { session: Session::new(grace, first), channels: Vec::new() }),
            telling: AtomicU8::new(0),
            parked: AtomicBool::new(false),
            waits: Arc::default(),
            changed: Condvar::new(),
        }
    }

    /// The time, as the state counts it.
    pub(super) fn now(&self) -> Time {
        self.began.elapsed()
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        floe_lock::lock(&self.state)
    }

    pub(super) fn channel(self: &Arc<Self>, index: u32) -> Arc<Channel> {
        let mut state = self.state();
        if let Some(channel) = state.channels.iter().find(|channel| channel.index == index) {
            return Arc::clone(channel);
        }
        let channel = Arc::new(Channel::new(index, self.reach, Arc::downgrade(self), Arc::clone(&self.waits)));
        state.channels.push(Arc::clone(&channel));
        channel
    }

    pub(super) fn is_of(&self, epoch: u64) -> bool {
        self.state().session.is_of(epoch)
    }

    /// Changes the state, and leaves what that leaves. Whether it left anything.
    fn change(&self, change: impl FnOnce(&mut Session<Acknowledgements>) -> Option<Left<Acknowledgements>>) -> bool {
        let leaving = {
            let mut state = self.state();
            let left = change(&mut state.session);
            left.map(|left| state.leaving(left))
        };
        let Some(leaving) = leaving else { return false };
        self.changed.notify_all();
        leaving.leave();
        true
    }

    /// Begins an epoch. False: it or a later one has begun before, or the session is over.
    pub(super) fn begin(&self, epoch: u64) -> bool {
        self.change(|session| session.begin(epoch, self.now()))
    }

    /// Leaves all connections, takes none, and makes nobody wait for others. False: the session is over, or parked.
    pub(super) fn park(&self) -> bool {
        // Both sides of a stored value: a writer that has not seen it has what it writes in its log.
        let parks = self.change(|session| session.park().inspect(|_| self.parked.store(true, Ordering::SeqCst)));
        self.nudge_all();
        let hearing = self.state().session.hearing().cloned();
        if let Some(hearing) = hearing.filter(|_| parks) {
            hearing.say_nothing_more();
        }
        parks
    }

    /// Takes connections again; who waits for one waits for the grace period from here on.
    pub(super) fn unpark(&self) {
        self.state().session.unpark(self.now());
        self.parked.store(false, Ordering::SeqCst);
        self.changed.notify_all();
        self.nudge_all();
    }

    /// Becomes the session that another process remembers, parked.
    pub(super) fn recall(&self, image: SessionImage) {
        self.state().session.recall(image);
        self.parked.store(true, Ordering::SeqCst);
    }

    fn nudge_all(&self) {
        let channels = self.state().channels.clone();
        channels.iter().for_each(|channel| channel.nudge_all());
    }

    /// A connection that the peer made names its epoch and its channel.
    pub(super) fn admit(&self, epoch: u64, channel: u32) -> Admission {
        let mut admission = Admission::Twice;
        self.change(|session| {
            let left;
            (admission, left) = session.admit(epoch, channel, self.now());
            left
        });
        admission
    }

    fn tell_now(&self, mut anew: bool) {
        loop {
            let (sender, epoch, channels) = {
                let state = self.state();
                let Some((connection, epoch)) = state.session.acknowledgements() else { return };
                (connection.sender.clone(), epoch, state.channels.clone())
            };
            let mut sent = Ok(0);
            for channel in channels {
                if let Some(HistoryDigest { received, digest }) = channel.untold(anew) {
                    sent = sent.and_then(|_| sender.queue(&Acknowledge { channel: channel.index, received, digest }));
                }
            }
            if sent.and_then(|_| sender.flush()).is_err() {
                self.broke(epoch);
            }
            let now = self.state().session.acknowledgements().map(|(_, epoch)| epoch);
            if now.is_none_or(|now| now == epoch) {
                return;
            }
            // It may have been said on a connection that was left in this moment.
            anew = true;
        }
    }

    /// Says which questions this side has and has heard, where there is a connection for it.
    pub(super) fn send_heartbeat(&self) {
        let (connection, (heartbeat, is_open)) = {
            let state = self.state();
            (state.acknowledgements(), state.session.heartbeat())
        };
        let Some((connection, epoch)) = connection else { return };
        if let Some(socket) = &connection.socket {
            limit_silence(socket, is_open);
        }
        if connection.sender.send(&heartbeat, |_| ()).is_err() {
            self.broke(epoch);
        }
    }

    /// The peer says which questions it has and has heard.
    pub(super) fn hear_heartbeat(&self, heartbeat: Heartbeat) {
        let (is_new, connection) = {
            let mut state = self.state();
            (state.session.hear_heartbeat(heartbeat, self.now()), state.acknowledgements())
        };
        if let Some(socket) = connection.and_then(|(connection, _)| connection.socket) {
            limit_silence(&socket, false);
        }
        if is_new {
            self.waits.wake();
            self.send_heartbeat();
        }
    }

    /// How many bytes have come on all channels.
    pub(super) fn received(&self) -> u64 {
        let channels = self.state().channels.clone();
        channels.iter().map(|channel| channel.received()).fold(0, u64::wrapping_add)
    }

    pub(super) fn peer_says_goodbye(&self) {
        let channels = {
            let mut state = self.state();
            state.session.peer_says_goodbye();
            state.channels.clone()
        };
        self.waits.end();
        self.changed.notify_all();
        channels.iter().for_each(|channel| channel.nudge());
    }

    pub(super) fn say_goodbye(&self) {
        let connection = self.state().acknowledgements();
        if let Some((connection, _)) = connection {
            // A peer that does not hear it waits for as long as it may.
            let _ = connection.sender.send(&Goodbye {}, |_| ());
        }
    }
}

impl Siblings for Shared {
    fn goes_on(&self) -> Result<bool, Failure> {
        self.state().session.goes_on().map_err(Failure::Lost)
    }

    fn is_parked(&self) -> bool {
        self.parked.load(Ordering::SeqCst)
    }

    fn grace(&self) -> Duration {
        self.state().session.grace()
    }

    fn grace_left(&self) -> Duration {
        self.state().session.grace_left(self.now())
    }

    fn broke(&self, epoch: u64) {
        self.change(|session| session.broke(epoch, self.now()));
    }

    /// Has the peer told how many bytes have come on each channel where it has not been told, or `anew` at all of them. One
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
        if self.state().session.is_ended() {
            return;
        }
        self.say_goodbye();
        let leaving = {
            let mut state = self.state();
            let Some(left) = state.session.end(lost) else { return };
            state.leaving(left)
        };
        self.waits.end();
        self.changed.notify_all();
        leaving.channels.iter().for_each(|channel| channel.end());
        leaving.leave();
    }
}
