//! Host memory that the program allocated here or registered: which ranges count as pinned, and whose they are.
//! Kernels reach it, at the same addresses, where the device's addresses are free in this process.
//! Asynchronous copies read and write pinned memory when their stream gets there, all other memory at the call.
//! It does not wait: whoever frees has waited.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use floe_abi::{CudaError, CudaResult, HostPointer, host_register_flags};
use floe_machine::Memory;
use floe_surface::{HostBlock, HostRange};

use super::heap::AddressHeap;
use crate::simulator::addresses::PINNED;
use crate::simulator::log;
use floe_lock::lock;

/// The alignment of what is allocated: whole pages, which programs may count on.
const PAGE: u64 = 4096;

enum PinnedOrigin {
    /// Ours, freed with the entry.
    Allocated(HostBlock),
    /// Ours, which kernels reach.
    Reached(HostRange),
    /// The program's own, which kernels reach.
    Lent(HostRange),
    /// The program's own.
    Registered(HostRange),
}

struct PinnedEntry {
    origin: PinnedOrigin,
    length: u64,
    flags: u32,
    context: u64,
    id: u64,
}

/// The record of a pinned range.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pinned {
    pub(crate) range: HostRange,
    pub(crate) flags: u32,
    /// Handle of the context it was made in.
    pub(crate) context: u64,
    pub(crate) id: u64,
    /// Kernels reach it at its address.
    pub(crate) is_reached: bool,
}

/// Pages of this process among the addresses that kernels reach.
struct Arena {
    memory: Arc<Memory>,
    heap: AddressHeap<()>,
}

impl Arena {
    fn allocate(&mut self, bytes: usize) -> CudaResult<HostRange> {
        let Self { memory, heap } = self;
        let is_new = Cell::new(false);
        let made = heap.allocate(bytes as u64, PAGE, |address, length| {
            is_new.set(true);
            memory.map_own(address, length)
        });
        let found = made.map_err(|_| CudaError::OUT_OF_MEMORY)?.ok_or(CudaError::OUT_OF_MEMORY)?;
        if !is_new.get() {
            // As new pages are.
            memory.fill(found.address, 0, 1, bytes).map_err(|_| CudaError::UNKNOWN)?;
        }
        // SAFETY: the pages are mapped here for whoever asked, until `free`, before which all work has been waited for.
        Ok(unsafe { HostRange::new(HostPointer(found.address), bytes) })
    }

    fn free(&mut self, range: &HostRange) {
        self.heap.free(range.pointer().0);
        for block in self.heap.take_empty(false) {
            if let Err(error) = self.memory.unmap(block.address, block.length) {
                log::warn(format_args!("cannot unmap pinned memory at {:#x}: {error}", block.address));
            }
        }
    }
}

#[derive(Default)]
struct PinnedRanges {
    entries: BTreeMap<u64, PinnedEntry>,
    next_id: u64,
}

/// All pinned memory of the process.
#[derive(Default)]
pub(crate) struct HostMemory {
    state: Mutex<PinnedRanges>,
    /// `None`: kernels reach no host memory, since the addresses are not free in this process.
    arena: Option<Mutex<Arena>>,
}

/// Ids of host memory do not meet those of device allocations.
const FIRST_ID: u64 = 1 << 62;

impl PinnedEntry {
    fn range(&self) -> HostRange {
        match &self.origin {
            PinnedOrigin::Allocated(block) => block.range(),
            PinnedOrigin::Reached(range) | PinnedOrigin::Lent(range) | PinnedOrigin::Registered(range) => *range,
        }
    }

    fn is_reached(&self) -> bool {
        matches!(self.origin, PinnedOrigin::Reached(_) | PinnedOrigin::Lent(_))
    }

    /// Whether the program had it before.
    fn is_registered(&self) -> bool {
        matches!(self.origin, PinnedOrigin::Lent(_) | PinnedOrigin::Registered(_))
    }
}

impl PinnedRanges {
    fn around(&self, address: u64) -> Option<(u64, &PinnedEntry)> {
        let (&start, entry) = self.entries.range(..=address).next_back()?;
        (address - start < entry.length).then_some((start, entry))
    }

    fn insert(&mut self, origin: PinnedOrigin, flags: u32, context: u64) -> HostPointer {
        self.next_id += 1;
        let mut entry = PinnedEntry { origin, length: 0, flags, context, id: FIRST_ID + self.next_id };
        let range = entry.range();
        entry.length = range.len() as u64;
        self.entries.insert(range.pointer().0, entry);
        range.pointer()
    }
}

impl HostMemory {
    /// Host memory that kernels of this memory's devices reach, if the addresses allow it.
    pub(crate) fn reached(memory: &Arc<Memory>) -> Self {
        let whole = memory.is_identity() && memory.base() == PINNED.start && memory.size() > PINNED.end - PINNED.start;
        let arena = whole.then(|| Arena { memory: Arc::clone(memory), heap: AddressHeap::new(PINNED, 1) });
        Self { state: Mutex::default(), arena: arena.map(Mutex::new) }
    }

    /// Whether kernels reach what is allocated here.
    pub(crate) fn is_reached(&self) -> bool {
        self.arena.is_some()
    }

    /// # Errors
    /// INVALID_VALUE for 0 bytes, OUT_OF_MEMORY.
    pub(crate) fn allocate(&self, bytes: usize, flags: u32, context: u64) -> CudaResult<HostPointer> {
        if bytes == 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        let origin = match &self.arena {
            Some(arena) => PinnedOrigin::Reached(lock(arena).allocate(bytes)?),
            None => PinnedOrigin::Allocated(HostBlock::new(bytes).ok_or(CudaError::OUT_OF_MEMORY)?),
        };
        Ok(lock(&self.state).insert(origin, flags, context))
    }

    /// Kernels reach it, unless the program may only read it.
    ///
    /// # Errors
    /// HOST_MEMORY_ALREADY_REGISTERED where a byte of it is pinned already.
    pub(crate) fn register(&self, range: HostRange, flags: u32, context: u64) -> CudaResult<()> {
        let mut state = lock(&self.state);
        let last = range.pointer().0.checked_add(range.len() as u64 - 1).ok_or(CudaError::INVALID_VALUE)?;
        if let Some((&start, entry)) = state.entries.range(..=last).next_back()
            && start + entry.length > range.pointer().0
        {
            return Err(CudaError::HOST_MEMORY_ALREADY_REGISTERED);
        }
        let origin = if flags & host_register_flags::READ_ONLY == 0 && self.lend(&range) {
            PinnedOrigin::Lent(range)
        } else {
            PinnedOrigin::Registered(range)
        };
        state.insert(origin, flags, context);
        Ok(())
    }

    /// Whether kernels reach the program's memory from now on.
    fn lend(&self, range: &HostRange) -> bool {
        // SAFETY: the program vouches for what it registers, as for a driver, until it unregisters it or its context ends;
        // references into it are its own.
        let lend = |memory: &Memory| unsafe { memory.lend(range.pointer().0, range.len() as u64) };
        self.arena.as_ref().is_some_and(|arena| lend(&lock(arena).memory).is_ok())
    }

    pub(crate) fn is_allocated(&self, pointer: HostPointer) -> bool {
        let state = lock(&self.state);
        state.entries.get(&pointer.0).is_some_and(|entry| !entry.is_registered())
    }

    /// # Errors
    /// INVALID_VALUE inside pinned memory but not at the start of registered memory, HOST_MEMORY_NOT_REGISTERED elsewhere.
    pub(crate) fn check_registered(&self, pointer: HostPointer) -> CudaResult<()> {
        let state = lock(&self.state);
        let (start, entry) = state.around(pointer.0).ok_or(CudaError::HOST_MEMORY_NOT_REGISTERED)?;
        let whole = start == pointer.0 && entry.is_registered();
        if whole { Ok(()) } else { Err(CudaError::INVALID_VALUE) }
    }

    /// # Errors
    /// INVALID_VALUE where it was not allocated here.
    pub(crate) fn free(&self, pointer: HostPointer) -> CudaResult<()> {
        if !self.is_allocated(pointer) {
            return Err(CudaError::INVALID_VALUE);
        }
        let removed = lock(&self.state).entries.remove(&pointer.0);
        self.give_back(removed.as_slice());
        Ok(())
    }

    fn give_back(&self, removed: &[PinnedEntry]) {
        let Some(arena) = &self.arena else { return };
        for entry in removed {
            match &entry.origin {
                PinnedOrigin::Reached(range) => lock(arena).free(range),
                PinnedOrigin::Lent(range) => lock(arena).memory.take_back(range.pointer().0),
                PinnedOrigin::Allocated(_) | PinnedOrigin::Registered(_) => {}
            }
        }
    }

    /// # Errors
    /// HOST_MEMORY_NOT_REGISTERED.
    pub(crate) fn unregister(&self, pointer: HostPointer) -> CudaResult<()> {
        self.check_registered(pointer)?;
        let removed = lock(&self.state).entries.remove(&pointer.0);
        self.give_back(removed.as_slice());
        Ok(())
    }

    pub(crate) fn free_of_context(&self, context: u64) {
        let entries = &mut lock(&self.state).entries;
        let removed: Vec<PinnedEntry> =
            entries.extract_if(.., |_, entry| entry.context == context).map(|(_, entry)| entry).collect();
        self.give_back(&removed);
    }

    /// The pinned memory around `address`.
    pub(crate) fn find(&self, address: u64) -> Option<Pinned> {
        let state = lock(&self.state);
        let (_, entry) = state.around(address)?;
        let (range, is_reached) = (entry.range(), entry.is_reached());
        Some(Pinned { range, flags: entry.flags, context: entry.context, id: entry.id, is_reached })
    }

    /// Whether kernels reach these bytes, all of one allocation.
    pub(crate) fn reaches(&self, address: u64, bytes: u64) -> bool {
        let state = lock(&self.state);
        state
            .around(address)
            .is_some_and(|(start, entry)| entry.is_reached() && bytes <= entry.length - (address - start))
    }

    /// Whether all of `range` is pinned.
    pub(crate) fn is_pinned(&self, range: &HostRange) -> bool {
        let state = lock(&self.state);
        let start = range.pointer().0;
        state.around(start).is_some_and(|(first, entry)| range.len() as u64 <= entry.length - (start - first))
    }

    /// The pinned bytes at `address`, for a call that takes a device address and was given a host one.
    pub(crate) fn part(&self, address: u64, bytes: usize) -> Option<HostRange> {
        let found = self.find(address)?;
        let offset = usize::try_from(address - found.range.pointer().0).ok()?;
        found.range.sub(offset, bytes).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocated_memory_is_pinned_until_it_is_freed() {
        let memory = HostMemory::default();
        let pointer = memory.allocate(100, 0, 1).expect("memory");
        let range = memory.part(pointer.0 + 10, 20).expect("inside");
        assert!(memory.is_pinned(&range));
        assert!(memory.part(pointer.0 + 90, 20).is_none());
        memory.free(pointer).expect("allocated");
        assert!(!memory.is_pinned(&range));
    }

    #[test]
    fn registering_twice_is_refused() {
        let memory = HostMemory::default();
        let block = HostBlock::new(4096).expect("memory");
        memory.register(block.range(), 0, 1).expect("free");
        let again = memory.register(block.range().sub(8, 8).expect("inside"), 0, 1);
        assert_eq!(again, Err(CudaError::HOST_MEMORY_ALREADY_REGISTERED));
        assert_eq!(memory.free(block.pointer()), Err(CudaError::INVALID_VALUE));
        memory.unregister(block.pointer()).expect("registered");
        assert_eq!(memory.unregister(block.pointer()), Err(CudaError::HOST_MEMORY_NOT_REGISTERED));
    }
}
