//! A session's door: who may join it, and the connections that wait while no worker takes them.
//! In: keys of peers, connections that joined. Out: the connections, to whichever worker has the session then.
//! Keys are compared in constant time. It gives nothing away itself, and keeps a bounded number: the newest.

use std::collections::VecDeque;

use floe_transport::Link;
use floe_worker::descriptor_passing::Role;
use subtle::ConstantTimeEq as _;

use crate::entrance::closing::PeerSocket;
use crate::entrance::token::random;
use crate::error::DaemonError;

/// Bytes of a session's key: nobody guesses one.
const KEY_BYTES: usize = 16;

/// A session's key.
pub(crate) type Key = [u8; KEY_BYTES];

/// A session's door.
#[derive(Debug)]
pub(crate) struct Door {
    key: Key,
    /// The number of connections that may still join; `None`: any number while the session lasts.
    left: Option<u32>,
    /// The most that wait.
    most: usize,
    /// Connections that wait for a move's end; `None`: it is open.
    held: Option<VecDeque<Arrived>>,
}

/// A connection that has joined a session and has no worker yet. Its socket outlives its link.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub(crate) role: Role,
    /// `None`: a worker has it.
    pub(crate) link: Option<Link>,
    #[allow(dead_code, reason = "it is kept to be dropped behind the link")]
    pub(crate) socket: PeerSocket,
}

impl Drop for Arrived {
    fn drop(&mut self) {
        if let Some(link) = self.link.take() {
            close(link);
        }
    }
}

/// Closes a connection that no worker has, and ends its tunnel in this process.
pub(crate) fn close(link: Link) {
    let tunnel = link.tunnel();
    drop(link);
    if let Some(tunnel) = tunnel {
        tunnel.finish();
    }
}

impl Door {
    /// A door for so many bulk connections, of which so many wait at most. Each may join once, or as often as it breaks if
    /// the session `outlives` its connections.
    pub(crate) fn new(bulk_connections: u32, most: u32, outlives: bool) -> Result<Self, DaemonError> {
        let key = *random()?.first_chunk().expect("a nonce is longer than a key");
        let left = (!outlives).then_some(bulk_connections);
        Ok(Self { key, left, most: usize::try_from(most).unwrap_or(usize::MAX), held: None })
    }

    /// The key by which connections join.
    pub(crate) fn key(&self) -> Key {
        self.key
    }

    /// Whether these bytes are the key.
    pub(crate) fn is_key(&self, key: &[u8]) -> bool {
        self.key.as_slice().ct_eq(key).into()
    }

    /// Counts a connection that joins. False: the key is wrong, or no more may join.
    pub(crate) fn admits(&mut self, key: &[u8]) -> bool {
        if !self.is_key(key) {
            return false;
        }
        match &mut self.left {
            Some(0) => return false,
            Some(left) => *left -= 1,
            None => {}
        }
        true
    }

    /// Keeps the connections that come from now on.
    pub(crate) fn hold(&mut self) {
        self.held.get_or_insert_default();
    }

    /// Gives back those that wait, in order, and keeps no more.
    pub(crate) fn open(&mut self) -> VecDeque<Arrived> {
        self.held.take().unwrap_or_default()
    }

    /// Keeps a connection if it is held. Gives back the one that nobody is to have: this one if it is open, or the oldest
    /// one for which there is no place: a client that makes its connections again has left it.
    pub(crate) fn keep(&mut self, arrived: Arrived) -> Kept {
        let Some(held) = &mut self.held else { return Kept::Open(Box::new(arrived)) };
        held.push_back(arrived);
        if held.len() > self.most { Kept::InsteadOf(held.pop_front().map(Box::new)) } else { Kept::InsteadOf(None) }
    }
}

/// What became of a connection.
#[derive(Debug)]
pub(crate) enum Kept {
    /// The door is open: it goes to the worker.
    Open(Box<Arrived>),
    /// It waits, and this one no longer.
    InsteadOf(Option<Box<Arrived>>),
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;

    use floe_transport::Peer;

    use super::*;

    /// A connection, and the client's end.
    fn arrived() -> (Arrived, UnixStream) {
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        let peer = Peer::Unix { uid: 1, pid: 1 };
        let socket = PeerSocket::new(ours.into(), &peer, &Arc::default());
        let link = Link::accepted(Arc::clone(&socket), &peer).expect("a link");
        (Arrived { role: Role::Joined, link: Some(link), socket }, theirs)
    }

    /// Whether the daemon's end is closed: at once, or soon by the thread that closes it.
    fn ends(peer: &UnixStream) -> bool {
        (&mut &*peer).read(&mut [0]).expect("an end") == 0
    }

    #[test]
    fn as_many_join_as_may_and_only_with_the_key() {
        let mut door = Door::new(2, 6, false).expect("made");
        let key = door.key();
        assert!(!door.admits(&[0; KEY_BYTES]) && !door.admits(&key[..8]) && !door.admits(&[]));
        assert!(door.admits(&key) && door.admits(&key));
        assert!(!door.admits(&key), "a third");
        assert_ne!(Door::new(0, 4, false).expect("made").key(), key);
    }

    #[test]
    fn connections_that_are_made_again_join_as_often_as_they_break() {
        let mut door = Door::new(2, 6, true).expect("made");
        let key = door.key();
        assert!((0..1000).all(|_| door.admits(&key)));
        assert!(!door.admits(&[0; KEY_BYTES]));
    }

    #[test]
    fn connections_wait_while_the_door_is_held_and_the_oldest_makes_room() {
        let mut door = Door::new(0, 2, true).expect("made");
        assert!(matches!(door.keep(arrived().0), Kept::Open(_)));
        door.hold();
        let mut peers = Vec::new();
        for number in 1..=3 {
            let (arrived, peer) = arrived();
            let Kept::InsteadOf(gone) = door.keep(arrived) else { panic!("it is held") };
            assert_eq!(gone.is_some(), number == 3);
            peers.push(peer);
        }
        assert!(ends(&peers[0]), "the oldest");
        let waiting = door.open();
        assert_eq!(waiting.len(), 2);
        for (mut arrived, peer) in waiting.into_iter().zip(&peers[1..]) {
            arrived.link.take().expect("it has one").send(&floe_wire::ListGpus {}).expect("sent");
            assert!(!ends(peer), "in their order");
        }
        assert!(matches!(door.keep(arrived().0), Kept::Open(_)), "it is open again");
    }
}
