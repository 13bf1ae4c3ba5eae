//! How sockets are set up.
//! In: a socket of a connection. Out: the same, with the options that its use takes.
//! It opens and closes none, and reads and writes nothing.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::net::sockopt;
use socket2::SockRef;

use crate::error::LinkError;

/// Silence after which the operating system asks whether the peer is still there.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(20);
/// Time between such questions.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
/// Unanswered questions after which the peer counts as gone.
const KEEPALIVE_COUNT: u32 = 4;

/// How long a peer's machine may be silent before a connection that asks it counts as broken.
const SILENCE: Duration = Duration::from_secs(20);

/// The same while the peer has been asked whether it is there.
const SILENCE_OF_ASKED: Duration = Duration::from_secs(3);

/// Bytes under way in one direction of a Unix socket. TCP finds its own measure.
const SEND_BUFFER: usize = 4 << 20;
/// Bytes of a TCP socket that the system has not begun to send, at most: what lies there longer than it must is in no cache
/// when it is sent. It does not limit what is under way, however far the peer is.
const MOST_UNSENT: u32 = 256 << 10;

/// Small frames leave at once, and a vanished peer is noticed: by questions while nothing is under way, by the operating
/// system's own limit (a quarter of an hour) while something is. There is no time limit of ours on that, since it would
/// also end a connection whose peer is well but has not read for so long: a stopped program, a worker behind a long kernel.
pub(crate) fn prepare_tcp(socket: &OwnedFd) -> Result<(), LinkError> {
    let set = || -> rustix::io::Result<()> {
        sockopt::set_tcp_nodelay(socket, true)?;
        // A system without this option keeps more back, that is all.
        let _ = SockRef::from(socket).set_tcp_notsent_lowat(MOST_UNSENT);
        sockopt::set_socket_keepalive(socket, true)?;
        sockopt::set_tcp_keepidle(socket, KEEPALIVE_IDLE)?;
        sockopt::set_tcp_keepintvl(socket, KEEPALIVE_INTERVAL)?;
        sockopt::set_tcp_keepcnt(socket, KEEPALIVE_COUNT)
    };
    set().map_err(|source| LinkError::system("setting up a TCP socket", source))
}

/// Has the system end a connection soon when the peer's machine does not answer: both where something is under way and where
/// nothing is. Only for one that carries so little that its buffers are never full: a machine answers for a process that is
/// stopped, but where nothing fits any more that is not enough.
pub(crate) fn watch_peer(socket: &OwnedFd) {
    // A Unix socket has none of these and needs none.
    limit_silence(socket, false);
    let _ = sockopt::set_tcp_keepidle(socket, KEEPALIVE_INTERVAL);
}

/// How long the peer's machine may be silent on a connection that is watched, while its peer `is_asked` or else.
pub(crate) fn limit_silence(socket: &OwnedFd, is_asked: bool) {
    let time = if is_asked { SILENCE_OF_ASKED } else { SILENCE };
    let _ = sockopt::set_tcp_user_timeout(socket, u32::try_from(time.as_millis()).unwrap_or(u32::MAX));
}

/// Writer and reader of bulk data run further apart with a larger buffer; the system cuts the wish down to its limit.
pub(crate) fn prepare_unix(socket: &OwnedFd) {
    // Whatever the system grants is enough to work.
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
        // With a limit the kernel ends a connection whose peer answers every question that its buffers are full.
        assert_eq!(sockopt::tcp_user_timeout(&socket).expect("asked"), 0);
        assert!(sockopt::socket_keepalive(&socket).expect("asked"));
    }
}
