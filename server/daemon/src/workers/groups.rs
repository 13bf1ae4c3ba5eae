//! Control groups: what all workers of a user together may take of this machine's memory, processors and tasks.
//! In: the policy's limits, a user's worker. Out: the worker in a group of its own, within its user's; at its end, no group.
//! It needs a group of its own that the system's manager has handed over (`Delegate=` of systemd), of version 2.
//!
//! ```text
//! floed.service        this server's, handed over
//! ├ floed              this process, its launcher, and workers without limits
//! └ users              which no worker of another id can list
//!   └ user-alice       alice's limits
//!     ├ worker-1       what of its processes the kernel has killed is counted here
//!     └ worker-2
//! ```

mod files;
mod own;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use floe_lock::lock;
use floe_users::{HostLimits, Name};

use self::files::{Files, Kernel};
use crate::warn;

/// This process's group within the server's: a group that has groups with limits has no processes itself.
const LEAF: &str = "floed";
/// The group of users' groups within the server's.
const USERS: &str = "users";
/// Users' groups begin so: a name alone may be that of a value.
const OF_USER: &str = "user-";
/// Workers' groups begin so.
const OF_WORKER: &str = "worker-";
/// The controllers that limits need.
const CONTROLLERS: &str = "+memory +cpu +pids";
const NO_CONTROLLERS: &str = "-memory -cpu -pids";
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
    /// Users that have a group. Whoever makes or removes one has this lock. Nobody writes limits under it: the kernel may take
    /// long over one.
    users: Mutex<BTreeMap<Name, User>>,
    /// The workers so far. A worker's group has its number: its process id may be another's before the group is removed.
    workers: AtomicU64,
}

/// A user that has a group.
#[derive(Debug)]
struct User {
    /// Workers that are in there, or about to be.
    workers: u32,
    limits: HostLimits,
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
    of_user: OfUser,
    folder: PathBuf,
}

/// A user's group, which is there for as long as this.
#[derive(Debug)]
struct OfUser {
    groups: Arc<Groups>,
    user: Name,
    folder: PathBuf,
}

/// Whose memory had run out when the kernel killed a worker for lack of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shortage {
    OfUser,
    OfServer,
}

impl Shortage {
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::OfUser => "the host memory of its user's workers is used up (host-memory of the policy)",
            Self::OfServer => "the host memory of the server is used up",
        }
    }
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
        let groups = Self { files, folder, users: Mutex::default(), workers: AtomicU64::new(1) };
        let [leaf, users] = [LEAF, USERS].map(|name| groups.folder.join(name));
        let own = std::process::id();
        let all = || [own].into_iter().chain(others.iter().copied());
        let begin = || {
            groups.make(&leaf)?;
            all().try_for_each(|process| groups.enlist(&leaf, process))?;
            groups.write(&groups.folder, "cgroup.subtree_control", CONTROLLERS)?;
            groups.make(&users)?;
            groups.write(&users, "cgroup.subtree_control", CONTROLLERS)
        };
        if let Err(error) = begin() {
            let _ = groups.files.remove(&users);
            let _ = groups.write(&groups.folder, "cgroup.subtree_control", NO_CONTROLLERS);
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
        let users = self.folder.join(USERS);
        for user in self.files.groups(&users).unwrap_or_default() {
            let user = users.join(user);
            let _ = self.write(&user, "cgroup.kill", "1");
            for worker in self.files.groups(&user).unwrap_or_default() {
                self.remove_emptied(&user.join(worker));
            }
            self.remove_emptied(&user);
        }
    }

    /// Removes groups that are not needed any more, to be called from time to time.
    pub(crate) fn tidy(&self) {
        self.sweep(&mut lock(&self.users));
    }

    /// Removes the groups of users without workers. One stays while programs have memory that workers touched first: in a
    /// new group nothing of it would count.
    fn sweep(&self, users: &mut BTreeMap<Name, User>) {
        users.retain(|name, user| {
            let folder = self.folder_of(*name);
            if user.workers > 0 || self.count(&folder, "memory.stat", "shmem").is_some_and(|bytes| bytes > 0) {
                return true;
            }
            match self.files.remove(&folder) {
                // What a worker's end has left there was said, and the user's next worker finds the group.
                Err(error) if matches!(error.kind(), io::ErrorKind::ResourceBusy | io::ErrorKind::NotFound) => {}
                Err(error) => warn_of_left(&folder, &error),
                Ok(()) => {}
            }
            false
        });
    }

    fn folder_of(&self, user: Name) -> PathBuf {
        self.folder.join(USERS).join(format!("{OF_USER}{user}"))
    }

    /// What the kernel counts in a group by this name.
    fn count(&self, folder: &Path, file: &str, name: &str) -> Option<u64> {
        let counts = self.files.read(&folder.join(file)).ok()?;
        counts.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
    }

    /// The limits that a user's group has; `None`: it has no group.
    pub(crate) fn limits_of(&self, user: Name) -> Option<HostLimits> {
        lock(&self.users).get(&user).map(|user| user.limits)
    }

    /// Puts a user's worker under the user's limits, which are written anew: the policy may have others than before.
    ///
    /// # Errors
    /// The system's. The worker then may be under no limit, and must not go on.
    pub(crate) fn enter(self: &Arc<Self>, user: Name, limits: HostLimits, process: u32) -> io::Result<Membership> {
        let of_user = OfUser::of(self, user, limits)?;
        self.limit(&of_user.folder, limits)?;
        self.write(&of_user.folder, "cgroup.subtree_control", "+memory")?;
        let folder = of_user.folder.join(format!("{OF_WORKER}{}", self.workers.fetch_add(1, Ordering::Relaxed)));
        self.files.make(&folder)?;
        let membership = Membership { of_user, folder };
        self.enlist(&membership.folder, process)?;
        Ok(membership)
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

impl OfUser {
    fn of(groups: &Arc<Groups>, user: Name, limits: HostLimits) -> io::Result<Self> {
        let folder = groups.folder_of(user);
        let mut users = lock(&groups.users);
        groups.make(&folder)?;
        let its = users.entry(user).or_insert(User { workers: 0, limits });
        its.workers += 1;
        its.limits = limits;
        Ok(Self { groups: Arc::clone(groups), user, folder })
    }
}

impl Drop for OfUser {
    fn drop(&mut self) {
        let mut users = lock(&self.groups.users);
        if let Some(user) = users.get_mut(&self.user) {
            user.workers -= 1;
        }
        self.groups.sweep(&mut users);
    }
}

impl Membership {
    /// What was short, if the kernel has killed it for lack of host memory.
    pub(crate) fn shortage(&self) -> Option<Shortage> {
        let groups = &self.of_user.groups;
        let has = |folder: &Path, event| groups.count(folder, "memory.events", event).is_some_and(|count| count > 0);
        // The kernel counts "oom" where the limit was met, and "oom_kill" where the process was.
        let whose = || if has(&self.of_user.folder, "oom") { Shortage::OfUser } else { Shortage::OfServer };
        has(&self.folder, "oom_kill").then(whose)
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        let groups = &self.of_user.groups;
        // An older kernel has no such file: what is left then stays within its user's limits.
        let _ = groups.write(&self.folder, "cgroup.kill", "1");
        groups.remove_emptied(&self.folder);
    }
}

#[cfg(test)]
mod tests;
