//! Who is at the other end of a connection, as the system says.
//! In: what came with an accepted connection. Out: an address, or a process of this machine.
//! It asks the peer nothing and believes nothing that it says.

use std::net::SocketAddr;

/// Who is at the other end of an accepted connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peer {
    /// Another or this host, by TCP.
    Tcp(SocketAddr),
    /// A process of this host, as the kernel vouches.
    Unix {
        /// Its effective user id when it connected.
        uid: u32,
        /// Its process id when it connected; 0: it is of another process namespace, and not shown in this one.
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
