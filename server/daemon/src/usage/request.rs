//! A peer's request for a session, as the table keeps and shows it.
//! In: the peer's message and its connection. Out: names that are safe for others' terminals.
//! It believes nothing that it is told: names are for people.

use floe_transport::{Peer, Sealer, TokenNumber, Transport};
use floe_wire::Attach;

use crate::entrance::limits::Source;

/// A peer's request for a session.
#[derive(Debug, Clone)]
pub(crate) struct SessionRequest {
    /// The peer whose share it counts for; `None`: the server's own user, who has no limit.
    pub(crate) source: Option<Source>,
    /// Host and address.
    pub(crate) client: String,
    /// The host as it names itself.
    pub(crate) host: String,
    /// The program's name.
    pub(crate) program: String,
    /// Its process id on its host.
    pub(crate) pid: u32,
    /// Which of the program's vGPUs it is.
    pub(crate) ordinal: u32,
    /// The transport of its commands.
    pub(crate) transport: &'static str,
    /// The user's name, for people; empty where none is known.
    pub(crate) user: String,
    /// The user's token that it was made with.
    pub(crate) token: Option<TokenNumber>,
}

/// A session of a program on some host, on some GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tenant {
    pub(crate) pid: u32,
    pub(crate) ordinal: u32,
    /// Quota in bytes; 0: all of the GPU.
    pub(crate) quota: u64,
    pub(crate) used: u64,
    pub(crate) worker: u32,
}

/// The most characters kept of a host's or a program's name, so that a table stays readable.
pub(crate) const NAME_CHARACTERS: usize = 128;

/// All transports that a request's may be.
pub(crate) const TRANSPORTS: [&str; 5] = ["unix", "shm", "tcp", "tls", "clear"];

impl SessionRequest {
    /// The request, from the peer's message and its connection.
    pub(crate) fn new(request: &Attach<'_>, peer: &Peer, sealer: Sealer, transport: Transport) -> Self {
        let client = format!("{} ({peer})", printable(request.host));
        Self {
            source: Some(Source::of(peer)),
            client,
            host: printable(request.host),
            program: printable(request.program),
            pid: request.pid,
            ordinal: request.ordinal,
            user: String::new(),
            token: None,
            transport: match (transport, peer, sealer) {
                (Transport::Socket, Peer::Unix { .. }, _) => "unix",
                (Transport::Socket, Peer::Tcp(_), Sealer::Token) => "tcp",
                (Transport::Socket, Peer::Tcp(_), Sealer::Process) => "tls",
                (Transport::Socket, Peer::Tcp(_), Sealer::Nobody) => "clear",
                (other, ..) => other.name(),
            },
        }
    }
}

/// The process of a client of this machine. `None` if another process holds its socket, or if the client has another id
/// of its own (in a container).
pub(crate) fn process_of(request: &Attach<'_>, peer: &Peer) -> Option<i32> {
    match peer {
        Peer::Unix { pid, .. } if *pid > 0 && u32::try_from(*pid) == Ok(request.pid) => Some(*pid),
        Peer::Unix { .. } | Peer::Tcp(_) => None,
    }
}

/// A name from a peer, made safe for others' terminals.
pub(crate) fn printable(name: &str) -> String {
    floe_wire::printable_within(NAME_CHARACTERS, name)
}
