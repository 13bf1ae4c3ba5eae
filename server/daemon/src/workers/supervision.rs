//! Follows a worker from its start to its end, which the daemon enforces.
//! In: its process, its reports, its log lines. Out: its reports, its lines in the daemon's log, why it ended. A
//! worker's output can neither fill the daemon's memory nor look like another's lines. No signal reaches a later
//! process with the same id.

mod before_kill;
mod lines;
mod process;

use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ExitStatus};
use std::sync::Arc;
use std::time::{Duration, Instant};

use floe_metrics::SessionEnd;
use floe_worker::contract::{MOST_REPORTS, Report, STUCK};
use floe_worker::one_entry;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use self::before_kill::Before;
pub(crate) use self::before_kill::BeforeKill;
use self::lines::{Line, Lines};
use self::process::Handle;
pub(crate) use self::process::Process;
use super::groups::{Limited, Membership, Shortage};
use crate::error::DaemonError;

/// A worker's time to end after it has said that it ends, or should have.
const FAREWELL: Duration = Duration::from_secs(10);
/// The most bytes of a report. The longest one says why a session ended, in at most a log line's bytes.
const REPORT_BYTES: usize = 64 << 10;
/// Bytes of a line for the log.
const WORDS_BYTES: usize = 16 << 10;
/// The pause in reading a worker's log lines after one was omitted. The full pipe then slows the worker down.
const PAUSE: Duration = Duration::from_millis(10);
/// Reads after a worker has ended: for more bytes than its pipes hold.
const LAST_READS: u32 = 64;

/// Ends one process, and never a later one with the same id.
#[derive(Clone, Debug)]
pub(crate) struct Ender {
    process: Handle,
    /// What is to be done before.
    before: Option<Arc<Before>>,
}

impl Ender {
    /// Of a process that this one has started.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn of(child: &Child, before: Option<Arc<dyn BeforeKill>>) -> Result<Self, DaemonError> {
        Ok(Self::with(Handle::of(child)?, child.id(), before))
    }

    fn with(process: Handle, id: u32, before: Option<Arc<dyn BeforeKill>>) -> Self {
        Self { process, before: before.map(|ends| Arc::new(Before::of(id, ends))) }
    }

    /// Whether it has ended, waited for or not.
    pub(crate) fn has_ended(&self) -> bool {
        self.process.has_ended()
    }

    /// Sends it a signal, as somebody else may.
    #[cfg(test)]
    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        self.process.signal(signal);
    }

    /// Kills it, without waiting.
    pub(crate) fn kill(&self) {
        // The process may just have ended.
        match self.before.as_ref().filter(|_| !self.has_ended()) {
            None => self.process.kill(),
            Some(before) => {
                let process = self.process.clone();
                before.then(move || process.kill());
            }
        }
    }

    /// To be called before the process is waited for: its id may be another's then. Nobody names it from here on.
    fn await_end_of_work(&self) {
        if let Some(before) = &self.before {
            before.await_end();
        }
    }
}

/// The daemon's end of a worker's socket, beside its reports and log lines.
pub(crate) trait Ear {
    /// The descriptors to wait at, and for what.
    fn watched(&self) -> [(BorrowedFd<'_>, PollFlags); 2];
    /// Reads and writes what can be read and written without waiting. Returns the number of messages, or why the worker is
    /// to be killed.
    fn attend(&self) -> Result<u32, &'static str>;
    /// When the worker is to be killed, since its session was ended. Who says so wakes what is waited at.
    fn due(&self) -> Option<Instant>;
}

/// The end of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) kind: SessionEnd,
    /// In words; `None` if its client left.
    pub(crate) why: Option<String>,
    /// Whether its client, who hears nothing from a worker that was killed, is to hear why.
    pub(crate) is_told: bool,
}

/// A running worker. Dropping this kills it.
#[derive(Debug)]
pub(crate) struct Worker {
    process: Process,
    ender: Ender,
    /// Its place in its user's control group, which is left behind its end.
    membership: Option<Membership>,
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Nothing is signalled that has been waited for.
        self.ender.kill();
        self.ender.await_end_of_work();
        let _ = self.process.wait();
    }
}

impl Worker {
    /// Supervises a process that was started with pipes for its output.
    pub(crate) fn of(mut process: Process, before: Option<Arc<dyn BeforeKill>>) -> Result<Self, DaemonError> {
        match process.handle() {
            Ok(handle) => {
                let ender = Ender::with(handle, process.id(), before);
                Ok(Self { process, ender, membership: None })
            }
            Err(error) => {
                process.kill();
                let _ = process.wait();
                Err(error)
            }
        }
    }

    /// Puts it under its user's limits.
    ///
    /// # Errors
    /// The system's. The worker then has ended.
    pub(crate) fn within(mut self, limited: Limited<'_>) -> Result<Self, DaemonError> {
        let entered = limited.groups.enter(limited.user, limited.limits, self.id());
        let refused = DaemonError::system("cannot put a worker under its user's limits");
        self.membership = Some(entered.map_err(refused)?);
        Ok(self)
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Signals it.
    pub(crate) fn ender(&self) -> Ender {
        self.ender.clone()
    }

    /// Passes on its reports and log lines until it has ended. A worker that does not end in time is killed. Returns
    /// how it ended. `say` logs an entry, or returns false if it omits it.
    pub(crate) fn follow(
        mut self,
        session: u64,
        grace: Duration,
        say: impl FnMut(&str) -> bool,
        report: impl FnMut(Report),
        ear: Option<&dyn Ear>,
    ) -> End {
        let mut voice = Voice::new(session, grace, say, report);
        if let Some((reports, words)) = self.process.take_output() {
            self.hear(&mut voice, Lines::of(reports, REPORT_BYTES), Lines::of(words, WORDS_BYTES), ear);
        }
        self.ender.await_end_of_work();
        match self.process.wait() {
            Ok(status) if status.success() => End { kind: SessionEnd::ClientLeft, why: None, is_told: false },
            Ok(status) => match self.shortage().filter(|_| voice.failure.is_none()) {
                Some(why) => End { kind: SessionEnd::Failed, why: Some(why.words().to_owned()), is_told: true },
                None => voice.end(status),
            },
            Err(error) => End { kind: SessionEnd::Failed, why: Some(format!("not known: {error}")), is_told: false },
        }
    }

    fn shortage(&self) -> Option<Shortage> {
        self.membership.as_ref().and_then(Membership::shortage)
    }

    /// Reads its output until its process has ended and all has been read.
    fn hear(
        &self,
        voice: &mut Voice<impl FnMut(&str) -> bool, impl FnMut(Report)>,
        reports: Lines,
        words: Lines,
        ear: Option<&dyn Ear>,
    ) {
        let (mut reports, mut words) = (Some(reports), Some(words));
        let mut last_reads = LAST_READS;
        let mut is_killed = false;
        while last_reads > 0 {
            let ended = ear.and_then(Ear::due).filter(|_| !is_killed);
            if ended.is_some_and(|due| due <= Instant::now()) {
                self.ender.kill();
                is_killed = true;
            }
            let due = voice.due.at();
            if due.is_some_and(|due| due <= Instant::now()) {
                voice.has_failed("it did not end by itself in time");
            }
            if voice.failure.is_some() {
                self.ender.kill();
            }
            let heard = words.as_ref().filter(|_| !voice.is_quieted());
            let ear = ear.filter(|_| voice.failure.is_none());
            let ready = wait(&self.ender, reports.as_ref(), heard, ear, voice.patience(ended.filter(|_| !is_killed)));
            let [process, has_report, has_words, has_messages] = ready;
            if has_messages && let Some(ear) = ear {
                voice.messages(ear.attend());
            }
            if has_words && !words.as_mut().is_some_and(|words| words.read(|line| voice.says(line))) {
                words = None;
            }
            if has_report && !reports.as_mut().is_some_and(|reports| reports.read(|line| voice.reports(line))) {
                reports = None;
                voice.due.ends(Instant::now());
            }
            if process {
                // A process that the worker started may hold its pipes and write without end.
                last_reads = if has_report || has_words { last_reads - 1 } else { 0 };
            }
        }
    }
}

/// Waits until the process has ended or has written something, or there is something to write. Returns which of these.
fn wait(
    process: &Ender,
    reports: Option<&Lines>,
    words: Option<&Lines>,
    ear: Option<&dyn Ear>,
    patience: Option<Duration>,
) -> [bool; 4] {
    let own = process.process.as_fd();
    let [socket, wake] = ear.map_or([None; 2], |ear| ear.watched().map(Some));
    let readable = |descriptor| Some((descriptor, PollFlags::IN));
    // A closed pipe is not polled.
    let pipes = [reports.map(AsFd::as_fd), words.map(AsFd::as_fd)].map(|pipe| pipe.and_then(readable));
    let mut watched = [readable(own), pipes[0], pipes[1], socket, wake].map(|watched| {
        let (descriptor, wanted) = watched.unwrap_or((own, PollFlags::empty()));
        PollFd::from_borrowed_fd(descriptor, wanted)
    });
    let patience = patience.and_then(|patience| Timespec::try_from(patience).ok());
    match poll(&mut watched, patience.as_ref()) {
        Ok(_) => {
            let [process, report, word, socket, wake] = watched.map(|watched| !watched.revents().is_empty());
            [process, report && reports.is_some(), word && words.is_some(), (socket || wake) && ear.is_some()]
        }
        Err(_) => [false; 4],
    }
}

/// One worker's output and what follows from it.
struct Voice<S, R> {
    session: u64,
    say: S,
    report: R,
    due: Due,
    /// The worker's own reason for its end.
    ended: Option<String>,
    /// The reason for killing it.
    failure: Option<&'static str>,
    /// Until when its log lines are not read.
    quieted: Option<Instant>,
    /// When the count of reports began, and the count.
    counted: (Instant, u32),
}

impl<S: FnMut(&str) -> bool, R: FnMut(Report)> Voice<S, R> {
    fn new(session: u64, grace: Duration, say: S, report: R) -> Self {
        let counted = (Instant::now(), 0);
        let (due, ended, failure, quieted) = (Due::new(grace), None, None, None);
        Self { session, say, report, due, ended, failure, quieted, counted }
    }

    /// Records the first failure. Only a worker in an attacker's hands fails so.
    fn has_failed(&mut self, why: &'static str) {
        if self.failure.is_none() {
            (self.say)(&format!("floed: session {}: killing its worker: {why}\n", self.session));
            self.failure = Some(why);
        }
    }

    /// The time until the next deadline, of which `ended` is one.
    fn patience(&self, ended: Option<Instant>) -> Option<Duration> {
        let due = self.due.at().into_iter().chain(ended).filter(|_| self.failure.is_none());
        let next = due.chain(self.quieted).min()?;
        Some(next.saturating_duration_since(Instant::now()))
    }

    /// Reads one line of its reports.
    fn reports(&mut self, line: Line<'_>) {
        if self.failure.is_some() {
            return;
        }
        let now = Instant::now();
        self.count(now, 1);
        match serde_json::from_slice::<Report>(line.bytes) {
            _ if line.is_cut => self.has_failed("one of its reports is too long"),
            _ if self.counted.1 > MOST_REPORTS => self.has_failed("it sends too many reports"),
            Err(_) => self.has_failed("one of its reports cannot be parsed"),
            Ok(Report::Ended(why)) => {
                self.due.ends(now);
                self.ended = Some(one_entry(&why));
                (self.report)(Report::Ended(why));
            }
            Ok(report) => {
                if let Report::Broken(broken) = report {
                    self.due.breaks(broken.then_some(now));
                }
                (self.report)(report);
            }
        }
    }

    /// Counts what it says in a second.
    fn count(&mut self, now: Instant, more: u32) {
        if now.saturating_duration_since(self.counted.0) >= Duration::from_secs(1) {
            self.counted = (now, 0);
        }
        self.counted.1 = self.counted.1.saturating_add(more);
    }

    /// It has sent so many messages, or one that no worker sends.
    fn messages(&mut self, messages: Result<u32, &'static str>) {
        match messages {
            Ok(count) => {
                self.count(Instant::now(), count);
                if self.counted.1 > MOST_REPORTS {
                    self.has_failed("it sends too many messages");
                }
            }
            Err(why) => self.has_failed(why),
        }
    }

    /// Logs one line, which cannot look like the daemon's or another session's.
    fn says(&mut self, line: Line<'_>) {
        let entry = entry(self.session, &String::from_utf8_lossy(line.bytes));
        if !(self.say)(&entry) {
            self.quieted = Some(Instant::now() + PAUSE);
        }
    }

    /// Whether its log lines are not read now.
    fn is_quieted(&mut self) -> bool {
        self.quieted = self.quieted.filter(|until| *until > Instant::now());
        self.quieted.is_some()
    }

    /// How it has ended, if its client did not leave.
    fn end(self, status: ExitStatus) -> End {
        let (kind, why) = match (self.failure, self.ended) {
            (Some(failure), _) => (SessionEnd::Misbehaved, format!("its worker was killed: {failure}")),
            (None, Some(ended)) => (SessionEnd::Reported, ended),
            (None, None) if status.code() == Some(i32::from(STUCK)) => {
                let why = "its worker did not come to an end by itself, and ended at once";
                (SessionEnd::Misbehaved, why.to_owned())
            }
            (None, None) if status.signal().is_some() => (SessionEnd::Signal, status.to_string()),
            (None, None) => (SessionEnd::Failed, status.to_string()),
        };
        End { kind, why: Some(why), is_told: false }
    }
}

/// A worker's line in the log's form, with its session's number. An indented one has it, too: the line above it in the log may be
/// another session's.
fn entry(session: u64, line: &str) -> String {
    let prefix = format!("floe-worker: session {session}: ");
    format!("{prefix}{}\n", one_entry(line.strip_prefix(&prefix).unwrap_or(line)))
}

/// The deadline for a worker's end.
struct Due {
    grace: Duration,
    over: Option<Instant>,
    broken: Option<Instant>,
}

impl Due {
    /// The deadline in a session with this grace period.
    fn new(grace: Duration) -> Self {
        Self { grace, over: None, broken: None }
    }

    /// The worker says that its session has ended, or has closed its pipe.
    fn ends(&mut self, now: Instant) {
        self.over.get_or_insert(now + FAREWELL);
    }

    /// The worker says that its client is missing, or is back.
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
