//! The daemon's end of the launcher, which starts workers as users of their own (`--worker-ids`).
//! In: ids that the operator set aside, and what workers are to be started with. Out: workers of those ids, their ends.
//! It is started while this process has its rights. A launcher that ends takes all workers along.

pub(crate) mod leases;
pub(crate) mod rights;

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use floe_launcher::{Ids, LAUNCHER, READY, Request, Word, receive, send};
use floe_lock::lock;
use floe_users::Name;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, Shutdown, SocketFlags, SocketType, shutdown, socketpair};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use self::leases::{Lease, Leases, NoId};
use crate::error::DaemonError;
use crate::log;

/// The launcher's time to begin, and to start a worker.
const PATIENCE: Duration = Duration::from_secs(30);

/// The launcher, and whose its ids are.
#[derive(Debug)]
pub(crate) struct Launcher {
    worker: PathBuf,
    socket: OwnedFd,
    leases: Leases,
    /// Readable when it has ended.
    process: OwnedFd,
    child: Mutex<Child>,
}

/// A process of the launcher.
#[derive(Debug)]
pub(crate) struct Launched {
    pub(crate) id: u32,
    /// Readable when it has ended.
    pub(crate) process: Arc<OwnedFd>,
    pub(crate) control: Arc<Control>,
    /// Where its standard output and error can be read.
    pub(crate) output: Option<(OwnedFd, OwnedFd)>,
    status: Option<ExitStatus>,
    /// Given back behind its end.
    _lease: Lease,
}

/// The socket on which the launcher says what becomes of a process.
#[derive(Debug)]
pub(crate) struct Control(OwnedFd);

impl Launcher {
    /// Starts it, for a daemon that will be this user.
    ///
    /// # Errors
    /// When it lacks a right, or does not start.
    pub(crate) fn start(worker: &Path, ids: Ids, (user, group): (u32, u32)) -> Result<Self, DaemonError> {
        let failed = |source| DaemonError::Worker { path: worker.to_owned(), source };
        let refused = |reason| DaemonError::WorkerIds { ids: ids.to_string(), reason };
        rights::obstacle(ids, (user, group)).map_or(Ok(()), |reason| Err(refused(reason)))?;
        let (socket, its) = pair().map_err(failed)?;
        let mut command = Command::new(worker);
        command.args([LAUNCHER, &ids.to_string(), &user.to_string(), &group.to_string()]);
        command.env_clear().current_dir("/").stdin(Stdio::from(its)).stdout(Stdio::null());
        let child = rights::lent(|| command.spawn()).and_then(|child| child);
        // Its end of the socket is in there.
        drop(command);
        let mut child = child.map_err(failed)?;
        let process = await_ready(&socket, &child).inspect_err(|_| {
            let _ = child.kill();
            let _ = child.wait();
        });
        let process = process.map_err(refused)?;
        log(format_args!("workers of each user run as a user of their own: {ids}"));
        let (worker, leases) = (worker.to_owned(), Leases::new(ids));
        Ok(Self { worker, socket, leases, process, child: Mutex::new(child) })
    }

    /// The id for one more worker of this user.
    ///
    /// # Errors
    /// [`NoId`]: others have all.
    pub(crate) fn lease(&self, whose: Option<Name>) -> Result<Lease, NoId> {
        self.leases.take(whose)
    }

    /// Readable when it has ended, and all workers with it.
    pub(crate) fn life(&self) -> BorrowedFd<'_> {
        self.process.as_fd()
    }

    /// Its process id.
    pub(crate) fn process(&self) -> u32 {
        lock(&self.child).id()
    }

    /// Starts a worker.
    ///
    /// # Errors
    /// When it does not start.
    pub(crate) fn launch(
        &self,
        lease: Lease,
        environment: Vec<(OsString, OsString)>,
        input: OwnedFd,
    ) -> Result<Launched, DaemonError> {
        let failed = |source| DaemonError::Worker { path: self.worker.clone(), source };
        let request = Request { id: lease.id(), environment }.encode().map_err(|why| failed(io::Error::other(why)))?;
        let begin = || {
            let (control, its) = pair()?;
            let ((reports, output), (words, error)) = (pipe_with(PipeFlags::CLOEXEC)?, pipe_with(PipeFlags::CLOEXEC)?);
            let given = [input.as_fd(), output.as_fd(), error.as_fd(), its.as_fd()];
            send(&self.socket, &request, &given, SendFlags::empty())?;
            Ok((Control(control), (reports, words)))
        };
        let (control, output) = begin().map_err(failed)?;
        let (id, process) = control.begun().map_err(failed)?;
        let (process, control) = (Arc::new(process), Arc::new(control));
        Ok(Launched { id, process, control, output: Some(output), status: None, _lease: lease })
    }

    /// Ends it, and workers that are left.
    pub(crate) fn end(&self) {
        let _ = shutdown(&self.socket, Shutdown::Both);
        let mut child = lock(&self.child);
        if !is_readable(&self.process, PATIENCE) {
            let _ = child.kill();
        }
        let _ = child.wait();
    }
}

impl Launched {
    /// Waits until it has ended.
    ///
    /// # Errors
    /// When the launcher has ended, and the process with it.
    pub(crate) fn wait(&mut self) -> io::Result<ExitStatus> {
        if let Some(status) = self.status {
            return Ok(status);
        }
        match self.control.word()? {
            (Word::Ended(status), _) => Ok(*self.status.insert(ExitStatus::from_raw(status))),
            _ => Err(io::Error::other("the launcher's word is none")),
        }
    }
}

impl Control {
    /// Waits for the word that the process has started. Returns its id and pidfd.
    fn begun(&self) -> io::Result<(u32, OwnedFd)> {
        if !is_readable(&self.0, PATIENCE) {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the launcher does not answer"));
        }
        match self.word()? {
            (Word::Started(id), Some(process)) if id > 0 => Ok((id.unsigned_abs(), process)),
            (Word::NotStarted(error), _) => Err(io::Error::from_raw_os_error(error)),
            _ => Err(io::Error::other("the launcher's answer is none")),
        }
    }

    /// The launcher's next word.
    fn word(&self) -> io::Result<(Word, Option<OwnedFd>)> {
        let mut bytes = [0; Word::BYTES];
        let (count, descriptors) = receive(&self.0, &mut bytes)?;
        let over = || io::Error::other("the launcher has ended");
        Ok((Word::decode(&bytes[..count]).ok_or_else(over)?, descriptors.into_iter().next()))
    }

    /// Has the process killed, without waiting.
    pub(crate) fn kill(&self) {
        // The process may just have ended.
        let _ = shutdown(&self.0, Shutdown::Write);
    }
}

fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// Waits until the launcher has what it needs and nothing else, or says why not. Returns its pidfd.
fn await_ready(socket: &OwnedFd, child: &Child) -> Result<OwnedFd, String> {
    let mut words = [0; 4096];
    let answer = if is_readable(socket, PATIENCE) { receive(socket, &mut words) } else { Err(Errno::TIMEDOUT) };
    let (count, _) = answer.map_err(|error| format!("the launcher does not begin: {error}"))?;
    match String::from_utf8_lossy(&words[..count]).as_ref() {
        READY => pidfd_open(Pid::from_child(child), PidfdFlags::empty()).map_err(|error| error.to_string()),
        "" => Err("the launcher has ended".to_owned()),
        why => Err(floe_worker::one_entry(why)),
    }
}

/// Whether something is readable within this time.
fn is_readable(what: &OwnedFd, patience: Duration) -> bool {
    let patience = Timespec::try_from(patience).ok();
    loop {
        match poll(&mut [PollFd::new(what, PollFlags::IN)], patience.as_ref()) {
            Err(Errno::INTR) => {}
            ready => return ready.is_ok_and(|ready| ready > 0),
        }
    }
}
