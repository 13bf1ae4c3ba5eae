//! The transport of a session's main connection once client and worker have met over a socket.
//! In: names, and what either side offers on the wire. Out: one value, which client, daemon and worker share.
//! It carries nothing: the pipe of each is a file of `pipes`.

use floe_wire::{Attach, AttachReply};

use crate::peer::Peer;

/// The transport of a session's main connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Transport {
    /// The socket over which client and worker meet.
    #[default]
    Socket,
    /// Rings in shared memory.
    Rings,
}

impl Transport {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Socket, Self::Rings];

    /// Its name, which is also the scheme of its addresses.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Socket => "socket",
            Self::Rings => "shm",
        }
    }

    /// The transport of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|transport| transport.name() == name)
    }

    /// Its description, for people.
    #[must_use]
    pub fn carrier(self) -> &'static str {
        match self {
            Self::Socket => "socket",
            Self::Rings => "shared memory",
        }
    }

    /// The transport that a client's request offers.
    #[must_use]
    pub fn offered(request: &Attach<'_>) -> Self {
        if request.rings > 0 { Self::Rings } else { Self::Socket }
    }

    /// The transport that a server's reply accepts.
    #[must_use]
    pub fn taken(reply: &AttachReply<'_>) -> Self {
        if reply.rings { Self::Rings } else { Self::Socket }
    }

    /// Writes it into a server's reply as accepted.
    pub fn say_taken(self, reply: &mut AttachReply<'_>) {
        reply.rings = match self {
            Self::Socket => false,
            Self::Rings => true,
        };
    }

    /// Whether it reaches this peer.
    #[must_use]
    pub fn reaches(self, peer: &Peer) -> bool {
        match self {
            Self::Socket => true,
            Self::Rings => matches!(peer, Peer::Unix { .. }),
        }
    }

    /// Whether it can break while both processes run; otherwise its session needs no grace period.
    #[must_use]
    pub fn can_break(self) -> bool {
        match self {
            Self::Socket => true,
            // Memory of this machine.
            Self::Rings => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_reads_the_transport_that_its_server_accepted() {
        for transport in Transport::ALL {
            let mut reply = AttachReply::default();
            transport.say_taken(&mut reply);
            assert_eq!(Transport::taken(&reply), transport);
            assert_eq!(Transport::named(transport.name()), Some(transport));
        }
        assert_eq!(Transport::named("carrier pigeon"), None);
    }

    #[test]
    fn rings_are_offered_by_their_size_and_reach_this_machine_only() {
        assert_eq!(Transport::offered(&Attach::default()), Transport::Socket);
        assert_eq!(Transport::offered(&Attach { rings: 1, ..Attach::default() }), Transport::Rings);
        let far = Peer::Tcp(([127, 0, 0, 1], 1).into());
        assert!(Transport::Rings.reaches(&Peer::Unix { uid: 0, pid: 1 }) && !Transport::Rings.reaches(&far));
        assert!(Transport::Socket.reaches(&far));
    }
}
