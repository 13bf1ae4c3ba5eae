//! Memsets: an address, a value and counts come in, a checked fill in stream order goes out.
//! None of them waits, as in CUDA, but the plain forms do if the program asks for it. Ranges that are not the program's are refused at the call.

use floe_abi::{Context, CudaError, CudaResult, DevicePtr, MemsetNodeParams, Stream};
use floe_surface::MemsetCalls;
use floe_surface::graph::{FillWork, Work as Recorded};

use crate::simulator::Simulator;
use crate::simulator::executor::Work;
use crate::simulator::executor::transfer::{Fill, Transfer};

impl Simulator {
    /// Fills `height` rows of `width` elements of `element` bytes, `pitch` bytes apart.
    fn fill(
        &self,
        stream: Stream,
        address: DevicePtr,
        pitch: usize,
        (value, element): (u32, u32),
        [width, height]: [usize; 2],
    ) -> CudaResult<()> {
        let (context, key) = self.stream(stream)?;
        self.executor.fault(context.serial)?;
        let captured = self.capturing(stream)?;
        if width == 0 || height == 0 {
            return Ok(());
        }
        let fill = MemsetNodeParams { at: address, pitch, value, element, width, height };
        if let Some(captured) = captured {
            // The address is checked when the graph is launched: cuDNN captures fills of addresses that are never
            // mapped.
            shape(&fill)?;
            let work = FillWork::new(fill, Context(context.handle));
            return self.graphs.record(&captured, Recorded::Fill(work));
        }
        let checked = self.checked_fill(&fill)?;
        self.executor.post(key, Work::Transfer(Transfer::Fill(checked))).map(|_| ())
    }

    /// A plain form is about to return.
    fn end_fill(&self, stream: Stream) -> CudaResult<()> {
        if self.waits_for_device() {
            self.executor.wait_stream(self.stream(stream)?.1);
        }
        Ok(())
    }

    /// A fill of at least one element.
    ///
    /// # Errors
    /// INVALID_VALUE where a byte of it is not the program's, or address or pitch does not suit the elements.
    pub(crate) fn checked_fill(&self, fill: &MemsetNodeParams) -> CudaResult<Fill> {
        let (checked, extent) = shape(fill)?;
        self.check_device_range(checked.address, extent)?;
        Ok(checked)
    }
}

/// A fill whose address and pitch suit its elements, and its bytes from the first to the last.
fn shape(fill: &MemsetNodeParams) -> CudaResult<(Fill, u64)> {
    let bytes = u64::from(fill.element);
    let (address, width, height) = (fill.at.0, fill.width as u64, fill.height as u64);
    let row = width.checked_mul(bytes).ok_or(CudaError::INVALID_VALUE)?;
    let pitch = if height == 1 { row } else { fill.pitch as u64 };
    if !address.is_multiple_of(bytes) || !pitch.is_multiple_of(bytes) || pitch < row || height == 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    let before_last = pitch.checked_mul(height - 1).ok_or(CudaError::INVALID_VALUE)?;
    let extent = before_last.checked_add(row).ok_or(CudaError::INVALID_VALUE)?;
    Ok((Fill { address, pitch, value: fill.value, element: fill.element, extent: [width, height] }, extent))
}

macro_rules! memsets {
    ($(($flat:ident, $flat_async:ident, $rows:ident, $rows_async:ident, $value:ty)),* $(,)?) => {
        impl MemsetCalls for Simulator {$(
            fn $flat(&self, stream: Stream, address: DevicePtr, value: $value, count: usize) -> CudaResult<()> {
                self.$flat_async(address, value, count, stream)?;
                self.end_fill(stream)
            }

            fn $flat_async(&self, address: DevicePtr, value: $value, count: usize, stream: Stream) -> CudaResult<()> {
                self.fill(stream, address, 0, (value.into(), <$value>::BITS / 8), [count, 1])
            }

            fn $rows(
                &self,
                stream: Stream,
                address: DevicePtr,
                pitch: usize,
                value: $value,
                width: usize,
                height: usize,
            ) -> CudaResult<()> {
                self.$rows_async(address, pitch, value, width, height, stream)?;
                self.end_fill(stream)
            }

            fn $rows_async(
                &self,
                address: DevicePtr,
                pitch: usize,
                value: $value,
                width: usize,
                height: usize,
                stream: Stream,
            ) -> CudaResult<()> {
                self.fill(stream, address, pitch, (value.into(), <$value>::BITS / 8), [width, height])
            }
        )*}
    };
}

memsets! {
    (memset_d8, memset_d8_async, memset_d2d8, memset_d2d8_async, u8),
    (memset_d16, memset_d16_async, memset_d2d16, memset_d2d16_async, u16),
    (memset_d32, memset_d32_async, memset_d2d32, memset_d2d32_async, u32),
}
