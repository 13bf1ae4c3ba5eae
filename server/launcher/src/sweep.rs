//! Ends what users' workers have left behind.
//! In: ids of users, and a process of the range's last id with the right to become others. Out: no process of those ids.
//! A worker in its sandbox starts none; this is for workers without. What it ends cannot harm it: it becomes a user only by its
//! effective id, and signals ask for the real and the saved one.

use std::io;
use std::ops::RangeInclusive;
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, Uid, getresuid, setresuid};
use rustix::thread::{CapabilitySet, capabilities, clear_ambient_capability_set};

/// The argument by which the worker's executable sweeps. The first and the last id of users follow, and its own.
pub const SWEEP: &str = "--sweep";
/// The time of killed processes to be gone.
const PATIENCE: Duration = Duration::from_millis(500);
const LOOK: Duration = Duration::from_millis(1);

/// Kills every process of these users, and waits until none of them runs.
///
/// # Errors
/// When this process is another than it should be, when a process stays, or when the system refuses.
pub fn sweep(users: RangeInclusive<u32>, own: u32) -> io::Result<()> {
    let ids = getresuid()?;
    let is_own = [ids.real, ids.effective, ids.saved].map(Uid::as_raw) == [own; 3];
    if own == 0 || users.contains(&0) || users.contains(&own) || !is_own {
        return Err(io::Error::other(format!("this is no process of user {own} alone, or that is to be swept")));
    }
    // It executes nothing from here on.
    clear_ambient_capability_set()?;
    if capabilities(None)?.permitted != CapabilitySet::SETUID {
        return Err(io::Error::other("it has other rights than the one to become others"));
    }
    let own = Uid::from_raw(own);
    for user in users {
        setresuid(own, Uid::from_raw(user), own)?;
        end_all_of(user)?;
    }
    Ok(())
}

/// Kills all that this process may, which is effectively this user.
fn end_all_of(user: u32) -> io::Result<()> {
    let begun = Instant::now();
    loop {
        match kill(Pid::from_raw(-1), Signal::SIGKILL) {
            Err(Errno::ESRCH) => return Ok(()),
            Err(error) => return Err(error.into()),
            // Dead ones that nobody has waited for are among those.
            Ok(()) if !runs(user)? => return Ok(()),
            Ok(()) if begun.elapsed() > PATIENCE => {
                return Err(io::Error::other(format!("a process of user {user} does not end")));
            }
            Ok(()) => sleep(LOOK),
        }
    }
}

/// Whether a process of this user runs that is not dead.
fn runs(user: u32) -> io::Result<bool> {
    let own = std::process::id().to_string();
    for entry in std::fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let process = name.to_str().filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()) && *name != own);
        let status = process.and_then(|process| std::fs::read_to_string(format!("/proc/{process}/status")).ok());
        // One that has ended meanwhile has none.
        if status.is_some_and(|status| is_alive_of(&status, user)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether this is the status of a process of this user that is not dead.
fn is_alive_of(status: &str, user: u32) -> bool {
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim();
    let is_dead = field("State:").starts_with(['Z', 'X']);
    !is_dead && field("Uid:").split_whitespace().any(|id| id.parse() == Ok(user))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dead_and_others_processes_are_not_counted() {
        let status = |state: &str, ids: &str| format!("Name:\tx\nState:\t{state}\nUid:\t{ids}\nGid:\t7\t7\t7\t7\n");
        assert!(is_alive_of(&status("S (sleeping)", "5\t7\t5\t5"), 7));
        assert!(!is_alive_of(&status("Z (zombie)", "7\t7\t7\t7"), 7));
        assert!(!is_alive_of(&status("R (running)", "77\t70\t17\t5"), 7));
        assert!(!is_alive_of("", 7));
    }

    #[test]
    fn who_is_another_than_it_should_be_sweeps_nobody() {
        let own = nix::unistd::geteuid().as_raw();
        for (users, own) in [(5000..=5001, own.wrapping_add(1)), (own..=own, own), (0..=0, own), (5000..=5000, 0)] {
            assert!(sweep(users, own).is_err());
        }
        // Without the one right, or with more.
        assert!(sweep(4_000_000_000..=4_000_000_000, own).is_err());
    }
}
