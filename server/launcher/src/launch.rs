//! The launcher's one loop: requests, ends, kills.
//! In: the daemon's socket, and one socket per process. Out: processes; a word when each has started and ended.
//! A request that may not be obeyed starts nothing. When the daemon ends, all processes are killed.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::{CommandExt as _, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::SendFlags;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::descriptors::{receive, send};
use crate::ids::Ids;
use crate::request::{MOST_BYTES, NotARequest, Request, Word};
use crate::sweep::SWEEP;

/// What every process is, whatever a request says.
#[derive(Debug)]
pub struct Launcher {
    ids: Ids,
    executable: PathBuf,
    /// Has a process become this user and group, which takes its capabilities.
    becomes: fn(&mut Command, u32),
    running: Vec<Running>,
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
}

/// What a wait has found.
struct Ready {
    is_over: bool,
    has_request: bool,
    /// Indices of processes, the last one first.
    ended: Vec<usize>,
    to_kill: Vec<usize>,
}

impl Launcher {
    /// A launcher of this executable, as users of these ids.
    #[must_use]
    pub fn new(ids: Ids, executable: PathBuf) -> Self {
        let becomes = |command: &mut Command, id| _ = command.gid(id).uid(id);
        Self { ids, executable, becomes, running: Vec::new() }
    }

    /// The same without another user, since tests may have no rights.
    #[cfg(test)]
    pub(crate) fn of_this_user(ids: Ids, executable: PathBuf) -> Self {
        Self { ids, executable, becomes: |_, _| {}, running: Vec::new() }
    }

    /// Serves until the daemon's end of the socket closes, or `life` becomes readable: the daemon's pidfd. A daemon that was
    /// taken over may have given its end of the socket to others.
    ///
    /// # Errors
    /// When the system lets it wait no longer. All processes have been killed, too.
    pub fn serve(mut self, daemon: &OwnedFd, life: &OwnedFd) -> io::Result<()> {
        loop {
            let ready = self.wait(daemon, life)?;
            if ready.is_over {
                return Ok(());
            }
            for index in ready.to_kill {
                self.running[index].kill();
            }
            for index in ready.ended {
                let ended = self.running.swap_remove(index);
                self.finish(ended);
            }
            if ready.has_request && !self.obey(daemon)? {
                return Ok(());
            }
        }
    }

    fn wait(&self, daemon: &OwnedFd, life: &OwnedFd) -> io::Result<Ready> {
        let readable = |descriptor| PollFd::new(descriptor, PollFlags::IN);
        let mut watched = vec![readable(daemon), readable(life)];
        for Running { process, control, is_killed, .. } in &self.running {
            let wanted = if *is_killed { process } else { control };
            watched.extend([readable(process), readable(wanted)]);
        }
        while let Err(error) = poll(&mut watched, None) {
            if error != Errno::INTR {
                return Err(error.into());
            }
        }
        let is_ready = |at: usize| !watched[at].revents().is_empty();
        let ended = |index: &usize| is_ready(2 + 2 * index);
        let to_kill = |index: &usize| is_ready(3 + 2 * index) && !ended(index);
        let all = || (0..self.running.len()).rev();
        Ok(Ready {
            is_over: is_ready(1),
            has_request: is_ready(0),
            ended: all().filter(ended).collect(),
            to_kill: all().filter(to_kill).collect(),
        })
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
        let mut command = Command::new(&self.executable);
        command.env_clear().envs(environment).current_dir("/").stdin(input).stdout(output).stderr(words);
        (self.becomes)(&mut command, id);
        let not_started = |error: io::Error| {
            say(&control, Word::NotStarted(error.raw_os_error().unwrap_or(Errno::IO.raw_os_error())));
        };
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
        self.running.push(Running { id, child, process, control, is_killed: false });
    }

    /// A process has ended: ends what its user has left, if it was the last one, and says so.
    fn finish(&self, mut ended: Running) {
        let status = ended.child.wait();
        if self.running.iter().all(|other| other.id != ended.id) {
            self.sweep(ended.id);
        }
        let status = status.map_or(i32::MAX, ExitStatusExt::into_raw);
        say(&ended.control, Word::Ended(status));
    }

    fn sweep(&self, id: u32) {
        let mut command = Command::new(&self.executable);
        command.args([SWEEP, &id.to_string()]).env_clear().current_dir("/");
        command.stdin(Stdio::null()).stdout(Stdio::null());
        (self.becomes)(&mut command, id);
        if let Err(error) = command.status() {
            refuse(&format!("processes of user {id} may be left: {error}"));
        }
    }
}

impl Drop for Launcher {
    fn drop(&mut self) {
        self.running.iter_mut().for_each(Running::kill);
        while let Some(ended) = self.running.pop() {
            self.finish(ended);
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

/// Logs a request that was not obeyed: only a daemon that was taken over makes one.
fn refuse(why: &str) {
    eprintln!("floe-launcher: {why}");
}
