//! A tunnel carries a sealed connection to a process without its keys: a pair of sockets, and two threads that seal and
//! open the bytes. In: a pipe. Out: a socket that carries the same bytes in the clear, within this machine.
//! The keys stay in the process that agreed on them; a worker gets the socket.
//! It ends soon after either end closes, whatever the other peer does; bytes in flight have a moment to pass.

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair, sockopt};

use crate::error::LinkError;
use crate::pipes::pipe::Pipe;
use crate::pipes::socket::Socket;

/// Bytes that are passed on together, at most.
const CHUNK: usize = 128 << 10;
/// How long the clear end's last bytes may take to a peer that does not read.
const LAST_WORD: Duration = Duration::from_secs(1);
/// How long a peer may take to read the last bytes before its own are refused: a refusal takes unread bytes away from it.
const READING: Duration = Duration::from_millis(250);
/// How long its threads may take to end after both ends: they wait for nothing else.
const THREADS: Duration = Duration::from_secs(10);

/// A handle to a tunnel, which ends by itself.
#[derive(Clone, Debug)]
pub struct Tunnel {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Wakes threads that wait for the others to end.
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    /// Threads that pass bytes on.
    running: u32,
    /// The sockets, until the last thread ends: a tunnel that is over holds no descriptors.
    ends: Option<[End; 2]>,
}

/// One side of a tunnel.
#[derive(Clone, Debug)]
struct End {
    pipe: Arc<dyn Pipe>,
    socket: Arc<OwnedFd>,
}

/// Why a thread stopped passing bytes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Over {
    /// Its source has ended.
    From,
    /// Its destination has ended.
    To,
}

/// Makes a tunnel through `sealed`, whose records use `socket`, and returns its clear end.
pub(crate) fn tunnel(sealed: Arc<dyn Pipe>, socket: Arc<OwnedFd>) -> Result<(OwnedFd, Tunnel), LinkError> {
    let failed = |source: std::io::Error| LinkError::system("making a tunnel for TLS", source);
    let (own, given) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
        .map_err(|source| failed(source.into()))?;
    let own = Arc::new(own);
    let clear = End { pipe: Arc::new(Socket::new(Arc::clone(&own))), socket: own };
    let sealed = End { pipe: sealed, socket };
    let state = Mutex::new(State { running: 0, ends: Some([sealed.clone(), clear.clone()]) });
    let shared = Arc::new(Shared { state, changed: Condvar::new() });
    let tunnel = Tunnel { shared };
    let opens = Running::new(&tunnel.shared);
    let seals = Running::new(&tunnel.shared);
    let (from, to) = (sealed.clone(), clear.clone());
    let open = move || {
        // The other thread still passes on the clear end's last bytes.
        if pass(&from, &to) == Over::To {
            drop_until_end(&from, LAST_WORD);
            opens.await_last(LAST_WORD);
        }
        opens.end_both();
        drop((from, to));
        drop(opens);
    };
    let seal = move || {
        let patience = match pass(&clear, &sealed) {
            Over::From => READING,
            // What the peer sent before it left is still passed on.
            Over::To => LAST_WORD,
        };
        seals.await_other(patience);
        seals.end_both();
        drop((clear, sealed));
        drop(seals);
    };
    let thread = |name: &str| std::thread::Builder::new().name(name.into());
    let started = thread("floe-open").spawn(open).and_then(|_| thread("floe-seal").spawn(seal));
    if let Err(source) = started {
        tunnel.end();
        return Err(failed(source));
    }
    Ok((given, tunnel))
}

/// Passes bytes on until one side ends.
fn pass(from: &End, to: &End) -> Over {
    let mut bytes = vec![0; CHUNK];
    loop {
        match from.pipe.read_now(&mut bytes, None) {
            Ok(None) => {
                if !wait(from, to) {
                    return Over::To;
                }
            }
            Ok(Some(count @ 1..)) => {
                if to.pipe.write(&bytes[..count], &[]).is_err() {
                    return Over::To;
                }
            }
            Ok(Some(0)) | Err(_) => return Over::From,
        }
    }
}

/// Reads and drops what comes until it ends, or for `patience` at most.
fn drop_until_end(from: &End, patience: Duration) {
    let (begin, mut bytes) = (Instant::now(), vec![0; CHUNK]);
    while let Some(left) = patience.checked_sub(begin.elapsed()) {
        match from.pipe.read_now(&mut bytes, None) {
            Ok(Some(1..)) => {}
            Ok(None) => {
                let mut own = [PollFd::new(&from.socket, PollFlags::IN)];
                let _ = poll(&mut own, Timespec::try_from(left).ok().as_ref());
            }
            Ok(Some(0)) | Err(_) => return,
        }
    }
}

/// Sleeps until one end has bytes. False: the other has closed first.
fn wait(from: &End, to: &End) -> bool {
    let mut ends = [PollFd::new(&from.socket, PollFlags::IN), PollFd::new(&to.socket, PollFlags::RDHUP)];
    match poll(&mut ends, None) {
        Ok(_) => !ends[0].revents().is_empty() || ends[1].revents().is_empty(),
        Err(error) => error == Errno::INTR,
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        floe_lock::lock(&self.state)
    }

    /// Waits until at most `threads` run, or for `time`. Returns whether that is so.
    fn await_threads(&self, most: u32, patience: Duration) -> bool {
        let waited = self.changed.wait_timeout_while(self.state(), patience, |state| state.running > most);
        waited.unwrap_or_else(PoisonError::into_inner).0.running <= most
    }

    /// Ends both sides, which wakes the threads that wait there.
    fn end(&self) {
        let ends = self.state().ends.clone();
        ends.iter().flatten().for_each(|end| end.pipe.end());
    }

    /// The same for a peer that does not read: the kernel keeps nothing for it.
    fn cut(&self) {
        let ends = self.state().ends.clone();
        for end in ends.iter().flatten() {
            // A socket that was reset already has nothing left.
            let _ = sockopt::set_socket_linger(end.socket.as_fd(), Some(Duration::ZERO));
        }
        self.end();
    }
}

impl Tunnel {
    /// Whether both of its threads have ended, and its descriptors are closed.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.shared.state().running == 0
    }

    /// Ends it at once.
    pub fn end(&self) {
        self.shared.cut();
    }

    /// Waits until it is over, after its clear end was closed. A peer that does not read gets a moment.
    pub fn finish(&self) {
        if !self.shared.await_threads(0, 2 * LAST_WORD) {
            self.end();
            self.shared.await_threads(0, THREADS);
        }
    }
}

/// Counts a thread of a tunnel as long as this exists.
struct Running(Arc<Shared>);

impl Running {
    fn new(shared: &Arc<Shared>) -> Self {
        shared.state().running += 1;
        Self(Arc::clone(shared))
    }

    /// Waits for the other thread.
    fn await_last(&self, patience: Duration) {
        if !self.0.await_threads(1, patience) {
            self.0.cut();
        }
    }

    /// Waits until the other thread has ended, or for so long.
    fn await_other(&self, patience: Duration) {
        let _ = self.0.await_threads(1, patience);
    }

    fn end_both(&self) {
        self.0.end();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.running -= 1;
        let ends = if state.running == 0 { state.ends.take() } else { None };
        // Closed before any thread learns that it is over.
        drop(ends);
        drop(state);
        self.0.changed.notify_all();
    }
}
