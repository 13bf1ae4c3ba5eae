//! The calls that copy. What the program named comes in, told apart by the side it is on; where the stream is captured, the
//! copy is recorded instead.

mod boxes;
mod late;
mod lines;

use std::sync::Arc;

use floe_abi::{Context, CudaError, CudaResult, DevicePtr, Stream};
use floe_surface::{CopyBox, CopyCalls, CopyEnd, CopyPlace, HostRange, UnifiedRange};

use crate::client::Client;
use crate::memory::managed::resident::Resident;
use lines::{Mode, Side};

impl Client {
    /// Records a copy in one line where the stream is captured; `false` where it is not.
    fn record_line(&self, stream: Stream, to: CopyPlace, from: CopyPlace, bytes: usize) -> CudaResult<bool> {
        let Some(stream) = self.capturing(stream)? else {
            return Ok(false);
        };
        let end = |place| CopyEnd { place, pitch: bytes, slice: bytes };
        let copy = CopyBox { source: end(from), destination: end(to), width: bytes, height: 1, depth: 1 };
        self.record_copy(&stream, &copy).map(|()| true)
    }

    fn copy(&self, stream: Stream, to: UnifiedRange, from: UnifiedRange, mode: Mode) -> CudaResult<()> {
        let (target, source) = (CopyPlace::Unified(to), CopyPlace::Unified(from));
        if mode == Mode::Queues && self.record_line(stream, target, source, from.len())? {
            return Ok(());
        }
        let stream = self.working_stream(stream)?;
        if from.is_empty() {
            return Ok(());
        }
        let ends = [to.device().0, from.device().0];
        match (self.side(&to, &stream.vgpu)?, self.side(&from, &stream.vgpu)?) {
            (Side::Device(to), Side::Host(from)) => self.upload(&stream, to, from, mode),
            (Side::Host(to), Side::Device(from)) => self.download(&stream, to, from, mode),
            (Side::Device(to), Side::Device(at)) => self.move_on_device(&stream, to, at, from.len() as u64),
            (Side::Host(to), Side::Host(from)) => self.move_on_host(&stream, to, from),
        }?;
        self.end_copy(mode, &stream, ends)
    }

    fn peer(
        &self,
        stream: Stream,
        to: (DevicePtr, Context),
        from: (DevicePtr, Context),
        bytes: usize,
    ) -> CudaResult<()> {
        let (target, source) = (self.context(to.1)?, self.context(from.1)?);
        let bytes = bytes as u64;
        if !target.vgpu.covers(to.0.0, bytes) || !source.vgpu.covers(from.0.0, bytes) {
            return Err(CudaError::INVALID_VALUE);
        }
        let target = Resident::of(Arc::clone(&target.vgpu), to.0.0, bytes)?;
        let source = Resident::of(Arc::clone(&source.vgpu), from.0.0, bytes)?;
        let stream = self.working_stream(stream)?;
        if bytes == 0 {
            return Ok(());
        }
        self.move_between(&stream, (to.0, &target), (from.0, &source), bytes)
    }
}

impl CopyCalls for Client {
    fn memcpy(&self, stream: Stream, destination: UnifiedRange, source: UnifiedRange) -> CudaResult<()> {
        self.copy(stream, destination, source, Mode::Waits)
    }

    fn memcpy_async(&self, destination: UnifiedRange, source: UnifiedRange, stream: Stream) -> CudaResult<()> {
        self.copy(stream, destination, source, Mode::Queues)
    }

    fn memcpy_htod(&self, stream: Stream, destination: DevicePtr, source: HostRange) -> CudaResult<()> {
        let stream = self.working_stream(stream)?;
        let ends = [destination.0, source.pointer().0];
        self.upload(&stream, destination, source, Mode::Waits)?;
        self.end_copy(Mode::Waits, &stream, ends)
    }

    fn memcpy_htod_async(&self, destination: DevicePtr, source: HostRange, stream: Stream) -> CudaResult<()> {
        let bytes = source.len();
        if self.record_line(stream, CopyPlace::Device(destination, bytes), CopyPlace::Host(source), bytes)? {
            return Ok(());
        }
        let stream = self.working_stream(stream)?;
        self.upload(&stream, destination, source, Mode::Queues)
    }

    fn memcpy_dtoh(&self, stream: Stream, destination: HostRange, source: DevicePtr) -> CudaResult<()> {
        let stream = self.working_stream(stream)?;
        let ends = [destination.pointer().0, source.0];
        self.download(&stream, destination, source, Mode::Waits)?;
        self.end_copy(Mode::Waits, &stream, ends)
    }

    fn memcpy_dtoh_async(&self, destination: HostRange, source: DevicePtr, stream: Stream) -> CudaResult<()> {
        let bytes = destination.len();
        if self.record_line(stream, CopyPlace::Host(destination), CopyPlace::Device(source, bytes), bytes)? {
            return Ok(());
        }
        let stream = self.working_stream(stream)?;
        self.download(&stream, destination, source, Mode::Queues)
    }

    fn memcpy_dtod(&self, stream: Stream, destination: DevicePtr, source: DevicePtr, bytes: usize) -> CudaResult<()> {
        let stream = self.working_stream(stream)?;
        self.move_on_device(&stream, destination, source, bytes as u64)?;
        self.end_copy(Mode::Waits, &stream, [destination.0, source.0])
    }

    fn memcpy_dtod_async(
        &self,
        destination: DevicePtr,
        source: DevicePtr,
        bytes: usize,
        stream: Stream,
    ) -> CudaResult<()> {
        let (to, from) = (CopyPlace::Device(destination, bytes), CopyPlace::Device(source, bytes));
        if self.record_line(stream, to, from, bytes)? {
            return Ok(());
        }
        let stream = self.working_stream(stream)?;
        self.move_on_device(&stream, destination, source, bytes as u64)
    }

    fn memcpy_box(&self, stream: Stream, copy: &CopyBox) -> CudaResult<()> {
        self.copy_box(stream, copy, Mode::Waits)
    }

    fn memcpy_box_async(&self, copy: &CopyBox, stream: Stream) -> CudaResult<()> {
        self.copy_box(stream, copy, Mode::Queues)
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
        let (to, from) = ((destination, destination_context), (source, source_context));
        self.peer(stream, to, from, bytes)
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
        let (to, from) = (CopyPlace::Device(destination, bytes), CopyPlace::Device(source, bytes));
        if self.record_line(stream, to, from, bytes)? {
            return Ok(());
        }
        self.memcpy_peer(stream, destination, destination_context, source, source_context, bytes)
    }
}
