//! The address space of a device: one reserved range, mappings of backings in it, and which granules are valid.
//! `map` and `unmap` change it, [`View`] is the plain snapshot of pointers that running kernels check against.
//! It never lets two mappings overlap and never reads an address that is not mapped.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, RwLock, RwLockReadGuard};

use rustix::mm::{MapFlags, ProtFlags};

use super::lent::Lent;
use super::store::Backing;

/// Unit of mapping and of the validity map: 2 MiB, the granularity of CUDA's VMM calls.
pub const GRANULE: u64 = 1 << 21;
/// log2 of [`GRANULE`].
pub(crate) const GRANULE_SHIFT: u32 = 21;

/// Errors of an address space.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// A length that is zero or leaves 64 bits.
    #[error("length cannot be used: {length}")]
    Length {
        /// The length.
        length: u64,
    },
    /// A range outside the reserved one, or not on granule boundaries.
    #[error("range outside the device's addresses or not on a 2 MiB boundary: {address:#x} + {length:#x}")]
    Range {
        /// First address.
        address: u64,
        /// Bytes.
        length: u64,
    },
    /// Something is mapped there already.
    #[error("address is mapped already: {address:#x}")]
    Occupied {
        /// First address.
        address: u64,
    },
    /// Nothing is mapped exactly there.
    #[error("no mapping starts here with that length: {address:#x} + {length:#x}")]
    NotMapped {
        /// First address.
        address: u64,
        /// Bytes.
        length: u64,
    },
    /// The store has no room.
    #[error("device memory exhausted, asked for: {length}")]
    Exhausted {
        /// Bytes asked for.
        length: u64,
    },
    /// A descriptor from another process is not of exported memory.
    #[error("descriptor is no memory of a CPU device, but: {what}")]
    Foreign {
        /// What it is instead.
        what: &'static str,
    },
    /// Too many of the process's descriptors are taken for memory that can be shared.
    #[error("memory in files of its own takes as many descriptors as it may: {held}")]
    Descriptors {
        /// Descriptors taken.
        held: u64,
    },
    /// The system refused.
    #[error("{call}: {cause}")]
    System {
        /// The system call.
        call: &'static str,
        /// Its error.
        cause: std::io::Error,
    },
}

impl MemoryError {
    pub(crate) fn system(call: &'static str, cause: rustix::io::Errno) -> Self {
        Self::System { call, cause: cause.into() }
    }
}

struct Mapping {
    length: u64,
    /// Keeps the bytes alive while they are mapped, from this offset on; `None` for the process's own pages.
    backing: Option<(Arc<Backing>, u64)>,
}

/// A mapped range, and the bytes behind it as of a moment ago.
pub(super) struct Part {
    pub(super) address: u64,
    pub(super) length: u64,
    /// What shows there, and from which offset on.
    pub(super) backing: Option<(Arc<Backing>, u64)>,
}

/// The data of a kernel's address check: plain pointers, valid as long as the [`Memory`] lives.
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// First device address.
    pub base: u64,
    /// Bytes of the range.
    pub size: u64,
    /// Host address of `base`.
    pub host: *mut u8,
    /// One byte per granule, 1 where mapped.
    pub valid: *const u8,
    /// Host memory beside the range.
    pub(crate) lent: *const Lent,
}

// SAFETY: the pointers refer to the reservation, to the map of validity and to what is lent, which `Memory` keeps alive. Sharing them is
// the purpose: kernels access the memory by raw, possibly racing loads and stores, as on a GPU.
unsafe impl Send for View {}
// SAFETY: as above.
unsafe impl Sync for View {}

/// A device's address space.
pub struct Memory {
    view: View,
    valid: Box<[AtomicU8]>,
    lent: Box<Lent>,
    mappings: Mutex<BTreeMap<u64, Mapping>>,
    /// Shared by the host's accesses while they last; what unmaps takes it alone.
    accesses: RwLock<()>,
}

/// Bytes of a device that stay mapped until this is dropped. Who has one must not unmap.
#[derive(Debug)]
pub struct Mapped<'m> {
    host: *mut u8,
    _access: RwLockReadGuard<'m, ()>,
}

impl Mapped<'_> {
    /// The host address of the first byte.
    pub fn host(&self) -> *mut u8 {
        self.host
    }
}

impl Memory {
    /// Reserves `[base, base + size)`; both must be multiples of [`GRANULE`]. The host addresses are the same numbers if
    /// they are free in this process, otherwise others. Nothing is mapped.
    ///
    /// # Errors
    /// When the range is not on granules or the system has no such range left.
    pub fn reserve(base: u64, size: u64) -> Result<Arc<Self>, MemoryError> {
        let range_error = MemoryError::Range { address: base, length: size };
        if !base.is_multiple_of(GRANULE)
            || !size.is_multiple_of(GRANULE)
            || size == 0
            || base.checked_add(size).is_none()
        {
            return Err(range_error);
        }
        let (Ok(wanted), Ok(bytes)) = (usize::try_from(base), usize::try_from(size)) else {
            return Err(range_error);
        };
        let granules = bytes >> GRANULE_SHIFT;
        let host = reserve_host(wanted, bytes)?;
        let valid: Box<[AtomicU8]> = zeroed_map(granules);
        let lent = Box::<Lent>::default();
        let view = View { base, size, host, valid: valid.as_ptr().cast(), lent: &raw const *lent };
        Ok(Arc::new(Self { view, valid, lent, mappings: Mutex::default(), accesses: RwLock::default() }))
    }

    /// First device address.
    pub fn base(&self) -> u64 {
        self.view.base
    }

    /// Bytes of the range.
    pub fn size(&self) -> u64 {
        self.view.size
    }

    /// Whether device addresses are host addresses of this process.
    pub fn is_identity(&self) -> bool {
        self.view.host as u64 == self.view.base
    }

    /// The pointers kernels check against.
    pub fn view(&self) -> View {
        self.view
    }

    fn check_range(&self, address: u64, length: u64) -> Result<(), MemoryError> {
        let inside = address
            .checked_sub(self.view.base)
            .and_then(|offset| offset.checked_add(length))
            .is_some_and(|end| end <= self.view.size);
        if inside && length > 0 && address.is_multiple_of(GRANULE) && length.is_multiple_of(GRANULE) {
            Ok(())
        } else {
            Err(MemoryError::Range { address, length })
        }
    }

    /// Maps `length` bytes of `backing` from `offset` on at `address`; all three multiples of [`GRANULE`]. The same bytes
    /// may be mapped several times; all mappings show the same memory.
    ///
    /// # Errors
    /// [`MemoryError::Range`], [`MemoryError::Occupied`], or the system's refusal.
    pub fn map(&self, address: u64, length: u64, backing: &Arc<Backing>, offset: u64) -> Result<(), MemoryError> {
        self.check_range(address, length)?;
        let fits =
            offset.is_multiple_of(GRANULE) && offset.checked_add(length).is_some_and(|end| end <= backing.length());
        if !fits {
            return Err(MemoryError::Range { address: offset, length });
        }
        self.fill_hole(address, length, Some((Arc::clone(backing), offset)), |host, bytes| {
            // SAFETY: `fill_hole` gives a range of our own reservation that holds no mapping, so no Rust object lives
            // there; MAP_FIXED replaces only reserved pages.
            unsafe {
                rustix::mm::mmap(
                    host,
                    bytes,
                    ProtFlags::READ | ProtFlags::WRITE,
                    MapFlags::SHARED | MapFlags::FIXED | MapFlags::NORESERVE,
                    backing.file(),
                    backing.offset() + offset,
                )
            }
        })
    }

    /// Maps zeroed pages of this process's own at `address`: host memory that kernels reach. Address and length are
    /// multiples of [`GRANULE`].
    ///
    /// # Errors
    /// As [`Memory::map`].
    pub fn map_own(&self, address: u64, length: u64) -> Result<(), MemoryError> {
        self.check_range(address, length)?;
        self.fill_hole(address, length, None, |host, bytes| {
            let flags = MapFlags::PRIVATE | MapFlags::FIXED;
            // SAFETY: as in `map`.
            unsafe { rustix::mm::mmap_anonymous(host, bytes, ProtFlags::READ | ProtFlags::WRITE, flags) }
        })
    }

    /// Has `map` map a range where nothing is mapped.
    fn fill_hole(
        &self,
        address: u64,
        length: u64,
        backing: Option<(Arc<Backing>, u64)>,
        map: impl FnOnce(*mut c_void, usize) -> rustix::io::Result<*mut c_void>,
    ) -> Result<(), MemoryError> {
        let mut mappings = floe_lock::lock(&self.mappings);
        if let Some((&before, mapping)) = mappings.range(..address + length).next_back()
            && before + mapping.length > address
        {
            return Err(MemoryError::Occupied { address: before.max(address) });
        }
        map(self.host_of(address), to_usize(length)).map_err(|cause| MemoryError::system("mmap", cause))?;
        mappings.insert(address, Mapping { length, backing });
        self.mark(address, length, 1);
        Ok(())
    }

    /// Removes the mapping that `map` or `map_own` made with exactly this address and length, between accesses of the
    /// host. The caller sees to it that no kernel uses it any more.
    ///
    /// # Errors
    /// [`MemoryError::NotMapped`], or the system's refusal.
    pub fn unmap(&self, address: u64, length: u64) -> Result<(), MemoryError> {
        let mut mappings = floe_lock::lock(&self.mappings);
        if mappings.get(&address).is_none_or(|mapping| mapping.length != length) {
            return Err(MemoryError::NotMapped { address, length });
        }
        let _alone = floe_lock::write(&self.accesses);
        self.mark(address, length, 0);
        // SAFETY: the range is one of our mappings (checked above, under the lock); it becomes reserved pages again.
        unsafe {
            rustix::mm::mmap_anonymous(
                self.host_of(address),
                to_usize(length),
                ProtFlags::empty(),
                MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE,
            )
        }
        .map_err(|cause| MemoryError::system("mmap", cause))?;
        mappings.remove(&address);
        Ok(())
    }

    /// Lets kernels reach host memory outside the range, at its own address, until [`Memory::take_back`]. Device addresses
    /// must be the host's ([`Memory::is_identity`]). No byte of it is lent already.
    ///
    /// # Safety
    /// The pages around it stay mapped, readable and writable, until then. No Rust reference into it exists while kernels run.
    ///
    /// # Errors
    /// [`MemoryError::Range`] where device addresses are others, or for addresses of the range itself.
    pub unsafe fn lend(&self, address: u64, length: u64) -> Result<(), MemoryError> {
        let range = self.view.base..self.view.base + self.view.size;
        let end = address.checked_add(length).filter(|end| *end <= range.start || address >= range.end);
        let Some(end) = end.filter(|_| length > 0 && self.is_identity()) else {
            return Err(MemoryError::Range { address, length });
        };
        self.lent.add(address, end);
        Ok(())
    }

    /// Ends what [`Memory::lend`] began, between accesses of the host. The caller sees to it that no kernel uses it any more.
    pub fn take_back(&self, address: u64) {
        let _alone = floe_lock::write(&self.accesses);
        self.lent.remove(address);
    }

    /// Whether every byte of the range is mapped.
    pub fn is_mapped(&self, address: u64, length: u64) -> bool {
        self.first_hole(address, length).is_none()
    }

    /// A mapped range, for copies and words that the caller reads and writes by itself; `None` if any byte is not mapped.
    pub fn mapped(&self, address: u64, length: u64) -> Option<Mapped<'_>> {
        let access = self.begin_access();
        self.is_mapped(address, length).then(|| Mapped { host: self.host_of(address).cast(), _access: access })
    }

    /// What is mapped stays so until this is dropped.
    pub(super) fn begin_access(&self) -> RwLockReadGuard<'_, ()> {
        floe_lock::read(&self.accesses)
    }

    /// The mapped ranges, in order: (address, length).
    pub fn mappings(&self) -> Vec<(u64, u64)> {
        let mappings = floe_lock::lock(&self.mappings);
        mappings.iter().map(|(address, mapping)| (*address, mapping.length)).collect()
    }

    /// The mapped parts of a range inside the reservation, in order.
    pub(super) fn parts(&self, address: u64, length: u64) -> Vec<Part> {
        let end = address.saturating_add(length);
        let mappings = floe_lock::lock(&self.mappings);
        let before = mappings.range(..address).next_back().into_iter();
        let mut parts = Vec::new();
        for (&start, mapping) in before.chain(mappings.range(address..end)) {
            let (from, to) = (start.max(address), (start + mapping.length).min(end));
            if from < to {
                let backing =
                    mapping.backing.as_ref().map(|(backing, offset)| (Arc::clone(backing), offset + (from - start)));
                parts.push(Part { address: from, length: to - from, backing });
            }
        }
        parts
    }

    /// First address of the range that is not mapped.
    pub(crate) fn first_hole(&self, address: u64, length: u64) -> Option<u64> {
        let inside = address
            .checked_sub(self.view.base)
            .and_then(|offset| offset.checked_add(length).map(|end| (offset, end)))
            .filter(|(_, end)| *end <= self.view.size);
        let Some((start, end)) = inside else {
            return (!self.lent.covers(address, length)).then_some(address);
        };
        if length == 0 {
            return None;
        }
        let granules = to_usize(start >> GRANULE_SHIFT)..=to_usize((end - 1) >> GRANULE_SHIFT);
        granules
            .into_iter()
            .find(|granule| self.valid[*granule].load(Ordering::Relaxed) == 0)
            .map(|granule| (self.view.base + ((granule as u64) << GRANULE_SHIFT)).max(address))
    }

    pub(crate) fn host_of(&self, address: u64) -> *mut c_void {
        // Lent memory may lie before the range; then device addresses are the host's.
        self.view.host.wrapping_add(address.wrapping_sub(self.view.base) as usize).cast()
    }

    fn mark(&self, address: u64, length: u64, value: u8) {
        let first = to_usize((address - self.view.base) >> GRANULE_SHIFT);
        let count = to_usize(length >> GRANULE_SHIFT);
        for granule in &self.valid[first..first + count] {
            granule.store(value, Ordering::Release);
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the reservation is ours alone, and every user of a `View` holds the `Memory`.
        let result = unsafe { rustix::mm::munmap(self.view.host.cast(), to_usize(self.view.size)) };
        debug_assert!(result.is_ok(), "munmap of a reservation");
    }
}

fn reserve_host(wanted: usize, bytes: usize) -> Result<*mut u8, MemoryError> {
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: MAP_FIXED_NOREPLACE never replaces what is mapped; the new pages are ours and inaccessible.
    let identical = unsafe {
        rustix::mm::mmap_anonymous(
            ptr::without_provenance_mut(wanted),
            bytes,
            ProtFlags::empty(),
            flags | MapFlags::FIXED_NOREPLACE,
        )
    };
    match identical {
        Ok(host) if host.addr() == wanted => return Ok(host.cast()),
        // A kernel too old to know the flag takes the address as a hint: give back what it chose and ask openly.
        Ok(host) => {
            // SAFETY: just mapped, used by nobody.
            let _ = unsafe { rustix::mm::munmap(host, bytes) };
        }
        Err(_) => {}
    }
    // SAFETY: a fresh anonymous mapping at an address of the system's choice.
    let anywhere = unsafe { rustix::mm::mmap_anonymous(ptr::null_mut(), bytes, ProtFlags::empty(), flags) };
    anywhere.map(<*mut c_void>::cast).map_err(|cause| MemoryError::system("mmap", cause))
}

/// A zeroed map; the allocator takes zero pages from the system, so terabytes of address space cost nothing unused.
fn zeroed_map(granules: usize) -> Box<[AtomicU8]> {
    let zeroed: Box<[std::mem::MaybeUninit<AtomicU8>]> = Box::new_zeroed_slice(granules);
    // SAFETY: all-zero bytes are valid `AtomicU8`s.
    unsafe { zeroed.assume_init() }
}

fn to_usize(value: u64) -> usize {
    // Only 64-bit hosts are built for; lengths were checked against the reservation, which exists.
    usize::try_from(value).expect("a range inside the reservation fits the host's address size")
}
