//! Questions and wishes about managed memory, which nobody here has: `cuMemAllocManaged` refuses it by name. CUDA asks that
//! a range be managed memory, or pageable memory of the system where a device reaches it, which none here says it does; so
//! every range is an INVALID_VALUE, as natively for what `cuMemAlloc` gave.

use super::marshallers;
use crate::prelude::*;

/// The answer to whatever is asked of memory that is not managed, with a context.
fn not_managed<D: crate::Driver>(driver: &D) -> CudaResult<()> {
    if driver.ctx_get_current()?.is_null() {
        return Err(CudaError::INVALID_CONTEXT);
    }
    Err(CudaError::INVALID_VALUE)
}

marshallers! {
    /// `cuMemPrefetchAsync` since CUDA 12.2.
    fn cuMemPrefetchAsync_v2(
        driver, default_stream: Stream, address: DevicePtr, bytes: usize, location: MemLocation, flags: u32,
        stream: Stream,
    ) {
        not_managed(driver)
    }

    /// `cuMemPrefetchAsync` before.
    fn cuMemPrefetchAsync(
        driver, default_stream: Stream, address: DevicePtr, bytes: usize, device: Device, stream: Stream,
    ) {
        not_managed(driver)
    }

    /// `cuMemAdvise` since CUDA 12.2.
    fn cuMemAdvise_v2(driver, address: DevicePtr, bytes: usize, advice: u32, location: MemLocation) {
        not_managed(driver)
    }

    /// `cuMemAdvise` before.
    fn cuMemAdvise(driver, address: DevicePtr, bytes: usize, advice: u32, device: Device) {
        not_managed(driver)
    }

    /// `cuMemRangeGetAttribute`.
    fn cuMemRangeGetAttribute(
        driver, data: *mut c_void, data_bytes: usize, attribute: u32, address: DevicePtr, bytes: usize,
    ) {
        not_managed(driver)
    }

    /// `cuMemRangeGetAttributes`.
    fn cuMemRangeGetAttributes(
        driver, data: *mut *mut c_void, data_bytes: *mut usize, attributes: *mut u32, count: usize, address: DevicePtr,
        bytes: usize,
    ) {
        not_managed(driver)
    }
}
