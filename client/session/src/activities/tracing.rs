//! The trace of this process while it runs: begun before its devices are there, written by a thread, whole when it ends.
//! In: the file that was asked for, the devices, the counters. Out: the [`Trace`](crate::trace::Trace) has all of it.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use floe_abi::{CudaError, CudaResult};
use floe_lock::lock;

use super::{Activities, clock};
use crate::log::log;
use crate::trace::Over;
use crate::vgpu::Vgpu;
use crate::vgpu::statistics::Statistics;

/// Looks at the counters for one at what devices did.
const TICKS_PER_LOOK: u32 = 10;

/// What the thread that writes a trace needs.
#[derive(Debug)]
struct Traced {
    activities: Arc<Activities>,
    vgpus: Vec<Arc<Vgpu>>,
    statistics: Arc<Statistics>,
}

/// A process that is traced.
#[derive(Debug)]
pub(crate) struct Tracing {
    traced: Arc<Traced>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// Opens the file, if one was asked for. Returns when that was.
///
/// # Errors
/// Where the file cannot be made: who asked for a trace would wait for it in vain.
pub(crate) fn begin(activities: &Activities, path: Option<&Path>) -> CudaResult<u64> {
    let now = clock::now();
    let Some(path) = path else { return Ok(now) };
    let program = std::env::current_exe().unwrap_or_default();
    let program = program.file_name().unwrap_or_default().to_string_lossy();
    activities.trace.begin(path, &program, now).map_err(|error| {
        log!(Error, "the trace cannot be written: {error}");
        CudaError::INVALID_VALUE
    })?;
    activities.want_trace();
    Ok(now)
}

impl Tracing {
    /// Begins to write, where this process is traced: the devices are there since they were asked for at `asked`.
    pub(crate) fn start(
        activities: &Arc<Activities>,
        vgpus: Vec<Arc<Vgpu>>,
        statistics: &Arc<Statistics>,
        asked: u64,
    ) -> Option<Self> {
        if !activities.is_traced() {
            return None;
        }
        activities.trace.has_devices(vgpus.iter().map(|vgpu| vgpu.snapshot.name.to_string()).collect());
        let attaching = Over { name: "attach", begin: asked, end: clock::now(), number: 0, answer: 0, works: false };
        activities.trace.call(&attaching);
        let traced = Arc::new(Traced { activities: Arc::clone(activities), vgpus, statistics: Arc::clone(statistics) });
        let own = Arc::clone(&traced);
        let started = std::thread::Builder::new().name("floe-trace".into()).spawn(move || own.write());
        let thread = started.inspect_err(|error| log!(Warn, "no thread writes the trace before the end: {error}")).ok();
        Some(Self { traced, thread: Mutex::new(thread) })
    }

    /// Writes the rest. The program's calls are over, and its links still there.
    pub(crate) fn end(&self) {
        let Traced { activities, vgpus, .. } = &*self.traced;
        activities.trace.stop();
        if let Some(thread) = lock(&self.thread).take() {
            // It does not panic; if it did, the rest is written all the same.
            let _ = thread.join();
        }
        activities.take_for_trace(vgpus, true);
        self.traced.tick();
        if let Some(words) = activities.trace.close(activities.lost()) {
            log!(Error, "{words}");
        }
    }
}

impl Traced {
    fn write(&self) {
        for tick in 1_u32.. {
            if !self.activities.trace.rests() {
                return;
            }
            self.tick();
            if tick.is_multiple_of(TICKS_PER_LOOK) {
                self.activities.take_for_trace(&self.vgpus, false);
            }
        }
    }

    fn tick(&self) {
        self.activities.trace.tick(clock::now(), &self.statistics.snapshot());
    }
}
