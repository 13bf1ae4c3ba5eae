//! Device memory of one vGPU, cut from blocks. Requests, frees and news of completed work come in; addresses, plans for
//! new blocks and blocks to release go out. It is pure: it sends nothing, and it never gives out an address whose last
//! use may still be running.

pub(crate) mod early;

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use range_alloc::RangeAllocator;

use crate::memory::addresses::Addresses;

/// Allocations start at multiples of this, as cuMemAlloc's do.
pub(crate) const ALIGNMENT: u64 = 512;
/// The first shared block; later ones double until [`LARGEST_SHARED`].
const SMALLEST_SHARED: u64 = 2 << 20;
/// Shared blocks grow no further: a larger one would hold memory that other sessions could use.
const LARGEST_SHARED: u64 = 32 << 20;
/// From here on an allocation has a block to itself, so that its memory goes back as soon as it is freed.
const OWN_BLOCK: u64 = 16 << 20;
/// Bytes of wholly free blocks that are kept for the next allocation rather than released.
const KEPT: u64 = 64 << 20;

/// A block that must be created: `bytes` at address `at`, whose id the caller chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Plan {
    /// First address of its mapping.
    pub(crate) at: u64,
    /// Its size, a multiple of the granularity.
    pub(crate) bytes: u64,
}

/// A block as it is mapped: whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Whole {
    /// The id it was added with.
    pub(crate) block: u64,
    /// First address of its mapping.
    pub(crate) at: u64,
    /// Its size.
    pub(crate) bytes: u64,
}

/// One allocation, as far as it is known here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Allocation {
    /// First address.
    pub(crate) at: u64,
    /// Bytes the program asked for.
    pub(crate) bytes: u64,
    /// A number for the owner to remember: the context, the pool.
    pub(crate) owner: u64,
    /// A number no other allocation of this process has had.
    pub(crate) serial: u64,
}

#[derive(Debug)]
struct Block {
    id: u64,
    bytes: u64,
    free_bytes: u64,
    free: RangeAllocator<u64>,
}

/// A freed range whose last use may still be running. `F` says when it is over.
#[derive(Debug)]
struct Quarantined<F> {
    range: Range<u64>,
    /// The stream the memory was freed on, in whose order it may be used again at once.
    stream: Option<u64>,
    fence: F,
}

/// The blocks of one vGPU and what is cut from them. `F` is a fence behind work.
#[derive(Debug)]
pub(crate) struct Blocks<F> {
    granularity: u64,
    alignment: u64,
    places: Addresses,
    next_shared: u64,
    keep: u64,
    /// By first address.
    blocks: BTreeMap<u64, Block>,
    /// By first address.
    allocations: BTreeMap<u64, Allocation>,
    quarantine: VecDeque<Quarantined<F>>,
    serial: u64,
}

impl<F> Blocks<F> {
    /// No blocks yet, in the address range `window`, with blocks in multiples of `granularity`.
    pub(crate) fn new(window: Range<u64>, granularity: u64) -> Self {
        Self {
            granularity: granularity.max(1).next_power_of_two(),
            alignment: ALIGNMENT,
            places: Addresses::new(window),
            next_shared: SMALLEST_SHARED,
            keep: KEPT,
            blocks: BTreeMap::new(),
            allocations: BTreeMap::new(),
            quarantine: VecDeque::new(),
            serial: 0,
        }
    }

    /// The same with allocations that start at multiples of `alignment`, a power of two, and share none of such a unit.
    pub(crate) fn aligned_to(self, alignment: u64) -> Self {
        Self { alignment: alignment.max(ALIGNMENT), ..self }
    }

    /// Keeps so many bytes of wholly free blocks; never less than the default.
    pub(crate) fn keep(&mut self, bytes: u64) {
        self.keep = bytes.max(KEPT);
    }

    /// Cuts `bytes` from the blocks there are. `stream` is the stream in whose order the memory is used first. Memory
    /// freed on that stream may be taken although its last use still runs. `None` where nothing fits.
    pub(crate) fn allocate(&mut self, bytes: u64, owner: u64, stream: Option<u64>) -> Option<u64> {
        let size = self.rounded(bytes)?;
        let at = self.freed_on(size, stream).or_else(|| self.cut(size))?;
        self.record(at, bytes, owner);
        Some(at)
    }

    /// Chooses size and place of a block that would hold `bytes`. The place is taken until [`Blocks::add`] or
    /// [`Blocks::cancel`]. `None` where the window has no room.
    pub(crate) fn plan(&mut self, bytes: u64) -> Option<Plan> {
        let size = self.rounded(bytes)?;
        let wanted = if size >= OWN_BLOCK { size } else { size.max(self.next_shared) };
        self.place(wanted)
    }

    /// The smallest block that would hold `bytes`, for when a comfortable one was refused.
    pub(crate) fn plan_tight(&mut self, bytes: u64) -> Option<Plan> {
        let size = self.rounded(bytes)?;
        self.place(size)
    }

    /// A block of exactly this size, if there is such a one.
    pub(crate) fn plan_exactly(&mut self, bytes: u64) -> Option<Plan> {
        let fits = bytes != 0 && bytes.is_multiple_of(self.granularity);
        if fits { self.place(bytes) } else { None }
    }

    /// The planned block exists with this id: cuts `bytes` from it at once, so that no other thread takes its room.
    pub(crate) fn add(&mut self, plan: Plan, id: u64, bytes: u64, owner: u64) -> Option<u64> {
        if plan.bytes < OWN_BLOCK {
            self.next_shared = (self.next_shared * 2).min(LARGEST_SHARED);
        }
        let mut block = Block {
            id,
            bytes: plan.bytes,
            free_bytes: plan.bytes,
            free: RangeAllocator::new(plan.at..plan.at + plan.bytes),
        };
        let at = self.rounded(bytes).and_then(|size| block.cut(size));
        self.blocks.insert(plan.at, block);
        let at = at?;
        self.record(at, bytes, owner);
        Some(at)
    }

    /// The planned block could not be created.
    pub(crate) fn cancel(&mut self, plan: Plan) {
        self.places.release(plan.at, plan.bytes);
    }

    /// Frees the allocation that starts at `at`; its memory is given out again once `fence` is passed. `None` where no
    /// allocation starts there.
    pub(crate) fn free(&mut self, at: u64, fence: F, stream: Option<u64>) -> Option<Allocation> {
        let allocation = self.allocations.remove(&at)?;
        let size = self.rounded(allocation.bytes)?;
        self.quarantine.push_back(Quarantined { range: at..at + size, stream, fence });
        Some(allocation)
    }

    /// Takes what `is_passed` says is no longer in use out of quarantine, and returns the blocks that hold nothing and are
    /// not worth keeping. Their addresses are free for other blocks at once, since unmapping goes ahead of mapping in the
    /// order of messages.
    pub(crate) fn collect(&mut self, is_passed: impl Fn(&F) -> bool) -> Vec<Whole> {
        let mut kept = VecDeque::with_capacity(self.quarantine.len());
        for entry in std::mem::take(&mut self.quarantine) {
            if is_passed(&entry.fence) {
                self.give_back(entry.range);
            } else {
                kept.push_back(entry);
            }
        }
        self.quarantine = kept;
        self.surplus(self.keep)
    }

    /// Blocks that hold nothing beyond `keep` bytes of such blocks.
    pub(crate) fn surplus(&mut self, keep: u64) -> Vec<Whole> {
        let mut idle = 0u64;
        let mut surplus = Vec::new();
        for (at, block) in &self.blocks {
            if block.free_bytes == block.bytes {
                // Blocks made for one large allocation go back first: they fit little else.
                if idle.saturating_add(block.bytes) <= keep {
                    idle += block.bytes;
                } else {
                    surplus.push(Whole { block: block.id, at: *at, bytes: block.bytes });
                }
            }
        }
        for block in &surplus {
            self.blocks.remove(&block.at);
            self.places.release(block.at, block.bytes);
        }
        surplus
    }

    /// The allocation that holds this address.
    pub(crate) fn find(&self, address: u64) -> Option<&Allocation> {
        let (_, allocation) = self.allocations.range(..=address).next_back()?;
        // The program may name the address of an allocation of no use to others: sizes of 0 do not occur.
        (address - allocation.at < allocation.bytes).then_some(allocation)
    }

    /// The end of the memory that `address` lies in. As with CUDA's own allocations, what an allocation was rounded up
    /// to belongs to it.
    pub(crate) fn reach(&self, address: u64) -> Option<u64> {
        let (start, allocation) = self.allocations.range(..=address).next_back()?;
        let end = start + self.rounded(allocation.bytes)?;
        (address < end).then_some(end)
    }

    /// The block that holds this address, whether or not an allocation does.
    pub(crate) fn block_at(&self, address: u64) -> Option<Whole> {
        let (at, block) = self.blocks.range(..=address).next_back()?;
        (address - at < block.bytes).then_some(Whole { block: block.id, at: *at, bytes: block.bytes })
    }

    /// All blocks.
    pub(crate) fn all(&self) -> Vec<Whole> {
        self.blocks.iter().map(|(at, block)| Whole { block: block.id, at: *at, bytes: block.bytes }).collect()
    }

    /// Whether anything waits in quarantine.
    pub(crate) fn has_quarantined(&self) -> bool {
        !self.quarantine.is_empty()
    }

    /// Bytes of created blocks that no allocation holds, quarantined ones included.
    pub(crate) fn idle_bytes(&self) -> u64 {
        let all: u64 = self.blocks.values().map(|block| block.bytes).sum();
        let used: u64 = self.allocations.values().filter_map(|allocation| self.rounded(allocation.bytes)).sum();
        all.saturating_sub(used)
    }

    /// First addresses of the allocations `owner` holds.
    pub(crate) fn owned_by(&self, owner: u64) -> Vec<u64> {
        self.allocations
            .values()
            .filter(|allocation| allocation.owner == owner)
            .map(|allocation| allocation.at)
            .collect()
    }

    /// Forgets everything: the server has given all blocks up.
    pub(crate) fn clear(&mut self) {
        for (at, block) in std::mem::take(&mut self.blocks) {
            self.places.release(at, block.bytes);
        }
        self.allocations.clear();
        self.quarantine.clear();
        self.next_shared = SMALLEST_SHARED;
    }

    /// The bytes an allocation really takes; `None` for 0 and for what no address space holds.
    fn rounded(&self, bytes: u64) -> Option<u64> {
        if bytes == 0 {
            return None;
        }
        bytes.checked_next_multiple_of(self.alignment).filter(|size| *size <= 1 << 47)
    }

    fn place(&mut self, bytes: u64) -> Option<Plan> {
        let bytes = bytes.checked_next_multiple_of(self.granularity)?;
        let at = self.places.reserve(bytes, self.granularity, None)?;
        Some(Plan { at, bytes })
    }

    fn record(&mut self, at: u64, bytes: u64, owner: u64) {
        self.serial += 1;
        self.allocations.insert(at, Allocation { at, bytes, owner, serial: self.serial });
    }

    fn cut(&mut self, size: u64) -> Option<u64> {
        self.blocks.values_mut().filter(|block| block.free_bytes >= size).find_map(|block| block.cut(size))
    }

    /// A range of exactly this size that was freed on the same stream.
    fn freed_on(&mut self, size: u64, stream: Option<u64>) -> Option<u64> {
        let stream = stream?;
        let index = self
            .quarantine
            .iter()
            .position(|entry| entry.stream == Some(stream) && entry.range.end - entry.range.start == size)?;
        Some(self.quarantine.remove(index)?.range.start)
    }

    fn give_back(&mut self, range: Range<u64>) {
        let block = self.blocks.range_mut(..=range.start).next_back();
        if let Some((_, block)) = block {
            block.free_bytes += range.end - range.start;
            block.free.free_range(range);
        }
    }
}

impl Block {
    fn cut(&mut self, size: u64) -> Option<u64> {
        let range = self.free.allocate_range(size).ok()?;
        self.free_bytes -= size;
        Some(range.start)
    }
}

#[cfg(test)]
mod tests;
