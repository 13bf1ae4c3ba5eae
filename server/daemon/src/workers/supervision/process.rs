//! A worker's process, whoever has started it.
//! In: a child of this process, or a process of the launcher. Out: the same of both: signals, the end, the output.
//! No signal reaches a later process with the same id.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{Child, ExitStatus};
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::error::DaemonError;
use crate::workers::launcher::{Control, Launched};

/// A process with pipes for its output.
#[derive(Debug)]
pub(crate) enum Process {
    Own(Child),
    Launched(Launched),
}

impl Process {
    pub(super) fn id(&self) -> u32 {
        match self {
            Self::Own(child) => child.id(),
            Self::Launched(launched) => launched.id,
        }
    }

    pub(super) fn handle(&self) -> Result<Handle, DaemonError> {
        match self {
            Self::Own(child) => Handle::of(child),
            Self::Launched(Launched { process, control, .. }) => {
                Ok(Handle { process: Arc::clone(process), control: Some(Arc::clone(control)) })
            }
        }
    }

    /// Its standard output and error, once.
    pub(super) fn take_output(&mut self) -> Option<(OwnedFd, OwnedFd)> {
        match self {
            Self::Own(child) => {
                let (output, error) = child.stdout.take().zip(child.stderr.take())?;
                Some((output.into(), error.into()))
            }
            Self::Launched(launched) => launched.output.take(),
        }
    }

    pub(super) fn kill(&mut self) {
        match self {
            Self::Own(child) => _ = child.kill(),
            Self::Launched(launched) => launched.control.kill(),
        }
    }

    /// Waits for its end.
    pub(super) fn wait(&mut self) -> io::Result<ExitStatus> {
        match self {
            Self::Own(child) => child.wait(),
            Self::Launched(launched) => launched.wait(),
        }
    }
}

/// Ends one process, and sees its end.
#[derive(Clone, Debug)]
pub(super) struct Handle {
    process: Arc<OwnedFd>,
    /// `None`: this process may signal it.
    control: Option<Arc<Control>>,
}

impl Handle {
    /// Of a process that this one has started.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn of(child: &Child) -> Result<Self, DaemonError> {
        // The process has not been waited for, so the id is still its own.
        let process = pidfd_open(Pid::from_child(child), PidfdFlags::empty());
        let process = process.map_err(|error| DaemonError::system("cannot watch a worker")(error.into()))?;
        Ok(Self { process: Arc::new(process), control: None })
    }

    /// Whether it has ended, waited for or not.
    pub(super) fn has_ended(&self) -> bool {
        let mut own = [PollFd::new(&*self.process, PollFlags::IN)];
        poll(&mut own, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }

    /// Kills it, without waiting. It may just have ended.
    pub(super) fn kill(&self) {
        match &self.control {
            Some(control) => control.kill(),
            None => _ = pidfd_send_signal(&*self.process, Signal::KILL),
        }
    }

    /// Sends it a signal, as somebody else may.
    #[cfg(test)]
    pub(super) fn signal(&self, signal: Signal) {
        let _ = pidfd_send_signal(&*self.process, signal);
    }
}

impl AsFd for Handle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.process.as_fd()
    }
}
