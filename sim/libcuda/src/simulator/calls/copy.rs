//! Copies: ends of every kind come in, checked transfers in stream order go out.
//! Pinned memory is read and written when the stream reaches the copy, any memory where a batch says so. Other memory is
//! read at the call and written before the call returns, as CUDA promises. Addresses that are not the program's are refused at the call.

use floe_abi::{Context, CudaError, CudaResult, DevicePtr, Stream};
use floe_surface::{CopyBox, CopyCalls, CopyEnd, CopyPlace, HostRange, PeerBox, UnifiedRange};

use crate::simulator::Simulator;
use crate::simulator::executor::Work;
use crate::simulator::executor::transfer::{Copy, End, Side, Transfer};

/// Longer sources in pageable memory are not taken along: the call waits for its turn instead, which CUDA allows.
const LONGEST_TAKEN: usize = 16 << 20;

/// Whether the program waits for the copy.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wait {
    /// It does.
    Done,
    /// Only as far as its memory is concerned.
    Queued,
    /// It does not, whatever the memory.
    InOrder,
}

impl Simulator {
    /// The end that an address stands for, if it is a device's or of pinned memory that kernels reach. That is looked up again
    /// when the copy runs, as a device's memory is: it may have been freed.
    fn reached_end(&self, at: u64, bytes: usize) -> CudaResult<Option<End>> {
        if self.is_device_address(at) {
            self.check_device_range(at, bytes as u64)?;
            return Ok(Some(End::Device(at)));
        }
        Ok(self.host_memory.reaches(at, bytes as u64).then_some(End::Device(at)))
    }

    /// The end a device address stands for: device memory, or pinned host memory given as such.
    fn device_end(&self, address: DevicePtr, bytes: usize) -> CudaResult<End> {
        match self.reached_end(address.0, bytes)? {
            Some(end) => Ok(end),
            None if bytes == 0 => Ok(End::Bytes(Vec::new())),
            None => self.host_memory.part(address.0, bytes).map(End::Host).ok_or(CudaError::INVALID_VALUE),
        }
    }

    /// The end a host address stands for: managed memory is the device's, which knows its order.
    fn host_end(&self, range: &HostRange) -> CudaResult<End> {
        Ok(self.reached_end(range.pointer().0, range.len())?.unwrap_or(End::Host(*range)))
    }

    fn unified_end(&self, range: &UnifiedRange) -> CudaResult<End> {
        if self.is_device_address(range.device().0) {
            self.device_end(range.device(), range.len())
        } else {
            self.host_end(&range.host())
        }
    }

    fn side(&self, end: &CopyEnd, extent: [usize; 3]) -> CudaResult<Side> {
        let place = match &end.place {
            CopyPlace::Array(array, at) => return self.array_side(*array, *at, extent),
            CopyPlace::Host(range) => self.host_end(range)?,
            CopyPlace::Device(address, bytes) => self.device_end(*address, *bytes)?,
            CopyPlace::Unified(range) => self.unified_end(range)?,
        };
        Ok(Side { end: place, row: end.pitch as u64, slice: end.slice as u64 })
    }

    /// A copy whose ends were classified and checked.
    pub(crate) fn checked_box(&self, copy: &CopyBox) -> CudaResult<Copy> {
        let extent = [copy.width, copy.height, copy.depth];
        let target = self.side(&copy.destination, extent)?;
        let source = self.side(&copy.source, extent)?;
        Ok(Copy { target, source, extent: [copy.width as u64, copy.height as u64, copy.depth as u64] })
    }

    fn copy_box(&self, copy: &CopyBox, stream: Stream, wait: Wait) -> CudaResult<()> {
        let checked = self.checked_box(copy)?;
        if copy.names_array()
            && wait == Wait::Queued
            && let Some(captured) = self.capturing(stream)?
        {
            // A node names the array, not the memory that it has here.
            return if copy.is_empty() { Ok(()) } else { self.record_box(&captured, copy, stream) };
        }
        self.copy(checked, stream, wait)
    }

    fn linear(&self, target: End, source: End, bytes: usize, stream: Stream, wait: Wait) -> CudaResult<()> {
        self.copy(Copy::linear(target, source, bytes as u64), stream, wait)
    }

    fn copy(&self, mut copy: Copy, stream: Stream, mut wait: Wait) -> CudaResult<()> {
        let (context, key) = self.stream(stream)?;
        self.executor.fault(context.serial)?;
        if wait == Wait::Done {
            self.refuse_wait(stream)?;
        } else if let Some(captured) = self.capturing(stream)? {
            // Pageable memory too is read and written when the graph runs.
            return if copy.extent.contains(&0) { Ok(()) } else { self.record_copy(&captured, &copy, &context) };
        }
        if copy.extent.contains(&0) {
            return Ok(());
        }
        if wait == Wait::Queued && self.is_pageable(&copy.target.end) {
            wait = Wait::Done;
        }
        if wait == Wait::Queued
            && let End::Host(range) = &copy.source.end
            && !self.host_memory.is_pinned(range)
        {
            if range.len() > LONGEST_TAKEN {
                wait = Wait::Done;
            } else {
                copy.source.end = End::Bytes(range.to_vec());
            }
        }
        let work = Work::Transfer(Transfer::Copy(copy));
        match wait {
            Wait::Queued | Wait::InOrder => self.executor.post(key, work).map(|_| ()),
            Wait::Done => {
                let result = self.executor.run(key, work);
                context.kernels.output.drain();
                result
            }
        }
    }

    /// One device has all memory, so its contexts only have to be some.
    fn check_contexts(&self, copy: &PeerBox) -> CudaResult<()> {
        copy.ends()
            .into_iter()
            .filter_map(|(_, context)| context)
            .try_for_each(|context| self.context(context).map(drop))
    }

    fn is_pageable(&self, end: &End) -> bool {
        matches!(end, End::Host(range) if !self.host_memory.is_pinned(range))
    }
}

impl CopyCalls for Simulator {
    fn memcpy(&self, stream: Stream, destination: UnifiedRange, source: UnifiedRange) -> CudaResult<()> {
        let (target, from) = (self.unified_end(&destination)?, self.unified_end(&source)?);
        self.linear(target, from, destination.len(), stream, Wait::Done)
    }

    fn memcpy_async(&self, destination: UnifiedRange, source: UnifiedRange, stream: Stream) -> CudaResult<()> {
        let (target, from) = (self.unified_end(&destination)?, self.unified_end(&source)?);
        self.linear(target, from, destination.len(), stream, Wait::Queued)
    }

    fn memcpy_in_order(&self, destination: UnifiedRange, source: UnifiedRange, stream: Stream) -> CudaResult<()> {
        let (target, from) = (self.unified_end(&destination)?, self.unified_end(&source)?);
        self.linear(target, from, destination.len(), stream, Wait::InOrder)
    }

    fn memcpy_htod(&self, stream: Stream, destination: DevicePtr, source: HostRange) -> CudaResult<()> {
        let target = self.device_end(destination, source.len())?;
        self.linear(target, self.host_end(&source)?, source.len(), stream, Wait::Done)
    }

    fn memcpy_htod_async(&self, destination: DevicePtr, source: HostRange, stream: Stream) -> CudaResult<()> {
        let target = self.device_end(destination, source.len())?;
        self.linear(target, self.host_end(&source)?, source.len(), stream, Wait::Queued)
    }

    fn memcpy_dtoh(&self, stream: Stream, destination: HostRange, source: DevicePtr) -> CudaResult<()> {
        let from = self.device_end(source, destination.len())?;
        self.linear(self.host_end(&destination)?, from, destination.len(), stream, Wait::Done)
    }

    fn memcpy_dtoh_async(&self, destination: HostRange, source: DevicePtr, stream: Stream) -> CudaResult<()> {
        let from = self.device_end(source, destination.len())?;
        self.linear(self.host_end(&destination)?, from, destination.len(), stream, Wait::Queued)
    }

    fn memcpy_dtod(&self, stream: Stream, destination: DevicePtr, source: DevicePtr, bytes: usize) -> CudaResult<()> {
        let (target, from) = (self.device_end(destination, bytes)?, self.device_end(source, bytes)?);
        // CUDA does not wait for copies within the device either, unless the program asks for it.
        let wait = if self.waits_for_device() { Wait::Done } else { Wait::Queued };
        self.linear(target, from, bytes, stream, wait)
    }

    fn memcpy_dtod_async(
        &self,
        destination: DevicePtr,
        source: DevicePtr,
        bytes: usize,
        stream: Stream,
    ) -> CudaResult<()> {
        let (target, from) = (self.device_end(destination, bytes)?, self.device_end(source, bytes)?);
        self.linear(target, from, bytes, stream, Wait::Queued)
    }

    fn memcpy_box(&self, stream: Stream, copy: &CopyBox) -> CudaResult<()> {
        self.copy_box(copy, stream, Wait::Done)
    }

    fn memcpy_box_async(&self, copy: &CopyBox, stream: Stream) -> CudaResult<()> {
        self.copy_box(copy, stream, Wait::Queued)
    }

    fn memcpy_peer(
        &self,
        stream: Stream,
        destination: DevicePtr,
        destination_context: Context,
        source: DevicePtr,
        source_context: Context,
        bytes: usize,
    ) -> CudaResult<()> {
        self.context(destination_context)?;
        self.context(source_context)?;
        self.memcpy_dtod(stream, destination, source, bytes)
    }

    fn memcpy_peer_async(
        &self,
        destination: DevicePtr,
        destination_context: Context,
        source: DevicePtr,
        source_context: Context,
        bytes: usize,
        stream: Stream,
    ) -> CudaResult<()> {
        self.context(destination_context)?;
        self.context(source_context)?;
        self.memcpy_dtod_async(destination, source, bytes, stream)
    }

    fn memcpy_box_peer(&self, stream: Stream, copy: &PeerBox) -> CudaResult<()> {
        self.check_contexts(copy)?;
        self.copy_box(&copy.copy, stream, Wait::Done)
    }

    fn memcpy_box_peer_async(&self, copy: &PeerBox, stream: Stream) -> CudaResult<()> {
        self.check_contexts(copy)?;
        self.copy_box(&copy.copy, stream, Wait::Queued)
    }
}
