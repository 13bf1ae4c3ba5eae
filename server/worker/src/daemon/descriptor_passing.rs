//! Connections on their way from the daemon to a worker.
//! In: at the daemon's end, links with what they are for, the way to the cache, notices about what sessions share, orders about
//! moves. Out: the
//! same at the worker's end, which is its standard input; and the worker's answers at the daemon's.
//! Each goes with its counts of frames, so that the worker continues where the daemon stopped; none is read or written
//! here.
//! The daemon never waits for the worker: what a worker does not take in time is not given to it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Mutex;
use std::sync::mpsc::{Sender, SyncSender};

use floe_transport::{Link, LinkError, Parts, SealedKeys, receive_with, try_send_with};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};
use serde::{Deserialize, Serialize};

use crate::daemon::cache_channel::CacheEnd;
use crate::daemon::end_notices::EndOrder;
use crate::daemon::move_notices::{MoveOrder, Ordered};
use crate::daemon::peer_notices::{ANSWER_BYTES, Answer, PeerNotice, receive_all};
use crate::daemon::turn_notices::{TurnEvent, TurnOrder};
use crate::memory::ledger::Granted;

/// The most bytes of a notice: of one that says what was let go.
const NOTICE_BYTES: usize = 8 << 10;
/// The worker's word that it has taken a connection.
const TAKEN: &[u8] = b"t";

/// The purpose of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The session's own: its commands and what they are answered.
    Session,
    /// One that has joined the session.
    Joined,
    /// One of another server's worker, who has proved nothing yet.
    Peer,
}

/// [`SealedKeys`], as they are said.
#[derive(Serialize, Deserialize)]
struct Keys {
    suite: u8,
    sending: [u8; 32],
    sent: u64,
    receiving: [u8; 32],
    received: u64,
}

impl From<SealedKeys> for Keys {
    fn from(keys: SealedKeys) -> Self {
        let SealedKeys { suite, sending, sent, receiving, received } = keys;
        Self { suite, sending, sent, receiving, received }
    }
}

impl From<Keys> for SealedKeys {
    fn from(keys: Keys) -> Self {
        let Keys { suite, sending, sent, receiving, received } = keys;
        Self { suite, sending, sent, receiving, received }
    }
}

/// A message that the daemon passes to a worker.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "one at a time is there, and is taken apart at once")]
pub enum Passed {
    /// A connection with what it is for.
    Connection(Role, Link),
    /// The way to the daemon's cache of modules; it comes ahead of the session's own connection.
    Modules(CacheEnd),
}

/// The notice that goes with a passed descriptor.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Said {
    Connection(Notice),
    Modules,
    Peer(PeerNotice),
    Move(MoveOrder),
    Turn(TurnOrder),
    End(EndOrder),
}

/// The notice that goes with a connection.
#[derive(Serialize, Deserialize)]
struct Notice {
    role: Role,
    /// Frames the daemon has sent on it.
    sent: u64,
    /// Frames it has received.
    received: u64,
    /// Its keys, if the token seals it.
    sealed: Option<Keys>,
}

/// A notice without a connection: the device memory that the session may have.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Grant {
    granted: u64,
    left: u64,
}

/// The daemon's end.
#[derive(Debug)]
pub struct Giver {
    socket: OwnedFd,
    /// The most connections before the worker when one more joins.
    most: u32,
    /// Connections the worker has not taken yet.
    under_way: Mutex<u32>,
}

/// The worker's end.
#[derive(Debug)]
pub struct Taker {
    socket: OwnedFd,
    /// The thread that waits for grants.
    grants: Option<SyncSender<Granted>>,
    /// The thread that takes notices about what sessions share.
    peers: Option<Sender<Noticed>>,
    /// The thread that takes orders about moves.
    moves: Option<Sender<Ordered>>,
    /// The thread that keeps the session's turns.
    turns: Option<Sender<TurnEvent>>,
    /// The thread that ends the session.
    end: Option<Sender<EndOrder>>,
}

/// A notice about what sessions share, and the descriptor that came along.
pub type Noticed = (PeerNotice, Option<OwnedFd>);

/// A message of a worker's to the daemon.
#[derive(Debug)]
pub enum Heard {
    /// There is none now.
    Nothing,
    /// The worker has taken a connection, as it says.
    Taken,
    /// The worker has ended.
    Gone,
    /// An exporter's answer, with the descriptors that came along.
    Answer(Answer, Vec<OwnedFd>),
    /// A message that no worker of ours sends.
    Nonsense(Vec<OwnedFd>),
}

/// The two ends of the way to one worker, on which at most so many connections that join wait to be taken.
///
/// # Errors
/// When the system gives no socket.
pub fn pair(most: u32) -> io::Result<(Giver, Taker)> {
    let (socket, taker) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    Ok((Giver { socket, most, under_way: Mutex::default() }, Taker::new(taker)))
}

impl Giver {
    /// Gives a connection away, at a frame's border, and never waits for the worker.
    ///
    /// # Errors
    /// `WouldBlock` when the worker has as many connections before it as may wait; others when the worker is gone, or
    /// the connection cannot be duplicated.
    pub fn give(&self, role: Role, link: Link) -> io::Result<()> {
        let lost = |error: LinkError| io::Error::other(error.to_string());
        let Parts { socket, sent, received, sealed } = link.into_parts().map_err(lost)?;
        let sealed = sealed.map(Keys::from);
        let notice = serde_json::to_vec(&Said::Connection(Notice { role, sent, received, sealed }))?;
        let mut under_way = floe_lock::lock(&self.under_way);
        self.hear_of_taken(&mut under_way);
        // Who has proved nothing never keeps those out that have.
        let most = match role {
            Role::Session => u32::MAX,
            Role::Joined => self.most,
            Role::Peer => self.most / 2,
        };
        if *under_way >= most {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        try_send_with(&self.socket, &notice, socket.as_fd())?;
        *under_way += 1;
        Ok(())
    }

    /// Gives the worker its way to the cache of modules.
    ///
    /// # Errors
    /// When the worker is gone.
    pub fn give_modules(&self, end: &CacheEnd) -> io::Result<()> {
        try_send_with(&self.socket, &serde_json::to_vec(&Said::Modules)?, end.descriptor())?;
        *floe_lock::lock(&self.under_way) += 1;
        Ok(())
    }

    /// Takes off what the worker says it has taken, up to the first message that says something else. A worker that says
    /// so of connections there are none of gains nothing: the system holds no more for it than for one that lags.
    fn hear_of_taken(&self, under_way: &mut u32) {
        while *under_way > 0 && self.next_is_taken() {
            let mut word = [0; TAKEN.len()];
            if recv(&self.socket, &mut word, RecvFlags::DONTWAIT).is_err() {
                return;
            }
            *under_way -= 1;
        }
    }

    fn next_is_taken(&self) -> bool {
        let mut word = [0; TAKEN.len() + 1];
        let seen = recv(&self.socket, &mut word, RecvFlags::DONTWAIT | RecvFlags::PEEK);
        matches!(seen, Ok((_, count)) if word[..count] == *TAKEN)
    }

    /// Reads one message of the worker's, without waiting. Readers take turns.
    pub fn hear(&self) -> Heard {
        let mut under_way = floe_lock::lock(&self.under_way);
        let mut bytes = [0; ANSWER_BYTES];
        loop {
            let message = match receive_all(&self.socket, &mut bytes) {
                Ok(message) => message,
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => return Heard::Nothing,
                Err(_) => return Heard::Gone,
            };
            let words = &bytes[..message.bytes];
            if words.is_empty() && message.descriptors.is_empty() {
                return Heard::Gone;
            }
            if words == TAKEN && message.descriptors.is_empty() {
                *under_way = under_way.saturating_sub(1);
                return Heard::Taken;
            }
            return match serde_json::from_slice(words) {
                Ok(answer) => Heard::Answer(answer, message.descriptors),
                Err(_) => Heard::Nonsense(message.descriptors),
            };
        }
    }

    /// Gives the worker a notice about what sessions share, with the descriptor of what it imports. It is not waited for.
    ///
    /// # Errors
    /// When the worker is gone, or leaves many notices unread.
    pub fn notify(&self, notice: &PeerNotice, descriptor: Option<BorrowedFd<'_>>) -> io::Result<()> {
        match descriptor {
            Some(descriptor) => {
                let bytes = serde_json::to_vec(&Said::Peer(notice.clone()))?;
                try_send_with(&self.socket, &bytes, descriptor)?;
            }
            None => {
                let bytes = serde_json::to_vec(notice)?;
                send(&self.socket, &bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?;
            }
        }
        Ok(())
    }

    /// Gives the worker an order about a move, with its end of the move stream where that begins. It is not waited for.
    ///
    /// # Errors
    /// When the worker is gone, or leaves many notices unread.
    pub fn order(&self, order: MoveOrder, stream: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let bytes = serde_json::to_vec(&Said::Move(order))?;
        match stream {
            Some(stream) => _ = try_send_with(&self.socket, &bytes, stream)?,
            None => _ = send(&self.socket, &bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?,
        }
        Ok(())
    }

    /// Gives the worker an order about its turn. It is not waited for.
    ///
    /// # Errors
    /// When the worker is gone, or leaves many notices unread.
    pub fn turn(&self, order: TurnOrder) -> io::Result<()> {
        let bytes = serde_json::to_vec(&Said::Turn(order))?;
        send(&self.socket, &bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// Tells the worker that its session is to end. It is not waited for.
    ///
    /// # Errors
    /// When the worker is gone, or leaves many notices unread.
    pub fn end(&self, order: &EndOrder) -> io::Result<()> {
        let bytes = serde_json::to_vec(&Said::End(order.clone()))?;
        send(&self.socket, &bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// The socket, for who closes it: descriptors that the worker sent may delay that.
    #[must_use]
    pub fn into_socket(self) -> OwnedFd {
        self.socket
    }
}

impl AsFd for Giver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Giver {
    /// Says what the session may have of the device's memory. A worker that lags behind is not waited for.
    ///
    /// # Errors
    /// When the worker is gone, or lags many notices behind.
    pub fn grant(&self, granted: Granted) -> io::Result<()> {
        let notice = serde_json::to_vec(&Grant { granted: granted.total, left: granted.left })?;
        send(&self.socket, &notice, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?;
        Ok(())
    }
}

impl Taker {
    /// The worker's end as it was inherited.
    #[must_use]
    pub fn new(inherited: OwnedFd) -> Self {
        Self { socket: inherited, grants: None, peers: None, moves: None, turns: None, end: None }
    }

    /// Sends each grant of device memory to `grants`.
    #[must_use]
    pub fn telling(self, grants: SyncSender<Granted>) -> Self {
        Self { grants: Some(grants), ..self }
    }

    /// Sends each notice about what sessions share to `peers`.
    #[must_use]
    pub fn noticing(self, peers: Sender<Noticed>) -> Self {
        Self { peers: Some(peers), ..self }
    }

    /// Sends each order about a move to `moves`.
    #[must_use]
    pub fn moving(self, moves: Sender<Ordered>) -> Self {
        Self { moves: Some(moves), ..self }
    }

    /// Sends each order about turns to `turns`.
    #[must_use]
    pub fn turning(self, turns: Sender<TurnEvent>) -> Self {
        Self { turns: Some(turns), ..self }
    }

    /// Sends the order to end to `end`.
    #[must_use]
    pub fn ending(self, end: Sender<EndOrder>) -> Self {
        Self { end: Some(end), ..self }
    }

    /// For the process that inherits it.
    #[must_use]
    pub fn into_descriptor(self) -> OwnedFd {
        self.socket
    }

    /// Waits for what the daemon passes next; `None` when it passes no more.
    ///
    /// # Errors
    /// When what comes is no grant and has no notice or no descriptor.
    pub fn take(&self) -> io::Result<Option<Passed>> {
        loop {
            let (mut bytes, mut descriptor) = ([0; NOTICE_BYTES], None);
            let count = match receive_with(&self.socket, &mut bytes, &mut descriptor, RecvFlags::empty()) {
                Err(Errno::INTR) => continue,
                // A daemon that goes has not heard of all that was taken.
                Ok(0) | Err(Errno::CONNRESET) => return Ok(None),
                Ok(count) if descriptor.is_none() && self.tell(&bytes[..count]) => continue,
                received => received?,
            };
            let socket = descriptor.ok_or_else(|| io::Error::other("a notice came without its connection"))?;
            let passed = match serde_json::from_slice(&bytes[..count])? {
                Said::Connection(Notice { role, sent, received, sealed }) => {
                    let parts = Parts { socket, sent, received, sealed: sealed.map(SealedKeys::from) };
                    let link = Link::resume(parts).map_err(|error| io::Error::other(error.to_string()))?;
                    Passed::Connection(role, link)
                }
                Said::Modules => Passed::Modules(CacheEnd::of(socket)),
                Said::Peer(notice) => {
                    self.notice(notice, Some(socket));
                    continue;
                }
                Said::Move(order) => {
                    self.pass_on(Ordered { order, stream: Some(socket) });
                    continue;
                }
                // They come without a descriptor.
                Said::Turn(_) | Said::End(_) => return Err(io::Error::other("an order came with a descriptor")),
            };
            self.has_taken();
            return Ok(Some(passed));
        }
    }

    /// Says that a connection was taken. A daemon that does not hear it is gone, which the next call says.
    fn has_taken(&self) {
        let _ = send(&self.socket, TAKEN, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    }

    /// Passes a grant, an order or a notice to the thread that waits for it; a connection that came without its descriptor is
    /// nobody's. False: it is none of these.
    fn tell(&self, notice: &[u8]) -> bool {
        if let Ok(Grant { granted: total, left }) = serde_json::from_slice(notice) {
            if let Some(grants) = &self.grants {
                // A thread that stopped waiting needs none.
                let _ = grants.try_send(Granted { total, left });
            }
            return true;
        }
        match serde_json::from_slice(notice) {
            Ok(Said::Move(order)) => {
                self.pass_on(Ordered { order, stream: None });
                return true;
            }
            Ok(Said::Turn(order)) => {
                self.pass_turn_on(order);
                return true;
            }
            Ok(Said::End(order)) => {
                // Where the thread has ended, so has the session.
                let _ = self.end.as_ref().map(|end| end.send(order));
                return true;
            }
            // These come with descriptors, which this process may have no more of.
            Ok(Said::Peer(notice)) => {
                self.notice(notice, None);
                return true;
            }
            Ok(Said::Connection(Notice { role: Role::Joined | Role::Peer, .. })) => {
                self.has_taken();
                return true;
            }
            Ok(Said::Connection(_) | Said::Modules) | Err(_) => {}
        }
        let Ok(notice) = serde_json::from_slice(notice) else { return false };
        self.notice(notice, None);
        true
    }

    fn pass_on(&self, ordered: Ordered) {
        if let Some(moves) = &self.moves {
            // Where the thread has ended, so has the session.
            let _ = moves.send(ordered);
        }
    }

    fn pass_turn_on(&self, order: TurnOrder) {
        if let Some(turns) = &self.turns {
            // Where the thread has ended, so has the session.
            let _ = turns.send(TurnEvent::Ordered(order));
        }
    }

    fn notice(&self, notice: PeerNotice, descriptor: Option<OwnedFd>) {
        if let Some(peers) = &self.peers {
            // Where the thread has ended, so has the session.
            let _ = peers.send((notice, descriptor));
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests;
