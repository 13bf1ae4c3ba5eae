//! Batches of boxes. C's array comes in. When all boxes have been checked, each goes to the implementation by itself,
//! in the batch's order. A source that may be reused when the call returns is waited for; all other wishes are hints.

use super::batch::{PREFER_OVERLAP, refuse_captured};
use crate::marshal::marshallers;
use crate::prelude::*;

/// One box of a batch, checked.
///
/// # Safety
/// The program's memory at its ends is as `cuMemcpy3DAsync` asks of it.
unsafe fn checked(operation: &Memcpy3dBatchOperation) -> CudaResult<CopyBox> {
    use source_access_order::{ANY, STREAM};
    if !(STREAM..=ANY).contains(&operation.source_access_order) || operation.flags > PREFER_OVERLAP {
        return Err(CudaError::INVALID_VALUE);
    }
    // SAFETY: our caller vouches for both ends.
    unsafe { CopyBox::from_batch(operation) }
}

/// Queues the boxes. Of one that is refused by its form the place is said, and nothing is queued.
///
/// # Safety
/// As [`checked`].
unsafe fn queue<D: crate::Driver>(
    driver: &D,
    operations: &[Memcpy3dBatchOperation],
    stream: Stream,
) -> Result<(), (CudaError, usize)> {
    let at = |index: usize| move |error| (error, index);
    let of_all = at(usize::MAX);
    let mut boxes = Vec::with_capacity(operations.len());
    for (index, operation) in operations.iter().enumerate() {
        // SAFETY: our caller vouches for it.
        boxes.push(unsafe { checked(operation) }.map_err(at(index))?);
    }
    refuse_captured(driver, stream).map_err(of_all)?;
    for copy in &boxes {
        driver.memcpy_box_async(copy, stream).map_err(of_all)?;
    }
    let ephemeral = |one: &Memcpy3dBatchOperation| one.source_access_order == source_access_order::DURING_API_CALL;
    if operations.iter().any(ephemeral) {
        driver.stream_synchronize(stream).map_err(of_all)?;
    }
    Ok(())
}

marshallers! {
    /// `cuMemcpy3DBatchAsync` since CUDA 13.
    fn cuMemcpy3DBatchAsync_v2(
        driver, default_stream: Stream, count: usize, boxes: *mut Memcpy3dBatchOperation, flags: u64, stream: Stream,
    ) {
        // SAFETY: as the program passed it.
        unsafe { cuMemcpy3DBatchAsync(driver, default_stream, count, boxes, std::ptr::null_mut(), flags, stream) }
    }

    /// `cuMemcpy3DBatchAsync` of CUDA 12.8: SIZE_MAX where no single copy is to blame. The legacy default stream is refused.
    fn cuMemcpy3DBatchAsync(
        driver, default_stream: Stream, count: usize, boxes: *mut Memcpy3dBatchOperation, failed: *mut usize, flags: u64,
        stream: Stream,
    ) {
        // SAFETY: the program's variable, or NULL.
        unsafe { c::put(failed, usize::MAX) };
        let stream = stream.or(default_stream);
        if stream == Stream::LEGACY {
            return Err(CudaError::INVALID_VALUE);
        }
        if flags != 0 || count == 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        // SAFETY: the program's array, of so many elements, and its memory as for single copies.
        unsafe { queue(driver, c::slice(boxes, count)?, stream) }.map_err(|(error, index)| {
            // SAFETY: the program's variable, or NULL.
            unsafe { c::put(failed, index) };
            error
        })
    }
}
