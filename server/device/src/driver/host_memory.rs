//! Pinned host memory of a driver as bytes of this process. Numbers of bytes come in, slices go out. It is given back when
//! dropped.

use crate::Driver;
use floe_abi::{CudaError, CudaResult, DevicePtr, HostPointer, Stream};
use std::ops::{Deref, DerefMut};

/// Memory of `cuMemHostAlloc`.
#[derive(Debug)]
pub struct HostMemory<'d> {
    driver: &'d Driver,
    start: *mut u8,
    bytes: usize,
}

impl<'d> HostMemory<'d> {
    /// `bytes` zeros. `cuMemHostAlloc`.
    ///
    /// # Errors
    /// The driver's error; NOT_SUPPORTED where the library lacks the function.
    pub fn new(driver: &'d Driver, bytes: usize) -> CudaResult<Self> {
        let HostPointer(address) = driver.mem_host_alloc(bytes, 0)?;
        let address = usize::try_from(address).ok().filter(|address| *address != 0).ok_or(CudaError::OUT_OF_MEMORY)?;
        let start = std::ptr::with_exposed_provenance_mut::<u8>(address);
        // SAFETY: the driver has just given these bytes to us alone.
        unsafe { start.write_bytes(0, bytes) };
        Ok(Self { driver, start, bytes })
    }

    /// Copies all bytes to `to`, `times` in a row, and waits once, at the end. `cuMemcpyHtoDAsync`, `cuCtxSynchronize`.
    ///
    /// # Errors
    /// The driver's error.
    pub fn copy_to_device_in_a_row(&self, to: DevicePtr, times: usize) -> CudaResult<()> {
        // SAFETY: the memory is this value's, which is borrowed until `in_a_row` has waited, so that nobody writes it.
        let copy = || unsafe { self.driver.memcpy_htod_async(to, self.start.cast(), self.bytes, Stream::default()) };
        self.in_a_row(times, copy)
    }

    /// Fills the memory from `from`, `times` in a row, and waits once, at the end. `cuMemcpyDtoHAsync`,
    /// `cuCtxSynchronize`.
    ///
    /// # Errors
    /// The driver's error.
    pub fn copy_from_device_in_a_row(&mut self, from: DevicePtr, times: usize) -> CudaResult<()> {
        // SAFETY: the memory is this value's, which is borrowed for this alone until `in_a_row` has waited.
        let copy = || unsafe { self.driver.memcpy_dtoh_async(self.start.cast(), from, self.bytes, Stream::default()) };
        self.in_a_row(times, copy)
    }

    /// Waits also where a copy was refused, since those before it are under way. A context that cannot be waited for does
    /// no more work.
    fn in_a_row(&self, times: usize, copy: impl Fn() -> CudaResult<()>) -> CudaResult<()> {
        let copied = (0..times).try_for_each(|_| copy());
        let over = self.driver.ctx_synchronize();
        copied.and(over)
    }
}

impl Deref for HostMemory<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the memory is this value's from `new` to `drop`, initialised, and written through it only: copies
        // that go on after their call are over when the borrow they were made under ends.
        unsafe { std::slice::from_raw_parts(self.start, self.bytes) }
    }
}

impl DerefMut for HostMemory<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and it is borrowed for this alone.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.bytes) }
    }
}

impl Drop for HostMemory<'_> {
    fn drop(&mut self) {
        // A context beyond use keeps it until the process ends.
        let _ = self.driver.mem_free_host(HostPointer(self.start.expose_provenance() as u64));
    }
}
