//! Fills of device memory. Address, value and extent come in, one message is posted, in stream order. Extents that do not fit
//! the memory are refused here, since nobody waits for the server's refusal.

use std::sync::Arc;

use floe_abi::{CudaError, CudaResult, DevicePtr, MemsetNodeParams, Stream};
use floe_surface::graph::{FillWork, Work};
use floe_surface::{HostRange, MemsetCalls};

use crate::client::Client;
use crate::lookup::Lookup;
use crate::objects::stream::StreamState;
use crate::vgpu::Vgpu;

/// One fill: `height` rows of `width` elements.
struct Extent {
    pitch: usize,
    width: usize,
    height: usize,
}

impl Extent {
    fn line(count: usize) -> Self {
        Self { pitch: 0, width: count, height: 1 }
    }

    fn of_node(fill: &MemsetNodeParams) -> Self {
        Self { pitch: fill.pitch, width: fill.width, height: fill.height }
    }

    /// The same as a node of a graph has it.
    fn as_node(&self, at: DevicePtr, element: u32, value: u32) -> MemsetNodeParams {
        MemsetNodeParams { at, pitch: self.pitch, value, element, width: self.width, height: self.height }
    }

    /// Bytes from the first to the last of a fill at this address.
    fn checked_span(&self, at: DevicePtr, element: u32) -> CudaResult<u64> {
        let steps = self.height <= 1 || self.pitch.is_multiple_of(element as usize);
        if !at.0.is_multiple_of(u64::from(element)) || !steps {
            return Err(CudaError::INVALID_VALUE);
        }
        Ok(self.span(element as usize)? as u64)
    }

    /// Bytes from the first to the last, for elements of this size.
    fn span(&self, element: usize) -> CudaResult<usize> {
        let row = self.width.checked_mul(element).ok_or(CudaError::INVALID_VALUE)?;
        if self.height > 1 && self.pitch < row {
            return Err(CudaError::INVALID_VALUE);
        }
        self.pitch.checked_mul(self.height - 1).and_then(|rows| rows.checked_add(row)).ok_or(CudaError::INVALID_VALUE)
    }
}

impl Client {
    fn fill(&self, stream: Stream, at: DevicePtr, element: u32, value: u32, extent: &Extent) -> CudaResult<()> {
        if let Some(stream) = self.capturing(stream)? {
            let fill = extent.as_node(at, element, value);
            if fill.width == 0 || fill.height == 0 {
                return Ok(());
            }
            // The launch of the graph checks the memory: cuDNN captures fills of addresses that never exist.
            extent.checked_span(at, element)?;
            return self.record_work(&stream, Work::Fill(FillWork::new(fill, stream.context())));
        }
        let stream = self.working_stream(stream)?;
        self.fill_on(&stream, at, element, value, extent)
    }

    /// A fill of a graph, on the stream that launches the graph.
    pub(crate) fn fill_recorded(&self, stream: &StreamState, fill: &MemsetNodeParams) -> CudaResult<()> {
        let extent = Extent::of_node(fill);
        self.fill_on(stream, fill.at, fill.element, fill.value, &extent)
    }

    /// Whether a fill of a graph sets memory that is there.
    pub(crate) fn check_fill(&self, fill: &MemsetNodeParams, vgpu: &Arc<Vgpu>) -> CudaResult<()> {
        let span = Extent::of_node(fill).checked_span(fill.at, fill.element)?;
        self.lookup_device(fill.at, span, vgpu).map(drop)
    }

    fn fill_on(
        &self,
        stream: &StreamState,
        at: DevicePtr,
        element: u32,
        value: u32,
        extent: &Extent,
    ) -> CudaResult<()> {
        if extent.width == 0 || extent.height == 0 {
            return Ok(());
        }
        let span = extent.checked_span(at, element)?;
        let message = |stream| floe_wire::Fill {
            stream,
            at,
            pitch: extent.pitch as u64,
            element,
            value,
            width: extent.width as u64,
            height: extent.height as u64,
        };
        let memory = match self.lookup_device(at, span, &stream.vgpu)? {
            Lookup::Device(memory) => memory.resident()?,
            // A program that sets pinned memory as if it were the device's has kernels use it next.
            Lookup::Host(host) if host.pinned().is_some_and(|pinned| stream.vgpu.make_reachable(pinned).is_some()) => {
                let at = stream.vgpu.device_place(&host.range);
                return stream.post(&floe_wire::Fill { at, ..message(stream.id()) });
            }
            Lookup::Host(host) => return Self::fill_host(stream, host.range, element, value, extent),
        };
        if memory.is_on(&stream.vgpu) && !stream.vgpu.is_programs_own(at) {
            return stream.post(&message(stream.id()));
        }
        let end = at.offset(span).ok_or(CudaError::INVALID_VALUE)?;
        let vgpu =
            if stream.vgpu.reach_range(&(at.0..end.0))? { &stream.vgpu } else { memory.other_than(&stream.vgpu)? };
        let fill = |stream: &StreamState| stream.post(&message(stream.id()));
        let filled = self.among(stream, &[memory.vgpu()], || self.on_behalf(stream, vgpu, fill));
        memory.note_use(stream);
        filled
    }
}

impl Client {
    /// Pinned memory of the program is filled in its own process when the stream gets there, and the call waits for
    /// that. CUDA promises only that copies and kernels behind a fill see it, and these may be anywhere.
    fn fill_host(stream: &StreamState, range: HostRange, element: u32, value: u32, extent: &Extent) -> CudaResult<()> {
        let element = element as usize;
        let row: Vec<u8> = value.to_le_bytes()[..element].repeat(extent.width);
        let (pitch, height) = (extent.pitch, extent.height);
        let fill = move || {
            for index in 0..height {
                // The rows lie within the span the range was found for.
                let _ = range.sub(index * pitch, row.len()).and_then(|to| to.write(&row));
            }
        };
        let vgpu = &stream.vgpu;
        let work = crate::vgpu::connection::HostWork::Own(Box::new(fill));
        vgpu.host_function(stream.progress(), work)?;
        vgpu.synchronize_stream(stream.progress())
    }
}

macro_rules! fills {
    ($($name:ident $name_async:ident $name_2d:ident $name_2d_async:ident $element:ty;)*) => {
        impl MemsetCalls for Client {$(
            fn $name(&self, stream: Stream, address: DevicePtr, value: $element, count: usize) -> CudaResult<()> {
                self.$name_async(address, value, count, stream)?;
                self.end_synchronous(stream)
            }

            fn $name_async(&self, address: DevicePtr, value: $element, count: usize, stream: Stream) -> CudaResult<()> {
                self.fill(stream, address, <$element>::BITS / 8, u32::from(value), &Extent::line(count))
            }

            fn $name_2d(
                &self,
                stream: Stream,
                address: DevicePtr,
                pitch: usize,
                value: $element,
                width: usize,
                height: usize,
            ) -> CudaResult<()> {
                self.$name_2d_async(address, pitch, value, width, height, stream)?;
                self.end_synchronous(stream)
            }

            fn $name_2d_async(
                &self,
                address: DevicePtr,
                pitch: usize,
                value: $element,
                width: usize,
                height: usize,
                stream: Stream,
            ) -> CudaResult<()> {
                let extent = Extent { pitch, width, height };
                self.fill(stream, address, <$element>::BITS / 8, u32::from(value), &extent)
            }
        )*}
    };
}

fills! {
    memset_d8 memset_d8_async memset_d2d8 memset_d2d8_async u8;
    memset_d16 memset_d16_async memset_d2d16 memset_d2d16_async u16;
    memset_d32 memset_d32_async memset_d2d32 memset_d2d32_async u32;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn span_ends_with_the_last_element() {
        let extent = Extent { pitch: 64, width: 4, height: 3 };
        assert_eq!(extent.span(4), Ok(144));
        assert_eq!(Extent::line(5).span(2), Ok(10));
    }

    #[test]
    fn overlapping_rows_and_overflow_are_refused() {
        assert!(Extent { pitch: 8, width: 4, height: 2 }.span(4).is_err());
        assert!(Extent::line(usize::MAX).span(4).is_err());
        assert!(Extent { pitch: usize::MAX, width: 1, height: 3 }.span(1).is_err());
    }
}
