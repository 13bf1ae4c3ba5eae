//! Watched ranges and their fault handlers. Ranges come in and leave. A page fault at a watched address goes into the
//! queue of a thread that asks the handler; whether the faulting thread may retry comes out. It knows nothing of
//! signals and starts no thread.

use std::collections::BTreeMap;
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::queue::{FaultQueue, QueuedFault};

/// A touch of a page that is closed to the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageFault {
    /// The address touched.
    pub address: u64,
    /// Whether the thread writes; true where the processor does not say.
    pub writes: bool,
    /// Whether a stream waits for this thread's host function: then the handler may not wait for that stream.
    pub in_host_function: bool,
}

/// Answers page faults by opening pages.
pub trait FaultHandler: Send + Sync {
    /// A thread sleeps at a page that was closed when it touched it. True: it may retry. False: the program gets the
    /// fault.
    fn handle(&self, fault: PageFault) -> bool;
}

/// The calling thread runs a host function, which a stream waits for, until this is dropped.
#[derive(Debug)]
pub struct HostFunctionContext {
    own: Option<&'static AtomicU32>,
}

/// A watched range as the signal handler finds it. Never freed.
struct Watched {
    start: AtomicU64,
    /// 0: the entry is free.
    end: AtomicU64,
    next: *const Watched,
}

// SAFETY: `next` is written before the range is published, and points to an entry that is never freed.
unsafe impl Sync for Watched {}

/// The first watched range.
static FIRST: AtomicPtr<Watched> = AtomicPtr::new(ptr::null_mut());
/// Threads that run host functions; 0 where an entry is free.
static IN_HOST_FUNCTION: [AtomicU32; 64] = [const { AtomicU32::new(0) }; 64];
pub(crate) static FAULTS: FaultQueue = FaultQueue::new();
pub(crate) static FAULTS_IN_HOST_FUNCTIONS: FaultQueue = FaultQueue::new();

/// By first address: the range's end and its handler.
type Handlers = BTreeMap<u64, (u64, Arc<dyn FaultHandler>)>;

fn handlers() -> MutexGuard<'static, Handlers> {
    static HANDLERS: Mutex<Handlers> = Mutex::new(BTreeMap::new());
    HANDLERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds a range with its handler. False if it is empty, or if one of its addresses is watched already.
pub(crate) fn add(addresses: &Range<u64>, handler: Arc<dyn FaultHandler>) -> bool {
    let mut handlers = handlers();
    if addresses.is_empty() || is_taken(&handlers, addresses) {
        return false;
    }
    handlers.insert(addresses.start, (addresses.end, handler));
    publish(addresses);
    true
}

/// Removes a range that was added.
pub(crate) fn remove(addresses: &Range<u64>) {
    let mut handlers = handlers();
    // Its own alone: both ends, since a free entry keeps the start of the range before.
    let own = watched().find(|watched| {
        watched.start.load(Ordering::Relaxed) == addresses.start && watched.end.load(Ordering::Relaxed) == addresses.end
    });
    if let Some(own) = own {
        own.end.store(0, Ordering::Release);
        handlers.remove(&addresses.start);
    }
}

impl HostFunctionContext {
    /// Begins it for the calling thread.
    pub fn begin() -> Self {
        let thread = thread_id();
        let free = |place: &&AtomicU32| place.compare_exchange(0, thread, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        Self { own: IN_HOST_FUNCTION.iter().find(free) }
    }
}

impl Drop for HostFunctionContext {
    fn drop(&mut self) {
        if let Some(own) = self.own {
            own.store(0, Ordering::Release);
        }
    }
}

fn thread_id() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs()
}

/// Whether one of these addresses is watched. Watched ranges do not overlap, so the last one decides.
fn is_taken(handlers: &Handlers, addresses: &Range<u64>) -> bool {
    handlers.range(..addresses.end).next_back().is_some_and(|(_, (end, _))| addresses.start < *end)
}

/// The entries, also free ones.
fn watched() -> impl Iterator<Item = &'static Watched> {
    let mut next = FIRST.load(Ordering::Acquire).cast_const();
    std::iter::from_fn(move || {
        // SAFETY: published entries are never freed, and null is none.
        let watched = unsafe { next.as_ref() }?;
        next = watched.next;
        Some(watched)
    })
}

/// Publishes a range to the signal handler. The caller holds the lock of `HANDLERS`.
fn publish(addresses: &Range<u64>) {
    if let Some(free) = watched().find(|watched| watched.end.load(Ordering::Relaxed) == 0) {
        free.start.store(addresses.start, Ordering::Relaxed);
        free.end.store(addresses.end, Ordering::Release);
        return;
    }
    let (start, end) = (AtomicU64::new(addresses.start), AtomicU64::new(addresses.end));
    let own = Box::leak(Box::new(Watched { start, end, next: FIRST.load(Ordering::Relaxed) }));
    FIRST.store(own, Ordering::Release);
}

/// Whether an address is watched. Takes no lock.
pub(crate) fn is_watched(address: u64) -> bool {
    watched().any(|watched| {
        address < watched.end.load(Ordering::Acquire) && watched.start.load(Ordering::Relaxed) <= address
    })
}

/// Sleeps at a watched page until its handler has decided. Takes no lock and no memory.
pub(crate) fn wait(address: u64, writes: bool) -> bool {
    let thread = thread_id();
    let in_host_function = IN_HOST_FUNCTION.iter().any(|place| place.load(Ordering::Acquire) == thread);
    let queue = if in_host_function { &FAULTS_IN_HOST_FUNCTIONS } else { &FAULTS };
    queue.wait(&QueuedFault::new(address, writes, in_host_function))
}

pub(crate) fn decide(queued: &QueuedFault) -> bool {
    let handler = {
        let handlers = handlers();
        let found = handlers.range(..=queued.address).next_back().filter(|(_, (end, _))| queued.address < *end);
        found.map(|(_, (_, handler))| Arc::clone(handler))
    };
    let fault = PageFault { address: queued.address, writes: queued.writes, in_host_function: queued.in_host_function };
    handler.is_some_and(|handler| handler.handle(fault))
}
