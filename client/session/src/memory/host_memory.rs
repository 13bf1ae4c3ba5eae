//! Host memory the program has pinned: allocated by floe, where it can be shared with a worker or not, or registered. Ranges
//! come in, and whether an address belongs to one goes out. Copies from such memory may be taken later and copies into it may
//! arrive later, as CUDA promises for it. It asks no worker.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, RwLock};

use floe_abi::{Context, CudaError, CudaResult, HostPointer};
use floe_surface::{HostBlock, HostPages, HostRange, PAGE};
use floe_touch::Exchanged;

pub(crate) mod arena;
pub(crate) mod file_pages;
mod offers;
pub(crate) mod sharing;

use arena::{Arena, ArenaBlock};
use file_pages::{FilePages, pages_around};

/// One pinned range.
#[derive(Debug)]
pub(crate) struct Pinned {
    bytes: u64,
    /// As the program gave them.
    pub(crate) flags: u32,
    pub(crate) context: Context,
    origin: Origin,
    /// All of it.
    range: HostRange,
}

/// Whose memory it is.
#[derive(Debug)]
enum Origin {
    /// floe's, for this process alone.
    Private { _block: HostBlock },
    /// floe's, of the arena.
    Shared(ArenaBlock),
    /// The program's, which registered it.
    Registered(Registered),
    /// The program's, a second time at an address of floe's choice.
    Alias(Alias),
}

/// Memory that the program registered.
#[derive(Debug)]
struct Registered {
    /// Its pages, where a worker of this machine can map them.
    file: Option<Arc<FilePages>>,
    /// Where its first byte is mapped a second time.
    alias: Option<u64>,
    /// Set where its pages were private, and are a file's until it is registered no more.
    exchanged: Option<Exchanged>,
}

/// The same pages at an address that no other memory of this process has had.
#[derive(Debug)]
struct Alias {
    /// The first address of the registered memory.
    of: u64,
    /// The pages and their second mapping; `None` where only the worker has memory at the second address.
    pages: Option<(Arc<FilePages>, HostBlock)>,
}

impl Origin {
    fn is_allocated(&self) -> bool {
        matches!(self, Self::Private { .. } | Self::Shared(_))
    }

    fn is_registered(&self) -> bool {
        matches!(self, Self::Registered(_))
    }

    /// The pages that a worker of this machine can map.
    fn pages(&self) -> Option<Pages> {
        match self {
            Self::Private { .. } => None,
            Self::Shared(block) => Some(Pages::Arena(block.block.pages())),
            Self::Registered(Registered { file, .. }) => file.clone().map(Pages::File),
            Self::Alias(Alias { pages, .. }) => pages.as_ref().map(|(file, _)| Pages::File(Arc::clone(file))),
        }
    }
}

/// Pages that a worker of this machine can map.
#[derive(Debug, Clone)]
pub(crate) enum Pages {
    /// Of the arena.
    Arena(HostPages),
    /// Those of a file of the program's.
    File(Arc<FilePages>),
}

/// The pinned memory around an address.
#[derive(Debug, Clone)]
pub(crate) struct PinnedRange {
    /// All of it.
    pub(crate) whole: HostRange,
    /// The same bytes at the program's own address.
    pub(crate) own: HostRange,
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
    /// Its pages, where a worker of this machine can map them.
    pub(crate) pages: Option<Pages>,
    /// The program's own first address; another only where this is registered memory at a second address.
    pub(crate) host_start: u64,
    /// The first address that kernels use; another only where this is registered memory that has a second address.
    pub(crate) device_start: u64,
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
/// Nothing is given out below: two small numbers side by side in a kernel's parameters (0 and 24,576, say) are no address then.
pub(crate) const UNUSED: u64 = 0x1357_9000;
/// The first place outside the arena.
const PRIVATE_PLACES: u64 = PLACES + arena::BYTES + UNUSED;
/// Larger private allocations are the system's to place: no mirror is so large.
const MOST_PLACED: usize = 4 << 30;

/// The next place nothing has had in this process.
static NEXT_PLACE: AtomicU64 = AtomicU64::new(PRIVATE_PLACES);

/// From the first byte of memory whose device pointer the program has asked for to behind its last.
static EXPECTED: [AtomicU64; 2] = [AtomicU64::new(u64::MAX), AtomicU64::new(0)];

/// Kernels of any vGPU may name addresses of this memory from here on.
pub(crate) fn expect_addresses(pinned: &PinnedRange) {
    EXPECTED[0].fetch_min(pinned.start, Ordering::Relaxed);
    EXPECTED[1].fetch_max(pinned.start + pinned.bytes, Ordering::Relaxed);
}

fn expected() -> Range<u64> {
    EXPECTED[0].load(Ordering::Relaxed)..EXPECTED[1].load(Ordering::Relaxed)
}

/// Whether kernels may name any memory of the host's by its address.
#[inline]
pub(crate) fn may_be_named() -> bool {
    NEXT_PLACE.load(Ordering::Relaxed) != PRIVATE_PLACES || !arena::given_out().is_empty() || !expected().is_empty()
}

/// The addresses among a kernel's parameters that may be of memory of the host's: placed here, or registered.
pub(crate) fn host_addresses(parameters: &[u8]) -> impl Iterator<Item = u64> {
    let places = [PRIVATE_PLACES..NEXT_PLACE.load(Ordering::Relaxed), arena::given_out(), expected()];
    let words =
        parameters.chunks_exact(size_of::<u64>()).filter_map(|word| word.try_into().ok().map(u64::from_le_bytes));
    words.filter(move |word| places.iter().any(|place| place.contains(word)))
}

/// All pinned host memory of the process, by first address.
#[derive(Debug, Default)]
pub(crate) struct HostMemory {
    ranges: RwLock<BTreeMap<u64, Pinned>>,
    /// Whether pages of any registered memory could be found.
    has_files: AtomicBool,
    /// Whether any registered memory has had a second address.
    has_aliases: AtomicBool,
    /// How often any was registered no more.
    endings: AtomicU64,
}

impl HostMemory {
    /// Allocates pinned memory; of the arena where there is a worker that takes it.
    pub(crate) fn allocate(&self, bytes: usize, flags: u32, context: Context, shares: bool) -> CudaResult<HostPointer> {
        let arena = if shares { Arena::of_process() } else { None };
        let (origin, range) = match arena.map_or(Ok(None), |arena| arena.allocate(bytes))? {
            Some(block) => {
                let range = block.block.range();
                (Origin::Shared(block), range)
            }
            None => {
                let block = Self::place(bytes).or_else(|| HostBlock::new(bytes)).ok_or(CudaError::OUT_OF_MEMORY)?;
                let range = block.range();
                (Origin::Private { _block: block }, range)
            }
        };
        let pointer = range.pointer();
        self.write().insert(pointer.0, Pinned { bytes: bytes as u64, flags, context, origin, range });
        Ok(pointer)
    }

    /// Memory at an address that is free in a server's process too, so that kernels can reach it there.
    fn place(bytes: usize) -> Option<HostBlock> {
        if bytes > MOST_PLACED { None } else { HostBlock::at(next_place(bytes as u64), bytes) }
    }

    /// Registers memory of the program, and its pages where a worker can map them.
    pub(crate) fn register(
        &self,
        range: HostRange,
        flags: u32,
        context: Context,
        file: Option<FilePages>,
    ) -> CudaResult<()> {
        let (start, bytes) = (range.pointer(), range.len() as u64);
        let end = start.0.checked_add(bytes).ok_or(CudaError::INVALID_VALUE)?;
        let mut ranges = self.write();
        let overlaps = ranges.range(..end).next_back().is_some_and(|(other, pinned)| other + pinned.bytes > start.0);
        if overlaps {
            return Err(CudaError::HOST_MEMORY_ALREADY_REGISTERED);
        }
        self.has_files.fetch_or(file.is_some(), Ordering::AcqRel);
        let origin = Origin::Registered(Registered { file: file.map(Arc::new), alias: None, exchanged: None });
        ranges.insert(start.0, Pinned { bytes, flags, context, origin, range });
        Ok(())
    }

    /// Exchanges the private pages of registered memory for those of a file, which a worker can map. False where it has a
    /// file, and where that cannot be.
    pub(crate) fn exchange(&self, start: u64) -> bool {
        let mut ranges = self.write();
        let Some(Pinned { bytes, origin: Origin::Registered(registered), .. }) = ranges.get_mut(&start) else {
            return false;
        };
        if registered.file.is_some() || registered.alias.is_some() {
            return false;
        }
        let exchanged = Exchanged::begin(&(start..start + *bytes));
        let file = exchanged.as_ref().and_then(|exchanged| FilePages::exchanged(exchanged, *bytes));
        (registered.file, registered.exchanged) = (file.map(Arc::new), exchanged);
        let has_file = registered.file.is_some();
        drop(ranges);
        self.has_files.fetch_or(has_file, Ordering::AcqRel);
        has_file
    }

    /// Ends `exchange`, where no worker takes the pages.
    pub(crate) fn give_back(&self, start: u64) {
        let mut ranges = self.write();
        let alias = match ranges.get_mut(&start).map(|pinned| &mut pinned.origin) {
            Some(Origin::Registered(registered)) if registered.exchanged.is_some() => {
                registered.file = None;
                registered.alias.take()
            }
            _ => return,
        };
        // The file's other mapping goes first: who maps it can write to it.
        alias.map(|at| ranges.remove(&at));
        if let Some(Origin::Registered(registered)) = ranges.get_mut(&start).map(|pinned| &mut pinned.origin) {
            registered.exchanged = None;
        }
    }

    /// Maps registered memory a second time, at an address that is free in every worker; `None` where it has no file, or
    /// where the system refuses.
    pub(crate) fn make_alias(&self, start: u64) -> Option<PinnedRange> {
        let mut ranges = self.write();
        let pinned = ranges.get_mut(&start)?;
        let Origin::Registered(registered) = &mut pinned.origin else { return None };
        if let Some(at) = registered.alias {
            drop(ranges);
            return self.find(at);
        }
        let file = Arc::clone(registered.file.as_ref()?);
        let place = next_place(file.bytes());
        let block = HostBlock::shared(place, usize::try_from(file.bytes()).ok()?, file.file(), file.offset())?;
        let skipped = start - pages_around(start, pinned.bytes).start;
        let range = block.range().sub(usize::try_from(skipped).ok()?, pinned.range.len()).ok()?;
        let at = place.0 + skipped;
        registered.alias = Some(at);
        let (bytes, flags, context) = (pinned.bytes, pinned.flags, pinned.context);
        let origin = Origin::Alias(Alias { of: start, pages: Some((file, block)) });
        ranges.insert(at, Pinned { bytes, flags, context, origin, range });
        drop(ranges);
        self.has_aliases.store(true, Ordering::Release);
        self.find(at)
    }

    /// A second address for registered memory that only its mirrors have: here it names the program's own bytes.
    pub(crate) fn make_mirror_place(&self, start: u64) -> Option<u64> {
        let mut ranges = self.write();
        let pinned = ranges.get_mut(&start)?;
        let Origin::Registered(registered) = &mut pinned.origin else { return None };
        if registered.alias.is_some() {
            return registered.alias;
        }
        let pages = pages_around(start, pinned.bytes);
        let at = next_place(pages.end - pages.start).0 + (start - pages.start);
        registered.alias = Some(at);
        let (bytes, flags, context, range) = (pinned.bytes, pinned.flags, pinned.context, pinned.range);
        let origin = Origin::Alias(Alias { of: start, pages: None });
        ranges.insert(at, Pinned { bytes, flags, context, origin, range });
        drop(ranges);
        self.has_aliases.store(true, Ordering::Release);
        Some(at)
    }

    /// The same bytes where this process has them: the second address of some registered memory is only its mirror's.
    ///
    /// # Errors
    /// INVALID_VALUE where they begin at a second address and are not all of that memory.
    pub(crate) fn in_process(&self, range: HostRange) -> CudaResult<HostRange> {
        if !self.has_aliases.load(Ordering::Acquire) {
            return Ok(range);
        }
        let (at, bytes) = (range.pointer().0, range.len() as u64);
        match self.find(at).filter(|pinned| pinned.start != pinned.host_start) {
            Some(alias) => alias.part(at, bytes).ok_or(CudaError::INVALID_VALUE),
            None => Ok(range),
        }
    }

    /// The same bytes at the second address of registered memory, where it has one. Work names only that.
    pub(crate) fn by_alias(&self, range: HostRange) -> HostRange {
        if !self.has_aliases.load(Ordering::Acquire) {
            return range;
        }
        let (at, bytes) = (range.pointer().0, range.len() as u64);
        let found = self.find_all(at, bytes).filter(|pinned| pinned.device_start != pinned.start);
        let alias = found.and_then(|pinned| {
            let device = pinned.device_start + (at - pinned.start);
            self.find_all(device, bytes)?.part(device, bytes)
        });
        alias.unwrap_or(range)
    }

    /// Whether an address may be of memory that a worker of this machine has: for most copies no look-up is needed.
    #[inline]
    pub(crate) fn may_share(&self, address: u64) -> bool {
        arena::is_place(address) || self.has_files.load(Ordering::Acquire)
    }

    /// Frees what `allocate` gave.
    pub(crate) fn free(&self, start: HostPointer) -> CudaResult<()> {
        let mut ranges = self.write();
        match ranges.get(&start.0) {
            Some(pinned) if pinned.origin.is_allocated() => {
                ranges.remove(&start.0);
                Ok(())
            }
            _ => Err(CudaError::INVALID_VALUE),
        }
    }

    /// Forgets what `register` was given.
    pub(crate) fn unregister(&self, start: HostPointer) -> CudaResult<()> {
        let mut ranges = self.write();
        match ranges.get(&start.0).map(|pinned| &pinned.origin) {
            Some(Origin::Registered(registered)) => {
                // The file's other mapping goes first: who maps it can write to it.
                registered.alias.map(|at| ranges.remove(&at));
                ranges.remove(&start.0);
                self.endings.fetch_add(1, Ordering::AcqRel);
                Ok(())
            }
            _ => Err(CudaError::HOST_MEMORY_NOT_REGISTERED),
        }
    }

    /// Changes when memory is registered no more. Registered again, it may have to be reached again.
    pub(crate) fn endings(&self) -> u64 {
        self.endings.load(Ordering::Acquire)
    }

    /// The first addresses of the memory registered in a context.
    pub(crate) fn registered_in(&self, context: Context) -> Vec<u64> {
        self.starts_in(context, Origin::is_registered)
    }

    /// The first addresses of the memory allocated in a context.
    pub(crate) fn allocated_in(&self, context: Context) -> Vec<u64> {
        self.starts_in(context, Origin::is_allocated)
    }

    fn starts_in(&self, context: Context, is_wanted: impl Fn(&Origin) -> bool) -> Vec<u64> {
        let ranges = floe_lock::read(&self.ranges);
        let of_context = |pinned: &Pinned| pinned.context == context && is_wanted(&pinned.origin);
        ranges.iter().filter(|(_, pinned)| of_context(pinned)).map(|(start, _)| *start).collect()
    }

    /// A context is gone: what was registered in it may be registered again. Memory given out in it stays the program's.
    pub(crate) fn forget_registered(&self, context: Context) {
        let mut ranges = self.write();
        let stays = |pinned: &Pinned| pinned.origin.is_allocated() || pinned.context != context;
        // The other mappings of files go first: who maps them can write to them.
        ranges.retain(|_, pinned| stays(pinned) || pinned.origin.is_registered());
        ranges.retain(|_, pinned| stays(pinned));
        self.endings.fetch_add(1, Ordering::AcqRel);
    }

    /// The pinned range that holds this address.
    pub(crate) fn find(&self, address: u64) -> Option<PinnedRange> {
        let ranges = floe_lock::read(&self.ranges);
        let (start, pinned) = ranges.range(..=address).next_back()?;
        let (host_start, device_start) = match &pinned.origin {
            Origin::Private { .. } | Origin::Shared(_) => (*start, *start),
            Origin::Registered(registered) => (*start, registered.alias.unwrap_or(*start)),
            Origin::Alias(alias) => (alias.of, *start),
        };
        let own = ranges.get(&host_start).map_or(pinned.range, |own| own.range);
        (address - start < pinned.bytes).then(|| PinnedRange {
            whole: pinned.range,
            own,
            start: *start,
            bytes: pinned.bytes,
            context: pinned.context,
            flags: pinned.flags,
            is_allocated: pinned.origin.is_allocated(),
            pages: pinned.origin.pages(),
            host_start,
            device_start,
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

/// Addresses for so many bytes that nothing has had in this process.
fn next_place(bytes: u64) -> HostPointer {
    HostPointer(NEXT_PLACE.fetch_add(bytes.next_multiple_of(PAGE as u64), Ordering::Relaxed))
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
    fn small_numbers_side_by_side_are_no_address() {
        let memory = HostMemory::default();
        let shares = [false, true].map(|shares| memory.allocate(4, 0, Context(1), shares).unwrap());
        for numbers in [[0, 24_576], [8192, 24_576], [0, 25_600], [12_288, 25_600]] {
            let parameters: Vec<u8> = numbers.iter().flat_map(|number: &u32| number.to_le_bytes()).collect();
            assert!(host_addresses(&parameters).all(|address| memory.find(address).is_none()), "{numbers:?}");
        }
        for own in shares {
            let found: Vec<u64> = host_addresses(&own.0.to_le_bytes()).collect();
            assert_eq!(found, [own.0]);
        }
    }

    #[test]
    fn overlapping_registration_is_refused() {
        let (memory, program) = (HostMemory::default(), program());
        memory.register(part(&program, 0x1000), 0, Context(1), None).unwrap();
        for offset in [0x800, 0x1000, 0x1fff] {
            assert_eq!(
                memory.register(part(&program, offset), 0, Context(1), None),
                Err(CudaError::HOST_MEMORY_ALREADY_REGISTERED)
            );
        }
        assert_eq!(memory.register(part(&program, 0x2000), 0, Context(1), None), Ok(()));
        assert_eq!(memory.free(part(&program, 0x1000).pointer()), Err(CudaError::INVALID_VALUE));
    }

    #[test]
    fn registrations_end_with_their_context() {
        let (memory, program) = (HostMemory::default(), program());
        let own = memory.allocate(64, 0, Context(1), false).unwrap();
        let [first, second] = [0x1000, 0x3000].map(|offset| part(&program, offset));
        memory.register(first, 0, Context(1), None).unwrap();
        memory.register(second, 0, Context(2), None).unwrap();
        memory.forget_registered(Context(1));
        let pinned = [own, first.pointer(), second.pointer()].map(|at| memory.find(at.0).is_some());
        assert_eq!(pinned, [true, false, true]);
        let allocated = [own, first.pointer(), second.pointer()].map(|at| memory.find(at.0).map(|at| at.is_allocated));
        assert_eq!(allocated, [Some(true), None, Some(false)]);
    }
}
