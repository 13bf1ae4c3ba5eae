//! Closes the Unix sockets of peers on threads of their own. A peer may send descriptors that nobody takes. The system
//! closes them in the thread that closes the socket, and a peer can make that last: a lingering TCP connection is
//! enough. The TCP sockets of peers do not linger here, whatever a worker that had them wants.
//! In: sockets without an owner. Out: their ends, and the number that are not closed yet.
//! A caller never waits for a socket to close.

use std::ops::Deref;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use floe_transport::Peer;
use rustix::net::sockopt::{set_socket_linger, socket_linger};

/// With so many sockets still closing, no Unix connection is accepted. It is also the most threads that close them. An
/// honest peer's socket closes within some microseconds.
pub(crate) const MOST: usize = 64;
/// The time until the next check whether fewer are closing, or whether a thread can start.
pub(crate) const AGAIN: Duration = Duration::from_millis(100);

/// Closes sockets.
#[derive(Debug, Default)]
pub(crate) struct Closer {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Sockets that no thread has taken yet.
    waiting: Vec<OwnedFd>,
    /// Threads that have been started and have not ended.
    threads: usize,
    /// Sockets that a thread is closing.
    closing: usize,
}

impl Closer {
    /// Closes a socket without waiting.
    pub(crate) fn close(self: &Arc<Self>, socket: OwnedFd) {
        self.state().waiting.push(socket);
        self.go_on();
    }

    /// Whether so many are closing that no connection is accepted.
    pub(crate) fn is_full(&self) -> bool {
        self.state().count() >= MOST
    }

    /// The time until the next check, unless an event comes first.
    pub(crate) fn patience(&self) -> Option<Duration> {
        let state = self.state();
        (state.count() >= MOST || state.lacks_threads()).then_some(AGAIN)
    }

    /// Starts threads for waiting sockets. If the system refuses a thread, the sockets keep waiting.
    pub(crate) fn go_on(self: &Arc<Self>) {
        while self.takes_a_thread() {
            let closer = Arc::clone(self);
            // A thread takes its socket from the list. A socket moved into a thread that fails to start would close
            // here.
            let thread = std::thread::Builder::new().name("closing".into()).spawn(move || closer.close_waiting());
            if thread.is_err() {
                self.state().threads -= 1;
                return;
            }
        }
    }

    /// Counts one more thread if there is work for it.
    fn takes_a_thread(&self) -> bool {
        let mut state = self.state();
        let takes = state.lacks_threads();
        state.threads += usize::from(takes);
        takes
    }

    fn close_waiting(&self) {
        while let Some(socket) = self.next() {
            do_not_linger(&socket);
            drop(socket);
            self.state().closing -= 1;
        }
    }

    /// The next socket for a thread. Without one the thread counts as ended.
    fn next(&self) -> Option<OwnedFd> {
        let mut state = self.state();
        let socket = state.waiting.pop();
        match socket {
            Some(_) => state.closing += 1,
            None => state.threads -= 1,
        }
        socket
    }

    /// The number of sockets that are not closed yet.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.state().count()
    }

    /// No code panics while it holds this lock.
    fn state(&self) -> MutexGuard<'_, State> {
        floe_lock::lock(&self.state)
    }
}

impl State {
    /// Sockets that are not closed yet.
    fn count(&self) -> usize {
        self.waiting.len() + self.closing
    }

    /// Whether a socket waits that no idle thread is about to take. A thread that is closing another socket may never
    /// finish.
    fn lacks_threads(&self) -> bool {
        self.threads < MOST && self.waiting.len() > self.threads - self.closing
    }
}

/// A peer's socket. Dropping it never waits, whatever the peer has sent, so the last owner may drop it under a lock. A
/// link on it must not outlive it.
#[derive(Clone, Debug)]
pub(crate) struct PeerSocket {
    /// `None`: it is being dropped.
    socket: Option<Arc<OwnedFd>>,
    /// Its closer; `None`: the socket carries no descriptors.
    closer: Option<Arc<Closer>>,
}

impl PeerSocket {
    /// The socket of a connection that was accepted.
    pub(crate) fn new(socket: OwnedFd, peer: &Peer, closer: &Arc<Closer>) -> Self {
        let closer = matches!(peer, Peer::Unix { .. }).then(|| Arc::clone(closer));
        Self { socket: Some(Arc::new(socket)), closer }
    }
}

impl Deref for PeerSocket {
    type Target = Arc<OwnedFd>;

    fn deref(&self) -> &Self::Target {
        self.socket.as_ref().expect("there until it is dropped")
    }
}

impl Drop for PeerSocket {
    fn drop(&mut self) {
        // Exactly one of its owners is the last.
        let Some(socket) = self.socket.take().and_then(Arc::into_inner) else { return };
        match &self.closer {
            Some(closer) => closer.close(socket),
            None => do_not_linger(&socket),
        }
    }
}

/// A worker that has this socket, or had it, may have it linger: if it closes its own descriptor first, the last close
/// waits for the client. One that is to be reset, without lingering, still is.
fn do_not_linger(socket: &OwnedFd) {
    // What is no socket has no such time.
    if socket_linger(socket).is_ok_and(|time| time.is_some_and(|time| !time.is_zero())) {
        let _ = set_socket_linger(socket, None);
    }
}

/// A socket that closes as late as its peer likes.
#[cfg(test)]
pub(crate) mod stubborn {
    use std::io::{ErrorKind, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::{AsFd as _, OwnedFd};
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    use rustix::net::sockopt::{set_socket_linger, set_socket_recv_buffer_size, set_socket_send_buffer_size};

    /// How long its end is delayed: longer than any test waits.
    const LINGER: Duration = Duration::from_secs(600);
    /// Bytes of a queue. Left to the system they grow until the other side takes all that was sent, or until the system lacks
    /// memory for sockets and breaks connections: then nothing lingers.
    const QUEUE: usize = 64 << 10;

    /// A connection with a full queue that lingers, and its other end: while that is there, its last close waits.
    pub(crate) fn lingering() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        set_socket_recv_buffer_size(&listener, QUEUE).expect("set");
        let mut near = TcpStream::connect(listener.local_addr().expect("its address")).expect("connected");
        let far = listener.accept().expect("accepted").0;
        set_socket_send_buffer_size(&near, QUEUE).expect("set");
        near.set_nonblocking(true).expect("set");
        let mut full = 0;
        while full < 20 {
            // The number of bytes that fit does not matter.
            match near.write_all(&[0; 64 << 10]) {
                Ok(()) => full = 0,
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::WouldBlock);
                    full += 1;
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        }
        set_socket_linger(&near, Some(LINGER)).expect("set");
        (near, far)
    }

    /// Sends a byte and a lingering connection over a Unix socket. Its end is delayed until the returned sockets are
    /// dropped.
    pub(crate) fn make(peer: UnixStream) -> (UnixStream, TcpStream) {
        let (near, far) = lingering();
        let peer = OwnedFd::from(peer);
        floe_transport::send_with(&peer, &[1], near.as_fd()).expect("sent");
        (peer.into(), far)
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;
    use std::os::unix::net::UnixStream;
    use std::sync::mpsc::channel;
    use std::time::Instant;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(120);
    const PEER: Peer = Peer::Unix { uid: 1, pid: 1 };

    fn socket(closer: &Arc<Closer>) -> (PeerSocket, UnixStream) {
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        (PeerSocket::new(ours.into(), &PEER, closer), theirs)
    }

    fn stubborn(closer: &Arc<Closer>) -> (PeerSocket, (UnixStream, TcpStream)) {
        let (ours, theirs) = socket(closer);
        (ours, stubborn::make(theirs))
    }

    /// Does something that must not wait.
    fn at_once(what: impl FnOnce() + Send + 'static) {
        let (done, is_done) = channel();
        std::thread::spawn(move || {
            what();
            let _ = done.send(());
        });
        is_done.recv_timeout(PATIENCE).expect("it waited for the peer");
    }

    fn is_idle(closer: &Closer) -> bool {
        let state = closer.state();
        (state.count(), state.threads) == (0, 0)
    }

    fn wait_until(mut is_so: impl FnMut() -> bool) {
        let start = Instant::now();
        while !is_so() {
            assert!(start.elapsed() < PATIENCE, "waited in vain");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn who_drops_a_socket_does_not_wait_for_what_its_peer_has_sent() {
        let closer = Arc::default();
        let (ours, held_up) = stubborn(&closer);
        at_once(move || drop(ours));
        assert_eq!(closer.state().count(), 1);
        let (other, peer) = socket(&closer);
        drop(other);
        wait_until(|| floe_transport::look(&peer) == Ok(floe_transport::Opening::Closed));
        wait_until(|| closer.state().count() == 1);
        drop(held_up);
        wait_until(|| is_idle(&closer));
    }

    #[test]
    fn who_drops_a_tcp_socket_that_a_worker_has_had_linger_does_not_wait() {
        let (ours, far) = stubborn::lingering();
        let from = ours.peer_addr().expect("connected");
        let ours = PeerSocket::new(ours.into(), &Peer::Tcp(from), &Arc::default());
        at_once(move || drop(ours));
        drop(far);
    }

    #[test]
    fn only_who_drops_a_socket_last_closes_it() {
        let closer = Arc::default();
        let (ours, peer) = socket(&closer);
        let link = Arc::clone(&ours);
        drop(ours.clone());
        drop(link);
        assert_eq!((closer.state().threads, floe_transport::look(&peer)), (0, Ok(floe_transport::Opening::Partly)));
        drop(ours);
        wait_until(|| floe_transport::look(&peer) == Ok(floe_transport::Opening::Closed));
    }

    #[test]
    fn sockets_whose_end_is_held_up_have_so_many_threads_and_the_others_wait() {
        let closer = Arc::default();
        let (all, mut held_up): (Vec<_>, Vec<_>) = (0..MOST + 2).map(|_| stubborn(&closer)).unzip();
        assert!(!closer.is_full() && closer.patience().is_none());
        at_once(move || drop(all));
        assert_eq!(closer.state().count(), MOST + 2);
        assert!(closer.is_full() && closer.patience().is_some());
        wait_until(|| closer.state().closing == MOST);
        assert_eq!(closer.state().threads, MOST);
        held_up.truncate(1);
        wait_until(|| closer.state().count() <= 1);
        assert!(!closer.is_full());
        held_up.clear();
        wait_until(|| is_idle(&closer));
        assert!(closer.patience().is_none());
    }

    #[test]
    fn a_socket_that_got_no_thread_is_closed_later() {
        let closer = Arc::<Closer>::default();
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        closer.state().waiting.push(ours.into());
        assert!(closer.patience().is_some());
        closer.go_on();
        wait_until(|| floe_transport::look(&theirs) == Ok(floe_transport::Opening::Closed));
        assert!(closer.patience().is_none());
    }
}
