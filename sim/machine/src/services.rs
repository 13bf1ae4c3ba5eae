//! Services of the host to kernels: printf output, the device heap, and the numbers that special registers show.
//! One [`Services`] per device, shared by all its grids. It never blocks a worker longer than a short lock.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use crate::conditions::Conditions;
use crate::memory::Memory;
use crate::texture::{Texture, Views};

/// Receives the bytes kernels print, one call per `printf`; also the message of a failed `assert`.
pub type Sink = Box<dyn Fn(&[u8]) + Send + Sync>;

/// The host's side of a running device.
pub struct Services {
    /// The device's memory.
    pub memory: Arc<Memory>,
    /// Receives the output of `printf`, in order of execution. The driver API keeps a FIFO behind it and flushes at
    /// synchronisation.
    pub printf: Sink,
    /// Receives the message of a failed `assert` (CUDA: standard error).
    pub assertion: Sink,
    /// Textures and surfaces by their numbers.
    pub views: Arc<Views>,
    /// What texture references are of, by their addresses; reads by any other are 0.
    pub references: Arc<HashMap<u64, Arc<Texture>>>,
    /// Values of conditional handles.
    pub conditions: Arc<Conditions>,
    /// Device `malloc`; `None` makes it return null.
    pub heap: Option<Arc<Heap>>,
    /// `%nsmid`: multiprocessors that the device reports.
    pub multiprocessors: u32,
    /// Bytes of stack a thread may use for calls (`cudaLimitStackSize`), beyond what the kernel itself declares.
    pub stack_limit: u32,
}

impl Services {
    /// Services that print to nowhere, without a heap, one multiprocessor, 1 KiB of stack as CUDA's default.
    pub fn new(memory: Arc<Memory>) -> Self {
        Self {
            memory,
            printf: Box::new(|_| {}),
            assertion: Box::new(|_| {}),
            views: Arc::default(),
            references: Arc::default(),
            conditions: Arc::default(),
            heap: None,
            multiprocessors: 1,
            stack_limit: 1024,
        }
    }
}

/// The device heap: a region of device memory the caller gives, cut first-fit. Survives launches, as in CUDA.
pub struct Heap {
    base: u64,
    length: u64,
    state: Mutex<HeapState>,
}

#[derive(Default)]
struct HeapState {
    /// Free ranges: offset to length.
    free: BTreeMap<u64, u64>,
    /// Live allocations: offset to length.
    used: BTreeMap<u64, u64>,
}

/// Alignment of what device `malloc` returns.
const HEAP_ALIGNMENT: u64 = 16;

impl Heap {
    /// A heap in `[base, base + length)`, which the caller has mapped.
    pub fn new(base: u64, length: u64) -> Self {
        let length = length / HEAP_ALIGNMENT * HEAP_ALIGNMENT;
        let state = HeapState {
            free: if length == 0 { BTreeMap::new() } else { BTreeMap::from([(0, length)]) },
            used: BTreeMap::new(),
        };
        Self { base, length, state: Mutex::new(state) }
    }

    /// First address and bytes of the region.
    pub fn region(&self) -> (u64, u64) {
        (self.base, self.length)
    }

    /// Address of `bytes` new bytes, or 0 when there is no room.
    pub fn allocate(&self, bytes: u64) -> u64 {
        let Some(rounded) = bytes.max(1).checked_next_multiple_of(HEAP_ALIGNMENT) else {
            return 0;
        };
        let mut state = floe_lock::lock(&self.state);
        let found =
            state.free.iter().find(|(_, length)| **length >= rounded).map(|(offset, length)| (*offset, *length));
        let Some((offset, length)) = found else {
            return 0;
        };
        state.free.remove(&offset);
        if length > rounded {
            state.free.insert(offset + rounded, length - rounded);
        }
        state.used.insert(offset, rounded);
        self.base + offset
    }

    /// Frees what `allocate` returned; `false` when the address is not such a one (0 is, and does nothing).
    pub fn release(&self, address: u64) -> bool {
        if address == 0 {
            return true;
        }
        let Some(mut offset) = address.checked_sub(self.base) else {
            return false;
        };
        let mut state = floe_lock::lock(&self.state);
        let Some(mut length) = state.used.remove(&offset) else {
            return false;
        };
        if let Some((&before, &size)) = state.free.range(..offset).next_back()
            && before + size == offset
        {
            state.free.remove(&before);
            offset = before;
            length += size;
        }
        if let Some(size) = state.free.remove(&(offset + length)) {
            length += size;
        }
        state.free.insert(offset, length);
        true
    }
}
