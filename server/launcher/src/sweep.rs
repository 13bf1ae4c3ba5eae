//! Ends what a user's workers have left behind.
//! In: the id that this process has and no rights. Out: no other process of it. A worker in its sandbox starts none; this is
//! for workers without.

use std::io;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getresgid, getresuid};
use rustix::thread::capabilities;

/// The argument by which the worker's executable sweeps. The id follows.
pub const SWEEP: &str = "--sweep";

/// Kills every process that this one may, if this is a process of `id` without rights.
///
/// # Errors
/// When it is not, or the system refuses.
pub fn sweep(id: u32) -> io::Result<()> {
    let (users, groups) = (getresuid()?, getresgid()?);
    let users = [users.real, users.effective, users.saved].map(nix::unistd::Uid::as_raw);
    let groups = [groups.real, groups.effective, groups.saved].map(nix::unistd::Gid::as_raw);
    if id == 0 || users != [id; 3] || groups != [id; 3] || !capabilities(None)?.permitted.is_empty() {
        return Err(io::Error::other(format!("this is no process of user and group {id} without rights")));
    }
    match kill(Pid::from_raw(-1), Signal::SIGKILL) {
        // There is none.
        Ok(()) | Err(Errno::ESRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
