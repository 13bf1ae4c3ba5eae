//! The launcher's rights.
//! In: root, or a process that has [`NEEDED`]. Out: the daemon's user with these capabilities only, which can gain none.

use std::io;

use nix::unistd::{Gid, Uid, setgroups, setresgid, setresuid};
use rustix::process::{DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set, configure_capability_in_ambient_set,
    set_capabilities, set_keep_capabilities, set_no_new_privs,
};

/// To become a worker's user and group, and to kill it afterwards.
pub const NEEDED: CapabilitySet = CapabilitySet::SETUID.union(CapabilitySet::SETGID).union(CapabilitySet::KILL);

/// To become the users of which processes are ended.
const TO_SWEEP: CapabilitySet = CapabilitySet::SETUID;

/// Has this process keep what a sweep needs when its bounding set goes, which comes before [`become_launcher`].
///
/// # Errors
/// The system's.
pub fn keep_what_sweeps_need() -> io::Result<()> {
    let sets = capabilities(None)?;
    Ok(set_capabilities(None, CapabilitySets { inheritable: sets.inheritable | TO_SWEEP, ..sets })?)
}

/// Becomes this user and group with [`NEEDED`] and nothing else. Nobody without these capabilities can trace this process
/// then, also not another one of that user. The caller has emptied the bounding set where it may.
///
/// # Errors
/// The system's, also when a capability is missing. This process must not continue then.
pub fn become_launcher(user: u32, group: u32) -> io::Result<()> {
    set_keep_capabilities(true)?;
    setgroups(&[])?;
    let (user, group) = (Uid::from_raw(user), Gid::from_raw(group));
    setresgid(group, group, group)?;
    setresuid(user, user, user)?;
    set_keep_capabilities(false)?;
    // What is inheritable gives a program nothing by itself, and with an empty bounding set it can only be kept.
    let sets = CapabilitySets { effective: NEEDED, permitted: NEEDED, inheritable: TO_SWEEP };
    set_capabilities(None, sets)?;
    // Kernels without ambient capabilities have none to clear.
    let _ = clear_ambient_capability_set();
    set_no_new_privs(true)?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    // Two descriptors per worker. Where the system refuses, the limit stays as it was.
    let limits = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limits.maximum, maximum: limits.maximum });
    let has = capabilities(None)?;
    if has == sets { Ok(()) } else { Err(io::Error::other(format!("wrong capabilities: {has:?}"))) }
}

/// Starts something with [`TO_SWEEP`] and nothing else, whatever user it is at first.
pub(crate) fn with_the_right_to_sweep<T>(start: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    configure_capability_in_ambient_set(TO_SWEEP, true)?;
    let started = start();
    clear_ambient_capability_set()?;
    started
}

/// Keeps what this process executes from having anything of the launcher's: a worker calls it first.
///
/// # Errors
/// The system's.
pub fn pass_nothing_on() -> io::Result<()> {
    let sets = capabilities(None)?;
    Ok(set_capabilities(None, CapabilitySets { inheritable: CapabilitySet::empty(), ..sets })?)
}
