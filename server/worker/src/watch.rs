//! Whether a client whose connections broke is waited for.
//! In: how the connections of a session are that outlives them, and its client's process where that is of this machine. Out: why
//! the session is over, when nobody has made them again in time, or nobody is left who could.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use floe_transport::{LinkError, Places, Standing};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::ending::{Ending, link_ending};
use crate::log::Log;

/// For so long nobody knows whether a client whose connections end leaves: what it says last may come behind their ends.
const QUIET: Duration = Duration::from_millis(500);

/// What a session outlives its connections by.
#[derive(Debug)]
pub struct Lasting {
    /// For so long a client may be missing.
    pub grace: Duration,
    /// The most connections with bulk data.
    pub bulk_connections: u32,
    /// The client's process, where it is of this machine.
    pub client: Option<Process>,
    /// Whether it is missing, kept up to date for whoever reports it.
    pub broken: Arc<AtomicBool>,
}

/// A process of this machine.
#[derive(Debug)]
pub enum Process {
    /// To be waited for.
    There(OwnedFd),
    /// It has ended: a client may, while its worker starts.
    Ended,
}

impl Process {
    /// The process with this number, which is or was one of this machine; `None` where it is not shown: then the grace period
    /// is what there is.
    #[must_use]
    pub fn of(id: i32) -> Option<Self> {
        match pidfd_open(Pid::from_raw(id)?, PidfdFlags::empty()) {
            Ok(process) => Some(Self::There(process)),
            Err(Errno::SRCH) => Some(Self::Ended),
            Err(_) => None,
        }
    }

    fn await_end(&self) {
        let Self::There(process) = self else { return };
        while matches!(poll(&mut [PollFd::new(process, PollFlags::IN)], None), Ok(0) | Err(Errno::INTR)) {}
    }
}

/// Watches connections that break, and says so in `broken`, until nobody has made them again for the grace period.
pub(crate) fn until_given_up(places: &Places, broken: &AtomicBool, log: &Log) -> Option<Ending> {
    loop {
        if places.await_change(Standing::There, None) == Standing::Over {
            return None;
        }
        let (broke, grace) = (Instant::now(), places.grace());
        broken.store(true, Ordering::Relaxed);
        let mut standing = places.await_change(Standing::Broken, Some(QUIET.min(grace)));
        if standing == Standing::Broken {
            places.end_hearing();
            log.line(format_args!("the connection broke; its client has {} s to make it again", grace.as_secs_f32()));
        }
        while standing == Standing::Broken {
            let left = places.grace_left();
            if left.is_zero() {
                return Some(link_ending(&LinkError::NotMadeAgain(grace)));
            }
            standing = places.await_change(Standing::Broken, Some(left));
        }
        if standing == Standing::Over {
            return None;
        }
        broken.store(false, Ordering::Relaxed);
        log.line(format_args!("the connection broke and is made again after {} ms", broke.elapsed().as_millis()));
    }
}

/// Watches the client's process: connections that break when it has ended are not made again.
pub(crate) fn until_gone(client: &Process, places: &Places) -> Option<Ending> {
    client.await_end();
    // A process that it started may have its connections.
    match places.await_change(Standing::There, None) {
        Standing::Broken => Some(Ending::ClientLeft),
        Standing::There | Standing::Over => None,
    }
}
