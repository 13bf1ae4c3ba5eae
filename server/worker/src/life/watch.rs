//! Whether a client whose connections broke is waited for, and whether the session goes on at all.
//! In: the daemon's word that it is to end; how the connections of a session are that outlives them, and its client's process
//! where that is of this machine. Out: why the session is over, when nobody has made them again in time, or nobody is left who
//! could.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use floe_transport::{Channels, LinkError, LinkState};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::ending::{Ending, link_ending};
use super::log::Log;
use super::threads::Threads;
use crate::daemon::end_notices::EndOrder;

/// For so long nobody knows whether a client whose connections end leaves: what it says last may come behind their ends.
const QUIET: Duration = Duration::from_millis(500);

/// Looks in the time for which a session may be idle.
const LOOKS: u32 = 8;

/// How a session outlives its connections.
#[derive(Debug)]
pub struct Resumption {
    /// For so long a client may be missing.
    pub grace: Duration,
    /// The most connections with bulk data.
    pub bulk_connections: u32,
    /// The client's process, where it is of this machine.
    pub client: Option<Process>,
    /// Whether it is missing, kept up to date for the reports.
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
    /// The process with this number, which is or was one of this machine. `None` where the kernel does not show it:
    /// then only the grace period counts.
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

/// The client's use of its session.
#[derive(Debug, Default)]
pub(crate) struct Use {
    /// The sequence of its latest command; 0: it has sent none.
    command: AtomicU64,
    /// Whether it has made the connection with acknowledgements.
    acknowledges: AtomicBool,
}

impl Use {
    /// Of a session that another worker has served: its client can come back, and has sent so many frames.
    pub(crate) fn behind(frames: u64) -> Self {
        Self { command: AtomicU64::new(frames), acknowledges: AtomicBool::new(true) }
    }

    /// A command has come.
    #[inline]
    pub(crate) fn has_frame(&self, sequence: u64) {
        self.command.store(sequence, Ordering::Relaxed);
    }

    /// The connection with acknowledgements is there.
    pub(crate) fn has_acknowledgements(&self) {
        self.acknowledges.store(true, Ordering::Relaxed);
    }

    /// Whether it is a client that could come back, and has something to come back to. A client that only attaches and
    /// leaves is not waited for.
    fn is_worth_waiting(&self) -> bool {
        self.acknowledges.load(Ordering::Relaxed) && self.command.load(Ordering::Relaxed) != 0
    }

    /// The sequence of the last frame that has come.
    pub(crate) fn command(&self) -> u64 {
        self.command.load(Ordering::Relaxed)
    }
}

/// Whether commands come, and since when none has.
struct Idle {
    limit: Duration,
    /// The last command seen, and the time at which it was new.
    seen: (u64, Duration),
}

impl Idle {
    /// The session has sent `command` at `now`, which counts from any beginning.
    fn new(limit: Duration, command: u64, now: Duration) -> Self {
        Self { limit, seen: (command, now) }
    }

    /// Whether no command has come for the limit, where `command` is the last one at `now`.
    fn is_over(&mut self, command: u64, now: Duration) -> bool {
        if command != self.seen.0 {
            self.seen = (command, now);
        }
        now.saturating_sub(self.seen.1) >= self.limit
    }
}

/// Watches whether commands come, until none has for so long.
pub(crate) fn until_idle(used: &Use, limit: Duration) -> Ending {
    let began = Instant::now();
    let mut idle = Idle::new(limit, used.command(), Duration::ZERO);
    loop {
        std::thread::sleep(limit / LOOKS);
        if idle.is_over(used.command(), began.elapsed()) {
            return Ending::Idle(limit);
        }
    }
}

/// Starts the thread that waits for the daemon's order to end; `tell` hears it first.
pub(crate) fn end_when_ordered(
    orders: Option<Receiver<EndOrder>>,
    threads: &Threads,
    mut tell: impl FnMut(&EndOrder) + Send + 'static,
) -> Result<(), Ending> {
    let Some(orders) = orders else { return Ok(()) };
    threads.start("floe-end", move || {
        let order = orders.recv().ok()?;
        tell(&order);
        Some(Ending::Ordered(order.words))
    })
}

/// Watches connections that break, and says so in `broken`, until nobody has made them again for the grace period.
pub(crate) fn until_given_up(channels: &Channels, used: &Use, broken: &AtomicBool, log: &Log) -> Option<Ending> {
    loop {
        match channels.await_change(LinkState::Whole, None) {
            LinkState::Over => return None,
            LinkState::Parked => {
                let _ = channels.await_change(LinkState::Parked, None);
                continue;
            }
            LinkState::Whole | LinkState::Broken => {}
        }
        let (broke, grace) = (Instant::now(), channels.grace());
        broken.store(true, Ordering::Relaxed);
        let mut link_state = channels.await_change(LinkState::Broken, Some(QUIET.min(grace)));
        if link_state == LinkState::Broken && !used.is_worth_waiting() {
            return Some(Ending::ClientLeft);
        }
        if link_state == LinkState::Broken {
            channels.stop_hearing();
            log.line(format_args!("the connection broke; its client has {} s to make it again", grace.as_secs_f32()));
        }
        while link_state == LinkState::Broken {
            let left = channels.grace_left();
            if left.is_zero() {
                return Some(link_ending(&LinkError::NotMadeAgain(grace)));
            }
            link_state = channels.await_change(LinkState::Broken, Some(left));
            if link_state == LinkState::Parked {
                // Nobody is waited for meanwhile.
                link_state = channels.await_change(LinkState::Parked, None);
            }
        }
        if link_state == LinkState::Over {
            return None;
        }
        broken.store(false, Ordering::Relaxed);
        log.line(format_args!("the connection broke; the client reconnected after {} ms", broke.elapsed().as_millis()));
    }
}

/// Watches the client's process: once it has ended, nobody reconnects.
pub(crate) fn until_gone(client: &Process, channels: &Channels) -> Option<Ending> {
    client.await_end();
    // A process that it started may have its connections.
    loop {
        match channels.await_change(LinkState::Whole, None) {
            LinkState::Broken => return Some(Ending::ClientLeft),
            LinkState::Parked => _ = channels.await_change(LinkState::Parked, None),
            LinkState::Whole | LinkState::Over => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_waited_for_that_has_sent_a_command_and_can_come_back() {
        let used = Use::default();
        assert!(!used.is_worth_waiting());
        used.has_acknowledgements();
        assert!(!used.is_worth_waiting());
        used.has_frame(3);
        assert!(used.is_worth_waiting());
        let used = Use::default();
        used.has_frame(3);
        assert!(!used.is_worth_waiting());
    }

    #[test]
    fn a_session_is_idle_when_no_command_has_come_for_so_long() {
        let seconds = Duration::from_secs;
        let mut idle = Idle::new(seconds(10), 0, seconds(0));
        for (command, now, is_over) in
            [(0, 9, false), (1, 9, false), (1, 18, false), (7, 18, false), (7, 27, false), (7, 28, true), (7, 60, true)]
        {
            assert_eq!(idle.is_over(command, seconds(now)), is_over, "{command} at {now} s");
        }
    }

    #[test]
    fn an_idle_session_ends_by_its_watch() {
        let limit = Duration::from_millis(10);
        assert_eq!(until_idle(&Use::default(), limit), Ending::Idle(limit));
    }
}
