//! What one vGPU's program has opened of other processes: blocks mapped in its window, and the allocations in them that were
//! opened, each as often as it was. Opens and closes come in; addresses, and mappings that nobody has open any more, go
//! out. It is pure, and an address it gave stays what it is until the last close.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

use floe_abi::Context;
use floe_lock::lock;

use super::passport::Secret;
use crate::memory::blocks::ALIGNMENT;

/// Numbers of opened allocations begin here: no allocation of the process's own gets so far.
const SERIALS: u64 = 1 << 40;

/// What is opened: an allocation of another session, by its ticket. With another secret it is another, which the exporter's
/// worker refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) session: u64,
    /// The block there.
    pub(crate) object: u64,
    pub(crate) ticket: u64,
    pub(crate) secret: Secret,
}

/// How the program has opened it, which says how it closes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Door {
    /// By `cuIpcOpenMemHandle`.
    Handle,
    /// By an imported pool: it is freed as memory of one's own.
    Pool,
}

/// A block of another session, mapped here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mapped {
    /// First address.
    pub(crate) at: u64,
    pub(crate) bytes: u64,
}

/// One allocation that is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OpenedAllocation {
    pub(crate) at: u64,
    pub(crate) bytes: u64,
    pub(crate) context: Context,
    pub(crate) serial: u64,
    door: Door,
    count: u32,
    source: Source,
    /// First address of the mapping that it is in.
    mapping: u64,
}

#[derive(Debug)]
struct MappedBlock {
    mapped: Mapped,
    session: u64,
    object: u64,
    /// Allocations of it that are open, and openings that hold it.
    open: usize,
}

/// The memory of other processes that a vGPU has, for all its threads.
#[derive(Debug)]
pub(crate) struct Openings<F> {
    pub(crate) opened: Mutex<Opened<F>>,
    /// One thread at a time opens: the second finds what the first has opened.
    pub(super) opening: Mutex<()>,
    /// Whether the program has ever opened any: most never do, and free memory all the time.
    any: AtomicBool,
}

impl<F> Openings<F> {
    /// The program opens something.
    pub(super) fn begin(&self) -> MutexGuard<'_, ()> {
        self.any.store(true, Ordering::Release);
        lock(&self.opening)
    }

    /// Whether anything was ever opened.
    pub(crate) fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }
}

impl<F> Default for Openings<F> {
    fn default() -> Self {
        Self { opened: Mutex::default(), opening: Mutex::default(), any: AtomicBool::new(false) }
    }
}

/// The memory of other processes that a vGPU has. `F` is a fence behind work.
#[derive(Debug)]
pub(crate) struct Opened<F> {
    /// By first address.
    blocks: BTreeMap<u64, MappedBlock>,
    /// By first address.
    allocations: BTreeMap<u64, OpenedAllocation>,
    leaving: Vec<(F, Mapped)>,
    serial: u64,
}

impl<F> Default for Opened<F> {
    fn default() -> Self {
        Self { blocks: BTreeMap::new(), allocations: BTreeMap::new(), leaving: Vec::new(), serial: SERIALS }
    }
}

impl<F> Opened<F> {
    /// Opens once more what is open already.
    pub(crate) fn open_again(&mut self, source: Source, door: Door) -> Option<u64> {
        let mut all = self.allocations.values_mut();
        let found = all.find(|opened| opened.source == source && opened.door == door)?;
        found.count = found.count.checked_add(1)?;
        Some(found.at)
    }

    /// Holds a mapping of the source's block in which nothing is open at this offset, until [`Opened::let_go`]: other threads may
    /// close all that is open there. At this offset an allocation may still be open that the exporter has freed, and has made
    /// another in its place.
    pub(crate) fn hold(&mut self, source: Source, offset: u64) -> Option<Mapped> {
        let mut all = self.blocks.values_mut();
        let found = all.find(|block| {
            let is_source = (block.session, block.object) == (source.session, source.object);
            is_source && !self.allocations.contains_key(&(block.mapped.at + offset))
        })?;
        found.open += 1;
        Some(found.mapped)
    }

    /// A block has been mapped that [`Opened::open`] opens parts of. It is held.
    pub(crate) fn add(&mut self, source: Source, mapped: Mapped) {
        let Source { session, object, .. } = source;
        self.blocks.insert(mapped.at, MappedBlock { mapped, session, object, open: 1 });
    }

    /// Opens a part of a mapping; `None` where it is not inside, or something else is open there.
    pub(crate) fn open(
        &mut self,
        mapping: u64,
        source: Source,
        part: std::ops::Range<u64>,
        context: Context,
        door: Door,
    ) -> Option<u64> {
        let block = self.blocks.get_mut(&mapping)?;
        let at = mapping + part.start;
        let is_inside = part.start < part.end && part.end <= block.mapped.bytes;
        if !is_inside || self.allocations.contains_key(&at) {
            return None;
        }
        block.open += 1;
        self.serial += 1;
        let (bytes, serial) = (part.end - part.start, self.serial);
        let opened = OpenedAllocation { at, bytes, context, serial, door, count: 1, source, mapping };
        self.allocations.insert(at, opened);
        Some(at)
    }

    /// Closes what was opened at this address, once; whether there was such. What nobody has open any more stays mapped until
    /// `fence` is passed.
    pub(crate) fn close(&mut self, at: u64, door: Door, fence: F) -> bool {
        let Some(opened) = self.allocations.get_mut(&at).filter(|opened| opened.door == door) else { return false };
        opened.count -= 1;
        if opened.count == 0 {
            let mapping = opened.mapping;
            self.allocations.remove(&at);
            self.let_go(mapping, fence);
        }
        true
    }

    /// Closes everything that one context has opened.
    pub(crate) fn close_of(&mut self, context: Context, fence: &F)
    where
        F: Clone,
    {
        let of_context = self.allocations.values().filter(|opened| opened.context == context);
        for (at, mapping) in of_context.map(|opened| (opened.at, opened.mapping)).collect::<Vec<_>>() {
            self.allocations.remove(&at);
            self.let_go(mapping, fence.clone());
        }
    }

    /// A mapping is held no longer, or one allocation fewer of it is open. With the last it is given up behind `fence`.
    pub(crate) fn let_go(&mut self, mapping: u64, fence: F) {
        let Some(block) = self.blocks.get_mut(&mapping) else { return };
        block.open = block.open.saturating_sub(1);
        if block.open == 0 {
            self.leaving.push((fence, block.mapped));
            self.blocks.remove(&mapping);
        }
    }

    /// Whether something is left to unmap.
    pub(crate) fn any_leaves(&self) -> bool {
        !self.leaving.is_empty()
    }

    /// The mappings that may go now.
    pub(crate) fn collect(&mut self, is_passed: impl Fn(&F) -> bool) -> Vec<Mapped> {
        let (over, left): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.leaving).into_iter().partition(|(fence, _)| is_passed(fence));
        self.leaving = left;
        over.into_iter().map(|(_, mapped)| mapped).collect()
    }

    /// The opened allocation that holds this address.
    pub(crate) fn find(&self, at: u64) -> Option<OpenedAllocation> {
        let (_, opened) = self.allocations.range(..=at).next_back()?;
        (at - opened.at < opened.bytes).then_some(*opened)
    }

    /// The end of the memory that `at` lies in: as with memory of one's own, what the allocation was rounded up to belongs to it.
    pub(crate) fn reach(&self, at: u64) -> Option<u64> {
        let (_, opened) = self.allocations.range(..=at).next_back()?;
        let end = opened.at.checked_add(opened.bytes.checked_next_multiple_of(ALIGNMENT)?)?;
        (at < end).then_some(end)
    }

    /// The server has given everything up.
    pub(crate) fn clear(&mut self) {
        self.blocks.clear();
        self.allocations.clear();
        self.leaving.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: Mapped = Mapped { at: 0x20_0000, bytes: 0x20_0000 };
    const CONTEXT: Context = Context(3);

    fn source(ticket: u64) -> Source {
        Source { session: 1, object: 2, ticket, secret: Secret([7; 16]) }
    }

    fn opened() -> Opened<bool> {
        let mut opened = Opened::default();
        opened.add(source(9), BLOCK);
        assert_eq!(opened.open(BLOCK.at, source(9), 0x400..0x500, CONTEXT, Door::Handle), Some(0x20_0400));
        opened.let_go(BLOCK.at, true);
        opened
    }

    #[test]
    fn what_is_opened_twice_has_one_address_and_is_closed_as_often() {
        let mut opened = opened();
        assert_eq!(opened.open_again(source(9), Door::Handle), Some(0x20_0400));
        assert!(opened.close(0x20_0400, Door::Handle, true));
        assert!(opened.find(0x20_0400).is_some());
        assert!(opened.close(0x20_0400, Door::Handle, true));
        assert_eq!(opened.find(0x20_0400), None);
        assert!(!opened.close(0x20_0400, Door::Handle, true));
        assert_eq!(opened.collect(|passed| *passed), [BLOCK]);
        assert_eq!(opened.hold(source(9), 0), None);
    }

    #[test]
    fn what_is_open_is_not_opened_again_with_another_secret() {
        let mut opened = opened();
        assert_eq!(opened.open_again(Source { secret: Secret([8; 16]), ..source(9) }, Door::Handle), None);
        assert_eq!(opened.open_again(Source { object: 3, ..source(9) }, Door::Handle), None);
    }

    #[test]
    fn two_allocations_of_a_block_share_its_mapping_until_both_are_closed() {
        let mut opened = opened();
        assert_eq!(opened.open(BLOCK.at, source(10), 0x800..0x900, CONTEXT, Door::Handle), Some(0x20_0800));
        assert_ne!(opened.find(0x20_0400).unwrap().serial, opened.find(0x20_0800).unwrap().serial);
        assert!(opened.close(0x20_0400, Door::Handle, true));
        assert_eq!(opened.collect(|passed| *passed), []);
        assert!(opened.close(0x20_0800, Door::Handle, false));
        assert_eq!(opened.collect(|passed| *passed), []);
        assert_eq!(opened.collect(|_| true), [BLOCK]);
    }

    #[test]
    fn an_allocation_that_is_not_inside_its_block_is_refused() {
        let mut opened = opened();
        assert_eq!(opened.open(BLOCK.at, source(10), 0x1f_ff00..0x20_0001, CONTEXT, Door::Handle), None);
        assert_eq!(opened.open(BLOCK.at, source(10), 0x800..0x800, CONTEXT, Door::Handle), None);
        assert_eq!(opened.open(0x40_0000, source(10), 0x800..0x900, CONTEXT, Door::Handle), None);
    }

    #[test]
    fn an_allocation_in_the_place_of_an_open_one_gets_a_mapping_of_its_own() {
        let mut opened = opened();
        assert_eq!(opened.hold(source(10), 0x800), Some(BLOCK));
        opened.let_go(BLOCK.at, true);
        assert_eq!(opened.hold(source(10), 0x400), None);
        let second = Mapped { at: 0x80_0000, ..BLOCK };
        opened.add(source(10), second);
        assert_eq!(opened.open(second.at, source(10), 0x400..0x600, CONTEXT, Door::Handle), Some(0x80_0400));
        assert!(opened.close(0x20_0400, Door::Handle, true));
        assert_eq!(opened.collect(|_| true), [BLOCK]);
        assert!(opened.find(0x80_0400).is_some());
    }

    #[test]
    fn memory_of_a_pool_is_not_closed_as_a_handles_is() {
        let mut opened = opened();
        assert!(!opened.close(0x20_0400, Door::Pool, true));
        assert_eq!(opened.open_again(source(9), Door::Pool), None);
        assert_eq!(opened.open(BLOCK.at, source(10), 0x800..0x900, CONTEXT, Door::Pool), Some(0x20_0800));
        assert!(opened.close(0x20_0800, Door::Pool, true));
    }

    #[test]
    fn an_address_reaches_to_the_end_of_what_the_allocation_was_rounded_to() {
        let opened = opened();
        assert_eq!(opened.reach(0x20_0400), Some(0x20_0600));
        assert_eq!(opened.reach(0x20_0600), None);
        assert_eq!(opened.find(0x20_0500), None);
        assert_eq!(opened.reach(0x20_03ff), None);
    }

    #[test]
    fn a_context_that_ends_closes_what_it_opened() {
        let mut opened = opened();
        assert_eq!(opened.open(BLOCK.at, source(10), 0x800..0x900, Context(4), Door::Handle), Some(0x20_0800));
        opened.close_of(CONTEXT, &true);
        assert_eq!(opened.find(0x20_0400), None);
        assert!(opened.find(0x20_0800).is_some());
        opened.close_of(Context(4), &true);
        assert!(opened.any_leaves());
        opened.clear();
        assert!(!opened.any_leaves());
    }

    /// The exporter is asked for each allocation, and meanwhile another thread closes all that is open of the block.
    #[test]
    fn a_mapping_that_is_held_stays_when_another_thread_closes_the_last_of_it() {
        let mut opened = opened();
        assert_eq!(opened.hold(source(10), 0x800), Some(BLOCK));
        assert!(opened.close(0x20_0400, Door::Handle, true));
        assert!(!opened.any_leaves());
        assert_eq!(opened.open(BLOCK.at, source(10), 0x800..0x900, CONTEXT, Door::Handle), Some(0x20_0800));
        opened.let_go(BLOCK.at, true);
        assert!(!opened.any_leaves());
        assert!(opened.close(0x20_0800, Door::Handle, true));
        assert_eq!(opened.collect(|_| true), [BLOCK]);
    }

    #[test]
    fn a_mapping_made_in_vain_leaves_and_one_in_use_stays() {
        let mut opened = opened();
        assert_eq!(opened.hold(source(10), 0x800), Some(BLOCK));
        opened.let_go(BLOCK.at, true);
        assert!(!opened.any_leaves());
        let other = Mapped { at: 0x80_0000, ..BLOCK };
        opened.add(Source { object: 3, ..source(9) }, other);
        opened.let_go(other.at, true);
        assert_eq!(opened.collect(|_| true), [other]);
    }
}
