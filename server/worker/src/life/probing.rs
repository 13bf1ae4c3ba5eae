//! A look at the GPUs of a library, for the daemon.
//! In: the library's name, the operator's `CUDA_VISIBLE_DEVICES`. Out: what its GPUs are. Instances of divided GPUs are looked at by
//! a process each, since CUDA shows a process one at most.

use std::ffi::OsStr;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, anyhow, ensure};
use floe_device::Probe;

/// Which GPUs CUDA shows a process.
const VISIBLE: &str = "CUDA_VISIBLE_DEVICES";
/// What makes a process look at what it is shown itself.
pub(crate) const ONE: &str = "--probe-one";
/// The most processes that look at once: each takes memory and some time of a processor.
const AT_ONCE: usize = 8;

/// Looks at all GPUs.
pub(crate) fn probe(library: &str) -> Result<Probe> {
    // Before a driver is loaded, which may change it. An entry that is no text names nothing.
    let visible = std::env::var_os(VISIBLE);
    let probe = floe_device::probe(library)?;
    // A CPU device is not divided, and needs no library of NVIDIA's.
    if probe.kind == "cpu" {
        return Ok(probe);
    }
    let mut seen = Vec::new();
    for some in floe_device::shown_alone(visible.as_deref().map(OsStr::to_string_lossy).as_deref()).chunks(AT_ONCE) {
        let probes: Vec<Result<Probe>> = std::thread::scope(|scope| {
            let looks: Vec<_> = some.iter().map(|one| scope.spawn(|| alone(&probe.library, one))).collect();
            looks.into_iter().map(|look| look.join().map_err(|_| anyhow!("the look has panicked"))?).collect()
        });
        for (one, probe) in some.iter().zip(probes) {
            seen.push((one.clone(), probe.with_context(|| format!("looking at {one}"))?));
        }
    }
    if seen.is_empty() {
        return Ok(probe);
    }
    Probe::of_alone(seen).map_err(|one| anyhow!("CUDA does not show one GPU alone: {one}"))
}

fn alone(library: &str, one: &str) -> Result<Probe> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args([ONE, library]).env(VISIBLE, one).stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = command.output()?;
    ensure!(output.status.success(), "{}", output.status);
    Ok(serde_json::from_slice(&output.stdout)?)
}
