//! Host memory the program has pinned: allocated by floe, where it can be shared with a worker or not, or registered. Ranges
//! come in, and whether an address belongs to one goes out. Copies from such memory may be taken later and copies into it may
//! arrive later, as CUDA promises for it.

use std::collections::BTreeMap;
use std::sync::RwLock;
use std::sync::atomic::{AtomicU64, Ordering};

use floe_abi::{Context, CudaError, CudaResult, HostPointer};
use floe_surface::{HostBlock, HostRange, PAGE};

use crate::memory::arena::{self, Arena, ArenaBlock};

/// One pinned range.
#[derive(Debug)]
pub(crate) struct Pinned {
    bytes: u64,
    /// As the program gave them.
    pub(crate) flags: u32,
    pub(crate) context: Context,
    /// floe's own memory; `None` for memory the program registered.
    block: Option<Block>,
    /// All of it.
    range: HostRange,
}

/// Memory of floe's own.
#[derive(Debug)]
enum Block {
    /// This process's alone.
    Private(HostBlock),
    /// Of the arena.
    Shared(ArenaBlock),
}

impl Block {
    fn memory(&self) -> &HostBlock {
        match self {
            Self::Private(block) => block,
            Self::Shared(block) => &block.block,
        }
    }
}

/// The pinned memory around an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PinnedRange {
    /// All of it.
    pub(crate) whole: HostRange,
    /// First address.
    pub(crate) start: u64,
    /// Bytes.
    pub(crate) bytes: u64,
    /// The context it was pinned in.
    pub(crate) context: Context,
    /// The flags it was pinned with.
    pub(crate) flags: u32,
    /// Whether it was allocated as such, and not registered.
    pub(crate) is_allocated: bool,
    /// Bytes of its pages, where it is of the arena, which a worker of this machine can map.
    pub(crate) pages: Option<u64>,
}

impl PinnedRange {
    /// The `bytes` bytes from `address` on, where all of them are of this range.
    pub(crate) fn part(&self, address: u64, bytes: u64) -> Option<HostRange> {
        let offset = usize::try_from(address.checked_sub(self.start)?).ok()?;
        self.whole.sub(offset, usize::try_from(bytes).ok()?).ok()
    }
}

/// The first address of pinned memory: above all windows of device addresses, below the system's libraries, and no
/// place is used twice.
pub(crate) const PLACES: u64 = 0x6000_0000_0000;
/// The first place outside the arena.
const PRIVATE_PLACES: u64 = PLACES + arena::BYTES;
/// Larger private allocations are the system's to place: kernels cannot reach so much host memory anyway.
const MOST_PLACED: usize = 16 << 20;

/// The next place nothing has had in this process.
static NEXT_PLACE: AtomicU64 = AtomicU64::new(PRIVATE_PLACES);

/// Whether any memory was ever placed here.
#[inline]
pub(crate) fn has_placed() -> bool {
    NEXT_PLACE.load(Ordering::Relaxed) != PRIVATE_PLACES || !arena::given_out().is_empty()
}

/// The addresses among a kernel's parameters that may be of memory placed here.
pub(crate) fn placed_addresses(parameters: &[u8]) -> impl Iterator<Item = u64> {
    let (private, shared) = (PRIVATE_PLACES..NEXT_PLACE.load(Ordering::Relaxed), arena::given_out());
    let words =
        parameters.chunks_exact(size_of::<u64>()).filter_map(|word| word.try_into().ok().map(u64::from_le_bytes));
    words.filter(move |word| private.contains(word) || shared.contains(word))
}

/// All pinned host memory of the process, by first address.
#[derive(Debug, Default)]
pub(crate) struct HostMemory {
    ranges: RwLock<BTreeMap<u64, Pinned>>,
}

impl HostMemory {
    /// Allocates pinned memory; of the arena where there is a worker that takes it.
    pub(crate) fn allocate(&self, bytes: usize, flags: u32, context: Context, shares: bool) -> CudaResult<HostPointer> {
        let arena = if shares { Arena::of_process() } else { None };
        let block = match arena.map_or(Ok(None), |arena| arena.allocate(bytes))? {
            Some(block) => Block::Shared(block),
            None => {
                let block = Self::place(bytes).or_else(|| HostBlock::new(bytes));
                Block::Private(block.ok_or(CudaError::OUT_OF_MEMORY)?)
            }
        };
        let pointer = block.memory().pointer();
        let range = block.memory().range();
        let pinned = Pinned { bytes: bytes as u64, flags, context, block: Some(block), range };
        self.write().insert(pointer.0, pinned);
        Ok(pointer)
    }

    /// Memory at an address that is free in a server's process too, so that kernels can reach it there.
    fn place(bytes: usize) -> Option<HostBlock> {
        if bytes > MOST_PLACED {
            return None;
        }
        let start = NEXT_PLACE.fetch_add(bytes.next_multiple_of(PAGE) as u64, Ordering::Relaxed);
        HostBlock::at(HostPointer(start), bytes)
    }

    /// Registers memory of the program.
    pub(crate) fn register(&self, range: HostRange, flags: u32, context: Context) -> CudaResult<()> {
        let (start, bytes) = (range.pointer(), range.len() as u64);
        let end = start.0.checked_add(bytes).ok_or(CudaError::INVALID_VALUE)?;
        let mut ranges = self.write();
        let overlaps = ranges.range(..end).next_back().is_some_and(|(other, pinned)| other + pinned.bytes > start.0);
        if overlaps {
            return Err(CudaError::HOST_MEMORY_ALREADY_REGISTERED);
        }
        let pinned = Pinned { bytes, flags, context, block: None, range };
        ranges.insert(start.0, pinned);
        Ok(())
    }

    /// Frees what `allocate` gave.
    pub(crate) fn free(&self, start: HostPointer) -> CudaResult<()> {
        let mut ranges = self.write();
        match ranges.get(&start.0) {
            Some(pinned) if pinned.block.is_some() => {
                ranges.remove(&start.0);
                Ok(())
            }
            _ => Err(CudaError::INVALID_VALUE),
        }
    }

    /// Forgets what `register` was given.
    pub(crate) fn unregister(&self, start: HostPointer) -> CudaResult<()> {
        let mut ranges = self.write();
        match ranges.get(&start.0) {
            Some(pinned) if pinned.block.is_none() => {
                ranges.remove(&start.0);
                Ok(())
            }
            _ => Err(CudaError::HOST_MEMORY_NOT_REGISTERED),
        }
    }

    /// The first addresses of the memory registered in a context.
    pub(crate) fn registered_in(&self, context: Context) -> Vec<u64> {
        let ranges = floe_lock::read(&self.ranges);
        let of_context = |pinned: &Pinned| pinned.block.is_none() && pinned.context == context;
        ranges.iter().filter(|(_, pinned)| of_context(pinned)).map(|(start, _)| *start).collect()
    }

    /// A context is gone: what was registered in it may be registered again. Memory given out in it stays the program's.
    pub(crate) fn forget_registered(&self, context: Context) {
        self.write().retain(|_, pinned| pinned.block.is_some() || pinned.context != context);
    }

    /// The pinned range that holds this address.
    pub(crate) fn find(&self, address: u64) -> Option<PinnedRange> {
        let ranges = floe_lock::read(&self.ranges);
        let (start, pinned) = ranges.range(..=address).next_back()?;
        let pages = match &pinned.block {
            Some(Block::Shared(block)) => Some(block.pages()),
            _ => None,
        };
        (address - start < pinned.bytes).then_some(PinnedRange {
            whole: pinned.range,
            start: *start,
            bytes: pinned.bytes,
            context: pinned.context,
            flags: pinned.flags,
            is_allocated: pinned.block.is_some(),
            pages,
        })
    }

    /// The pinned range that holds all these bytes.
    pub(crate) fn find_all(&self, address: u64, bytes: u64) -> Option<PinnedRange> {
        self.find(address).filter(|range| bytes <= range.start + range.bytes - address)
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, BTreeMap<u64, Pinned>> {
        floe_lock::write(&self.ranges)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 16 KiB of the program's.
    fn program() -> HostBlock {
        HostBlock::new(0x4000).unwrap()
    }

    fn part(program: &HostBlock, offset: usize) -> HostRange {
        program.range().sub(offset, 0x1000).unwrap()
    }

    #[test]
    fn allocated_memory_is_pinned_until_freed() {
        let memory = HostMemory::default();
        let at = memory.allocate(100, 0, Context(1), false).unwrap();
        let is_pinned = |at, bytes| memory.find_all(at, bytes).is_some();
        assert!(is_pinned(at.0 + 50, 50));
        assert!(memory.find(at.0 + 50).unwrap().is_allocated && memory.find(at.0 + 100).is_none());
        assert!(!is_pinned(at.0 + 50, 51));
        let found = memory.find(at.0 + 50).unwrap();
        assert_eq!(found.part(at.0 + 50, 50).map(|range| range.pointer().0), Some(at.0 + 50));
        assert_eq!([found.part(at.0 + 50, 51), found.part(at.0 - 1, 1)], [None; 2]);
        assert_eq!(memory.unregister(at), Err(CudaError::HOST_MEMORY_NOT_REGISTERED));
        assert_eq!(memory.free(at), Ok(()));
        assert!(!is_pinned(at.0, 1));
        assert_eq!(memory.free(at), Err(CudaError::INVALID_VALUE));
    }

    #[test]
    fn overlapping_registration_is_refused() {
        let (memory, program) = (HostMemory::default(), program());
        memory.register(part(&program, 0x1000), 0, Context(1)).unwrap();
        for offset in [0x800, 0x1000, 0x1fff] {
            assert_eq!(
                memory.register(part(&program, offset), 0, Context(1)),
                Err(CudaError::HOST_MEMORY_ALREADY_REGISTERED)
            );
        }
        assert_eq!(memory.register(part(&program, 0x2000), 0, Context(1)), Ok(()));
        assert_eq!(memory.free(part(&program, 0x1000).pointer()), Err(CudaError::INVALID_VALUE));
    }

    #[test]
    fn registrations_end_with_their_context() {
        let (memory, program) = (HostMemory::default(), program());
        let own = memory.allocate(64, 0, Context(1), false).unwrap();
        let [first, second] = [0x1000, 0x3000].map(|offset| part(&program, offset));
        memory.register(first, 0, Context(1)).unwrap();
        memory.register(second, 0, Context(2)).unwrap();
        memory.forget_registered(Context(1));
        let pinned = [own, first.pointer(), second.pointer()].map(|at| memory.find(at.0).is_some());
        assert_eq!(pinned, [true, false, true]);
        let allocated = [own, first.pointer(), second.pointer()].map(|at| memory.find(at.0).map(|at| at.is_allocated));
        assert_eq!(allocated, [Some(true), None, Some(false)]);
    }
}
