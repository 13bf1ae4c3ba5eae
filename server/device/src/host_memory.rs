//! Pinned host memory of a driver as bytes of this process. Numbers of bytes come in, slices go out. It is given back when
//! dropped.

use crate::Driver;
use floe_abi::{CudaError, CudaResult, HostPointer};
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
    /// What the driver answers; NOT_SUPPORTED where the library lacks the function.
    pub fn new(driver: &'d Driver, bytes: usize) -> CudaResult<Self> {
        let HostPointer(address) = driver.mem_host_alloc(bytes, 0)?;
        let address = usize::try_from(address).ok().filter(|address| *address != 0).ok_or(CudaError::OUT_OF_MEMORY)?;
        let start = std::ptr::with_exposed_provenance_mut::<u8>(address);
        // SAFETY: the driver has just given these bytes to us alone.
        unsafe { start.write_bytes(0, bytes) };
        Ok(Self { driver, start, bytes })
    }
}

impl Deref for HostMemory<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the memory is this value's from `new` to `drop`, initialised, and written through it only: its address
        // is given to no call that goes on after it returns.
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
