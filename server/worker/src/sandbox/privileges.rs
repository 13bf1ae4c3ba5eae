//! Privileges, core dumps and other processes' look into this one.
//! In: nothing. Out: a process without capabilities that can gain none, cannot be traced and leaves no core.
//! It touches no file but `/proc/self/status`, which it reads.

use std::io;

use rustix::io::Errno;
use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};
use serde::{Deserialize, Serialize};

use super::reserved::{limit_descriptors, most_descriptors};

/// Drops all privileges that a worker never needs.
pub(super) fn give_up() -> io::Result<()> {
    set_no_new_privs(true)?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    limit_descriptors(most_descriptors())?;
    empty_bounding_set()?;
    // Kernels without ambient capabilities have none to clear.
    let _ = clear_ambient_capability_set();
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
    Ok(())
}

/// Takes every capability out of this thread's bounding set. Without CAP_SETPCAP the set stays as it is, and `no_new_privs`
/// alone keeps it from being used.
///
/// # Errors
/// When the kernel refuses it to a thread that has that capability.
pub fn empty_bounding_set() -> io::Result<()> {
    if !capabilities(None)?.effective.contains(CapabilitySet::SETPCAP) {
        return Ok(());
    }
    // Not only those with a name here: a newer kernel has more.
    for capability in (0..u64::BITS).map(|number| CapabilitySet::from_bits_retain(1 << number)) {
        match capability_is_in_bounding_set(capability) {
            Ok(true) => remove_capability_from_bounding_set(capability)?,
            Ok(false) => {}
            Err(Errno::INVAL) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// A process as `/proc/PID/status` shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// Whether it can gain no privileges.
    pub no_new_privs: bool,
    /// Whether a filter decides on its system calls.
    pub seccomp: bool,
    /// Its effective capabilities.
    pub capabilities: u64,
    /// Its bounding set.
    pub bounding: u64,
}

impl Standing {
    /// This process.
    #[must_use]
    pub fn read() -> Self {
        std::fs::read_to_string("/proc/self/status").map(|text| Self::of(&text)).unwrap_or_default()
    }

    fn of(status: &str) -> Self {
        let field = |name: &str| {
            status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim).unwrap_or("")
        };
        let mask = |name| u64::from_str_radix(field(name), 16).unwrap_or(u64::MAX);
        Self {
            no_new_privs: field("NoNewPrivs") == "1",
            seccomp: field("Seccomp") == "2",
            capabilities: mask("CapEff"),
            bounding: mask("CapBnd"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standing_is_read_from_the_kernels_words_and_unknown_is_unprotected() {
        let text = "Name:\tfloe\nCapEff:\t0000000000000000\nCapBnd:\t00000000000000ff\nNoNewPrivs:\t1\nSeccomp:\t2\n";
        let found = Standing::of(text);
        assert_eq!(found, Standing { no_new_privs: true, seccomp: true, capabilities: 0, bounding: 0xff });
        let unknown = Standing::of("");
        assert!(!unknown.no_new_privs && !unknown.seccomp && unknown.capabilities == u64::MAX);
    }
}
