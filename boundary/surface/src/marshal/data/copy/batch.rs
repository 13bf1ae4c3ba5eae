//! Batches of copies: arrays of C's come in, each copy goes to the implementation by itself, in the batch's order. A
//! source that may be reused when the call returns is waited for; all other attributes are hints. Refusals, and the
//! index of the copy at fault, are those of an H200's driver.

use crate::marshal::marshallers;
use crate::prelude::*;

/// `CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE`, the only wish there is.
pub(super) const PREFER_OVERLAP: u32 = 1;

/// One batch, checked as a whole.
struct Batch<'a> {
    destinations: &'a [DevicePtr],
    sources: &'a [DevicePtr],
    sizes: &'a [usize],
    /// Whether some source may be reused when the call returns.
    ephemeral: bool,
}

/// No batch is captured; the capture stays valid.
///
/// # Errors
/// STREAM_CAPTURE_UNSUPPORTED for a captured stream; as the implementation's `stream_for_capture`.
pub(super) fn refuse_captured<D: crate::Driver>(driver: &D, stream: Stream) -> CudaResult<()> {
    let graphs = driver.graphs();
    let captured = graphs.is_watching() && graphs.is_capturing(&driver.stream_for_capture(stream)?)?;
    if captured { Err(CudaError::STREAM_CAPTURE_UNSUPPORTED) } else { Ok(()) }
}

/// Whether CUDA knows these attributes.
fn is_known(attributes: &MemcpyAttributes) -> bool {
    use source_access_order::{ANY, STREAM};
    let places = [attributes.source_hint, attributes.destination_hint];
    (STREAM..=ANY).contains(&attributes.source_access_order)
        && attributes.flags <= PREFER_OVERLAP
        && places.iter().all(|place| place.kind <= location_type::HOST_NUMA_CURRENT)
}

/// Whether the attributes' first copies are in order, from the first copy on, and inside the batch.
fn starts_fit(starts: &[usize], count: usize) -> bool {
    starts.first() == Some(&0)
        && starts.is_sorted_by(|one, next| one < next)
        && starts.last().is_some_and(|last| *last < count)
}

impl<'a> Batch<'a> {
    fn new(
        (destinations, sources, sizes): (&'a [DevicePtr], &'a [DevicePtr], &'a [usize]),
        attributes: &[MemcpyAttributes],
        starts: &[usize],
    ) -> CudaResult<Self> {
        if sizes.is_empty() || !starts_fit(starts, sizes.len()) || !attributes.iter().all(is_known) {
            return Err(CudaError::INVALID_VALUE);
        }
        let during_call = source_access_order::DURING_API_CALL;
        let ephemeral = attributes.iter().any(|attribute| attribute.source_access_order == during_call);
        Ok(Self { destinations, sources, sizes, ephemeral })
    }

    /// Queues the copies; of a refused one its place is said, and those before it stay queued.
    ///
    /// # Safety
    /// The program's memory at these places is as `cuMemcpyAsync` asks of it.
    unsafe fn queue<D: crate::Driver>(&self, driver: &D, stream: Stream) -> Result<(), (CudaError, usize)> {
        if let Some(empty) = self.sizes.iter().position(|bytes| *bytes == 0) {
            return Err((CudaError::INVALID_VALUE, empty));
        }
        let places = self.destinations.iter().zip(self.sources).zip(self.sizes).enumerate();
        for (index, ((to, from), bytes)) in places {
            // SAFETY: our caller vouches for both.
            let ends = unsafe { c::unified(*to, *bytes).and_then(|to| Ok((to, c::unified(*from, *bytes)?))) };
            let (to, from) = ends.map_err(|error| (error, index))?;
            let queued = if self.ephemeral {
                driver.memcpy_async(to, from, stream)
            } else {
                driver.memcpy_in_order(to, from, stream)
            };
            queued.map_err(|error| (error, index))?;
        }
        if self.ephemeral {
            driver.stream_synchronize(stream).map_err(|error| (error, usize::MAX))?;
        }
        Ok(())
    }
}

marshallers! {
    /// `cuMemcpyBatchAsync` since CUDA 13: the legacy default stream is refused.
    fn cuMemcpyBatchAsync_v2(
        driver, default_stream: Stream, destinations: *mut DevicePtr, sources: *mut DevicePtr, sizes: *mut usize,
        count: usize, attributes: *mut MemcpyAttributes, attribute_starts: *mut usize, attribute_count: usize,
        stream: Stream,
    ) {
        // SAFETY: as the program passed it.
        unsafe {
            cuMemcpyBatchAsync(
                driver, default_stream, destinations, sources, sizes, count, attributes, attribute_starts,
                attribute_count, std::ptr::null_mut(), stream,
            )
        }
    }

    /// `cuMemcpyBatchAsync` of CUDA 12.8: SIZE_MAX where no single copy is to blame.
    fn cuMemcpyBatchAsync(
        driver, default_stream: Stream, destinations: *mut DevicePtr, sources: *mut DevicePtr, sizes: *mut usize,
        count: usize, attributes: *mut MemcpyAttributes, attribute_starts: *mut usize, attribute_count: usize,
        failed: *mut usize, stream: Stream,
    ) {
        // SAFETY: the program's variable, or NULL.
        unsafe { c::put(failed, usize::MAX) };
        let stream = stream.or(default_stream);
        if stream == Stream::LEGACY {
            return Err(CudaError::INVALID_VALUE);
        }
        refuse_captured(driver, stream)?;
        // SAFETY: the program's arrays, of so many elements.
        let (places, attributes, starts) = unsafe {
            (
                (c::slice(destinations, count)?, c::slice(sources, count)?, c::slice(sizes, count)?),
                c::slice(attributes, attribute_count)?,
                c::slice(attribute_starts, attribute_count)?,
            )
        };
        let batch = Batch::new(places, attributes, starts)?;
        // SAFETY: the program vouches for its memory as for that of single copies.
        unsafe { batch.queue(driver, stream) }.map_err(|(error, index)| {
            // SAFETY: the program's variable, or NULL.
            unsafe { c::put(failed, index) };
            error
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(orders: &[u32], starts: &[usize], sizes: &[usize]) -> CudaResult<bool> {
        let places = vec![DevicePtr(1); sizes.len()];
        let attribute = |order: &u32| MemcpyAttributes { source_access_order: *order, ..Default::default() };
        let attributes: Vec<_> = orders.iter().map(attribute).collect();
        Batch::new((&places, &places, sizes), &attributes, starts).map(|batch| batch.ephemeral)
    }

    #[test]
    fn attributes_begin_with_the_first_copy_and_stay_inside_the_batch() {
        use source_access_order::{ANY, DURING_API_CALL, STREAM};
        assert_eq!(batch(&[STREAM], &[0], &[4, 8]), Ok(false));
        assert_eq!(batch(&[ANY, DURING_API_CALL], &[0, 1], &[4, 8]), Ok(true));
        let refused: [(&[u32], &[usize], &[usize]); 5] = [
            (&[], &[], &[4]),
            (&[0], &[0], &[4]),
            (&[STREAM], &[1], &[4, 4]),
            (&[STREAM, STREAM], &[0, 0], &[4, 4]),
            (&[STREAM, STREAM], &[0, 2], &[4, 4]),
        ];
        for (orders, starts, sizes) in refused {
            assert_eq!(batch(orders, starts, sizes), Err(CudaError::INVALID_VALUE), "{orders:?} {starts:?} {sizes:?}");
        }
    }

    #[test]
    fn attributes_cuda_does_not_name_are_refused() {
        let good = MemcpyAttributes { source_access_order: source_access_order::ANY, flags: 1, ..Default::default() };
        assert!(is_known(&good));
        let elsewhere = MemLocation { kind: 77, id: 0 };
        assert!(!is_known(&MemcpyAttributes { flags: 2, ..good }));
        assert!(!is_known(&MemcpyAttributes { source_access_order: 4, ..good }));
        assert!(!is_known(&MemcpyAttributes { destination_hint: elsewhere, ..good }));
    }
}
