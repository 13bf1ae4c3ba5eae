//! The sockets under a transport, alone: the most that a session over them could carry.
//! In: the kind of socket, a number of connections, a number of bytes. Out: seconds, and the number of connections that
//! carry the session's own copies. The sockets have the session's options, without its limit on unsent bytes. Pieces
//! have the size of its smallest chunks.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use floe_wire::{CHUNK_BYTES, PIECE_BYTES};
use rustix::net::sockopt;
use serde::{Deserialize, Serialize};

use super::bulk_connections;
use super::stream::{self, Pair};

/// Bytes from which on a socket's rate is measured: below, waking decides, and sessions have ways of their own.
pub(super) const LEAST: u64 = 64 << 10;
/// Bulk connections with which copies over TCP have to be fast already.
pub(super) const FEW: u32 = 4;
/// Connections over which TCP is measured beside the session's own number.
const COUNTS: [u32; 2] = [1, FEW];
/// Bytes in flight that a session asks for on a Unix socket. The system cuts the wish down to its limit.
const SEND_BUFFER: usize = 4 << 20;

/// Which sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Wire {
    /// A pair of Unix stream sockets.
    Unix,
    /// TCP over the loopback interface.
    Tcp,
}

impl Wire {
    /// As `--raw` takes it.
    pub(super) fn flag(self) -> &'static str {
        match self {
            Self::Unix => "unix",
            Self::Tcp => "tcp",
        }
    }

    /// For people.
    pub(super) fn name(self, connections: u32) -> String {
        match self {
            Self::Unix => "unix raw".to_owned(),
            Self::Tcp => format!("tcp raw ×{connections}"),
        }
    }

    /// The number of connections that carry the large copies of this process's session; `None` where it is unknown.
    pub(super) fn of_session(self) -> Option<u32> {
        match self {
            Self::Unix => Some(1),
            // Without bulk connections, the session's own carries everything; with them, nothing of a large copy.
            Self::Tcp => bulk_connections::of_this_process().ok().map(|count| count.max(1)),
        }
    }

    /// Over how many connections it is measured.
    pub(super) fn counts(self, of_session: Option<u32>) -> Vec<u32> {
        let more = if self == Self::Tcp { &COUNTS[..] } else { &[] };
        let mut counts: Vec<u32> = of_session.into_iter().chain(more.iter().copied()).collect();
        counts.sort_unstable();
        counts.dedup();
        counts
    }

    /// The seconds of a transfer of so many bytes over so many connections.
    ///
    /// # Errors
    /// When the system gives no sockets or threads, or loses bytes.
    pub(super) fn seconds(self, connections: u32, bytes: usize, budget: Duration) -> Result<f64> {
        let pairs: Vec<Pair> = match self {
            Self::Unix => (0..connections).map(|_| unix_pair()).collect::<Result<_>>()?,
            Self::Tcp => tcp_pairs(connections)?,
        };
        stream::seconds(&pairs, bytes, self.piece(), budget).with_context(|| self.name(connections))
    }

    fn piece(self) -> usize {
        match self {
            Self::Unix => PIECE_BYTES,
            Self::Tcp => CHUNK_BYTES,
        }
    }
}

fn unix_pair() -> Result<Pair> {
    let (from, to) = UnixStream::pair().context("no pair of Unix sockets")?;
    // A smaller buffer than the wished one works too.
    let _ = sockopt::set_socket_send_buffer_size(&from, SEND_BUFFER);
    Ok(Pair { from: from.into(), to: to.into() })
}

fn tcp_pairs(count: u32) -> Result<Vec<Pair>> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no port on the loopback interface")?;
    let place = listener.local_addr().context("the port is not known")?;
    let pair = || {
        let from = TcpStream::connect(place).context("the loopback interface takes no connection")?;
        let (to, peer) = listener.accept().context("the loopback interface brings no connection")?;
        ensure!(from.local_addr().is_ok_and(|own| own == peer), "somebody else connected: {peer}");
        from.set_nodelay(true).context("setting up a TCP socket")?;
        Ok(Pair { from: from.into(), to: to.into() })
    };
    (0..count).map(|_| pair()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tcp_is_measured_over_the_sessions_number_and_two_others_once_each() {
        assert_eq!(Wire::Tcp.counts(Some(8)), [1, 4, 8]);
        assert_eq!(Wire::Tcp.counts(Some(4)), [1, 4]);
        assert_eq!(Wire::Tcp.counts(None), [1, 4]);
        assert_eq!(Wire::Unix.counts(Wire::Unix.of_session()), [1]);
    }

    #[test]
    fn both_kinds_of_sockets_carry_bytes() {
        for (wire, connections) in [(Wire::Unix, 1), (Wire::Tcp, 1), (Wire::Tcp, 4)] {
            let seconds = wire.seconds(connections, 1 << 20, Duration::ZERO).expect("bytes arrive");
            assert!(seconds > 0.0, "{}", wire.name(connections));
        }
    }

    #[test]
    fn flags_are_what_the_measuring_process_takes() {
        for wire in [Wire::Unix, Wire::Tcp] {
            let flag: Result<Wire, String> = clap::ValueEnum::from_str(wire.flag(), false);
            assert_eq!(flag, Ok(wire));
        }
    }
}
