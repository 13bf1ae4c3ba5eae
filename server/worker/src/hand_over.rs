//! Connections on their way from the daemon to a worker.
//! In: at the daemon's end, links with what they are for. Out: the same at the worker's end, which is its standard input.
//! Each goes with its counts of frames, so that the worker goes on where the daemon stopped; none is read or written here.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use floe_transport::{Link, LinkError, Parts, receive_with, send_with};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, socketpair};
use serde::{Deserialize, Serialize};

/// The most bytes of a notice.
const NOTICE_BYTES: usize = 256;

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The session's own: its commands and what they are answered.
    Session,
    /// One that has joined the session.
    Joined,
}

/// What is said with a connection.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Notice {
    role: Role,
    /// Frames the daemon has sent on it.
    sent: u64,
    /// Frames it has received.
    received: u64,
    /// Where the kernel seals the connection: how many bytes its key may still seal.
    may_seal: Option<u64>,
}

/// The daemon's end.
#[derive(Debug)]
pub struct Giver(OwnedFd);

/// The worker's end.
#[derive(Debug)]
pub struct Taker(OwnedFd);

/// The two ends of the way to one worker.
///
/// # Errors
/// When the system gives no socket.
pub fn pair() -> io::Result<(Giver, Taker)> {
    let (giver, taker) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    Ok((Giver(giver), Taker(taker)))
}

impl Giver {
    /// Gives a connection away, at a frame's border. Does not wait for the worker, unless that lags many connections
    /// behind.
    ///
    /// # Errors
    /// When the worker is gone, or the connection cannot be duplicated.
    pub fn give(&self, role: Role, link: Link) -> io::Result<()> {
        let lost = |error: LinkError| io::Error::other(error.to_string());
        let Parts { socket, sent, received, may_seal } = link.into_parts().map_err(lost)?;
        let notice = serde_json::to_vec(&Notice { role, sent, received, may_seal })?;
        send_with(&self.0, &notice, socket.as_fd())?;
        Ok(())
    }
}

impl Taker {
    /// The worker's end as it was inherited.
    #[must_use]
    pub fn new(inherited: OwnedFd) -> Self {
        Self(inherited)
    }

    /// For the process that inherits it.
    #[must_use]
    pub fn into_descriptor(self) -> OwnedFd {
        self.0
    }

    /// Waits for the next connection; `None` when the daemon gives no more.
    ///
    /// # Errors
    /// When what comes is no connection with a notice.
    pub fn take(&self) -> io::Result<Option<(Role, Link)>> {
        let (mut bytes, mut connection) = ([0; NOTICE_BYTES], None);
        let count = loop {
            match receive_with(&self.0, &mut bytes, &mut connection, RecvFlags::empty()) {
                Err(Errno::INTR) => {}
                received => break received?,
            }
        };
        if count == 0 {
            return Ok(None);
        }
        let socket = connection.ok_or_else(|| io::Error::other("a notice came without its connection"))?;
        let Notice { role, sent, received, may_seal } = serde_json::from_slice(&bytes[..count])?;
        Ok(Some((role, Link::resume(Parts { socket, sent, received, may_seal }))))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use std::io::Read as _;
    use std::os::unix::net::UnixStream;

    use floe_transport::Sealer;
    use floe_wire::{Decode as _, MemoryInfo, Message as _, StreamId, SynchronizeStream};
    use rustix::net::SendFlags;

    use super::*;

    #[test]
    fn connections_come_in_order_with_their_roles_and_go_on_where_they_were() {
        let (giver, taker) = pair().unwrap();
        let mut peers = Vec::new();
        for role in [Role::Joined, Role::Session] {
            let (ours, theirs) = UnixStream::pair().unwrap();
            let (mut peer, mut link) = (Link::new(ours.into()), Link::new(theirs.into()));
            peer.send(&MemoryInfo {}).unwrap();
            link.receive(None).unwrap().unwrap();
            giver.give(role, link).unwrap();
            peers.push(peer);
        }
        for (peer, role) in peers.iter_mut().zip([Role::Joined, Role::Session]) {
            let (its, mut link) = taker.take().unwrap().unwrap();
            assert_eq!(its, role);
            peer.send(&SynchronizeStream { stream: StreamId(4) }).unwrap();
            let frame = link.receive(None).unwrap().unwrap();
            assert_eq!((frame.sequence, frame.kind), (2, SynchronizeStream::KIND));
            assert_eq!(SynchronizeStream::decode(frame.payload).unwrap().stream, StreamId(4));
        }
        drop(giver);
        assert!(taker.take().unwrap().is_none());
    }

    #[test]
    fn what_a_key_may_still_seal_goes_along() {
        let (giver, taker) = pair().unwrap();
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let left = 300;
        let link = Link::resume(Parts { socket: ours.into(), sent: 0, received: 0, may_seal: Some(left) });
        giver.give(Role::Session, link).unwrap();
        let (_, mut link) = taker.take().unwrap().unwrap();
        assert_eq!(link.sealer(), Sealer::Kernel);
        while link.send(&MemoryInfo {}).is_ok() {}
        drop(link);
        let mut carried = Vec::new();
        theirs.read_to_end(&mut carried).unwrap();
        assert!((16..left).contains(&(carried.len() as u64)), "{} bytes", carried.len());
    }

    #[test]
    fn what_is_no_connection_is_refused_and_a_worker_that_is_gone_is_told() {
        let (giver, taker) = pair().unwrap();
        rustix::net::send(&giver.0, b"{}", SendFlags::empty()).unwrap();
        assert!(taker.take().is_err());
        drop(taker);
        let (ours, _theirs) = UnixStream::pair().unwrap();
        assert!(giver.give(Role::Session, Link::new(ours.into())).is_err());
    }
}
