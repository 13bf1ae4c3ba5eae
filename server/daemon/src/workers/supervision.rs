//! A worker from its start to its end, which comes whatever the worker does.
//! In: its process, what it reports, what it says for the log. Out: its reports, its words in the daemon's log, why it ended.
//! Nothing it writes can fill the daemon's memory or look like another's words, and no signal reaches a process that has
//! its number later.

use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, ExitStatus};
use std::sync::Arc;
use std::time::{Duration, Instant};

use floe_worker::contract::{Report, STUCK};
use floe_worker::one_entry;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::lines::{Line, Lines};
use crate::error::DaemonError;

/// How long a worker may take to end when it has said that it does, or should have.
const FAREWELL: Duration = Duration::from_secs(10);
/// Bytes of a report: the longest says why a session ended, of which a worker says as much as a line of the log holds.
const REPORT_BYTES: usize = 64 << 10;
/// Bytes of a line for the log.
const WORDS_BYTES: usize = 16 << 10;
/// How long a worker's words are left in its pipe when one has been left out: it then writes no faster than they are read.
const PAUSE: Duration = Duration::from_millis(10);
/// Reports in one second: a worker makes a handful.
const MOST_REPORTS: u32 = 1000;
/// Reads of what a worker that has ended said last: more than its pipes hold.
const LAST_READS: u32 = 64;

/// Signals one worker, and never a process that has its number later.
#[derive(Clone, Debug)]
pub(crate) struct Ender(Arc<OwnedFd>);

impl Ender {
    fn of(child: &Child) -> Result<Self, DaemonError> {
        let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(rustix::io::Errno::SRCH);
        // Nobody has waited for it, so the number is still its own.
        let process = id.and_then(|id| pidfd_open(id, PidfdFlags::empty()));
        let failed = DaemonError::system("watching a worker");
        Ok(Self(Arc::new(process.map_err(|error| failed(error.into()))?)))
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        // It may have ended in this moment.
        let _ = pidfd_send_signal(&*self.0, signal);
    }
}

/// A worker that runs. It is killed when this is dropped before it has ended.
#[derive(Debug)]
pub(crate) struct Worker {
    child: Child,
    ender: Ender,
}

impl Drop for Worker {
    fn drop(&mut self) {
        // One that has been waited for is not signalled any more.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Worker {
    /// Takes a process over that was started with pipes for what it says.
    pub(crate) fn of(mut child: Child) -> Result<Self, DaemonError> {
        match Ender::of(&child) {
            Ok(ender) => Ok(Self { child, ender }),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(error)
            }
        }
    }

    /// Its process id, which is its own as long as this is there.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// What signals it.
    pub(crate) fn ender(&self) -> Ender {
        self.ender.clone()
    }

    /// Hands on what it reports and says until it has ended, which is seen to when it does not by itself. Returns why it
    /// ended when that was not the client's going away. `say` has an entry stand in the log, or leaves it out: false.
    pub(crate) fn follow(
        mut self,
        session: u64,
        grace: Duration,
        say: impl FnMut(&str) -> bool,
        report: impl FnMut(Report),
    ) -> Option<String> {
        let mut voice = Voice::new(session, grace, say, report);
        if let Some((reports, words)) = self.child.stdout.take().zip(self.child.stderr.take()) {
            self.hear(&mut voice, Lines::of(reports.into(), REPORT_BYTES), Lines::of(words.into(), WORDS_BYTES));
        }
        match self.child.wait() {
            Ok(status) if status.success() => None,
            Ok(status) => Some(voice.why(status)),
            Err(error) => Some(format!("not known: {error}")),
        }
    }

    /// Hears what it says until its process has ended and that has been read.
    fn hear(&self, voice: &mut Voice<impl FnMut(&str) -> bool, impl FnMut(Report)>, reports: Lines, words: Lines) {
        let (mut reports, mut words) = (Some(reports), Some(words));
        let mut last_reads = LAST_READS;
        while last_reads > 0 {
            let due = voice.due.at();
            if due.is_some_and(|due| due <= Instant::now()) {
                voice.has_failed("it did not end by itself in time");
            }
            if voice.failure.is_some() {
                self.ender.signal(Signal::KILL);
            }
            let heard = words.as_ref().filter(|_| !voice.is_quieted());
            let [process, has_report, has_words] = wait(&self.ender, reports.as_ref(), heard, voice.patience());
            if has_words && !words.as_mut().is_some_and(|words| words.read(|line| voice.says(line))) {
                words = None;
            }
            if has_report && !reports.as_mut().is_some_and(|reports| reports.read(|line| voice.reports(line))) {
                reports = None;
                voice.due.ends(Instant::now());
            }
            if process {
                // A process that it started may have its pipes, and write without end.
                last_reads = if has_report || has_words { last_reads - 1 } else { 0 };
            }
        }
    }
}

/// Waits until the process has ended or has said something: which of these.
fn wait(process: &Ender, reports: Option<&Lines>, words: Option<&Lines>, patience: Option<Duration>) -> [bool; 3] {
    let own = process.0.as_fd();
    // Who has closed a pipe is asked nothing there.
    let watched = [Some(own), reports.map(AsFd::as_fd), words.map(AsFd::as_fd)];
    let mut watched = watched.map(|descriptor| match descriptor {
        Some(descriptor) => PollFd::from_borrowed_fd(descriptor, PollFlags::IN),
        None => PollFd::from_borrowed_fd(own, PollFlags::empty()),
    });
    let patience = patience.and_then(|patience| Timespec::try_from(patience).ok());
    match poll(&mut watched, patience.as_ref()) {
        Ok(_) => {
            let [process, report, word] = watched.map(|watched| !watched.revents().is_empty());
            [process, report && reports.is_some(), word && words.is_some()]
        }
        Err(_) => [false; 3],
    }
}

/// What one worker says, and what becomes of it.
struct Voice<S, R> {
    session: u64,
    say: S,
    report: R,
    due: Due,
    /// Why it says that it ended.
    ended: Option<String>,
    /// Why it is killed.
    failure: Option<&'static str>,
    /// Until when its words are not read.
    quieted: Option<Instant>,
    /// Since when reports are counted, and how many there were.
    counted: (Instant, u32),
}

impl<S: FnMut(&str) -> bool, R: FnMut(Report)> Voice<S, R> {
    fn new(session: u64, grace: Duration, say: S, report: R) -> Self {
        let counted = (Instant::now(), 0);
        let (due, ended, failure, quieted) = (Due::new(grace), None, None, None);
        Self { session, say, report, due, ended, failure, quieted, counted }
    }

    /// A worker that is itself does no such thing.
    fn has_failed(&mut self, why: &'static str) {
        if self.failure.is_none() {
            (self.say)(&format!("floed: session {}: killing its worker: {why}\n", self.session));
            self.failure = Some(why);
        }
    }

    /// How long it is left alone.
    fn patience(&self) -> Option<Duration> {
        let due = self.due.at().filter(|_| self.failure.is_none());
        let next = due.into_iter().chain(self.quieted).min()?;
        Some(next.saturating_duration_since(Instant::now()))
    }

    /// A line of its reports.
    fn reports(&mut self, line: Line<'_>) {
        if self.failure.is_some() {
            return;
        }
        let now = Instant::now();
        if now.saturating_duration_since(self.counted.0) >= Duration::from_secs(1) {
            self.counted = (now, 0);
        }
        self.counted.1 += 1;
        match serde_json::from_slice::<Report>(line.bytes) {
            _ if line.is_cut => self.has_failed("a report of it is too long"),
            _ if self.counted.1 > MOST_REPORTS => self.has_failed("it reports without end"),
            Err(_) => self.has_failed("what it reports is no report"),
            Ok(Report::Ended(why)) => {
                self.due.ends(now);
                self.ended = Some(one_entry(&why));
            }
            Ok(report) => {
                if let Report::Broken(broken) = report {
                    self.due.breaks(broken.then_some(now));
                }
                (self.report)(report);
            }
        }
    }

    /// A line for the log, where it cannot look like the daemon's or another session's.
    fn says(&mut self, line: Line<'_>) {
        let entry = entry(self.session, &String::from_utf8_lossy(line.bytes));
        if !(self.say)(&entry) {
            self.quieted = Some(Instant::now() + PAUSE);
        }
    }

    /// Whether its words are not read now.
    fn is_quieted(&mut self) -> bool {
        self.quieted = self.quieted.filter(|until| *until > Instant::now());
        self.quieted.is_some()
    }

    /// Why it has ended, otherwise than by its client's leaving.
    fn why(self, status: ExitStatus) -> String {
        match (self.failure, self.ended) {
            (Some(failure), _) => format!("its worker was killed: {failure}"),
            (None, Some(ended)) => ended,
            (None, None) if status.code() == Some(i32::from(STUCK)) => {
                "its worker did not come to an end by itself, and ended at once".to_owned()
            }
            (None, None) => status.to_string(),
        }
    }
}

/// A line of a worker as it stands in the log: with its session's number, or set in behind one that has it.
fn entry(session: u64, line: &str) -> String {
    let prefix = format!("floe-worker: session {session}: ");
    let (prefix, words) = match line.strip_prefix(&prefix) {
        Some(words) => (prefix.as_str(), words),
        None if line.starts_with(' ') => ("    ", line.trim_start()),
        None => (prefix.as_str(), line),
    };
    format!("{prefix}{}\n", one_entry(words))
}

/// Until when a worker has to be over.
struct Due {
    grace: Duration,
    over: Option<Instant>,
    broken: Option<Instant>,
}

impl Due {
    /// Of a session that outlives its connections by `grace`.
    fn new(grace: Duration) -> Self {
        Self { grace, over: None, broken: None }
    }

    /// It says that its session is over, or can say nothing any more.
    fn ends(&mut self, now: Instant) {
        self.over.get_or_insert(now + FAREWELL);
    }

    /// It says that its client is missing, or there again.
    fn breaks(&mut self, since: Option<Instant>) {
        match since {
            Some(since) => _ = self.broken.get_or_insert(since + self.grace + FAREWELL),
            None => self.broken = None,
        }
    }

    fn at(&self) -> Option<Instant> {
        self.over.into_iter().chain(self.broken).min()
    }
}

#[cfg(test)]
mod tests;
