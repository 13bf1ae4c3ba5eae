//! Closes the Unix sockets of peers on threads of their own. A peer sends descriptors that nobody takes, and the system closes
//! these in the thread that closes the socket, for as long as the peer likes: a lingering TCP connection is enough.
//! In: sockets that nobody holds any more. Out: their ends, and how many are still to come.
//! Whoever gives a socket here never waits for it.

use std::ops::Deref;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use floe_transport::Peer;

/// Sockets that are being closed, at most, while more connections are accepted from Unix sockets; and threads that do it. One
/// that holds up nobody is closed within some microseconds.
pub(crate) const MOST: usize = 64;
/// After how long it is looked again whether fewer are being closed, or whether there is a thread for one.
pub(crate) const AGAIN: Duration = Duration::from_millis(100);

/// What closes sockets.
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
    /// Closes a socket, and does not wait for that.
    fn close(self: &Arc<Self>, socket: OwnedFd) {
        self.state().waiting.push(socket);
        self.go_on();
    }

    /// Whether as many are being closed as may be, so that no more may come.
    pub(crate) fn is_full(&self) -> bool {
        self.state().count() >= MOST
    }

    /// When to look again, if nothing comes before.
    pub(crate) fn patience(&self) -> Option<Duration> {
        let state = self.state();
        (state.count() >= MOST || state.lacks_threads()).then_some(AGAIN)
    }

    /// Starts threads for sockets that wait for one. Where the system gives none, they wait on.
    pub(crate) fn go_on(self: &Arc<Self>) {
        while self.takes_a_thread() {
            let closer = Arc::clone(self);
            // A thread finds its socket in the list: what was given to one that is not started would be closed here.
            let thread = std::thread::Builder::new().name("closing".into()).spawn(move || closer.close_waiting());
            if thread.is_err() {
                self.state().threads -= 1;
                return;
            }
        }
    }

    /// Counts one more thread, where there is work for it.
    fn takes_a_thread(&self) -> bool {
        let mut state = self.state();
        let takes = state.lacks_threads();
        state.threads += usize::from(takes);
        takes
    }

    fn close_waiting(&self) {
        while let Some(socket) = self.next() {
            drop(socket);
            self.state().closing -= 1;
        }
    }

    /// A socket for a thread, which has ended where there is none.
    fn next(&self) -> Option<OwnedFd> {
        let mut state = self.state();
        let socket = state.waiting.pop();
        match socket {
            Some(_) => state.closing += 1,
            None => state.threads -= 1,
        }
        socket
    }

    /// How many are not closed yet.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.state().count()
    }

    /// Nothing panics while it is held.
    fn state(&self) -> MutexGuard<'_, State> {
        floe_lock::lock(&self.state)
    }
}

impl State {
    /// Sockets that are not closed yet.
    fn count(&self) -> usize {
        self.waiting.len() + self.closing
    }

    /// Whether a socket waits that none of the threads is about to take. One that is closing another may never come to it.
    fn lacks_threads(&self) -> bool {
        self.threads < MOST && self.waiting.len() > self.threads - self.closing
    }
}

/// A peer's socket. Who drops it does not wait, whatever the peer has sent there: not even who drops it last, under a lock.
/// A link on it must not outlive it.
#[derive(Clone, Debug)]
pub(crate) struct PeerSocket {
    /// `None`: it is being dropped.
    socket: Option<Arc<OwnedFd>>,
    /// What closes it; `None`: it carries no descriptors.
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
        // Of all who drop it one has it last, whichever that is.
        if let Some(socket) = self.socket.take().and_then(Arc::into_inner)
            && let Some(closer) = &self.closer
        {
            closer.close(socket);
        }
    }
}

/// A socket whose end takes as long as the peer likes.
#[cfg(test)]
pub(crate) mod stubborn {
    use std::io::{ErrorKind, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::{AsFd as _, OwnedFd};
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    use rustix::net::sockopt::set_socket_linger;

    /// For so long its end is held up: longer than any test is patient.
    const LINGER: Duration = Duration::from_secs(600);

    /// Sends a byte and a connection with a full queue that lingers over a Unix socket. Its end is held up until what is
    /// returned is dropped.
    pub(crate) fn make(peer: UnixStream) -> (UnixStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let mut near = TcpStream::connect(listener.local_addr().expect("its address")).expect("connected");
        let far = listener.accept().expect("accepted").0;
        near.set_nonblocking(true).expect("set");
        let mut full = 0;
        while full < 20 {
            // How much of it fits in does not matter.
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
