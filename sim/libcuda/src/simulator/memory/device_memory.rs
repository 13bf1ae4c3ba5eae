//! The memory of one device: sizes come in, mapped addresses with their owners go out, out of memory exactly at the limit.
//! Variables of modules and the kernels' heap have address ranges of their own. The program's allocations therefore do
//! not move when a module is loaded. It does not wait: whoever frees has waited.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use floe_abi::{CudaError, CudaResult};
use floe_machine::{Memory, MemoryError, Store};
use range_alloc::RangeAllocator;

use super::heap::{AddressHeap, Allocation, Space};
use super::physical::Physical;
use crate::simulator::addresses::{ALLOCATIONS, KERNEL_HEAPS, KERNEL_HEAPS_SPAN, SPAN, VARIABLES};
use crate::simulator::device::limits::GRANULARITY;
use floe_lock::lock;

/// The maker of an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    /// The context's handle.
    pub(crate) context: u64,
    /// The pool's handle, for memory allocated in stream order.
    pub(crate) pool: Option<u64>,
    /// A free of it is queued on a stream: the program may not free it again.
    pub(crate) leaving: bool,
    /// The host may touch it.
    pub(crate) is_managed: bool,
}

struct DeviceMemoryState {
    heap: AddressHeap<Physical>,
    globals: AddressHeap<Physical>,
    kernel_heaps: RangeAllocator<u64>,
    owners: HashMap<u64, Owner>,
    /// Bytes in use by pool.
    pools: HashMap<u64, u64>,
    /// The context of managed variables.
    managed: HashSet<u64>,
}

impl DeviceMemoryState {
    fn own(&mut self, allocation: Allocation, owner: Owner) {
        if let Some(pool) = owner.pool {
            *self.pools.entry(pool).or_default() += allocation.size;
        }
        self.owners.insert(allocation.address, owner);
    }

    /// Takes an allocation out of the heap and from its owner.
    fn disown(&mut self, address: u64) -> Option<()> {
        let allocation = self.heap.free(address)?;
        let owner = self.owners.remove(&address)?;
        if let Some(used) = owner.pool.and_then(|pool| self.pools.get_mut(&pool)) {
            *used -= allocation.size;
        }
        Some(())
    }
}

/// A device's memory.
pub(crate) struct DeviceMemory {
    memory: Arc<Memory>,
    store: Arc<Store>,
    state: Mutex<DeviceMemoryState>,
}

/// Memory behind a context's `malloc` of kernels.
pub(crate) struct KernelHeap {
    pub(crate) address: u64,
    physical: Physical,
}

impl DeviceMemory {
    /// The addresses of variables, which all devices of the process share: the order of loads decides where they lie, not
    /// the device. So they lie at the same addresses in a process with the same history on another device.
    pub(crate) fn space_of_variables() -> Space {
        Arc::new(Mutex::new(RangeAllocator::new(VARIABLES)))
    }

    /// The memory of the `place`-th device of the process.
    pub(crate) fn new(place: usize, memory: Arc<Memory>, store: Arc<Store>, variables: Space) -> Self {
        let distance = u64::try_from(place).unwrap_or(0) * SPAN;
        let allocations = ALLOCATIONS + distance;
        let kernel_heaps = KERNEL_HEAPS + u64::try_from(place).unwrap_or(0) * KERNEL_HEAPS_SPAN;
        // Ids of different devices stay apart: BUFFER_ID is unique over the process.
        let state = DeviceMemoryState {
            heap: AddressHeap::new(allocations..allocations + SPAN, 1 + (distance << 8)),
            globals: AddressHeap::within(variables, 1),
            kernel_heaps: RangeAllocator::new(kernel_heaps..kernel_heaps + KERNEL_HEAPS_SPAN),
            owners: HashMap::new(),
            pools: HashMap::new(),
            managed: HashSet::new(),
        };
        Self { memory, store, state: Mutex::new(state) }
    }

    /// Bytes of the device.
    pub(crate) fn total(&self) -> u64 {
        self.store.capacity()
    }

    /// Bytes that can still be allocated.
    pub(crate) fn free_bytes(&self) -> u64 {
        let state = lock(&self.state);
        let kept = state.heap.empty_bytes() + state.globals.empty_bytes();
        self.store.capacity().saturating_sub(self.store.used()) + kept
    }

    /// Physical memory of whole granules, for virtual memory management. With the device's number on its host it can be
    /// exported.
    ///
    /// # Errors
    /// OUT_OF_MEMORY; NOT_SUPPORTED where no more memory can be exportable.
    pub(crate) fn create(&self, bytes: u64, exportable: Option<u32>) -> CudaResult<Physical> {
        let attempt = || match exportable {
            Some(device) => Physical::exportable(&self.store, bytes, device),
            None => Physical::create(&self.store, bytes),
        };
        let made = match attempt() {
            Err(MemoryError::Exhausted { .. }) => {
                self.give_back(true);
                attempt()
            }
            made => made,
        };
        made.map_err(|error| match error {
            MemoryError::Descriptors { .. } => refused(&error),
            _ => no_memory(error),
        })
    }

    fn back(&self, address: u64, length: u64) -> Result<Physical, MemoryError> {
        let physical = Physical::create(&self.store, length)?;
        physical.map(&self.memory, address, 0, length)?;
        Ok(physical)
    }

    /// Allocates `bytes`, which must not be 0.
    ///
    /// # Errors
    /// OUT_OF_MEMORY.
    pub(crate) fn allocate(&self, bytes: u64, owner: Owner) -> CudaResult<Allocation> {
        let attempt = || {
            let mut state = lock(&self.state);
            let made = state.heap.allocate(bytes, 1, |address, length| self.back(address, length))?;
            if let Some(allocation) = made {
                state.own(allocation, owner);
            }
            Ok(made)
        };
        let made = match attempt() {
            Err(MemoryError::Exhausted { .. }) => {
                self.give_back(true);
                attempt()
            }
            made => made,
        };
        made.map_err(no_memory)?.ok_or(CudaError::OUT_OF_MEMORY)
    }

    /// Takes an allocation from its owner; its bytes stay mapped until `give_back`. `None` when there is none at
    /// `address`.
    pub(crate) fn free(&self, address: u64) -> Option<()> {
        lock(&self.state).disown(address)
    }

    /// As `free`, where the allocation at `address` is still the one with this id.
    pub(crate) fn free_same(&self, address: u64, id: u64) -> Option<()> {
        let mut state = lock(&self.state);
        state.heap.find(address).filter(|found| found.id == id)?;
        state.disown(address)
    }

    /// Notes that a free of the allocation at `address` is being queued. `None` when there is none, or one is queued.
    pub(crate) fn start_free(&self, address: u64) -> Option<()> {
        let mut state = lock(&self.state);
        let owner = state.owners.get_mut(&address).filter(|owner| !owner.leaving)?;
        owner.leaving = true;
        Some(())
    }

    /// Frees everything a context allocated.
    pub(crate) fn free_of_context(&self, context: u64) {
        let mut state = lock(&self.state);
        let of_context = state.owners.iter().filter(|(_, owner)| owner.context == context);
        let addresses: Vec<u64> = of_context.map(|(address, _)| *address).collect();
        for address in addresses {
            state.disown(address);
        }
    }

    /// Unmaps blocks in which nothing is allocated any more. No work that could still use them may be queued or running.
    pub(crate) fn give_back(&self, all: bool) {
        let mut state = lock(&self.state);
        let mut empty = state.heap.take_empty(all);
        empty.extend(state.globals.take_empty(all));
        for block in empty {
            if let Err(error) = block.backing.unmap(&self.memory, block.address, 0, block.length) {
                crate::simulator::log::warn(format_args!(
                    "cannot unmap device memory at {:#x}: {error}",
                    block.address
                ));
            }
        }
    }

    /// The live allocation that contains `address`, and its maker.
    pub(crate) fn find(&self, address: u64) -> Option<(Allocation, Owner)> {
        let state = lock(&self.state);
        let allocation = state.heap.find(address)?;
        Some((allocation, *state.owners.get(&allocation.address)?))
    }

    /// The variable that contains `address`, and whether it is managed memory.
    pub(crate) fn find_global(&self, address: u64) -> Option<(Allocation, bool)> {
        let state = lock(&self.state);
        let found = state.globals.find(address)?;
        Some((found, state.managed.contains(&found.address)))
    }

    /// Memory for a variable of a module.
    pub(crate) fn allocate_global(&self, bytes: u64, align: u64) -> Option<u64> {
        let mut state = lock(&self.state);
        let made = state.globals.allocate(bytes.max(1), align, |address, length| self.back(address, length));
        made.ok().flatten().map(|allocation| allocation.address)
    }

    /// Frees what `allocate_global` gave.
    pub(crate) fn free_global(&self, address: u64) {
        let mut state = lock(&self.state);
        state.managed.remove(&address);
        state.globals.free(address);
    }

    /// The variable at this address is managed memory.
    pub(crate) fn is_managed_global(&self, address: u64) {
        lock(&self.state).managed.insert(address);
    }

    /// Maps a heap for the `malloc` of kernels. It takes memory only as it is used, and not from the memory that
    /// programs see. A context has it whether or not a kernel ever allocates.
    pub(crate) fn map_kernel_heap(&self, bytes: u64) -> Option<KernelHeap> {
        let length = bytes.checked_next_multiple_of(GRANULARITY)?;
        let range = lock(&self.state).kernel_heaps.allocate_range(length).ok()?;
        let made = Store::new(length).and_then(|store| Physical::create(&store, length)).and_then(|physical| {
            physical.map(&self.memory, range.start, 0, length)?;
            Ok(physical)
        });
        match made {
            Ok(physical) => Some(KernelHeap { address: range.start, physical }),
            Err(error) => {
                crate::simulator::log::warn(format_args!("no heap for malloc in kernels: {error}"));
                lock(&self.state).kernel_heaps.free_range(range);
                None
            }
        }
    }

    /// Unmaps a kernel heap nobody uses any more.
    pub(crate) fn unmap_kernel_heap(&self, heap: &KernelHeap) {
        let length = heap.physical.length();
        if let Err(error) = heap.physical.unmap(&self.memory, heap.address, 0, length) {
            crate::simulator::log::warn(format_args!("cannot unmap a kernel heap at {:#x}: {error}", heap.address));
            return;
        }
        lock(&self.state).kernel_heaps.free_range(heap.address..heap.address + length);
    }

    /// Bytes of all live allocations of a pool.
    pub(crate) fn used_by_pool(&self, pool: u64) -> u64 {
        lock(&self.state).pools.get(&pool).copied().unwrap_or(0)
    }
}

fn refused(error: &MemoryError) -> CudaError {
    crate::simulator::log::warn(format_args!("device memory: {error}"));
    CudaError::NOT_SUPPORTED
}

fn no_memory(error: MemoryError) -> CudaError {
    if !matches!(error, MemoryError::Exhausted { .. }) {
        crate::simulator::log::warn(format_args!("device memory: {error}"));
    }
    CudaError::OUT_OF_MEMORY
}
