//! How one session's process is started.
//! In: the admission, and the worker's end of the way to hand it connections. Out: the process, with pipes for what it
//! reports and says. It follows no worker: `supervision` does.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use floe_settings::{CPU_DEVICE, Setting};
use floe_worker::contract::{Demand, TASK_VARIABLE, Task};

use super::supervision::Worker;
use crate::error::DaemonError;
use crate::usage::sessions::Admission;

/// What all workers of a daemon are started with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    /// The executable.
    pub(crate) worker: &'a Path,
    /// The library that is the device.
    pub(crate) library: &'a str,
    /// The most bytes of host memory a session may share.
    pub(crate) shared_memory: u64,
    /// Bytes of pinned memory for its data on their way.
    pub(crate) transport_memory: u64,
    /// For how long its client may send nothing; zero: for ever.
    pub(crate) idle_limit: Duration,
    /// Bytes of host memory a worker may have; 0: all there is.
    pub(crate) host_memory: u64,
    /// How much of the sandbox the operator demands.
    pub(crate) sandbox: Demand,
    /// Whether addresses are the same in every worker.
    pub(crate) fixed_addresses: bool,
}

/// The daemon's variables that a worker gets: where libraries are, which devices the operator shows, how long
/// threads spin; those of the CPU device come beside them. Nothing that names a secret or a home.
const INHERITED: [&str; 6] = [
    "LD_LIBRARY_PATH",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "NVIDIA_VISIBLE_DEVICES",
    "FLOE_SPIN",
    "FLOE_TRACE",
];

/// NVIDIA's driver keeps no compiled code on disk: one tenant's would be another's, and no worker may write.
const NO_COMPILER_CACHE: (&str, &str) = ("CUDA_CACHE_DISABLE", "1");

/// Starts the worker, which is handed its connections at `worker_end`, its stdin.
///
/// The thread that calls this must live as long as the worker: the worker asks the kernel to be killed when its parent
/// ends, and the kernel means the thread.
pub(crate) fn start(place: &Place<'_>, admission: &Admission, worker_end: OwnedFd) -> Result<Worker, DaemonError> {
    let task = Task {
        session: admission.session,
        library: place.library.to_owned(),
        gpu: admission.gpu,
        ordinal: admission.ordinal,
        memory: admission.quota,
        granularity: admission.granularity,
        asks_for_memory: admission.asks_for_memory,
        host_memory: place.host_memory,
        shared_memory: place.shared_memory,
        transport_memory: place.transport_memory,
        transport: admission.transport,
        grace_ms: admission.grace_ms,
        idle_ms: u64::try_from(place.idle_limit.as_millis()).unwrap_or(u64::MAX),
        bulk_connections: admission.bulk_connections,
        client: admission.client,
        sandbox: place.sandbox,
        fixed_addresses: place.fixed_addresses,
    };
    let failed = |source| DaemonError::Worker { path: place.worker.to_path_buf(), source };
    let task = serde_json::to_string(&task).map_err(|error| failed(error.into()))?;
    let of_cpu_device = CPU_DEVICE.settings.iter().filter_map(Setting::variable);
    let inherited = INHERITED.into_iter().chain(of_cpu_device).filter_map(|name| Some((name, std::env::var_os(name)?)));
    let child = Command::new(place.worker)
        .env_clear()
        .envs(inherited)
        // The CPU device says at once what it refuses: its words go to the client, which knows when to tell them.
        .env("FLOE_LOG", std::env::var_os("FLOE_LOG").unwrap_or_else(|| "warn".into()))
        .envs(admission.settings.iter().map(|(name, value)| (name, value)))
        .envs([NO_COMPILER_CACHE])
        .env(TASK_VARIABLE, task)
        .current_dir("/")
        .stdin(Stdio::from(worker_end))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    Worker::of(child)
}
