//! The peer of a connection, as the kernel reports it.
//! In: the credentials of an accepted connection. Out: an address, or a process of this machine.
//! It never asks the peer, and trusts nothing that the peer sends.

use std::net::SocketAddr;

/// The peer of an accepted connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peer {
    /// Another host or this one, by TCP.
    Tcp(SocketAddr),
    /// A process of this host, as the kernel vouches.
    Unix {
        /// Its effective user id when it connected.
        uid: u32,
        /// Its process id when it connected; 0: its process namespace is not visible from this one.
        pid: i32,
    },
}

impl std::fmt::Display for Peer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp(address) => write!(formatter, "{address}"),
            Self::Unix { uid, pid: 0 } => write!(formatter, "a process of user {uid} in another namespace"),
            Self::Unix { uid, pid } => write!(formatter, "process {pid} of user {uid}"),
        }
    }
}
