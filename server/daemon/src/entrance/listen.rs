//! The porch: accepts on every address and holds connections until their first message is complete. It runs until a
//! signal or, in a private daemon, the end of the served process.
//! In: listeners, a socket that becomes readable on a signal, perhaps a process. Out: connections that may speak, for
//! the server.
//! One thread serves all: a silent peer costs a row, a slow one also a wake-up per byte. The thread never closes a
//! peer's Unix socket, since the peer can delay that. With too many still closing it accepts no more.

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use floe_metrics::Refusal;
use floe_transport::{Address, LinkError, Listener, Opening, look};
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::io::Errno;

use super::closing::{AGAIN, MOST};
use super::gate::{Connection, Gate};
use super::reception::welcome;
use crate::error::DaemonError;
use crate::server::Server;
use crate::warn;

/// How often a private daemon checks for the end of its last session, after its process has ended.
const LAST_SESSIONS: Duration = Duration::from_millis(50);
/// The pause after the system lacked descriptors or memory for a connection.
const AFTER_FAILURE: Duration = Duration::from_millis(100);
/// The most connections that are accepted in a row.
const AT_ONCE: usize = 64;
/// The least time between two log lines about a pause.
const SAID: Duration = Duration::from_secs(1);
/// The most events of one wait.
const EVENTS: usize = 64;

/// Identifiers of events; a listener's index or a connection's number is added.
const SIGNAL: u64 = 0;
const SERVED: u64 = 1;
const LEFT: u64 = 2;
const ASKED: u64 = 3;
const RELOAD: u64 = 4;
const LAUNCHER: u64 = 5;
const LISTENERS: u64 = 6;
const CONNECTIONS: u64 = 1 << 32;

/// The descriptors that the loop waits for.
pub(crate) struct Doors {
    pub(crate) listeners: Vec<Listener>,
    /// Becomes readable when the daemon is to end.
    pub(crate) signal: UnixStream,
    /// Becomes readable when the operator's files are to be read again. `None`: there are none.
    pub(crate) reload: Option<UnixStream>,
    /// Becomes readable when the served process has ended.
    pub(crate) served: Option<OwnedFd>,
}

/// Accepts until the daemon is to end. Calls `announce` when it begins.
pub(crate) fn accept_all(
    doors: &Doors,
    server: &Arc<Server>,
    announce: impl FnOnce() -> Result<(), DaemonError>,
) -> Result<(), DaemonError> {
    let porch = Porch::new(doors, server).map_err(failed)?;
    announce()?;
    let mut served_ended = false;
    loop {
        let events = porch.wait(served_ended.then_some(LAST_SESSIONS)).map_err(failed)?;
        for event in &events {
            match *event {
                SIGNAL => return Ok(()),
                SERVED => served_ended = porch.hear_end_of_served().map_err(failed)?,
                LEFT => server.gate.hear(),
                ASKED => server.pulse.beat(),
                RELOAD => porch.reload(server),
                LAUNCHER => return Err(DaemonError::Launcher),
                CONNECTIONS.. => porch.look(*event - CONNECTIONS, server),
                listener => porch.accept(listener - LISTENERS, server),
            }
        }
        let (speaking, closed) = server.gate.decide(Instant::now());
        closed.iter().for_each(|(connection, why)| server.journal.refused(&connection.peer, Refusal::Silent, why));
        speaking.into_iter().for_each(|(pass, connection)| welcome(server, pass, connection));
        porch.see_to_closing();
        // A process that the served one started may be connecting.
        if served_ended && events.is_empty() && server.is_idle() {
            return Ok(());
        }
    }
}

fn failed(error: Errno) -> DaemonError {
    DaemonError::system("cannot wait for connections")(error.into())
}

/// The loop's state.
struct Porch<'a> {
    events: OwnedFd,
    doors: &'a Doors,
    gate: &'a Arc<Gate>,
    /// Whether Unix connections are not accepted at the moment.
    is_paused: Cell<bool>,
    /// When the log said so last.
    said_paused: Cell<Option<Instant>>,
}

impl<'a> Porch<'a> {
    fn new(doors: &'a Doors, server: &'a Server) -> Result<Self, Errno> {
        let gate = &server.gate;
        let events = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let porch = Self { events, doors, gate, is_paused: Cell::new(false), said_paused: Cell::new(None) };
        porch.watch(&doors.signal, SIGNAL)?;
        porch.watch(gate.left(), LEFT)?;
        porch.watch(server.pulse.asked(), ASKED)?;
        if let Some(served) = &doors.served {
            porch.watch(served, SERVED)?;
        }
        if let Some(reload) = &doors.reload {
            porch.watch(reload, RELOAD)?;
        }
        if let Some(launcher) = &server.launcher {
            porch.watch(launcher.life(), LAUNCHER)?;
        }
        for (listener, index) in doors.listeners.iter().zip(LISTENERS..) {
            porch.watch(listener, index)?;
        }
        Ok(porch)
    }

    fn watch(&self, what: impl AsFd, event: u64) -> Result<(), Errno> {
        epoll::add(&self.events, what, epoll::EventData::new_u64(event), epoll::EventFlags::IN)
    }

    /// The next events. None after `time`, or when the gate has to decide.
    fn wait(&self, time: Option<Duration>) -> Result<Vec<u64>, Errno> {
        // The end of a pause causes no event.
        let closing = if self.is_paused.get() { Some(AGAIN) } else { self.gate.closer.patience() };
        let left = self.gate.deadline().map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let time = left.into_iter().chain(time).chain(closing).min();
        // Rounded up to whole milliseconds: some systems ignore fractions, and would not wait at all.
        let time = time.and_then(|time| Timespec::try_from(Duration::from_millis(whole_millis(time) + 1)).ok());
        let mut room = [MaybeUninit::uninit(); EVENTS];
        match epoll::wait(&self.events, &mut room, time.as_ref()) {
            Ok((events, _)) => Ok(events.iter().map(|event| event.data.u64()).collect()),
            Err(Errno::INTR) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    fn accept(&self, listener: u64, server: &Server) {
        let listener = usize::try_from(listener).ok().and_then(|index| self.doors.listeners.get(index));
        let Some(listener) = listener else { return };
        for accepted in 0..AT_ONCE {
            if is_unix(listener) && self.gate.closer.is_full() {
                return;
            }
            if accepted == 0 && listener.is_shared() && is_shut(listener) {
                return self.leave(listener);
            }
            match listener.accept_socket() {
                Ok(Some((socket, peer))) => {
                    let (number, closed) = self.gate.arrive(socket, peer, Instant::now());
                    if let Some(closed) = closed {
                        let why = "closed in favour of newer connections: it had not authenticated";
                        server.journal.refused(&closed.peer, Refusal::Crowded, &why);
                    }
                    self.await_first_message(number, server);
                }
                Ok(None) => return,
                Err(error) => {
                    server.journal.not_accepted(&error);
                    if is_for_want(&error) {
                        std::thread::sleep(AFTER_FAILURE);
                    }
                    return;
                }
            }
        }
    }

    /// Waits for a listener no more, which would be ready for ever.
    fn leave(&self, listener: &Listener) {
        // It is registered; if it were not, nothing would wait for it.
        let _ = epoll::delete(&self.events, listener);
        let address = listener.address();
        warn(format_args!("no more connections at {address}: whoever else has its socket has shut it down"));
    }

    /// Waits for a connection's first message. Each arrival of bytes wakes the loop once; bytes that have arrived
    /// already do not.
    fn await_first_message(&self, number: u64, server: &Server) {
        let Some(Connection { socket, peer, .. }) = self.gate.connection(number) else { return };
        let events = epoll::EventFlags::IN | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        let data = epoll::EventData::new_u64(CONNECTIONS + number);
        if let Err(error) = epoll::add(&self.events, &**socket, data, events) {
            self.gate.over(number);
            let why = format_args!("closed: cannot wait for its first message: {error}");
            server.journal.refused(&peer, Refusal::Server, &why);
        }
    }

    /// Accepts no Unix connection while the closer is full, since new ones must be closed as well.
    fn see_to_closing(&self) {
        self.gate.closer.go_on();
        let is_full = self.gate.closer.is_full();
        if is_full == self.is_paused.get() {
            return;
        }
        let events = if is_full { epoll::EventFlags::empty() } else { epoll::EventFlags::IN };
        for (listener, index) in self.doors.listeners.iter().zip(LISTENERS..).filter(|(listener, _)| is_unix(listener))
        {
            // The listener is registered already, so changing its events needs no memory.
            let _ = epoll::modify(&self.events, listener, epoll::EventData::new_u64(index), events);
        }
        self.is_paused.set(is_full);
        if is_full {
            self.say_paused();
        }
    }

    /// Logs a pause, at most once a second.
    fn say_paused(&self) {
        let now = Instant::now();
        if self.said_paused.get().is_none_or(|said| now.saturating_duration_since(said) >= SAID) {
            self.said_paused.set(Some(now));
            warn(format_args!(
                "not accepting Unix connections for now: descriptors from local users delay the closing of old ones: {MOST}"
            ));
        }
    }

    /// Checks whether a connection's first message is complete. A connection that proves another token is refused here,
    /// without a thread.
    fn look(&self, number: u64, server: &Server) {
        let Some(Connection { socket, peer, .. }) = self.gate.connection(number) else { return };
        match look(&**socket) {
            Ok(Opening::Partly) => {}
            Ok(Opening::Whole) => {
                // The event may come twice. Another thread reads from here on.
                let _ = epoll::delete(&self.events, &**socket);
                if server.turns_away(&socket, &peer) {
                    self.gate.over(number);
                } else {
                    self.gate.is_ready(number);
                }
            }
            Ok(Opening::Closed) | Err(_) => self.gate.over(number),
        }
    }

    /// Reads the operator's files again, once for all signals so far.
    fn reload(&self, server: &Server) {
        if let Some(reload) = &self.doors.reload {
            while rustix::io::read(reload, &mut [0; 64]).is_ok_and(|count| count > 0) {}
        }
        server.reload();
    }

    /// The served process has ended: no further event for it is needed.
    fn hear_end_of_served(&self) -> Result<bool, Errno> {
        if let Some(served) = &self.doors.served {
            epoll::delete(&self.events, served)?;
        }
        Ok(true)
    }
}

/// Whether the system lacks descriptors or memory. Any other failure concerns one connection only.
fn is_for_want(error: &LinkError) -> bool {
    let LinkError::System { source, .. } = error else { return false };
    let wants = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::NOBUFS];
    wants.iter().any(|want| source.raw_os_error() == Some(want.raw_os_error()))
}

/// Whether a listener's connections may carry descriptors.
fn is_unix(listener: &Listener) -> bool {
    !matches!(listener.address(), Address::Tcp { .. })
}

/// Whether another process has shut a listener down.
fn is_shut(listener: &Listener) -> bool {
    let mut looked = [PollFd::new(listener, PollFlags::RDHUP)];
    poll(&mut looked, Some(&Timespec::default())).is_ok()
        && looked[0].revents().intersects(PollFlags::RDHUP | PollFlags::HUP)
}

fn whole_millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::from(u32::MAX)).min(u64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_systems_want_of_something_has_all_wait() {
        let failed = |errno: Errno| LinkError::System { what: "accepting".into(), source: errno.into() };
        for want in [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::NOBUFS] {
            assert!(is_for_want(&failed(want)), "{want}");
        }
        for one in [Errno::CONNABORTED, Errno::PROTO, Errno::PERM, Errno::NETUNREACH] {
            assert!(!is_for_want(&failed(one)), "{one}");
        }
    }
}
