//! The loop that accepts: every address at once, until a signal or, in a private daemon, the end of the process it serves.
//! In: listeners, a socket that becomes readable on a signal, perhaps a process. Out: links, handed to the server.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use floe_transport::Listener;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::error::DaemonError;
use crate::log;
use crate::server::Server;

/// How often a private daemon whose process has ended looks whether its last session is over.
const LAST_SESSIONS: Duration = Duration::from_millis(50);
/// After the operating system gave no connection (no descriptors, say), how long not to ask again.
const AFTER_FAILURE: Duration = Duration::from_millis(100);

/// What the loop waits for.
pub(crate) struct Doors {
    pub(crate) listeners: Vec<Listener>,
    /// Becomes readable when the daemon shall end.
    pub(crate) signal: UnixStream,
    /// Becomes readable when the served process has ended.
    pub(crate) served: Option<OwnedFd>,
}

/// Accepts until it is time to end.
pub(crate) fn accept_all(doors: &Doors, server: &Arc<Server>) -> Result<(), DaemonError> {
    loop {
        let woken = wait(doors)?;
        if woken == Woken::Signal {
            return Ok(());
        }
        doors.listeners.iter().for_each(|listener| accept_one(listener, server));
        if woken == Woken::ServedEnded {
            // A process it started may be on its way in.
            if server.is_idle() {
                return Ok(());
            }
            std::thread::sleep(LAST_SESSIONS);
        }
    }
}

fn accept_one(listener: &Listener, server: &Arc<Server>) {
    match listener.accept() {
        Ok(Some((link, peer))) => server.welcome(link, peer),
        Ok(None) => {}
        Err(error) => {
            log(format_args!("{error}"));
            std::thread::sleep(AFTER_FAILURE);
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Woken {
    Signal,
    ServedEnded,
    Connections,
}

fn wait(doors: &Doors) -> Result<Woken, DaemonError> {
    let mut watched: Vec<PollFd<'_>> = vec![PollFd::new(&doors.signal, PollFlags::IN)];
    watched.extend(doors.listeners.iter().map(|listener| PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN)));
    watched.extend(doors.served.iter().map(|served| PollFd::new(served, PollFlags::IN)));
    match poll(&mut watched, None::<&Timespec>) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(DaemonError::system("waiting for connections")(error.into())),
    }
    let ready = |watched: &PollFd<'_>| !watched.revents().is_empty();
    if watched.first().is_some_and(ready) {
        Ok(Woken::Signal)
    } else if doors.served.is_some() && watched.last().is_some_and(ready) {
        Ok(Woken::ServedEnded)
    } else {
        Ok(Woken::Connections)
    }
}
