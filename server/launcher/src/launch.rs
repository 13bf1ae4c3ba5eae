//! The launcher's one loop: requests, ends, kills.
//! In: the daemon's socket, and one socket per process. Out: processes; a word when each has started and ended.
//! A request that may not be obeyed starts nothing. When the daemon ends, all processes are killed.

use std::collections::BTreeSet;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::{CommandExt as _, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::SendFlags;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::descriptors::{receive, send};
use crate::ids::Ids;
use crate::request::{MOST_BYTES, NotARequest, Request, Word};
use crate::rights::with_the_right_to_sweep;
use crate::sweep::SWEEP;

/// The pause between looks at a process that has ended and that somebody keeps from being waited for.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
/// The time of processes to be gone when the launcher ends.
const FAREWELL: Duration = Duration::from_secs(5);

/// What every process is, whatever a request says.
#[derive(Debug)]
pub struct Launcher {
    ids: Ids,
    executable: PathBuf,
    /// Whether processes become other users; tests may have no rights.
    changes_users: bool,
    running: Vec<Running>,
    /// Ids of users with a process that did not end. Nobody else becomes them before it has.
    unswept: BTreeSet<u32>,
}

/// A process that has not been waited for, so that its id is its own.
#[derive(Debug)]
struct Running {
    id: u32,
    child: Child,
    /// Readable when it has ended.
    process: OwnedFd,
    /// Readable when it is to be killed.
    control: OwnedFd,
    is_killed: bool,
    has_ended: bool,
}

/// What a wait has found.
struct Ready {
    is_over: bool,
    has_request: bool,
}

impl Launcher {
    /// A launcher of this executable, as users of these ids.
    #[must_use]
    pub fn new(ids: Ids, executable: PathBuf) -> Self {
        Self { ids, executable, changes_users: true, running: Vec::new(), unswept: BTreeSet::new() }
    }

    /// The same without another user, since tests may have no rights.
    #[cfg(test)]
    pub(crate) fn of_this_user(ids: Ids, executable: PathBuf) -> Self {
        let mut launcher = Self::new(ids, executable);
        launcher.changes_users = false;
        launcher
    }

    /// Ends what earlier workers of all ids have left behind.
    ///
    /// # Errors
    /// When it cannot.
    pub fn begin(&self) -> io::Result<()> {
        let users = [self.ids.first(), self.ids.last() - 1];
        self.sweep(users)
    }

    /// Serves until the daemon's end of the socket closes, or `life` becomes readable: the daemon's pidfd. A daemon that was
    /// taken over may have given its end of the socket to others.
    ///
    /// # Errors
    /// When the system lets it wait no longer. All processes have been killed, too.
    pub fn serve(mut self, daemon: &OwnedFd, life: &OwnedFd) -> io::Result<()> {
        loop {
            let ready = self.wait(Some(daemon), Some(life))?;
            if ready.is_over {
                return Ok(());
            }
            self.reap();
            if ready.has_request && !self.obey(daemon)? {
                return Ok(());
            }
        }
    }

    /// Waits until something is to be done, and kills what is to be killed.
    fn wait(&mut self, daemon: Option<&OwnedFd>, life: Option<&OwnedFd>) -> io::Result<Ready> {
        let readable = |descriptor| PollFd::new(descriptor, PollFlags::IN);
        let present: Vec<usize> = (0..self.running.len()).filter(|index| !self.running[*index].has_ended).collect();
        let others = daemon.into_iter().chain(life);
        let mut watched: Vec<PollFd<'_>> = others.map(readable).collect();
        let before = watched.len();
        for index in &present {
            let Running { process, control, is_killed, .. } = &self.running[*index];
            let wanted = if *is_killed { process } else { control };
            watched.extend([readable(process), readable(wanted)]);
        }
        let patience = (present.len() < self.running.len() || daemon.is_none()).then_some(&LOOK);
        while let Err(error) = poll(&mut watched, patience) {
            if error != Errno::INTR {
                return Err(error.into());
            }
        }
        let is_ready: Vec<bool> = watched.iter().map(|watched| !watched.revents().is_empty()).collect();
        drop(watched);
        for (at, index) in present.into_iter().enumerate() {
            let running = &mut self.running[index];
            running.has_ended = is_ready[before + 2 * at];
            if !running.has_ended && is_ready[before + 2 * at + 1] {
                running.kill();
            }
        }
        let has = |at: usize| before > at && is_ready[at];
        Ok(Ready { is_over: has(1), has_request: has(0) })
    }

    /// Says of processes that have ended that they have. Before a user's last one is waited for, all that the user has left is
    /// ended: what traces a process keeps it from being waited for.
    fn reap(&mut self) {
        let ended = |running: &Running| running.has_ended;
        let users: BTreeSet<u32> = self.running.iter().filter(|it| ended(it)).map(|it| it.id).collect();
        for id in users {
            if self.running.iter().filter(|it| it.id == id).all(ended) {
                self.clear(id);
            }
        }
        for mut running in std::mem::take(&mut self.running) {
            let status = if running.has_ended { running.child.try_wait() } else { Ok(None) };
            match status {
                Ok(None) => self.running.push(running),
                Ok(Some(status)) => say(&running.control, Word::Ended(status.into_raw())),
                Err(_) => say(&running.control, Word::Ended(i32::MAX)),
            }
        }
    }

    /// Ends what a user has left, before another one becomes it. Returns whether nothing of it is left.
    fn clear(&mut self, id: u32) -> bool {
        match self.sweep([id; 2]) {
            Ok(()) => {
                self.unswept.remove(&id);
                true
            }
            Err(error) => {
                refuse(&format!("processes of user {id} may be left: {error}"));
                self.unswept.insert(id);
                false
            }
        }
    }

    /// Reads one message and does what it may ask for. Returns false when the daemon is gone.
    fn obey(&mut self, daemon: &OwnedFd) -> io::Result<bool> {
        // One byte more than a request has, so that one that was cut is too long.
        let mut message = vec![0; MOST_BYTES + 1];
        let (bytes, descriptors) = receive(daemon, &mut message)?;
        if bytes == 0 {
            return Ok(false);
        }
        let request = Request::decode(&message[..bytes], self.ids);
        match (request, <[OwnedFd; 4]>::try_from(descriptors)) {
            (Ok(request), Ok(descriptors)) => self.start(request, descriptors),
            (Ok(_), Err(descriptors)) => refuse(&format!("{} descriptors, not 4", descriptors.len())),
            (Err(why), Ok([.., control])) => {
                refuse(&why.to_string());
                let error = if matches!(why, NotARequest::Id(..)) { Errno::PERM } else { Errno::INVAL };
                say(&control, Word::NotStarted(error.raw_os_error()));
            }
            (Err(why), Err(_)) => refuse(&why.to_string()),
        }
        Ok(true)
    }

    fn start(&mut self, request: Request, [input, output, words, control]: [OwnedFd; 4]) {
        let Request { id, environment } = request;
        let not_started = |error: io::Error| {
            say(&control, Word::NotStarted(error.raw_os_error().unwrap_or(Errno::IO.raw_os_error())));
        };
        if self.unswept.contains(&id) && !self.clear(id) {
            return not_started(Errno::BUSY.into());
        }
        let mut command = Command::new(&self.executable);
        command.env_clear().envs(environment).current_dir("/").stdin(input).stdout(output).stderr(words);
        self.becomes(&mut command, id);
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => return not_started(error),
        };
        let id_of_process = Pid::from_child(&child);
        let process = match pidfd_open(id_of_process, PidfdFlags::empty()) {
            Ok(process) => process,
            Err(error) => {
                end(&mut child);
                return not_started(error.into());
            }
        };
        let word = Word::Started(id_of_process.as_raw_nonzero().get()).encode();
        // A daemon that does not take it has closed the socket, which kills the process.
        let _ = send(&control, &word, &[process.as_fd()], SendFlags::DONTWAIT);
        self.running.push(Running { id, child, process, control, is_killed: false, has_ended: false });
    }

    /// Has a process become this user and group, which takes its capabilities but for those that it inherits.
    fn becomes(&self, command: &mut Command, id: u32) {
        if self.changes_users {
            command.gid(id).uid(id);
        }
    }

    /// Ends all processes of users, from the first to the last of these, by a process that none of them can harm.
    fn sweep(&self, [first, last]: [u32; 2]) -> io::Result<()> {
        let own = self.ids.last();
        let mut command = Command::new(&self.executable);
        command.arg(SWEEP).args([first, last, own].map(|id| id.to_string()));
        command.env_clear().current_dir("/").stdin(Stdio::null()).stdout(Stdio::null());
        self.becomes(&mut command, own);
        let status = if self.changes_users { with_the_right_to_sweep(|| command.status()) } else { command.status() };
        let status = status?;
        if status.success() { Ok(()) } else { Err(io::Error::other(status.to_string())) }
    }
}

impl Drop for Launcher {
    fn drop(&mut self) {
        self.running.iter_mut().for_each(Running::kill);
        let begun = Instant::now();
        while !self.running.is_empty() && begun.elapsed() < FAREWELL {
            if self.wait(None, None).is_err() {
                return;
            }
            self.reap();
        }
    }
}

impl Running {
    fn kill(&mut self) {
        // It has not been waited for, so nobody else has its id.
        let _ = self.child.kill();
        self.is_killed = true;
    }
}

fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// Says a word about a process, if its socket takes it at once.
fn say(control: &OwnedFd, word: Word) {
    let _ = send(control, &word.encode(), &[], SendFlags::DONTWAIT);
}

/// Logs a request that was not obeyed: only a daemon that was taken over makes one. A log that nobody reads loses the line.
fn refuse(why: &str) {
    let mut words = io::stderr();
    let mut polled = [PollFd::new(&words, PollFlags::OUT)];
    let has_room = poll(&mut polled, Some(&Timespec::default())).is_ok_and(|ready| ready > 0);
    if has_room {
        let _ = words.write_all(format!("floe-launcher: {}\n", why.escape_debug()).as_bytes());
    }
}
