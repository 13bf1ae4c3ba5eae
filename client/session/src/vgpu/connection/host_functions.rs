//! Functions of the program that run in stream order, and floe's own work that must. Work comes in with an id; when the
//! stream gets there, a thread runs it and reports its end to the server. Another thread reads memory in stream order,
//! and no function of the program holds it up. A link that ends drops work that has not run.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, OnceLock};

use floe_abi::{CudaError, CudaResult};
use floe_surface::{HostFunction, StreamCallback};
use floe_touch::HostFunctionContext;
use floe_transport::Sender;
use floe_wire::{FunctionId, HostFunctionDone, LateBytes};

use super::Shared;
use floe_lock::lock;

/// The work that runs when a stream gets there.
pub(crate) enum HostWork {
    /// `cuLaunchHostFunc`.
    Function(HostFunction),
    /// `cuStreamAddCallback`, which gets the stream's status.
    Callback(StreamCallback),
    /// floe's own.
    Own(Box<dyn FnOnce() + Send>),
    /// Bytes for the device, a piece at most, which are read now.
    Bytes(Box<dyn FnOnce() -> Vec<u8> + Send>),
}

impl std::fmt::Debug for HostWork {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Function(_) => "Function",
            Self::Callback(_) => "Callback",
            Self::Own(_) => "Own",
            Self::Bytes(_) => "Bytes",
        })
    }
}

impl HostWork {
    /// Whether it may write the program's memory.
    fn may_write(&self) -> bool {
        !matches!(self, Self::Bytes(_))
    }

    /// Whether it is a function of the program's.
    pub(crate) fn is_program(&self) -> bool {
        matches!(self, Self::Function(_) | Self::Callback(_))
    }

    /// Does it; returns the bytes it brings. Refused work reads nothing: the program may know of the refusal.
    fn run(self, status: CudaResult<()>) -> Option<Vec<u8>> {
        match self {
            // CUDA does not run host functions of a context in error, but callbacks it does.
            Self::Function(function) if status.is_ok() => function.call(),
            Self::Function(_) => {}
            Self::Callback(callback) => callback.call(status),
            Self::Own(work) => work(),
            Self::Bytes(read) if status.is_ok() => return Some(read()),
            Self::Bytes(_) => {}
        }
        None
    }
}

/// Work whose turn has come.
pub(super) struct Arrival {
    id: u64,
    work: HostWork,
    status: CudaResult<()>,
}

/// The host functions of one session.
#[derive(Debug)]
pub(super) struct HostFunctions {
    waiting: Mutex<HashMap<u64, HostWork>>,
    /// Those waiting and the ones running.
    busy: AtomicUsize,
    /// Those among them that may write the program's memory.
    writing: AtomicUsize,
    /// Functions of the program that are running.
    running: AtomicUsize,
    queues: Mutex<Option<Queues>>,
    /// What is done around each function of the program.
    around: OnceLock<Box<dyn Around>>,
}

/// What is done around each function of the program.
pub(crate) trait Around: std::fmt::Debug + Send + Sync {
    /// Ahead of it; returns what is to be known behind it.
    fn begins(&self) -> u64;
    /// Behind it, before its stream continues.
    fn is_over(&self, begun: u64);
}

/// The queues in which arrived work waits for its thread.
#[derive(Debug)]
struct Queues {
    functions: mpsc::Sender<Arrival>,
    sources: mpsc::Sender<Arrival>,
}

impl Queues {
    fn of(&self, work: &HostWork) -> &mpsc::Sender<Arrival> {
        if work.may_write() { &self.functions } else { &self.sources }
    }
}

/// The other ends of the queues.
#[derive(Debug)]
pub(super) struct Arrivals {
    functions: Receiver<Arrival>,
    sources: Receiver<Arrival>,
}

impl HostFunctions {
    pub(super) fn new() -> (Self, Arrivals) {
        let (functions, arriving_functions) = mpsc::channel();
        let (sources, arriving_sources) = mpsc::channel();
        let own = Self {
            waiting: Mutex::default(),
            busy: AtomicUsize::new(0),
            writing: AtomicUsize::new(0),
            running: AtomicUsize::new(0),
            queues: Mutex::new(Some(Queues { functions, sources })),
            around: OnceLock::new(),
        };
        (own, Arrivals { functions: arriving_functions, sources: arriving_sources })
    }

    /// Has this done around each function of the program. Said once.
    pub(super) fn around(&self, around: Box<dyn Around>) {
        let _ = self.around.set(around);
    }

    pub(super) fn add(&self, id: u64, work: HostWork) {
        self.busy.fetch_add(1, Ordering::AcqRel);
        self.writing.fetch_add(usize::from(work.may_write()), Ordering::AcqRel);
        lock(&self.waiting).insert(id, work);
    }

    pub(super) fn cancel(&self, id: u64) {
        if let Some(work) = lock(&self.waiting).remove(&id) {
            self.is_over(work.may_write());
        }
    }

    fn is_over(&self, could_write: bool) {
        self.writing.fetch_sub(usize::from(could_write), Ordering::AcqRel);
        self.busy.fetch_sub(1, Ordering::AcqRel);
    }

    /// Whether any may write the program's memory.
    pub(super) fn may_write(&self) -> bool {
        self.writing.load(Ordering::Acquire) != 0
    }

    /// Whether a function of the program is running.
    pub(super) fn is_running(&self) -> bool {
        self.running.load(Ordering::Acquire) != 0
    }

    pub(super) fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Acquire) != 0
    }

    /// A stream has reached this function; `false` where there is none such.
    pub(super) fn arrived(&self, id: u64, status: CudaResult<()>) -> bool {
        let Some(work) = lock(&self.waiting).remove(&id) else {
            return false;
        };
        // Without a queue the link is over, and nobody waits for the function.
        lock(&self.queues).as_ref().is_some_and(|queues| queues.of(&work).send(Arrival { id, work, status }).is_ok())
    }

    /// The server has abandoned work that has not arrived: it never will.
    pub(super) fn give_up(&self) {
        let never_run: Vec<_> = lock(&self.waiting).drain().collect();
        never_run.iter().for_each(|(_, work)| self.is_over(work.may_write()));
    }

    /// The link is over: nothing more will arrive, the threads end.
    pub(super) fn abandon(&self) {
        lock(&self.waiting).clear();
        *lock(&self.queues) = None;
    }
}

/// Starts the threads that run them: functions one after the other, as CUDA does.
pub(super) fn start(shared: &Arc<Shared>, sender: &Sender, arrivals: Arrivals) -> std::io::Result<()> {
    let thread = |name: &str, arrivals: Receiver<Arrival>| {
        let (shared, sender) = (Arc::clone(shared), sender.clone());
        let work = move || {
            for arrival in arrivals {
                if let HostWork::Own(_) = arrival.work {
                    aside(Arc::clone(&shared), sender.clone(), arrival);
                } else {
                    run(&shared, &sender, arrival);
                }
            }
        };
        std::thread::Builder::new().name(name.into()).spawn(work).map(drop)
    };
    thread("floe-host", arrivals.functions)?;
    thread("floe-late", arrivals.sources)
}

fn run(shared: &Shared, sender: &Sender, Arrival { id, work, status }: Arrival) {
    let (function, could_write) = (FunctionId(id), work.may_write());
    let context = work.is_program().then(HostFunctionContext::begin);
    shared.host.running.fetch_add(usize::from(context.is_some()), Ordering::AcqRel);
    let around = context.as_ref().and_then(|_| shared.host.around.get()).map(|around| (around, around.begins()));
    let bytes = work.run(status);
    if let Some((around, begun)) = around {
        around.is_over(begun);
    }
    shared.host.running.fetch_sub(usize::from(context.is_some()), Ordering::AcqRel);
    drop(context);
    shared.host.is_over(could_write);
    // Sent rather than posted: a stream stands still until the server knows. A link that is gone needs no telling.
    let _ = match bytes {
        Some(bytes) => sender.send(&LateBytes { function, bytes: &bytes }, |_| ()),
        None => sender.send(&HostFunctionDone { function }, |_| ()),
    };
}

/// Runs floe's own work in a thread of its own: it may wait for another stream, which may wait for a host function.
fn aside(shared: Arc<Shared>, sender: Sender, arrival: Arrival) {
    let told = Arc::clone(&shared);
    let spawned =
        std::thread::Builder::new().name("floe-wait".into()).spawn(move || run(&shared, &sender, arrival)).map(drop);
    if let Err(error) = spawned {
        // The work is lost with the closure, and its stream would stand still for ever.
        told.lose(CudaError::OPERATING_SYSTEM, &format!("no thread for work in stream order: {error}"));
    }
}
