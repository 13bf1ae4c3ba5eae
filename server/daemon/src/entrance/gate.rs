//! Connections between their acceptance and their session: which there are, which may speak, which must close.
//! In: connections as they arrive, prove who they are, and end. Out: a pass for each that may speak, and the ends of
//! those that must close. A dropped pass frees its place.
//! It reads and writes no bytes, and its threads never wait for each other. No socket closes under its lock.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use floe_transport::Peer;
use rustix::event::{EventfdFlags, eventfd};
use rustix::net::Shutdown;

use super::closing::{Closer, PeerSocket};
use super::conversation::Time;
use super::limits::{CONVERSATION, Decision, Room, SILENCE, Share, Slots, Source, Strangers, UNPROVED};
use crate::error::DaemonError;

/// The most connections from the network without a proof, if descriptors allow it: each has one.
const MOST_STRANGERS: usize = 1024;
/// Threads of connections without a proof. Each lasts some milliseconds, or at most a second if another connection
/// waits.
const STRANGERS_THREADS: Share = Share { all: 64, each: 16 };
/// The same for this machine's users, in addition. One user has as many as one address.
const USERS_THREADS: Share = Share { all: 32, each: 16 };
/// Connections with a proof and no session yet, each with a thread. A host that reconnects all its sessions has some
/// ten for each.
const PROVED: Share = Share { all: 512, each: 192 };

/// Why a connection was closed whose time was up.
const NO_PROOF: &str = "it did not authenticate in time";
const NO_SESSION: &str = "it asked for no session in time";

/// The state that all connections without a session share.
#[derive(Debug)]
pub(crate) struct Gate {
    state: Mutex<State>,
    /// Becomes readable when a connection without a proof has freed its place.
    left: OwnedFd,
    last: AtomicU64,
    /// Closes the sockets of ended connections.
    pub(crate) closer: Arc<Closer>,
}

#[derive(Debug)]
struct State {
    strangers: Strangers,
    proved: Slots,
    /// When each connection with a proof got it.
    proved_since: BTreeMap<u64, Instant>,
    /// All connections without a session, by number.
    there: BTreeMap<u64, Connection>,
}

/// A connection without a session.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    pub(crate) socket: PeerSocket,
    pub(crate) peer: Peer,
    since: Instant,
}

/// A connection that was closed, and why.
pub(crate) type Closed = (Connection, &'static str);

/// A connection's permission to speak. Dropping it frees the connection's place.
#[derive(Debug)]
pub(crate) struct Pass {
    gate: Arc<Gate>,
    number: u64,
    source: Source,
    accepted: Instant,
    proved: Option<Instant>,
}

impl Gate {
    /// A gate that leaves descriptors for sessions. Of the process's limit `descriptors`, strangers from the network
    /// may have a quarter. Strangers of this machine may have half as many.
    pub(crate) fn new(descriptors: u64) -> Result<Self, DaemonError> {
        let descriptors = usize::try_from(descriptors).unwrap_or(usize::MAX);
        let far =
            Room { connections: Share::quarters((descriptors / 4).min(MOST_STRANGERS)), threads: STRANGERS_THREADS };
        let Share { all, each } = far.connections;
        let near = Room { connections: Share { all: (all / 2).max(1), each }, threads: USERS_THREADS };
        let state = State {
            strangers: Strangers::new(near, far),
            proved: Slots::new(PROVED),
            proved_since: BTreeMap::new(),
            there: BTreeMap::new(),
        };
        let left = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| DaemonError::system("cannot make an event for connections that end")(error.into()))?;
        Ok(Self { state: Mutex::new(state), left, last: AtomicU64::new(0), closer: Arc::default() })
    }

    /// A panic cannot leave it inconsistent: every change is one step.
    fn state(&self) -> MutexGuard<'_, State> {
        floe_lock::lock(&self.state)
    }

    /// The number of connections without a session.
    pub(crate) fn count(&self) -> usize {
        self.state().there.len()
    }

    /// Counts a connection. Returns its number, and the connection that was closed for it.
    pub(crate) fn arrive(&self, socket: OwnedFd, peer: Peer, now: Instant) -> (u64, Option<Connection>) {
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let socket = PeerSocket::new(socket, &peer, &self.closer);
        let mut state = self.state();
        let leaving = state.strangers.arrive(number, Source::of(&peer), now);
        let leaving = leaving.and_then(|leaving| state.close(leaving));
        state.there.insert(number, Connection { socket, peer, since: now });
        (number, leaving)
    }

    /// A connection, unless it was closed meanwhile.
    pub(crate) fn connection(&self, number: u64) -> Option<Connection> {
        self.state().there.get(&number).cloned()
    }

    /// A connection's first message has arrived.
    pub(crate) fn is_ready(&self, number: u64) {
        self.state().strangers.is_ready(number);
    }

    /// A connection closed before its first message.
    pub(crate) fn over(&self, number: u64) {
        let gone = self.take(number);
        drop(gone);
        self.free(number);
    }

    /// Takes a connection out, which keeps its place. The caller drops its socket after the lock.
    fn take(&self, number: u64) -> Option<Connection> {
        self.state().there.remove(&number)
    }

    /// Frees a connection's place.
    fn free(&self, number: u64) {
        let mut state = self.state();
        state.strangers.over(number);
        state.leave(number);
    }

    /// The connections that may speak now, and those that were closed, each with the reason.
    pub(crate) fn decide(self: &Arc<Self>, now: Instant) -> (Vec<(Pass, Connection)>, Vec<Closed>) {
        let mut state = self.state();
        let (mut speaking, mut closed) = (Vec::new(), Vec::new());
        for number in state.without_session(now) {
            closed.extend(state.close(number).map(|connection| (connection, NO_SESSION)));
        }
        for decision in state.strangers.decide(now) {
            match decision {
                Decision::Close(number) => {
                    closed.extend(state.close(number).map(|connection| (connection, NO_PROOF)));
                }
                Decision::Speak(number) => {
                    let Some(connection) = state.there.get(&number).cloned() else { continue };
                    let (gate, source) = (Arc::clone(self), Source::of(&connection.peer));
                    let pass = Pass { gate, number, source, accepted: connection.since, proved: None };
                    speaking.push((pass, connection));
                }
            }
        }
        (speaking, closed)
    }

    /// When to decide again, unless an event comes first.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let state = self.state();
        let proved = state.proved_since.values().min().map(|since| *since + CONVERSATION);
        state.strangers.deadline().into_iter().chain(proved).min()
    }

    /// Resets the event of [`Gate::left`].
    pub(crate) fn hear(&self) {
        // The read fails if no connection has left since.
        let _ = rustix::io::read(&self.left, &mut [0; 8]);
    }

    /// Becomes readable when a connection without a proof has freed its place.
    pub(crate) fn left(&self) -> BorrowedFd<'_> {
        self.left.as_fd()
    }
}

impl State {
    /// The connections that have had a proof, but no session, for too long.
    fn without_session(&self, now: Instant) -> Vec<u64> {
        let is_late = |since: &Instant| now.saturating_duration_since(*since) >= CONVERSATION;
        self.proved_since.iter().filter(|(_, since)| is_late(since)).map(|(number, _)| *number).collect()
    }

    /// Stops counting a connection.
    fn leave(&mut self, number: u64) -> Option<Connection> {
        self.proved.free(number);
        self.proved_since.remove(&number);
        self.there.remove(&number)
    }

    /// Closes a connection and stops counting it. A thread that reads from it gets its end.
    fn close(&mut self, number: u64) -> Option<Connection> {
        let connection = self.leave(number)?;
        // This fails if the peer has closed it already.
        let _ = rustix::net::shutdown(&**connection.socket, Shutdown::Both);
        Some(connection)
    }
}

#[cfg(test)]
impl Pass {
    /// The peer that its connection counts for.
    pub(crate) fn source(&self) -> Source {
        self.source
    }
}

impl Time for Pass {
    /// From here on the connection has a place among those with a proof, and more time.
    fn prove(&mut self, now: Instant, source: Source) {
        self.source = source;
        if self.proved.replace(now).is_some() {
            return;
        }
        let mut state = self.gate.state();
        state.strangers.over(self.number);
        let mut leaving = None;
        // A connection that was closed meanwhile learns it from its socket.
        if state.there.contains_key(&self.number) {
            state.proved_since.insert(self.number, now);
            leaving = state.proved.take(self.number, self.source).and_then(|leaving| state.close(leaving));
        }
        drop(state);
        drop(leaving);
        self.gate.tell();
    }

    fn deadline(&self, now: Instant) -> Instant {
        match self.proved {
            None => self.accepted + UNPROVED,
            Some(proved) => (now + SILENCE).min(proved + CONVERSATION),
        }
    }
}

impl Gate {
    fn tell(&self) {
        // If the counter is full, it is readable already.
        let _ = rustix::io::write(&self.left, &1_u64.to_ne_bytes());
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.gate.over(self.number);
        self.gate.tell();
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;
    use std::os::unix::net::UnixStream;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;
    use crate::entrance::closing::stubborn;

    const PATIENCE: Duration = Duration::from_secs(120);

    fn gate() -> Arc<Gate> {
        Arc::new(Gate::new(1 << 20).expect("made"))
    }

    fn come(gate: &Gate, uid: u32, now: Instant) -> (u64, UnixStream) {
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        let (number, _) = gate.arrive(ours.into(), Peer::Unix { uid, pid: 1 }, now);
        (number, theirs)
    }

    /// As [`come`], by one whose socket takes as long to close as what is returned lasts.
    fn come_stubborn(gate: &Gate, uid: u32, now: Instant) -> (u64, (UnixStream, TcpStream)) {
        let (number, peer) = come(gate, uid, now);
        (number, stubborn::make(peer))
    }

    /// Does something with the gate that must not wait.
    fn at_once<T: Send + 'static>(gate: &Arc<Gate>, what: impl FnOnce(&Arc<Gate>) -> T + Send + 'static) -> T {
        let (done, is_done) = channel();
        let gate = Arc::clone(gate);
        std::thread::spawn(move || {
            let _ = done.send(what(&gate));
        });
        is_done.recv_timeout(PATIENCE).expect("it waited for a peer")
    }

    fn wait_until(mut is_so: impl FnMut() -> bool) {
        let start = Instant::now();
        while !is_so() {
            assert!(start.elapsed() < PATIENCE, "waited in vain");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// A connection that arrives while others are closing gets in. All are closed once those end.
    fn assert_goes_on(gate: &Arc<Gate>, held_up: Vec<(UnixStream, TcpStream)>) {
        let now = Instant::now();
        at_once(gate, move |gate| {
            let (number, _peer) = come(gate, 9, now);
            gate.is_ready(number);
            let (mut speaking, _) = gate.decide(now);
            let (mut pass, _connection) = speaking.pop().expect("one");
            pass.prove(now, pass.source());
        });
        wait_until(|| gate.closer.count() == held_up.len());
        drop(held_up);
        wait_until(|| (gate.closer.count(), gate.count()) == (0, 0));
    }

    fn is_closed(socket: &UnixStream) -> bool {
        floe_transport::look(socket) == Ok(floe_transport::Opening::Closed)
    }

    #[test]
    fn a_pass_that_is_dropped_leaves_nothing_also_where_its_thread_panics() {
        let (gate, now) = (gate(), Instant::now());
        for panics in [false, true] {
            let (number, peer) = come(&gate, 1, now);
            gate.is_ready(number);
            let (mut speaking, closed) = gate.decide(now);
            assert_eq!((speaking.len(), closed.len(), gate.count()), (1, 0, 1));
            let (pass, connection) = speaking.pop().expect("one");
            let thread = std::thread::spawn(move || {
                let (_connection, mut pass) = (connection, pass);
                pass.prove(now, Source::User(1));
                assert!(!panics, "as it was to");
            });
            assert_eq!(thread.join().is_err(), panics);
            assert_eq!(gate.count(), 0);
            wait_until(|| is_closed(&peer));
        }
    }

    #[test]
    fn a_thousand_silent_ones_of_one_peer_leave_another_its_place() {
        let (gate, now) = (gate(), Instant::now());
        let (first, client) = come(&gate, 2, now);
        let hostile: Vec<UnixStream> = (0..1000).map(|_| come(&gate, 1, now).1).collect();
        assert!(gate.count() <= 1 + MOST_STRANGERS / 4);
        assert!(is_closed(&hostile[0]) && !is_closed(&hostile[999]));
        gate.is_ready(first);
        assert_eq!(gate.decide(now).0.len(), 1);
        drop(client);
    }

    #[test]
    fn the_time_is_short_before_the_proof_and_ends_behind_it_too() {
        let (gate, start) = (gate(), Instant::now());
        let (number, _peer) = come(&gate, 1, start);
        gate.is_ready(number);
        let (mut pass, _connection) = gate.decide(start).0.pop().expect("one");
        assert_eq!(pass.deadline(start), start + UNPROVED);
        pass.prove(start, Source::User(1));
        assert_eq!(pass.deadline(start), start + SILENCE);
        assert_eq!(pass.deadline(start + CONVERSATION), start + CONVERSATION);
    }

    #[test]
    fn who_comes_through_a_forwarded_socket_closes_its_own_connections_and_none_of_the_sockets_user() {
        let (gate, now) = (gate(), Instant::now());
        let enter = |source| {
            let (number, peer) = come(&gate, 1, now);
            gate.is_ready(number);
            let (mut pass, _connection) = gate.decide(now).0.pop().expect("one");
            pass.prove(now, source);
            (pass, peer)
        };
        let own = enter(Source::User(1));
        let forwarded: Vec<_> = (0..=PROVED.each).map(|_| enter(Source::Forwarded(1))).collect();
        assert!(!is_closed(&own.1));
        assert!(is_closed(&forwarded[0].1) && !is_closed(&forwarded[1].1));
    }

    #[test]
    fn one_that_has_proved_itself_and_asks_for_no_session_is_closed_from_outside_whatever_it_does() {
        let (gate, start) = (gate(), Instant::now());
        let (number, peer) = come(&gate, 1, start);
        gate.is_ready(number);
        let (mut pass, _connection) = gate.decide(start).0.pop().expect("one");
        pass.prove(start, Source::User(1));
        assert_eq!(gate.deadline(), Some(start + CONVERSATION));
        assert!(gate.decide(start + CONVERSATION - SILENCE).1.is_empty() && !is_closed(&peer));
        let (_, closed) = gate.decide(start + CONVERSATION);
        assert_eq!(closed.iter().map(|(_, why)| *why).collect::<Vec<_>>(), [NO_SESSION]);
        assert!(is_closed(&peer));
        drop(pass);
        assert_eq!((gate.count(), gate.deadline()), (0, None));
    }

    #[test]
    fn one_that_greets_and_is_silent_is_closed_from_outside() {
        let (gate, start) = (gate(), Instant::now());
        let (number, peer) = come(&gate, 1, start);
        gate.is_ready(number);
        let speaking = gate.decide(start).0;
        assert_eq!(gate.decide(start + UNPROVED).1.len(), 1);
        assert!(is_closed(&peer));
        drop(speaking);
        assert_eq!(gate.count(), 0);
    }

    #[test]
    fn a_connection_that_is_over_holds_nobody_up_whatever_its_peer_has_sent() {
        let (gate, now) = (gate(), Instant::now());
        let (number, held_up) = come_stubborn(&gate, 1, now);
        at_once(&gate, move |gate| gate.over(number));
        assert_goes_on(&gate, vec![held_up]);
    }

    #[test]
    fn those_that_are_closed_for_want_of_time_or_place_hold_nobody_up() {
        let (gate, now) = (gate(), Instant::now());
        let (_, late) = come_stubborn(&gate, 1, now);
        let closed = at_once(&gate, move |gate| gate.decide(now + UNPROVED).1.len());
        assert_eq!(closed, 1);
        let (_, oldest) = come_stubborn(&gate, 1, now);
        let newer = at_once(&gate, move |gate| {
            let newer: Vec<_> = (0..MOST_STRANGERS / 4).map(|_| come(gate, 1, now)).collect();
            newer
        });
        newer.iter().for_each(|(number, _)| gate.over(*number));
        assert_goes_on(&gate, vec![late, oldest]);
    }

    #[test]
    fn a_pass_and_a_link_that_are_dropped_hold_nobody_up() {
        let (gate, now) = (gate(), Instant::now());
        let (number, held_up) = come_stubborn(&gate, 1, now);
        gate.is_ready(number);
        let (pass, connection) = gate.decide(now).0.pop().expect("one");
        at_once(&gate, move |_| {
            let link = Arc::clone(&connection.socket);
            drop(pass);
            drop(link);
            drop(connection);
        });
        assert_goes_on(&gate, vec![held_up]);
    }

    #[test]
    fn one_that_goes_for_another_with_a_proof_holds_nobody_up() {
        let (gate, now) = (gate(), Instant::now());
        let prove = move |gate: &Arc<Gate>, number| {
            gate.is_ready(number);
            let (mut pass, _) = gate.decide(now).0.pop().expect("one");
            pass.prove(now, pass.source());
            pass
        };
        let (number, held_up) = come_stubborn(&gate, 1, now);
        let first = prove(&gate, number);
        let others = at_once(&gate, move |gate| {
            let number = || come(gate, 1, now).0;
            (0..PROVED.each).map(|_| prove(gate, number())).collect::<Vec<_>>()
        });
        at_once(&gate, move |_| drop((first, others)));
        assert_goes_on(&gate, vec![held_up]);
    }
}
