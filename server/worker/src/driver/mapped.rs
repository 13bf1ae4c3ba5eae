//! Host memory at a chosen address of this process that the device reaches there.
//! In: the address, which must be free here and the device's too. Out: bytes copied in and out.
//! No reference into the memory ever exists: kernels read and write it whenever they like.
#![allow(unsafe_code, reason = "the memory is mapped at an address and registered with the driver, by pointer")]

use std::ffi::c_void;

use floe_abi::{CudaError, CudaResult, DevicePtr, HostPointer, host_register_flags};
use floe_device::Driver;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use crate::device::Mapped;

/// Bytes of a page.
const PAGE: usize = 4096;

/// Whole pages mapped at a chosen address; unmapped when dropped.
#[derive(Debug)]
struct Pages {
    start: usize,
    bytes: usize,
}

impl Pages {
    /// Maps the pages around a range, if none of them is taken.
    fn around(address: usize, bytes: usize) -> CudaResult<Self> {
        let end = address.checked_add(bytes).and_then(|end| end.checked_next_multiple_of(PAGE));
        let start = address - address % PAGE;
        let bytes = end.ok_or(CudaError::INVALID_VALUE)? - start;
        let wish = std::ptr::with_exposed_provenance_mut::<c_void>(start);
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::FIXED_NOREPLACE);
        // SAFETY: the flag makes the kernel refuse pages that are mapped already, so no memory of anybody changes.
        match unsafe { mmap_anonymous(wish, bytes, access, flags) } {
            Ok(mapped) if mapped == wish => Ok(Self { start, bytes }),
            // A kernel before 4.17 takes the address for a wish.
            Ok(elsewhere) => {
                // SAFETY: mapped just now, known to nobody.
                let _ = unsafe { munmap(elsewhere, bytes) };
                Err(CudaError::NOT_SUPPORTED)
            }
            Err(Errno::NOMEM) => Err(CudaError::OUT_OF_MEMORY),
            Err(_) => Err(CudaError::NOT_SUPPORTED),
        }
    }

    fn start(&self) -> *mut c_void {
        std::ptr::with_exposed_provenance_mut(self.start)
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: `around` mapped these pages; `MappedMemory`, which owns them, has unregistered them and is gone itself.
        let _ = unsafe { munmap(self.start(), self.bytes) };
    }
}

/// Host memory the device reaches at its own address.
#[derive(Debug)]
pub struct MappedMemory {
    driver: &'static Driver,
    address: usize,
    bytes: usize,
    pages: Pages,
}

impl MappedMemory {
    /// Zeros at `at`.
    ///
    /// # Errors
    /// NOT_SUPPORTED where the address is taken or the device has another for it; else the driver's own.
    pub(super) fn new(driver: &'static Driver, at: DevicePtr, bytes: usize) -> CudaResult<Self> {
        let address = usize::try_from(at.0).map_err(|_| CudaError::INVALID_VALUE)?;
        let pages = Pages::around(address, bytes)?;
        let flags = host_register_flags::PORTABLE | host_register_flags::DEVICEMAP;
        // SAFETY: the pages are ours; they stay mapped until `drop` has unregistered them.
        unsafe { driver.mem_host_register(pages.start(), pages.bytes, flags) }?;
        let registered = HostPointer(pages.start as u64);
        // From here on dropping it takes the registration back.
        let memory = Self { driver, address, bytes, pages };
        let device = driver.mem_host_get_device_pointer(registered, 0)?;
        if device.0 == registered.0 { Ok(memory) } else { Err(CudaError::NOT_SUPPORTED) }
    }

    /// The address of a range, which must lie inside.
    fn range(&self, offset: usize, bytes: usize) -> *mut u8 {
        let inside = offset.checked_add(bytes).is_some_and(|end| end <= self.bytes);
        assert!(inside, "{bytes} bytes at {offset} of mapped memory of: {}", self.bytes);
        std::ptr::with_exposed_provenance_mut(self.address + offset)
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

    fn read(&self, offset: usize, bytes: &mut [u8]) {
        let from = self.range(offset, bytes.len());
        // SAFETY: as in `write`.
        unsafe { from.copy_to_nonoverlapping(bytes.as_mut_ptr(), bytes.len()) }
    }
}

impl Drop for MappedMemory {
    fn drop(&mut self) {
        // On a context beyond use the driver refuses; the registration goes with the context.
        let _ = self.driver.mem_host_unregister(HostPointer(self.pages.start as u64));
    }
}
