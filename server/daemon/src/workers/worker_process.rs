//! Starts one session's process.
//! In: the admission, and the worker's end of its channel. Out: the process, with pipes for its reports and log lines.
//! It follows no worker: `supervision` does.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use floe_settings::{CPU_DEVICE, Setting};
use floe_worker::STANDS_VARIABLE;
use floe_worker::contract::{Arrival, Asks, Demand, TASK_VARIABLE, Task};

use super::groups::Limited;
use super::launcher::Launcher;
use super::launcher::leases::Lease;
use super::mps::Mps;
use super::supervision::{Process, Worker};
use crate::error::DaemonError;
use crate::usage::sessions::Conditions;

/// The settings that all workers of a daemon share.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WorkerSettings<'a> {
    /// The executable.
    pub(crate) worker: &'a Path,
    /// The device library.
    pub(crate) library: &'a str,
    /// The NCCL that it may load.
    pub(crate) nccl: Option<&'a Path>,
    /// The CUPTI that it may load.
    pub(crate) cupti: Option<&'a Path>,
    /// The most bytes of host memory a session may share.
    pub(crate) shared_memory: u64,
    /// The most bytes of host memory a session may have mirrored.
    pub(crate) mirrored_memory: u64,
    /// Bytes of pinned memory for its data in flight.
    pub(crate) transport_memory: u64,
    /// The longest silence of its client; zero: no limit.
    pub(crate) idle_limit: Duration,
    /// Bytes of host memory a worker may have; 0: all there is.
    pub(crate) host_memory: u64,
    /// How much of the sandbox the operator requires.
    pub(crate) sandbox: Demand,
    /// Whether addresses are the same in every worker.
    pub(crate) fixed_addresses: bool,
    /// MPS, where workers of a GPU compute side by side.
    pub(crate) mps: Option<&'a Mps>,
    /// The launcher, where workers run as users of their own.
    pub(crate) launcher: Option<&'a Launcher>,
}

/// The daemon's variables that a worker gets: paths of libraries, the operator's choice of devices, how long threads
/// spin. Those of the CPU device are added. None names a secret or a home folder.
const INHERITED: [&str; 7] = [
    "LD_LIBRARY_PATH",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "NVIDIA_VISIBLE_DEVICES",
    "FLOE_SPIN",
    "FLOE_TRACE",
    // Tests only.
    STANDS_VARIABLE,
];

/// Host memory of a worker that keeps a suspended session, beside that session.
const KEEPER: u64 = 512 << 20;

/// NVIDIA's driver keeps no compiled code on disk: tenants would share it, and no worker may write.
const NO_COMPILER_CACHE: (&str, &str) = ("CUDA_CACHE_DISABLE", "1");

/// The session that a worker is started for, and the GPU.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Posting<'a> {
    pub(crate) session: u64,
    /// The GPU's index in the device library.
    pub(crate) gpu: i32,
    /// What CUDA is to show the worker alone; the GPU is its device 0 then.
    pub(crate) alone: Option<&'a str>,
    /// Granularity of its physical memory in bytes.
    pub(crate) granularity: u64,
    /// Whether the worker must ask before it takes device memory.
    pub(crate) asks: Asks,
    pub(crate) conditions: &'a Conditions,
    /// Whether it may be of one of NCCL's nodes with others.
    pub(crate) nodes: bool,
    /// The limits that it shares with its user's others.
    pub(crate) limited: Option<Limited<'a>>,
    /// The move by which the session comes to it.
    pub(crate) arrives: Option<Arrival>,
}

/// Starts the worker, which gets its connections at `worker_end`, its stdin. With a launcher it runs as `lease` says.
///
/// The calling thread must live as long as the worker. The worker asks the kernel to be killed when its parent ends,
/// and the kernel takes the thread for the parent.
pub(crate) fn start(
    place: &WorkerSettings<'_>,
    posting: &Posting<'_>,
    lease: Option<Lease>,
    worker_end: OwnedFd,
) -> Result<Worker, DaemonError> {
    let failed = |source| DaemonError::Worker { path: place.worker.to_path_buf(), source };
    let task = serde_json::to_string(&task(place, posting)).map_err(|error| failed(error.into()))?;
    let environment = environment(place, posting, task);
    let process = match place.launcher.zip(lease) {
        Some((launcher, lease)) => Process::Launched(launcher.launch(lease, environment, worker_end)?),
        None => {
            let mut command = Command::new(place.worker);
            command.env_clear().envs(environment).current_dir("/");
            command.stdin(Stdio::from(worker_end)).stdout(Stdio::piped()).stderr(Stdio::piped());
            Process::Own(command.spawn().map_err(failed)?)
        }
    };
    let worker = Worker::of(process, place.mps.map(Mps::control))?;
    // Nobody has given it a connection yet, so nobody else's work has run in it.
    match posting.limited {
        Some(limited) => worker.within(limited),
        None => Ok(worker),
    }
}

/// What a worker is told of its session.
fn task(place: &WorkerSettings<'_>, posting: &Posting<'_>) -> Task {
    let conditions = posting.conditions;
    Task {
        session: posting.session,
        library: place.library.to_owned(),
        nccl: place.nccl.and_then(Path::to_str).map(str::to_owned),
        nodes: posting.nodes,
        counts: true,
        cupti: place.cupti.and_then(Path::to_str).map(str::to_owned),
        gpu: posting.gpu,
        alone: posting.alone.is_some(),
        ordinal: conditions.ordinal,
        memory: conditions.quota,
        granularity: posting.granularity,
        asks: posting.asks,
        // What is kept is limited by itself.
        host_memory: match posting.arrives.and_then(|arrival| arrival.keeps) {
            Some(kept) => kept.saturating_add(KEEPER),
            None => place.host_memory,
        },
        shared_memory: place.shared_memory,
        mirrored_memory: place.mirrored_memory,
        transport_memory: place.transport_memory,
        transport: conditions.transport,
        grace_ms: conditions.grace_ms,
        idle_ms: u64::try_from(place.idle_limit.as_millis()).unwrap_or(u64::MAX),
        bulk_connections: conditions.bulk_connections,
        client: conditions.client,
        sandbox: place.sandbox,
        fixed_addresses: place.fixed_addresses,
        mps: place.mps.is_some(),
        ceiling: conditions.ceiling,
        arrives: posting.arrives,
    }
}

/// All of a worker's environment. Of a name that comes twice the last value counts.
fn environment(place: &WorkerSettings<'_>, posting: &Posting<'_>, task: String) -> Vec<(OsString, OsString)> {
    let conditions = posting.conditions;
    let of_cpu_device = CPU_DEVICE.settings.iter().filter_map(Setting::variable);
    let inherited = INHERITED.into_iter().chain(of_cpu_device).filter_map(|name| Some((name, std::env::var_os(name)?)));
    let of_mps = place.mps.map(|mps| mps.variables(conditions.terms)).unwrap_or_default();
    // The CPU device logs refusals at once. Its lines go to the client, which decides when to print them.
    let log = ("FLOE_LOG", std::env::var_os("FLOE_LOG").unwrap_or_else(|| "warn".into()));
    let of_client = conditions.settings.iter().map(|(name, value)| (name.into(), value.into()));
    let ours = |(name, value): (&str, OsString)| (OsString::from(name), value);
    let (no_cache, value) = NO_COMPILER_CACHE;
    let alone = posting.alone.map(|alone| ("CUDA_VISIBLE_DEVICES", alone.into()));
    let last = [(no_cache, value.into())].into_iter().chain(alone).chain(of_mps).chain([(TASK_VARIABLE, task.into())]);
    inherited.chain([log]).map(ours).chain(of_client).chain(last.map(ours)).collect()
}
