//! Managed memory of one vGPU: memory with one address on host and device. Launches and copies come in before they are sent; the
//! client flushes what the program has written, and closes its pages. A page fault fetches from the device, no side ever sees stale
//! bytes, and memory that the program has not touched costs a launch nothing.
//!
//! CUDA lets the host touch managed memory while the device works only where it is attached to the host or to one stream
//! (CONCURRENT_MANAGED_ACCESS is 0). Therefore whole granules on one side or the other are enough.

mod allocate;
mod close;
mod flush;
pub(crate) mod gate;
mod guests;
mod residency;
pub(crate) mod resident;
mod shadow;
mod touch;
mod transfer;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, RwLock, Weak};

use floe_abi::DevicePtr;
use floe_touch::{PAGE, Span, Watch};

use crate::memory::blocks::Blocks;
use crate::memory::staging::copiers::Copiers;
use crate::vgpu::Vgpu;
use crate::vgpu::order::{Fence, StreamProgress};
use gate::Gate;
use guests::Guests;
use residency::ResidencyMap;
use shadow::Shadow;

/// The managed memory of one vGPU.
#[derive(Debug)]
pub(crate) struct Managed {
    /// The addresses of its allocations.
    window: Range<u64>,
    pub(crate) blocks: Mutex<Blocks<Fence>>,
    /// Whether there ever was any.
    exists: AtomicBool,
    /// Whether the program can touch any that launches are to close.
    open: AtomicBool,
    /// Launches and copies between their look at `open` and their post.
    leaving: AtomicUsize,
    /// Those among them that name managed memory, from before it is closed until they are posted.
    naming: AtomicUsize,
    /// How many launches and copies have closed pages and sent their bytes.
    closings: AtomicU64,
    /// Whether streams may stand at functions of the program, which may touch managed memory meanwhile.
    beside_functions: AtomicBool,
    state: Mutex<State>,
    guests: Guests,
    /// All vGPUs of the program: a function on a stream of any one may touch this memory.
    family: OnceLock<Family>,
    /// Managed variables, which lie outside the window: start to end.
    variables: RwLock<BTreeMap<u64, u64>>,
    copiers: OnceLock<Arc<Copiers>>,
}

/// The vGPUs of a program.
#[derive(Debug, Default)]
pub(crate) struct Family {
    vgpus: Vec<Weak<Vgpu>>,
    gate: Arc<Gate>,
}

#[derive(Debug, Default)]
struct State {
    /// All of the window, once something was allocated.
    window: Option<Arc<WatchedSpan>>,
    /// By first address.
    held: BTreeMap<u64, Held>,
    /// First addresses of those that the program can touch.
    open: BTreeSet<u64>,
    lane: Option<Lane>,
    /// Launches and copies whose bytes may not have arrived, by their place among all that closed pages.
    settling: BTreeSet<u64>,
    /// The ranges closed since the last wait, while they are small; `None` if they are large.
    closed: Option<Vec<Range<u64>>>,
}

/// Addresses whose touches are seen. The watch ends before the pages go.
#[derive(Debug)]
struct WatchedSpan {
    _watch: Watch,
    span: Span,
}

/// One allocation, or pages that hold variables.
#[derive(Debug)]
struct Held {
    residency: ResidencyMap,
    place: Arc<WatchedSpan>,
    /// The open ranges that waits have fetched.
    shadows: Vec<Shadow>,
    /// Waits in a row that fetched it without any use behind them.
    idle: u32,
    /// The variables in it; empty: all of it is there on the device.
    parts: Vec<Range<u64>>,
    attached: Attachment,
    /// Work that it was not attached to may be in flight: work queued before it was attached, and copies.
    of_others: bool,
    /// Its attachment when it was made, which returns when the stream it was attached to is gone.
    at_first: Attachment,
}

/// The work that may use a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attachment {
    /// All of the device's.
    Global,
    /// None of it: the host touches it whenever it likes.
    Host,
    /// That of the stream of this id.
    Single(u64),
}

/// A launch on its way; over when dropped.
#[derive(Debug)]
#[must_use = "managed memory may be opened as soon as this is dropped"]
pub(crate) struct Leaving<'a> {
    count: &'a AtomicUsize,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Managed {
    /// None yet, to be placed in this part of the vGPU's window.
    pub(crate) fn new(window: Range<u64>, granularity: u64) -> Arc<Self> {
        Arc::new(Self {
            blocks: Mutex::new(Blocks::new(window.clone(), granularity).aligned_to(PAGE)),
            window,
            exists: AtomicBool::new(false),
            open: AtomicBool::new(false),
            leaving: AtomicUsize::new(0),
            naming: AtomicUsize::new(0),
            closings: AtomicU64::new(0),
            beside_functions: AtomicBool::new(false),
            state: Mutex::default(),
            guests: Guests::default(),
            family: OnceLock::new(),
            variables: RwLock::default(),
            copiers: OnceLock::new(),
        })
    }

    pub(crate) fn gate(&self) -> &Gate {
        // A vGPU without others is its own family.
        &self.family.get_or_init(Family::default).gate
    }

    /// Whether an address is one that managed allocations have.
    pub(crate) fn places(&self, DevicePtr(at): DevicePtr) -> bool {
        self.window.contains(&at)
    }

    /// Whether there ever was any.
    pub(crate) fn is_used(&self) -> bool {
        self.exists.load(Ordering::SeqCst)
    }

    /// Whether an address is of managed memory, or could be.
    pub(crate) fn has(&self, at: DevicePtr) -> bool {
        self.exists.load(Ordering::Acquire) && (self.places(at) || self.variable_at(at))
    }

    fn variable_at(&self, DevicePtr(at): DevicePtr) -> bool {
        let variables = floe_lock::read(&self.variables);
        variables.range(..=at).next_back().is_some_and(|(_, end)| at < *end)
    }

    /// A launch begins. While it is on its way nothing is opened that it did not see.
    fn leave(&self) -> Leaving<'_> {
        self.leaving.fetch_add(1, Ordering::SeqCst);
        Leaving { count: &self.leaving }
    }
}

/// The stream that only managed memory's bytes take.
#[derive(Debug, Clone)]
struct Lane {
    progress: Arc<StreamProgress>,
    /// Nothing that stands on the GPU holds it up; or the server has no such stream.
    is_apart: bool,
}
