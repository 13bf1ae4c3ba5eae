//! The launcher's rights.
//! In: root, or a process that has [`NEEDED`]. Out: the daemon's user with these capabilities only, which can gain none.

use std::io;

use nix::unistd::{Gid, Uid, setgroups, setresgid, setresuid};
use rustix::process::{DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set, set_capabilities, set_keep_capabilities,
    set_no_new_privs,
};

/// To become a worker's user and group, and to kill it afterwards.
pub const NEEDED: CapabilitySet = CapabilitySet::SETUID.union(CapabilitySet::SETGID).union(CapabilitySet::KILL);

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
    let sets = CapabilitySets { effective: NEEDED, permitted: NEEDED, inheritable: CapabilitySet::empty() };
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
