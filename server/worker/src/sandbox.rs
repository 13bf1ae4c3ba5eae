//! The sandbox: a worker whose driver was taken over harms nobody but its own session.
//! In: the session's device library and how much the operator demands. Out: this process without what it does not need, and a
//! list of what the kernel could not take from it.
//! It begins while the process has one thread and has read nothing of the client. It ends when the driver has started;
//! what it takes away never comes back.

mod calls;
mod files;
mod privileges;
mod reserved;

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

pub use privileges::{Standing, empty_bounding_set};
pub(crate) use reserved::is_scarce;
pub use reserved::{Reserved, reserve};

/// The parts of the sandbox that the operator demands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Demand {
    /// None of it.
    Off,
    /// The parts that this kernel has.
    #[default]
    Usual,
    /// All of it, or no session.
    Required,
}

/// Why a worker has no sandbox and therefore no session.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The operator demands what the kernel does not have.
    #[error("the sandbox is required and incomplete: {}\n  a newer kernel has it, or leave --require-sandbox away", .0.join("; "))]
    Incomplete(Vec<String>),
    /// The kernel refuses a step that every kernel has.
    #[error("{what}: {source}")]
    Step {
        /// The step.
        what: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
}

/// The protection in force, as `floe-worker --check-sandbox` prints it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Protection {
    /// Landlock's version that is in force; 0: none.
    pub landlock: u32,
    /// The privileges that `/proc/self/status` shows.
    pub standing: Standing,
    /// The protections that the kernel lacks, in words; empty: none.
    pub missing: Vec<String>,
}

/// Takes what only a driver's start needs, from every thread there is: before the client's first command. From then on
/// `sendmsg` takes the reserved descriptor's number only, and only this process's own memory gives pages back.
///
/// # Errors
/// [`SandboxError`] when the operator demands it and the kernel refuses.
pub fn close_behind_start(demand: Demand, reserved: Option<&Reserved>) -> Result<Vec<String>, SandboxError> {
    let refused = match demand {
        Demand::Off => Ok(()),
        Demand::Usual | Demand::Required => {
            own_memory().and_then(|own| calls::restrict_further(reserved.map(Reserved::number), &own))
        }
    };
    let missing = refused.err().map(|words| format!("seccomp leaves sockets to be made: {words}"));
    accept(missing.into_iter().collect(), demand)
}

/// Files in memory that are this process's alone, and that give pages back to the system: what kernels print, and the CPU
/// device's memory.
const OWN_MEMORY: [&str; 3] = ["/memfd:floe-output-1", "/memfd:floe-output-2", "/memfd:floe-device"];

/// Their numbers.
fn own_memory() -> Result<Vec<u32>, String> {
    let folder = format!("/proc/{}/fd", std::process::id());
    let entries = std::fs::read_dir(&folder).map_err(|error| format!("listing {folder}: {error}"))?;
    let own = entries.filter_map(|entry| {
        let entry = entry.ok()?;
        let file = std::fs::read_link(entry.path()).ok()?;
        let name = file.to_str()?.trim_end_matches(" (deleted)");
        OWN_MEMORY.contains(&name).then(|| entry.file_name().to_str()?.parse().ok())?
    });
    Ok(own.collect())
}

/// Returns the missing protections, or an error where the operator demands all of them.
fn accept(missing: Vec<String>, demand: Demand) -> Result<Vec<String>, SandboxError> {
    match demand {
        Demand::Required if !missing.is_empty() => Err(SandboxError::Incomplete(missing)),
        Demand::Off | Demand::Usual | Demand::Required => Ok(missing),
    }
}

/// Takes everything from this process that a session on this library, with these others if there are any, does not need.
///
/// # Errors
/// [`SandboxError`] when the operator demands more than the kernel has, or a step fails that cannot.
pub fn enter(library: &Path, others: &[&Path], demand: Demand) -> Result<Protection, SandboxError> {
    if demand == Demand::Off {
        return Ok(Protection { landlock: 0, standing: Standing::read(), missing: Vec::new() });
    }
    let step = |what| move |source| SandboxError::Step { what, source };
    let mut missing = Vec::new();
    privileges::give_up().map_err(step("giving up privileges"))?;
    let landlock = match files::restrict(library, others) {
        Ok(version) => version,
        Err(words) => {
            missing.push(format!("Landlock does not protect files and sockets: {words}"));
            0
        }
    };
    if let Err(words) = calls::restrict() {
        missing.push(format!("seccomp does not restrict system calls: {words}"));
    }
    let missing = accept(missing, demand)?;
    Ok(Protection { landlock, standing: Standing::read(), missing })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_part_refuses_the_session_only_where_all_are_required() {
        let missing = || vec!["Landlock".to_owned(), "seccomp".to_owned()];
        for demand in [Demand::Off, Demand::Usual] {
            assert_eq!(accept(missing(), demand).ok(), Some(missing()));
        }
        let refused = accept(missing(), Demand::Required);
        assert!(matches!(refused, Err(SandboxError::Incomplete(words)) if words == missing()));
        assert_eq!(accept(Vec::new(), Demand::Required).ok(), Some(Vec::new()));
    }
}
