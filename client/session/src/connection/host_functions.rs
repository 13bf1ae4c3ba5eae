//! Functions of the program that run in stream order, and floe's own work that must. Work comes in with an id, the server
//! says when its turn has come, a thread runs it and tells the server when it is done. A link that ends drops what has not
//! run.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};

use floe_abi::{CudaError, CudaResult};
use floe_surface::{HostFunction, StreamCallback};
use floe_transport::Sender;
use floe_wire::{FunctionId, HostFunctionDone};

use super::Shared;
use crate::table::lock;

/// What runs when a stream gets there.
pub(crate) enum HostWork {
    /// `cuLaunchHostFunc`.
    Function(HostFunction),
    /// `cuStreamAddCallback`, which is told the stream's status.
    Callback(StreamCallback),
    /// floe's own.
    Own(Box<dyn FnOnce() + Send>),
}

impl std::fmt::Debug for HostWork {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Function(_) => "Function",
            Self::Callback(_) => "Callback",
            Self::Own(_) => "Own",
        })
    }
}

impl HostWork {
    fn run(self, status: CudaResult<()>) {
        match self {
            // CUDA does not run host functions of a context in error, but callbacks it does.
            Self::Function(function) if status.is_ok() => function.call(),
            Self::Function(_) => {}
            Self::Callback(callback) => callback.call(status),
            Self::Own(work) => work(),
        }
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
    /// Those waiting and the one running.
    busy: AtomicUsize,
    queue: Mutex<Option<mpsc::Sender<Arrival>>>,
}

impl HostFunctions {
    pub(super) fn new(queue: mpsc::Sender<Arrival>) -> Self {
        Self { waiting: Mutex::default(), busy: AtomicUsize::new(0), queue: Mutex::new(Some(queue)) }
    }

    pub(super) fn add(&self, id: u64, work: HostWork) {
        self.busy.fetch_add(1, Ordering::AcqRel);
        lock(&self.waiting).insert(id, work);
    }

    pub(super) fn cancel(&self, id: u64) {
        if lock(&self.waiting).remove(&id).is_some() {
            self.busy.fetch_sub(1, Ordering::AcqRel);
        }
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
        lock(&self.queue).as_ref().is_some_and(|queue| queue.send(Arrival { id, work, status }).is_ok())
    }

    /// The server has given up what has not arrived: it never will.
    pub(super) fn give_up(&self) {
        let never_run: Vec<_> = lock(&self.waiting).drain().collect();
        self.busy.fetch_sub(never_run.len(), Ordering::AcqRel);
    }

    /// The link is over: nothing more will arrive, the thread ends.
    pub(super) fn abandon(&self) {
        lock(&self.waiting).clear();
        *lock(&self.queue) = None;
    }
}

/// Starts the thread that runs them, one after the other as CUDA does.
pub(super) fn start(shared: Arc<Shared>, sender: Sender, arrivals: Receiver<Arrival>) -> std::io::Result<()> {
    std::thread::Builder::new()
        .name("floe-host".into())
        .spawn(move || {
            for arrival in arrivals {
                let (shared, sender) = (Arc::clone(&shared), sender.clone());
                if let HostWork::Own(_) = arrival.work {
                    aside(shared, sender, arrival);
                } else {
                    run(&shared, &sender, arrival);
                }
            }
        })
        .map(drop)
}

fn run(shared: &Shared, sender: &Sender, Arrival { id, work, status }: Arrival) {
    work.run(status);
    shared.host.busy.fetch_sub(1, Ordering::AcqRel);
    // Sent rather than posted: a stream stands still until the server knows. A link that is gone needs no telling.
    let _ = sender.send(&HostFunctionDone { function: FunctionId(id) }, |_| ());
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
