//! The worker's reports to its daemon, on standard output.
//! In: what happens in the session. Out: lines of JSON, no more in a second than a daemon takes from a worker that it trusts.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use floe_worker::contract::{Counts, MOST_REPORTS, MoveReport, Report, STUCK, Task};
use floe_worker::peer_notices::{Dial, Import, MOST_RETURNED, NodeWish, Returned};
use floe_worker::{ASK_EVERY, Carried, Log, MoveReports, PeerReports, Watchdog, end};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// The exit status when the session ended otherwise than by its client's leaving.
pub(super) const FAILED: u8 = 1;
/// The shortest time between two reports of used memory and of a missing client.
const REPORT_EVERY: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
/// How much longer than others a client of MPS may take to end: more than the daemon waits before it ends it.
const OF_MPS: Duration = Duration::from_secs(30);
/// Reports about imports in a second. Where a program opens its blocks to another vGPU, each is one: thousands at once.
const PEER_REPORTS: u32 = MOST_REPORTS / 2;

/// The figures of a running session that the daemon gets.
#[derive(Clone, Default)]
pub(super) struct Seen {
    /// Bytes of physical memory it holds.
    pub(super) used: Arc<AtomicU64>,
    /// Bytes beside these that it pays for.
    pub(super) beside: Arc<AtomicU64>,
    /// Whether its client is missing.
    pub(super) broken: Arc<AtomicBool>,
    /// What its link has carried.
    pub(super) carried: Arc<Carried>,
}

/// The counts of the session's link, and those of them that were said last.
struct Counted {
    carried: Arc<Carried>,
    said: Mutex<Counts>,
}

/// The pipe to the daemon.
#[derive(Clone)]
pub(super) struct Reports {
    pipe: Arc<Mutex<File>>,
    /// `None`: the daemon does not take counts.
    counted: Option<Arc<Counted>>,
    returned: Arc<Mutex<Paced>>,
}

impl Reports {
    /// Without counts of the link.
    pub(super) fn on_standard_output() -> Result<Self> {
        let pipe: OwnedFd = io::stdout().as_fd().try_clone_to_owned()?;
        let is_pipe =
            rustix::fs::fstat(&pipe).is_ok_and(|stat| rustix::fs::FileType::from_raw_mode(stat.st_mode).is_fifo());
        ensure!(is_pipe, "standard output is no pipe");
        Ok(Self { pipe: Arc::new(Mutex::new(File::from(pipe))), counted: None, returned: Arc::default() })
    }

    /// Says what the link has carried, too.
    pub(super) fn counting(self, carried: &Arc<Carried>) -> Self {
        let counted = Counted { carried: Arc::clone(carried), said: Mutex::default() };
        Self { counted: Some(Arc::new(counted)), ..self }
    }

    /// Says what the link has carried, if that has changed.
    pub(super) fn say_carried(&self) {
        let Some(counted) = &self.counted else { return };
        let mut said = floe_lock::lock(&counted.said);
        let counts = counted.carried.counts();
        if *said != counts {
            // Under the lock: the daemon never hears smaller counts behind larger ones.
            self.say(&Report::Carried(counts));
            *said = counts;
        }
    }

    pub(super) fn say(&self, report: &Report) {
        let Ok(mut line) = serde_json::to_string(report) else { return };
        line.push('\n');
        // A daemon that is gone is noticed by `watch`.
        let _ = floe_lock::lock(&self.pipe).write_all(line.as_bytes());
    }

    /// Starts what ends this process when nothing else does.
    pub(super) fn watchdog(&self, task: &Task) -> Result<Watchdog> {
        let daemon = OwnedFd::from(floe_lock::lock(&self.pipe).try_clone()?);
        // MPS has to end the work of its client first, which the daemon sees to.
        let before = if task.mps { OF_MPS } else { Duration::ZERO };
        let bite = move || {
            std::thread::sleep(before);
            end(STUCK);
        };
        Ok(Watchdog::start(Duration::from_millis(task.grace_ms), daemon, bite)?)
    }

    /// Reports what the session uses and whether its client is missing when that changes, and ends this process when the daemon is gone.
    pub(super) fn watch(&self, seen: Seen, log: Log, watchdog: Watchdog) -> Result<()> {
        let reports = self.clone();
        let pipe = floe_lock::lock(&self.pipe).try_clone()?;
        let watch = move || {
            let mut last = (0, false);
            loop {
                // Only errors are asked for: a pipe that nobody reads any more has one.
                let mut fds = [PollFd::new(&pipe, PollFlags::empty())];
                if matches!(poll(&mut fds, Some(&REPORT_EVERY)), Ok(1..)) {
                    watchdog.is_over();
                    log.line(format_args!("the daemon is gone"));
                    end(FAILED);
                }
                reports.say_returned(Instant::now());
                let used = seen.used.load(Ordering::Relaxed).saturating_add(seen.beside.load(Ordering::Relaxed));
                let now = (used, seen.broken.load(Ordering::Relaxed));
                if now.0 != last.0 {
                    reports.say(&Report::Used(now.0));
                }
                reports.say_carried();
                if now.1 != last.1 {
                    reports.say(&Report::Broken(now.1));
                }
                last = now;
            }
        };
        std::thread::Builder::new().name("floe-report".into()).spawn(watch)?;
        Ok(())
    }
}

/// Imports that were let go and not said yet, and the reports about imports of the present second. The daemon takes a
/// worker that reports without end for a hostile one.
#[derive(Default)]
pub(super) struct Paced {
    unsaid: Vec<Returned>,
    second: Option<Instant>,
    reports: u32,
}

impl Paced {
    /// Whether one more report may leave.
    fn may_say(&mut self, now: Instant) -> bool {
        if self.second.is_none_or(|second| now.saturating_duration_since(second) >= Duration::from_secs(1)) {
            (self.second, self.reports) = (Some(now), 0);
        }
        self.reports += 1;
        self.reports <= PEER_REPORTS
    }
}

impl Reports {
    /// Says something of which there may not be more than so many in a second.
    pub(super) fn say_paced(&self, report: &Report) {
        while !floe_lock::lock(&self.returned).may_say(Instant::now()) {
            std::thread::sleep(ASK_EVERY);
        }
        self.say(report);
    }

    /// Says what was let go, where it may; else the next report or the next second does.
    fn say_returned(&self, now: Instant) {
        loop {
            let mut paced = floe_lock::lock(&self.returned);
            if paced.unsaid.is_empty() || !paced.may_say(now) {
                return;
            }
            let count = paced.unsaid.len().min(MOST_RETURNED);
            let said = paced.unsaid.drain(..count).collect();
            drop(paced);
            self.say(&Report::Returned(said));
        }
    }
}

impl MoveReports for Reports {
    fn say(&self, report: MoveReport) {
        // The daemon adds up what the session's workers have counted, so this one's last counts come first.
        self.say_carried();
        Reports::say(self, &Report::Move(report));
    }
}

impl PeerReports for Reports {
    fn import(&self, import: Import) {
        self.say_paced(&Report::Import(import));
    }

    fn dial(&self, dial: Dial) {
        self.say_paced(&Report::Dial(dial));
    }

    fn node(&self, wish: NodeWish) {
        self.say_paced(&Report::Node(wish));
    }

    fn returned(&self, returned: Returned) {
        floe_lock::lock(&self.returned).unsaid.push(returned);
        self.say_returned(Instant::now());
    }
}
