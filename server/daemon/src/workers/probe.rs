//! The list of devices. A worker process reads it, because the daemon itself never loads CUDA.
//! In: the worker's executable, the library's name. Out: the devices, or the worker's reason why there are none; and a
//! device in a client's form.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use floe_device::{Probe, Snapshot};
use floe_wire::{Attribute, DeviceSnapshot, Limit};

use crate::error::DaemonError;

/// Runs one probe, as this user and group or as this process's.
pub(crate) fn probe(worker: &Path, library: &str, user: Option<u32>) -> Result<Probe, DaemonError> {
    let failed = |reason: String| DaemonError::Probe { library: library.to_owned(), reason };
    let mut command = Command::new(worker);
    if let Some(user) = user {
        command.uid(user).gid(user);
    }
    let output = command
        .args(["--probe", library])
        .stdin(Stdio::null())
        .output()
        .map_err(|source| DaemonError::Worker { path: worker.to_path_buf(), source })?;
    let words = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if !output.status.success() {
        return Err(failed(if words.is_empty() { output.status.to_string() } else { words }));
    }
    if !words.is_empty() {
        crate::warn(format_args!("{words}"));
    }
    let probe: Probe = serde_json::from_slice(&output.stdout).map_err(|error| failed(error.to_string()))?;
    if probe.gpus.is_empty() {
        return Err(failed("it has no devices".to_owned()));
    }
    Ok(probe)
}

/// A device as its client gets it: `memory` is the total, or the session's quota.
pub(crate) fn told<'a>(gpu: &'a Snapshot, probe: &Probe, memory: u64) -> DeviceSnapshot<'a> {
    DeviceSnapshot {
        name: &gpu.name,
        uuid: &gpu.uuid,
        pci_bus: &gpu.pci_bus,
        memory,
        driver: probe.driver,
        attributes: gpu.attributes.iter().map(|&(number, value)| Attribute { number, value }).collect(),
        limits: gpu.limits.iter().map(|&(number, value)| Limit { number, value }).collect(),
        priority_least: gpu.priorities.0,
        priority_greatest: gpu.priorities.1,
        granularity: gpu.granularity,
        code: probe.code(),
        fabric: gpu.fabric,
    }
}
