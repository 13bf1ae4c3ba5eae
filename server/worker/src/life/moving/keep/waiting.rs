//! The client of a kept session, which waits for a worker.
//! In: the connections that it makes meanwhile, its process where that is of this machine, the socket of its rings. Out: that it
//! has left; why the session ends. Nothing that it says is read: whoever has the session next does.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use floe_abi::CudaError;
use floe_transport::Link;
use floe_wire::Ended;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::daemon::descriptor_passing::{Passed, Role};
use crate::life::watch::{Process, Resumption};

/// The most connections that are held: of more, the oldest are closed. A client makes ten at a time.
const MOST: usize = 64;
/// The time between two looks whether it is there.
const LOOK: Duration = Duration::from_millis(500);
/// The longest time for the last message on a connection.
const LAST_WORD: Duration = Duration::from_millis(10);

/// A client that waits.
pub(super) struct Waiting {
    held: Mutex<Vec<Link>>,
    process: Option<Process>,
    /// `None`: it comes by connections.
    rings: Option<OwnedFd>,
    grace: Duration,
}

impl Waiting {
    /// One that has made no connection yet.
    pub(super) fn new(resumption: Option<Resumption>, rings: Option<OwnedFd>) -> Self {
        let (grace, process) = resumption.map_or((Duration::ZERO, None), |its| (its.grace, its.client));
        Self { held: Mutex::default(), process, rings, grace }
    }

    /// Closes what it has made. It makes others.
    pub(super) fn leave(&self) {
        floe_lock::lock(&self.held).clear();
    }

    /// Tells it on each connection why the session ends. A client of rings hears nothing: another worker wrote to them.
    pub(super) fn tell(&self, detail: &str) {
        for mut link in floe_lock::lock(&self.held).drain(..) {
            // A connection that does not take one frame at once has a client that does not read.
            let _ = link.limit_writes(Some(LAST_WORD));
            let _ = link.send(&Ended { status: CudaError::DEVICE_UNAVAILABLE.code(), detail });
        }
    }

    /// Holds what comes until the client has left, or the daemon gives nothing more. True: the client has left.
    pub(super) fn hold(&self, passed: &Receiver<Passed>) -> bool {
        let mut seen = Instant::now();
        loop {
            match passed.recv_timeout(LOOK) {
                Ok(Passed::Connection(Role::Joined, link)) => {
                    let mut held = floe_lock::lock(&self.held);
                    if held.len() == MOST {
                        held.remove(0);
                    }
                    held.push(link);
                }
                // Other servers' workers find nobody here.
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return false,
            }
            if self.has_ended() {
                return true;
            }
            if self.is_there() {
                seen = Instant::now();
            } else if seen.elapsed() > self.grace {
                return true;
            }
        }
    }

    /// Whether its process or its rings say that it has left.
    fn has_ended(&self) -> bool {
        let has_ended = match &self.process {
            Some(Process::Ended) => true,
            Some(Process::There(process)) => is_ready(process, PollFlags::IN),
            None => false,
        };
        has_ended || self.rings.as_ref().is_some_and(is_gone)
    }

    /// Whether one of its connections stands.
    fn is_there(&self) -> bool {
        let mut held = floe_lock::lock(&self.held);
        held.retain(|link| link.socket().is_some_and(|socket| !is_gone(&socket)));
        self.rings.is_some() || !held.is_empty()
    }
}

/// Whether the other end of a socket is closed.
fn is_gone(socket: &impl AsFd) -> bool {
    is_ready(socket, PollFlags::RDHUP)
}

fn is_ready(descriptor: &impl AsFd, wanted: PollFlags) -> bool {
    poll(&mut [PollFd::new(descriptor, wanted)], Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}
