//! The limits of peers, so that one cannot crowd out the others: every limit of the daemon's clients, in one place.
//! In: a peer, what it takes and frees, the time. Out: decisions. The limit per peer comes before the limit for all, so
//! that one peer meets its own first.
//! Pure: it opens and closes nothing, has no clock and no thread.

mod pool;
mod sessions;
mod slots;
mod strangers;
mod words;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use floe_transport::Peer;
use floe_users::Name;

pub(crate) use pool::{Decision, Room};
pub(crate) use sessions::{SessionLimits, TooMany};
pub(crate) use slots::Slots;
pub(crate) use strangers::Strangers;
pub(crate) use words::{Permit, Refusals, Words};

/// A connection's time to prove who it is, from its acceptance on.
pub(crate) const UNPROVED: Duration = Duration::from_secs(3);
/// The longest silence of a peer that has proved who it is and has no session.
pub(crate) const SILENCE: Duration = Duration::from_secs(10);
/// The longest life of a connection after its proof without a session, whatever it sends.
pub(crate) const CONVERSATION: Duration = Duration::from_secs(30);

/// A number for all peers together, and one for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    /// The most of all.
    pub(crate) all: usize,
    /// The most of one peer.
    pub(crate) each: usize,
}

impl Share {
    /// A limit for all, of which one peer may have a quarter.
    pub(crate) fn quarters(all: usize) -> Self {
        Self { all: all.max(1), each: (all / 4).max(1) }
    }
}

/// What a limit counts as one peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Source {
    /// A machine, or all machines behind one translated address.
    Host(Ipv4Addr),
    /// The first 64 bits of an IPv6 address: one subscriber has all the rest.
    Network(u64),
    /// A user of this machine, by the Unix socket.
    User(u32),
    /// All clients whose bytes a user forwards to the Unix socket, where that user needs no token.
    Forwarded(u32),
    /// A user that the server knows by name, wherever it connects from.
    Named(Name),
}

impl Source {
    /// The user, where the server knows its name.
    pub(crate) fn name(self) -> Option<Name> {
        if let Self::Named(name) = self { Some(name) } else { None }
    }

    /// Whether the peer connects by the Unix socket.
    pub(crate) fn is_of_this_machine(self) -> bool {
        matches!(self, Self::User(_) | Self::Forwarded(_))
    }

    /// The peer of a connection that may carry somebody else's bytes.
    pub(crate) fn behind(peer: &Peer) -> Self {
        match Self::of(peer) {
            Self::User(user) => Self::Forwarded(user),
            other => other,
        }
    }

    /// The peer at the other end of a connection.
    pub(crate) fn of(peer: &Peer) -> Self {
        match peer {
            Peer::Unix { uid, .. } => Self::User(*uid),
            Peer::Tcp(address) => match address.ip().to_canonical() {
                IpAddr::V4(address) => Self::Host(address),
                IpAddr::V6(address) => Self::Network(u64::try_from(address.to_bits() >> 64).unwrap_or(u64::MAX)),
            },
        }
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Host(address) => write!(formatter, "{address}"),
            Self::Network(bits) => write!(formatter, "{}/64", Ipv6Addr::from_bits(u128::from(*bits) << 64)),
            Self::User(user) => write!(formatter, "user {user}"),
            Self::Forwarded(user) => write!(formatter, "clients behind a socket of user {user}"),
            Self::Named(name) => write!(formatter, "user {name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(address: &str) -> Source {
        Source::of(&Peer::Tcp(address.parse().expect("an address")))
    }

    #[test]
    fn a_peer_is_an_address_a_network_of_64_bits_or_a_user() {
        assert_eq!(tcp("192.0.2.1:1"), tcp("192.0.2.1:2"));
        assert_eq!(tcp("192.0.2.1:1"), tcp("[::ffff:192.0.2.1]:9"));
        assert_ne!(tcp("192.0.2.1:1"), tcp("192.0.2.2:1"));
        assert_eq!(tcp("[2001:db8:0:1::1]:1"), tcp("[2001:db8:0:1:ffff::2]:2"));
        assert_ne!(tcp("[2001:db8:0:1::1]:1"), tcp("[2001:db8:0:2::1]:1"));
        let user = |uid| Source::of(&Peer::Unix { uid, pid: 7 });
        assert_eq!(user(5), Source::of(&Peer::Unix { uid: 5, pid: 8 }));
        assert_ne!(user(5), user(6));
        let forwarded = Source::behind(&Peer::Unix { uid: 5, pid: 7 });
        assert_eq!((forwarded, forwarded.is_of_this_machine()), (Source::Forwarded(5), true));
        assert_eq!(Source::behind(&Peer::Tcp("192.0.2.1:1".parse().expect("an address"))), tcp("192.0.2.1:1"));
        let shown = [tcp("192.0.2.1:1"), tcp("[2001:db8:0:1::9]:1"), user(5)].map(|source| source.to_string());
        assert_eq!(shown, ["192.0.2.1", "2001:db8:0:1::/64", "user 5"]);
    }

    #[test]
    fn a_share_leaves_one_to_everybody() {
        assert_eq!(Share::quarters(64), Share { all: 64, each: 16 });
        assert_eq!(Share::quarters(2), Share { all: 2, each: 1 });
        assert_eq!(Share::quarters(0), Share { all: 1, each: 1 });
    }
}
