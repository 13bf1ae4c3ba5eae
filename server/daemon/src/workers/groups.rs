//! Control groups: what all workers of a user together may take of this machine's memory, processors and tasks.
//! In: the policy's limits, a user's worker. Out: the worker in a group of its own, within its user's; at its end, no group.
//! It needs a group of its own that the system's manager has handed over (`Delegate=` of systemd), of version 2.
//!
//! ```text
//! floed.service        this server's, handed over
//! ├ floed              this process, its launcher, and workers without limits
//! └ user-alice         alice's limits
//!   ├ worker-4711      what of its processes the kernel has killed is counted here
//!   └ worker-4712
//! ```

mod files;
mod own;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use floe_lock::lock;
use floe_users::{HostLimits, Name};

use self::files::{Files, Kernel};
use crate::warn;

/// This process's group within the server's: a group that has groups with limits has no processes itself.
const LEAF: &str = "floed";
/// Users' groups begin so. No other group here does.
const OF_USER: &str = "user-";
/// Workers' groups begin so.
const OF_WORKER: &str = "worker-";
/// The controllers that limits need.
const CONTROLLERS: &str = "+memory +cpu +pids";
/// In microseconds, the time in which a user may have as much of each processor as its limit says.
const PERIOD: u64 = 100_000;
/// Looks whether the last processes of a group that was killed are gone, and the pause between two.
const LOOKS: u32 = 200;
const PAUSE: Duration = Duration::from_millis(5);

/// The server's group, with those of its users.
#[derive(Debug)]
pub(crate) struct Groups {
    files: Box<dyn Files>,
    folder: PathBuf,
    /// Whoever makes or removes groups has it: the last worker that leaves a user's group removes it.
    changing: Mutex<()>,
}

/// A user whose workers have limits together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limited<'a> {
    pub(crate) groups: &'a Arc<Groups>,
    pub(crate) user: Name,
    pub(crate) limits: HostLimits,
}

/// A worker's place in its user's group. Dropped behind the worker's end: what it has left there is killed.
#[derive(Debug)]
pub(crate) struct Membership {
    groups: Arc<Groups>,
    of_user: PathBuf,
    folder: PathBuf,
}

impl Groups {
    /// Takes over the group that this process is in: for itself, and for `others`, which are to be all other processes there.
    ///
    /// # Errors
    /// Why that cannot be, in words.
    pub(crate) fn take_over(others: &[u32]) -> Result<Arc<Self>, String> {
        Self::begin(Box::new(Kernel), own::group()?, others)
    }

    fn begin(files: Box<dyn Files>, folder: PathBuf, others: &[u32]) -> Result<Arc<Self>, String> {
        let groups = Self { files, folder, changing: Mutex::new(()) };
        let leaf = groups.folder.join(LEAF);
        groups.make(&leaf).map_err(|error| groups.obstacle(&error))?;
        let own = std::process::id();
        let all = || [own].into_iter().chain(others.iter().copied());
        let moved = all().try_for_each(|process| groups.enlist(&leaf, process));
        let begun = moved.and_then(|()| groups.write(&groups.folder, "cgroup.subtree_control", CONTROLLERS));
        if let Err(error) = begun {
            all().for_each(|process| _ = groups.enlist(&groups.folder, process));
            let _ = groups.files.remove(&leaf);
            return Err(groups.obstacle(&error));
        }
        groups.clear();
        Ok(Arc::new(groups))
    }

    /// What an error at the beginning means.
    fn obstacle(&self, error: &io::Error) -> String {
        let folder = self.folder.display();
        match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                format!("the control group of this server was not handed over to its user: {folder}")
            }
            io::ErrorKind::ResourceBusy => format!("other processes are in the control group of this server: {folder}"),
            io::ErrorKind::NotFound | io::ErrorKind::InvalidInput => {
                format!("the control group of this server has no controllers for memory, cpu and pids: {folder}")
            }
            _ => format!("the control group of this server cannot be used: {folder}: {}", floe_transport::plain(error)),
        }
    }

    /// Ends and removes what an earlier server has left here.
    fn clear(&self) {
        for user in self.files.groups(&self.folder).unwrap_or_default() {
            if !user.starts_with(OF_USER) {
                continue;
            }
            let user = self.folder.join(user);
            let _ = self.write(&user, "cgroup.kill", "1");
            for worker in self.files.groups(&user).unwrap_or_default() {
                self.remove_emptied(&user.join(worker));
            }
            self.remove_emptied(&user);
        }
    }

    /// Puts a user's worker under the user's limits, which are written anew: the policy may have others than before.
    ///
    /// # Errors
    /// The system's. The worker then is under no limit, and must not go on.
    pub(crate) fn enter(self: &Arc<Self>, user: Name, limits: HostLimits, process: u32) -> io::Result<Membership> {
        let _turn = lock(&self.changing);
        let of_user = self.folder.join(format!("{OF_USER}{user}"));
        let folder = of_user.join(format!("{OF_WORKER}{process}"));
        self.make(&of_user)?;
        let entered = self.limit(&of_user, limits).and_then(|()| {
            self.write(&of_user, "cgroup.subtree_control", "+memory")?;
            self.make(&folder)?;
            self.enlist(&folder, process)
        });
        match entered {
            Ok(()) => Ok(Membership { groups: Arc::clone(self), of_user, folder }),
            Err(error) => {
                let _ = self.files.remove(&folder);
                let _ = self.files.remove(&of_user);
                Err(error)
            }
        }
    }

    fn limit(&self, of_user: &Path, HostLimits { memory, processors, tasks }: HostLimits) -> io::Result<()> {
        let number = |limit: Option<u64>| limit.map_or("max".to_owned(), |limit| limit.to_string());
        self.write(of_user, "memory.max", &number(memory))?;
        match self.write(of_user, "memory.swap.max", if memory.is_some() { "0" } else { "max" }) {
            // A kernel without swap has no limit of it either.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            written => written?,
        }
        let time = number(processors.map(|thousandths| u64::from(thousandths) * PERIOD / 1000));
        self.write(of_user, "cpu.max", &format!("{time} {PERIOD}"))?;
        self.write(of_user, "pids.max", &number(tasks.map(u64::from)))
    }

    fn make(&self, folder: &Path) -> io::Result<()> {
        match self.files.make(folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            made => made,
        }
    }

    fn enlist(&self, folder: &Path, process: u32) -> io::Result<()> {
        self.write(folder, "cgroup.procs", &process.to_string())
    }

    fn write(&self, folder: &Path, name: &str, value: &str) -> io::Result<()> {
        self.files.write(&folder.join(name), value)
    }

    /// Removes a group whose processes were killed: the kernel takes a moment for the last of them.
    fn remove_emptied(&self, folder: &Path) {
        for _ in 0..LOOKS {
            match self.files.remove(folder) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => std::thread::sleep(PAUSE),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return,
                Ok(()) => return,
                Err(error) => return warn_of_left(folder, &error),
            }
        }
        warn_of_left(folder, &io::Error::other("its processes do not end"));
    }
}

fn warn_of_left(folder: &Path, error: &io::Error) {
    warn(format_args!("a control group is left until the next start: {}: {error}", folder.display()));
}

impl Membership {
    /// Whether the kernel has killed it for lack of host memory: its user's limit, or all of the server's.
    pub(crate) fn ran_short(&self) -> bool {
        let counts = self.groups.files.read(&self.folder.join("memory.events")).unwrap_or_default();
        let kills = counts.lines().find_map(|line| line.strip_prefix("oom_kill "));
        kills.is_some_and(|kills| kills.trim() != "0")
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        let groups = &self.groups;
        // An older kernel has no such file: what is left then stays within its user's limits.
        let _ = groups.write(&self.folder, "cgroup.kill", "1");
        groups.remove_emptied(&self.folder);
        let _turn = lock(&groups.changing);
        // Other workers of the user may be there.
        let _ = groups.files.remove(&self.of_user);
    }
}

#[cfg(test)]
mod tests;
