//! Host memory at a chosen address of this process that the device reaches there: of its own, or shared with the client.
//! In: the address, which must be free here and the device's too. Out: bytes copied in and out, by hand or by the device.
//! No reference into the memory ever exists: kernels read and write it whenever they like.

use std::ffi::c_void;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};

use floe_abi::{CudaError, CudaResult, DevicePtr, HostPointer, Stream, host_register_flags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

use super::numbers::size;
use super::rows::{self, Side};
use crate::Driver;
use crate::device::{Mapped, PAGE};
use crate::requests::{End, RowsEnd};
use crate::room::Lent;

/// Whole pages mapped at a chosen address; unmapped when dropped.
#[derive(Debug)]
struct Pages {
    start: usize,
    bytes: usize,
    /// They lie where the driver was to find no room.
    lent: Option<Lent>,
}

impl Pages {
    /// Maps the pages around a range, if none of them is taken: zeros, or what lies in a file from an offset on.
    fn around(address: usize, bytes: usize, file: Option<(BorrowedFd<'_>, u64)>) -> CudaResult<Self> {
        let end = address.checked_add(bytes).and_then(|end| end.checked_next_multiple_of(PAGE));
        let start = address - address % PAGE;
        let bytes = end.ok_or(CudaError::INVALID_VALUE)? - start;
        let wish = std::ptr::with_exposed_provenance_mut::<c_void>(start);
        let lent = Lent::take(start..start + bytes);
        let free = if lent.is_some() { MapFlags::FIXED } else { MapFlags::FIXED_NOREPLACE };
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let mapped = match file {
            // SAFETY: the flag makes the kernel refuse pages that are mapped already, or the pages were lent and nobody else
            // has them: no memory of anybody changes.
            None => unsafe { mmap_anonymous(wish, bytes, access, MapFlags::PRIVATE | free) },
            // SAFETY: as above; pages of a file that shrinks are gone, but nothing here touches a file's pages: the device
            // has those that were there when it registered them, and a CPU device that touches others ends its process.
            Some((file, offset)) => unsafe { mmap(wish, bytes, access, MapFlags::SHARED | free, file, offset) },
        };
        match mapped {
            Ok(mapped) if mapped == wish => Ok(Self { start, bytes, lent }),
            // A kernel before 4.17 takes the address for a wish.
            Ok(elsewhere) => {
                // SAFETY: mapped just now, known to nobody.
                let _ = unsafe { munmap(elsewhere, bytes) };
                Err(CudaError::NOT_SUPPORTED)
            }
            Err(error) => {
                if let Some(lent) = lent {
                    lent.was_not_used();
                }
                Err(if error == Errno::NOMEM { CudaError::OUT_OF_MEMORY } else { CudaError::NOT_SUPPORTED })
            }
        }
    }

    fn start(&self) -> *mut c_void {
        std::ptr::with_exposed_provenance_mut(self.start)
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // What was lent is filled again, which takes the pages away as well.
        if self.lent.take().is_none() {
            // SAFETY: `around` mapped these pages; `MappedMemory`, which owns them, has unregistered them and is gone itself.
            let _ = unsafe { munmap(self.start(), self.bytes) };
        }
    }
}

/// Host memory the device reaches at its own address.
#[derive(Debug)]
pub struct MappedMemory {
    driver: &'static Driver,
    address: usize,
    bytes: usize,
    pages: Pages,
    /// Whether kernels reach it.
    reached: bool,
}

impl MappedMemory {
    /// Zeros at `at`.
    ///
    /// # Errors
    /// NOT_SUPPORTED where the address is taken or the device has another for it; else the driver's own.
    pub(super) fn new(driver: &'static Driver, at: DevicePtr, bytes: usize) -> CudaResult<Self> {
        let address = usize::try_from(at.0).map_err(|_| CudaError::INVALID_VALUE)?;
        let memory = Self::register(driver, Pages::around(address, bytes, None)?, address, bytes, true)?;
        if memory.reached { Ok(memory) } else { Err(CudaError::NOT_SUPPORTED) }
    }

    /// Pages of a file, at `at`; for kernels where the device `maps` and has the same address for them. A file may
    /// shrink, so they are for copies by the device, and never for `read` and `write`.
    ///
    /// # Errors
    /// NOT_SUPPORTED where the address is taken; else the driver's own.
    pub(super) fn shared(
        driver: &'static Driver,
        file: (BorrowedFd<'_>, u64),
        at: DevicePtr,
        bytes: usize,
        maps: bool,
    ) -> CudaResult<Self> {
        let address = usize::try_from(at.0).map_err(|_| CudaError::INVALID_VALUE)?;
        Self::register(driver, Pages::around(address, bytes, Some(file))?, address, bytes, maps)
    }

    fn register(driver: &'static Driver, pages: Pages, address: usize, bytes: usize, maps: bool) -> CudaResult<Self> {
        let mapped = if maps { host_register_flags::DEVICEMAP } else { 0 };
        // SAFETY: the pages are ours; they stay mapped until `drop` has unregistered them.
        unsafe { driver.mem_host_register(pages.start(), pages.bytes, host_register_flags::PORTABLE | mapped) }?;
        let registered = HostPointer(pages.start as u64);
        // From here on dropping it takes the registration back.
        let mut memory = Self { driver, address, bytes, pages, reached: false };
        if maps {
            memory.reached = driver.mem_host_get_device_pointer(registered, 0)?.0 == registered.0;
        }
        Ok(memory)
    }

    /// The address of a range, which must lie inside.
    fn range(&self, offset: usize, bytes: usize) -> *mut u8 {
        let inside = offset.checked_add(bytes).is_some_and(|end| end <= self.bytes);
        assert!(inside, "{bytes} bytes at {offset} of mapped memory of: {}", self.bytes);
        std::ptr::with_exposed_provenance_mut(self.address + offset)
    }

    /// An aligned word.
    fn word(&self, offset: usize) -> &AtomicU64 {
        let word = self.range(offset, size_of::<u64>()).cast::<u64>();
        assert!(word.is_aligned(), "no word: {word:?}");
        // SAFETY: the word is aligned and lies inside pages that stay mapped as long as this is borrowed; whoever shares
        // them, processes and devices, changes words as wholes.
        unsafe { AtomicU64::from_ptr(word) }
    }
}

impl Mapped for MappedMemory {
    fn bytes(&self) -> usize {
        self.bytes
    }

    fn write(&self, offset: usize, bytes: &[u8]) {
        let to = self.range(offset, bytes.len());
        // SAFETY: the range lies inside pages of ours that only this process and the device reach, by pointer.
        unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) }
    }

    fn is_reached(&self) -> bool {
        self.reached
    }

    fn raise(&self, offset: usize, value: u64) {
        self.word(offset).fetch_max(value, Ordering::SeqCst);
    }

    fn add(&self, offset: usize, value: u64) -> u64 {
        self.word(offset).fetch_add(value, Ordering::SeqCst).wrapping_add(value)
    }

    fn read(&self, offset: usize, bytes: &mut [u8]) {
        let from = self.range(offset, bytes.len());
        // SAFETY: as in `write`.
        unsafe { from.copy_to_nonoverlapping(bytes.as_mut_ptr(), bytes.len()) }
    }
}

/// Where a copy's end lies, after a look at whether all of `bytes` are inside.
fn place(end: End<'_, MappedMemory>, bytes: usize) -> DevicePtr {
    match end {
        End::Device(at) => at,
        End::Host(memory, offset) => DevicePtr(memory.range(offset, bytes) as u64),
    }
}

/// Queues a copy of which the device does everything.
pub(super) fn copy(
    driver: &Driver,
    to: End<'_, MappedMemory>,
    from: End<'_, MappedMemory>,
    bytes: usize,
    stream: Stream,
) -> CudaResult<()> {
    let (target, source) = (place(to, bytes), place(from, bytes));
    match (to, from) {
        // SAFETY: `place` has found the range inside memory that the session keeps until work issued before it is given
        // up has completed. Its bytes are the program's, who races on them or not as with a GPU of its own.
        (End::Device(_), End::Host(..)) => unsafe {
            driver.memcpy_htod_async(target, std::ptr::with_exposed_provenance(address(source)), bytes, stream)
        },
        // SAFETY: as above.
        (End::Host(..), End::Device(_)) => unsafe {
            driver.memcpy_dtoh_async(std::ptr::with_exposed_provenance_mut(address(target)), source, bytes, stream)
        },
        (End::Device(_), End::Device(_)) | (End::Host(..), End::Host(..)) => {
            driver.memcpy_dtod_async(target, source, bytes, stream)
        }
    }
}

/// Queues a copy of rows, `extent` being their width and number, of which the device does everything.
pub(super) fn copy_rows(
    driver: &Driver,
    to: RowsEnd<'_, MappedMemory>,
    from: RowsEnd<'_, MappedMemory>,
    extent: [usize; 2],
    stream: Stream,
) -> CudaResult<()> {
    let (to, from) = (side(to, extent)?, side(from, extent)?);
    // SAFETY: as in `copy`; the whole rectangle of a host end is inside.
    unsafe { rows::queue(driver, to, from, extent, stream) }
}

fn side(end: RowsEnd<'_, MappedMemory>, [width, height]: [usize; 2]) -> CudaResult<Side> {
    let (end, pitch) = match end {
        RowsEnd::Memory(end, pitch) => (end, size(pitch)?),
        RowsEnd::Array(place) => return Ok(Side::Array(place)),
    };
    let span = height.checked_sub(1).and_then(|rows| rows.checked_mul(pitch)?.checked_add(width));
    let at = place(end, span.ok_or(CudaError::INVALID_VALUE)?).0;
    Ok(if let End::Host(..) = end { Side::Host(at, pitch) } else { Side::Device(at, pitch) })
}

fn address(at: DevicePtr) -> usize {
    usize::try_from(at.0).expect("addresses of this process")
}

impl Drop for MappedMemory {
    fn drop(&mut self) {
        // On a context beyond use the driver refuses; the registration goes with the context.
        let _ = self.driver.mem_host_unregister(HostPointer(self.pages.start as u64));
    }
}
