//! Figures of one moment, as plain data: the daemon fills them in, the page shows them.

use std::time::Duration;

/// All figures of one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// The release.
    pub version: String,
    /// The protocol's version.
    pub protocol: u32,
    /// The GPUs that are offered.
    pub gpus: Vec<GpuFigures>,
    /// The most sessions at once.
    pub session_limit: u64,
    /// Workers: one per session, two while it moves.
    pub workers: u64,
    /// The daemon's process.
    pub process: Process,
}

/// A GPU.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GpuFigures {
    /// Its index.
    pub index: u32,
    /// Its id, as NVIDIA writes it.
    pub uuid: String,
    /// Its name.
    pub name: String,
    /// Its memory in bytes.
    pub memory: u64,
    /// Bytes that its sessions use.
    pub used: u64,
    /// Bytes that are free for sessions.
    pub free: u64,
    /// Its sessions by transport, each transport once.
    pub sessions: Vec<(&'static str, u64)>,
    /// Its sessions by state.
    pub states: SessionFigures,
    /// How its time is divided.
    pub turns: TurnFigures,
    /// What its sessions' links have carried.
    pub links: LinkFigures,
    /// How busy it is, in percent; `None` if it does not say, as with what follows.
    pub utilization: Option<u64>,
    /// How busy its memory is, in percent.
    pub memory_utilization: Option<u64>,
    /// Its temperature in degrees Celsius.
    pub temperature: Option<u64>,
    /// Its power in milliwatts.
    pub power: Option<u64>,
}

/// How the time of a GPU is divided among its sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TurnFigures {
    /// Thousandths that sessions were promised.
    pub promised: u32,
    /// Time for which turns were taken.
    pub scheduled: Duration,
    /// Time of it for which a session had the GPU.
    pub had: Duration,
    /// Turns that were given.
    pub given: u64,
}

/// What the links of a GPU's sessions have carried, also of those that have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkFigures {
    /// Bytes from clients.
    pub received: u64,
    /// Bytes to clients.
    pub sent: u64,
    /// Requests that were answered.
    pub waits: u64,
}

/// Sessions of a GPU by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionFigures {
    /// They wait in host memory, and had this GPU before.
    pub suspended: u64,
    /// They wait for their client to reconnect.
    pub waiting: u64,
    /// They move.
    pub moving: u64,
}

/// A process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// Its open descriptors; `None` if the system does not say, as with what follows.
    pub descriptors: Option<u64>,
    /// The most that it may have.
    pub descriptor_limit: Option<u64>,
    /// Its threads.
    pub threads: Option<u64>,
}

impl Process {
    /// The figures of this process.
    #[must_use]
    pub fn own() -> Self {
        Self {
            // One of them is this look's own.
            descriptors: entries("/proc/self/fd").map(|count| count.saturating_sub(1)),
            descriptor_limit: rustix::process::getrlimit(rustix::process::Resource::Nofile).current,
            threads: entries("/proc/self/task"),
        }
    }
}

fn entries(folder: &str) -> Option<u64> {
    let entries = std::fs::read_dir(folder).ok()?;
    u64::try_from(entries.count()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_descriptors_within_its_limit_and_threads() {
        let own = Process::own();
        assert!(own.descriptors.expect("there is /proc") > 0);
        assert!(own.descriptor_limit.is_none_or(|most| own.descriptors.expect("as above") <= most));
        assert!(own.threads.expect("as above") >= 1);
    }
}
