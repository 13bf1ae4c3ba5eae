//! Pinned host memory of a driver, and the copies that name it.
//! In: ranges of the memory, checked here. Out: bytes, and copies the device makes by itself.
//! References into the memory live within one call, while its range is the caller's and the device leaves it alone.

use std::ffi::c_void;

use floe_abi::{CudaError, CudaResult, DevicePtr, HostPointer, Stream, host_register_flags};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use super::numbers::size;
use super::rows::{self, Side};
use crate::Driver;
use crate::device::Pinned;
use crate::requests::{PageSize, Rows, RowsPlace};

/// Host memory the device reaches by itself. It is this process's own, so it outlives the context it is registered in.
#[derive(Debug)]
pub struct PinnedMemory {
    driver: &'static Driver,
    start: *mut c_void,
    bytes: usize,
}

// SAFETY: the mapping belongs to this value alone and moves with it.
unsafe impl Send for PinnedMemory {}
// SAFETY: shared methods reach the memory only through ranges whose holder keeps others away, as `Pinned` says.
unsafe impl Sync for PinnedMemory {}

impl PinnedMemory {
    pub(super) fn new(driver: &'static Driver, bytes: usize, pages: PageSize) -> CudaResult<Self> {
        let (access, kind) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a new mapping at an address of the system's choice concerns nobody else.
        let mapped = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, access, kind) };
        let start = mapped.map_err(|_| CudaError::OUT_OF_MEMORY)?;
        let advice = match pages {
            PageSize::Small => Advice::LinuxNoHugepage,
            PageSize::Large => Advice::LinuxHugepage,
        };
        // A system that has no large pages to give has small ones.
        // SAFETY: the mapping is ours and `bytes` long; how its pages are made changes nothing that is in them.
        let _ = unsafe { madvise(start, bytes, advice) };
        let memory = Self { driver, start, bytes };
        memory.register()?;
        Ok(memory)
    }

    fn register(&self) -> CudaResult<()> {
        // Kernels of the program have nothing to do with it. The CPU device lets them reach all that is registered, but what
        // may only be read; its copies go there all the same.
        let apart = if self.driver.is_cpu_device() { host_register_flags::READ_ONLY } else { 0 };
        // SAFETY: the mapping is `bytes` long and is unregistered before it goes.
        unsafe { self.driver.mem_host_register(self.start, self.bytes, host_register_flags::PORTABLE | apart) }
    }

    fn unregister(&self) {
        // On a context beyond use the driver refuses; the registration goes with the context.
        let _ = self.driver.mem_host_unregister(HostPointer(self.start.expose_provenance() as u64));
    }

    /// The address of a range, which must lie inside.
    fn range(&self, offset: usize, bytes: usize) -> *mut u8 {
        let inside = offset.checked_add(bytes).is_some_and(|end| end <= self.bytes);
        assert!(inside, "{bytes} bytes at {offset} of pinned memory of: {}", self.bytes);
        // SAFETY: `offset` is inside the mapping, as was just checked.
        unsafe { self.start.cast::<u8>().add(offset) }
    }

    pub(super) fn upload(&self, to: DevicePtr, offset: usize, bytes: usize, stream: Stream) -> CudaResult<()> {
        let from = self.range(offset, bytes).cast::<c_void>();
        // SAFETY: the range lies inside pinned memory, which the transfer buffers keep until the work of its context is
        // done. They give nobody a range to write before its copy has completed.
        unsafe { self.driver.memcpy_htod_async(to, from, bytes, stream) }
    }

    pub(super) fn download(&self, offset: usize, from: DevicePtr, bytes: usize, stream: Stream) -> CudaResult<()> {
        let to = self.range(offset, bytes).cast::<c_void>();
        // SAFETY: as in `upload`; staging does not read a range before its copy has completed.
        unsafe { self.driver.memcpy_dtoh_async(to, from, bytes, stream) }
    }

    pub(super) fn upload_rows(&self, to: Rows, offset: usize, stream: Stream) -> CudaResult<()> {
        let (host, extent) = self.rows(to, offset)?;
        // SAFETY: as in `upload`; `rows` has checked the whole rectangle.
        unsafe { rows::queue(self.driver, side(to.place)?, host, extent, stream) }
    }

    pub(super) fn download_rows(&self, offset: usize, from: Rows, stream: Stream) -> CudaResult<()> {
        let (host, extent) = self.rows(from, offset)?;
        // SAFETY: as in `download`; `rows` has checked the whole rectangle.
        unsafe { rows::queue(self.driver, host, side(from.place)?, extent, stream) }
    }

    /// Rows that lie without gaps from `offset`, and their width and number.
    fn rows(&self, rows: Rows, offset: usize) -> CudaResult<(Side, [usize; 2])> {
        let (width, height) = (size(rows.width)?, size(rows.height)?);
        let bytes = width.checked_mul(height).ok_or(CudaError::INVALID_VALUE)?;
        Ok((Side::Host(self.range(offset, bytes).expose_provenance() as u64, width), [width, height]))
    }
}

fn side(place: RowsPlace) -> CudaResult<Side> {
    match place {
        RowsPlace::Memory(at, pitch) => Ok(Side::Device(at.0, size(pitch)?)),
        RowsPlace::Array(place) => Ok(Side::Array(place)),
    }
}

impl Pinned for PinnedMemory {
    fn bytes(&self) -> usize {
        self.bytes
    }

    fn unpin(&self) {
        self.unregister();
    }

    fn pin_again(&self) {
        // Copies from memory that is not registered are only slower.
        let _ = self.register();
    }

    fn write(&self, offset: usize, bytes: &[u8]) {
        let to = self.range(offset, bytes.len());
        // SAFETY: the range lies inside memory of ours that only this process and the device reach, by pointer.
        unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) }
    }

    fn lend(&self, offset: usize, bytes: usize, write: &mut dyn FnMut(&[u8])) {
        let from = self.range(offset, bytes);
        // SAFETY: the range lies inside memory of ours that was zero when it was mapped. The transfer buffers give a
        // range to one holder. It calls this when the device's copy into the range has completed, so nobody writes it
        // meanwhile.
        write(unsafe { std::slice::from_raw_parts(from, bytes) });
    }

    fn fill(&self, offset: usize, bytes: usize, fill: &mut dyn FnMut(&mut [u8])) {
        let to = self.range(offset, bytes);
        // SAFETY: as in `lend`; the holder calls this before it issues the device's copy from the range, so nobody else
        // reads or writes it meanwhile.
        fill(unsafe { std::slice::from_raw_parts_mut(to, bytes) });
    }
}

impl Drop for PinnedMemory {
    fn drop(&mut self) {
        self.unregister();
        // SAFETY: the mapping is ours and `bytes` long. Its ranges have no holder any more, and the transfer buffers
        // drop it only when no copy is in flight.
        let _ = unsafe { munmap(self.start, self.bytes) };
    }
}
