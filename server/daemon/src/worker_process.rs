//! One session's process, from its start to its end.
//! In: the admission, and the worker's end of the way to hand it connections. Out: what the worker reports, line by line,
//! and its end.

use std::io::{BufRead as _, BufReader};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use floe_worker::contract::{CachePlace, Report, TASK_VARIABLE, Task};

use crate::error::DaemonError;
use crate::sessions::Admission;

/// What all workers of a daemon are started with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    /// The executable.
    pub(crate) worker: &'a Path,
    /// The library that is the device.
    pub(crate) library: &'a str,
    pub(crate) cache: Option<&'a CachePlace>,
    /// The most bytes of host memory a session may share.
    pub(crate) shared_memory: u64,
    /// Bytes of pinned memory for its data on their way.
    pub(crate) transport_memory: u64,
}

/// Starts the worker, which is handed its connections at `door`, its stdin.
///
/// The thread that calls this must live as long as the worker: the worker asks the kernel to be killed when its parent
/// ends, and the kernel means the thread.
pub(crate) fn start(place: &Place<'_>, admission: &Admission, door: OwnedFd) -> Result<Child, DaemonError> {
    let task = Task {
        session: admission.session,
        library: place.library.to_owned(),
        gpu: admission.gpu,
        ordinal: admission.ordinal,
        memory: admission.memory,
        granularity: admission.granularity,
        shared_memory: place.shared_memory,
        transport_memory: place.transport_memory,
        rings: admission.rings,
        grace_ms: admission.grace_ms,
        bulk_connections: admission.bulk_connections,
        client: admission.client,
        cache: place.cache.cloned(),
    };
    let failed = |source| DaemonError::Worker { path: place.worker.to_path_buf(), source };
    let task = serde_json::to_string(&task).map_err(|error| failed(error.into()))?;
    Command::new(place.worker)
        .env(TASK_VARIABLE, task)
        .envs(admission.settings.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::from(door))
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)
}

/// Hands on the worker's reports until it closes them, then waits for its end. Returns why it ended when that was not the
/// client's going away.
pub(crate) fn follow(mut worker: Child, mut report: impl FnMut(Report)) -> Option<String> {
    let mut end = None;
    if let Some(reports) = worker.stdout.take() {
        for line in BufReader::new(reports).lines().map_while(Result::ok) {
            match serde_json::from_str::<Report>(&line) {
                Ok(Report::Ended(why)) => end = Some(why),
                Ok(other) => report(other),
                Err(error) => crate::log(format_args!("a worker's report is none ({error}): {line}")),
            }
        }
    }
    match worker.wait() {
        Ok(status) if status.success() => None,
        Ok(status) => Some(end.unwrap_or_else(|| status.to_string())),
        Err(error) => Some(format!("not known: {error}")),
    }
}
