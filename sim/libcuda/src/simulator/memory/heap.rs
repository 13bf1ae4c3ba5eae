//! In: sizes to allocate and addresses to free. Out: device addresses cut from blocks of whole 2 MiB granules. The same
//! sequence of calls gets the same addresses, so that a replayed program finds its own.
//! It maps nothing itself: the caller's closure backs a new block, and gets its backing again when a block is empty.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use floe_lock::lock;
use range_alloc::RangeAllocator;

use crate::simulator::device::limits::{ALIGNMENT, GRANULARITY};

/// One live allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Allocation {
    pub(crate) address: u64,
    /// Bytes as the program asked for them.
    pub(crate) size: u64,
    /// Counts allocations over the process, never used twice: the pointer attribute `BUFFER_ID`.
    pub(crate) id: u64,
}

struct HeapBlock<B> {
    length: u64,
    free: RangeAllocator<u64>,
    live: usize,
    backing: B,
}

/// Addresses that heaps cut their blocks from; those of several devices may share them.
pub(crate) type Space = Arc<Mutex<RangeAllocator<u64>>>;

/// An allocator over one range of device addresses. `B` is what backs a block.
pub(crate) struct AddressHeap<B> {
    space: Space,
    blocks: BTreeMap<u64, HeapBlock<B>>,
    allocations: BTreeMap<u64, Allocation>,
    next_id: u64,
}

/// An empty block that the heap no longer uses; its owner unmaps it.
pub(crate) struct EmptyBlock<B> {
    pub(crate) address: u64,
    pub(crate) length: u64,
    /// Kept so that the memory goes only after the range was unmapped.
    pub(crate) backing: B,
}

impl<B> AddressHeap<B> {
    /// A heap over `range`, whose ends are multiples of the granularity. Its allocation ids start at `first_id`.
    pub(crate) fn new(range: Range<u64>, first_id: u64) -> Self {
        Self::within(Arc::new(Mutex::new(RangeAllocator::new(range))), first_id)
    }

    /// The same in a space that other heaps share.
    pub(crate) fn within(space: Space, first_id: u64) -> Self {
        Self { space, blocks: BTreeMap::new(), allocations: BTreeMap::new(), next_id: first_id }
    }

    /// Allocates `size` bytes, which must not be 0, aligned to `align`, a power of two up to the granularity.
    /// `back(address, length)` makes a new block where no block has room; its error is returned. `None` means that the
    /// heap has no addresses left.
    pub(crate) fn allocate<E>(
        &mut self,
        size: u64,
        align: u64,
        back: impl FnOnce(u64, u64) -> Result<B, E>,
    ) -> Result<Option<Allocation>, E> {
        let align = align.max(ALIGNMENT);
        let most = {
            let space = lock(&self.space);
            space.initial_range().end - space.initial_range().start
        };
        // Whoever asks the allocators for more than half of all numbers has them panic.
        let length = size.checked_next_multiple_of(ALIGNMENT).filter(|length| *length <= most);
        let Some(length) = length else { return Ok(None) };
        let found = if length < GRANULARITY { self.cut(length, align) } else { self.reuse(length) };
        let address = match found {
            Some(address) => address,
            None => match self.grow(length, back)? {
                Some(address) => address,
                None => return Ok(None),
            },
        };
        let allocation = Allocation { address, size, id: self.next_id };
        self.next_id += 1;
        self.allocations.insert(address, allocation);
        Ok(Some(allocation))
    }

    fn cut(&mut self, length: u64, align: u64) -> Option<u64> {
        for block in self.blocks.values_mut() {
            if let Ok(range) = block.free.allocate_range_aligned(length, align) {
                block.live += 1;
                return Some(range.start);
            }
        }
        None
    }

    /// An empty block of just this many granules. A larger one would hold back what another allocation may need.
    fn reuse(&mut self, length: u64) -> Option<u64> {
        let whole = length.checked_next_multiple_of(GRANULARITY)?;
        let mut fitting = self.blocks.values_mut().filter(|block| block.live == 0 && block.length == whole);
        let block = fitting.next()?;
        let range = block.free.allocate_range(length).ok()?;
        block.live = 1;
        Some(range.start)
    }

    fn grow<E>(&mut self, length: u64, back: impl FnOnce(u64, u64) -> Result<B, E>) -> Result<Option<u64>, E> {
        let Some(whole) = length.checked_next_multiple_of(GRANULARITY) else { return Ok(None) };
        let Ok(range) = lock(&self.space).allocate_range(whole) else { return Ok(None) };
        let backing = match back(range.start, whole) {
            Ok(backing) => backing,
            Err(error) => {
                lock(&self.space).free_range(range);
                return Err(error);
            }
        };
        let mut free = RangeAllocator::new(range.clone());
        // The first range of an empty allocator starts at its start, which is a multiple of the granularity.
        let taken = free.allocate_range(length).is_ok();
        debug_assert!(taken, "a new block holds what it was made for");
        self.blocks.insert(range.start, HeapBlock { length: whole, free, live: 1, backing });
        Ok(Some(range.start))
    }

    /// Frees the allocation that starts at `address`; `None` when there is none. The memory stays mapped until
    /// [`AddressHeap::take_empty`].
    pub(crate) fn free(&mut self, address: u64) -> Option<Allocation> {
        let allocation = self.allocations.remove(&address)?;
        let length = allocation.size.next_multiple_of(ALIGNMENT);
        if let Some((_, block)) = self.blocks.range_mut(..=address).next_back() {
            block.free.free_range(address..address + length);
            block.live -= 1;
        }
        Some(allocation)
    }

    /// Takes the empty blocks out of the heap. One block of a single granule is kept, so that a loop of small
    /// allocations and frees does not map and unmap each time. `all` takes that one too.
    pub(crate) fn take_empty(&mut self, all: bool) -> Vec<EmptyBlock<B>> {
        let mut keep = !all;
        let mut addresses = Vec::new();
        for (&address, block) in &self.blocks {
            if block.live > 0 {
                continue;
            }
            if keep && block.length == GRANULARITY {
                keep = false;
                continue;
            }
            addresses.push(address);
        }
        let mut empty = Vec::with_capacity(addresses.len());
        for address in addresses {
            if let Some(block) = self.blocks.remove(&address) {
                lock(&self.space).free_range(address..address + block.length);
                empty.push(EmptyBlock { address, length: block.length, backing: block.backing });
            }
        }
        empty
    }

    /// Bytes of the blocks that `take_empty` would give back.
    pub(crate) fn empty_bytes(&self) -> u64 {
        self.blocks.values().filter(|block| block.live == 0).map(|block| block.length).sum()
    }

    /// The live allocation that contains `address`.
    pub(crate) fn find(&self, address: u64) -> Option<Allocation> {
        let (_, allocation) = self.allocations.range(..=address).next_back()?;
        (address - allocation.address < allocation.size).then_some(*allocation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: u64 = 0x1000_0000_0000;

    fn heap() -> AddressHeap<()> {
        AddressHeap::new(BASE..BASE + (1 << 30), 1)
    }

    fn take(heap: &mut AddressHeap<()>, size: u64) -> u64 {
        let made: Result<_, ()> = heap.allocate(size, 1, |_, _| Ok(()));
        made.expect("backed").expect("room").address
    }

    #[test]
    fn small_allocations_share_a_block_and_are_aligned() {
        let mut heap = heap();
        assert_eq!(take(&mut heap, 1), BASE);
        assert_eq!(take(&mut heap, 513), BASE + 512);
        assert_eq!(take(&mut heap, 4), BASE + 512 + 1024);
        assert_eq!(heap.blocks.len(), 1);
    }

    #[test]
    fn large_allocation_has_its_own_block_of_whole_granules() {
        let mut heap = heap();
        let address = take(&mut heap, 3 << 20);
        assert_eq!(address % GRANULARITY, 0);
        assert_eq!(heap.blocks[&address].length, 4 << 20);
    }

    #[test]
    fn large_allocation_takes_an_empty_block_of_its_size_and_no_other() {
        let mut heap = heap();
        let (larger, same) = (take(&mut heap, 8 << 20), take(&mut heap, 4 << 20));
        heap.free(larger);
        heap.free(same);
        assert_eq!(take(&mut heap, 3 << 20), same);
        assert_ne!(take(&mut heap, 3 << 20), larger);
        assert_eq!(take(&mut heap, 8 << 20), larger);
        assert_eq!(heap.empty_bytes(), 0);
    }

    #[test]
    fn freed_address_is_handed_out_again() {
        let mut heap = heap();
        let first = take(&mut heap, 100);
        let second = take(&mut heap, 100);
        assert!(heap.free(first).is_some());
        assert_eq!(take(&mut heap, 100), first);
        assert_ne!(first, second);
    }

    #[test]
    fn freeing_what_was_never_allocated_is_refused() {
        let mut heap = heap();
        let address = take(&mut heap, 100);
        assert!(heap.free(address + 4).is_none());
        assert!(heap.free(address).is_some());
        assert!(heap.free(address).is_none());
    }

    #[test]
    fn empty_blocks_are_given_back_but_one_small_one_stays() {
        let mut heap = heap();
        let small = take(&mut heap, 100);
        let large = take(&mut heap, 5 << 20);
        heap.free(small);
        heap.free(large);
        let empty = heap.take_empty(false);
        assert_eq!(empty.iter().map(|block| block.address).collect::<Vec<_>>(), [large]);
        assert_eq!(heap.empty_bytes(), GRANULARITY);
        assert_eq!(heap.take_empty(true).len(), 1);
    }

    #[test]
    fn failing_backing_leaves_the_heap_as_it_was() {
        let mut heap: AddressHeap<()> = heap();
        let result: Result<Option<Allocation>, &str> = heap.allocate(8 << 20, 1, |_, _| Err("no memory"));
        assert_eq!(result.err(), Some("no memory"));
        assert_eq!(take(&mut heap, 8 << 20), BASE);
    }

    #[test]
    fn address_inside_an_allocation_finds_it_and_behind_it_does_not() {
        let mut heap = heap();
        let address = take(&mut heap, 100);
        assert_eq!(heap.find(address + 99).map(|found| found.address), Some(address));
        assert_eq!(heap.find(address + 100), None);
    }

    #[test]
    fn absurd_size_is_refused_without_overflow() {
        let mut heap = heap();
        for size in [(1 << 30) + 1, i64::MAX.unsigned_abs(), 1 << 63, u64::MAX - ALIGNMENT, u64::MAX] {
            let result: Result<_, ()> = heap.allocate(size, 1, |_, _| Ok(()));
            assert_eq!(result.expect("no backing asked for"), None, "{size:#x}");
        }
        assert_eq!(take(&mut heap, 1 << 30), BASE);
    }
}
