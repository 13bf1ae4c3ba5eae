//! The options of sockets.
//! In: a socket of a connection. Out: the same socket, with the options that its use needs.
//! It opens and closes no socket, and reads and writes nothing.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::net::sockopt;
use socket2::SockRef;

use crate::error::LinkError;

/// Silence after which the kernel probes the peer.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(20);
/// Time between probes.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
/// Unanswered probes after which the peer counts as gone.
const KEEPALIVE_COUNT: u32 = 4;

/// How long a peer host may be silent before a connection that probes it counts as broken.
const SILENCE: Duration = Duration::from_secs(20);

/// The same while a heartbeat is unanswered.
const SILENCE_OF_ASKED: Duration = Duration::from_secs(3);

/// Bytes in flight in one direction of a Unix socket. TCP finds its own measure.
const SEND_BUFFER: usize = 4 << 20;
/// The most bytes of a TCP socket that the kernel has not begun to send. Bytes that wait there longer have left the
/// cache when they are sent. It does not limit the bytes in flight, however far the peer is.
const MOST_UNSENT: u32 = 256 << 10;

/// Makes small frames leave at once, and notices a vanished peer. While nothing is in flight, probes notice it;
/// otherwise the kernel's own limit does, a quarter of an hour. A shorter limit would also end connections to a healthy
/// peer that does not read for long: a stopped program, a worker behind a long kernel.
pub(crate) fn prepare_tcp(socket: &OwnedFd) -> Result<(), LinkError> {
    let set = || -> rustix::io::Result<()> {
        sockopt::set_tcp_nodelay(socket, true)?;
        // A kernel without this option only keeps more bytes back.
        let _ = SockRef::from(socket).set_tcp_notsent_lowat(MOST_UNSENT);
        sockopt::set_socket_keepalive(socket, true)?;
        sockopt::set_tcp_keepidle(socket, KEEPALIVE_IDLE)?;
        sockopt::set_tcp_keepintvl(socket, KEEPALIVE_INTERVAL)?;
        sockopt::set_tcp_keepcnt(socket, KEEPALIVE_COUNT)
    };
    set().map_err(|source| LinkError::system("setting up a TCP socket", source))
}

/// Makes the kernel drop the connection soon after the peer host stops answering, whether or not bytes are in flight.
/// Only for a connection that carries so little that its buffers are never full. A host answers for a stopped process,
/// but behind full buffers its answers do not count.
pub(crate) fn watch_peer(socket: &OwnedFd) {
    // A Unix socket has none of these options and needs none.
    limit_silence(socket, false);
    let _ = sockopt::set_tcp_keepidle(socket, KEEPALIVE_INTERVAL);
}

/// Sets how long the peer host may be silent on a watched connection; `is_asked`: a heartbeat is unanswered.
pub(crate) fn limit_silence(socket: &OwnedFd, is_asked: bool) {
    let time = if is_asked { SILENCE_OF_ASKED } else { SILENCE };
    let _ = sockopt::set_tcp_user_timeout(socket, u32::try_from(time.as_millis()).unwrap_or(u32::MAX));
}

/// A larger buffer lets writer and reader of bulk data run further apart; the kernel caps it.
pub(crate) fn prepare_unix(socket: &OwnedFd) {
    // Any size that the kernel grants works.
    let _ = sockopt::set_socket_send_buffer_size(socket, SEND_BUFFER);
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_watched_connection_ends_when_the_peers_machine_is_silent() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let stream = TcpStream::connect(listener.local_addr().expect("its address")).expect("connected");
        let socket = OwnedFd::from(stream);
        prepare_tcp(&socket).expect("set up");
        watch_peer(&socket);
        assert_eq!(sockopt::tcp_user_timeout(&socket).expect("asked"), 20_000);
        limit_silence(&socket, true);
        assert_eq!(sockopt::tcp_user_timeout(&socket).expect("asked"), 3_000);
        assert_eq!(sockopt::tcp_keepidle(&socket).expect("asked"), KEEPALIVE_INTERVAL);
        assert_eq!(SockRef::from(&socket).tcp_notsent_lowat().expect("asked"), MOST_UNSENT);
        let (unix, _other) = UnixStream::pair().expect("made");
        watch_peer(&unix.into());
    }

    #[test]
    fn a_peer_that_does_not_read_is_not_taken_for_dead() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let stream = TcpStream::connect(listener.local_addr().expect("its address")).expect("connected");
        let socket = OwnedFd::from(stream);
        prepare_tcp(&socket).expect("set up");
        // With a limit the kernel ends a connection whose peer answers every probe that its buffers are full.
        assert_eq!(sockopt::tcp_user_timeout(&socket).expect("asked"), 0);
        assert!(sockopt::socket_keepalive(&socket).expect("asked"));
    }
}
