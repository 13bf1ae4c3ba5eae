//! The calls that copy. The program's arguments come in and become two ends, of a line or a box; one dispatch copies
//! them, by the sides they are on. If the stream is captured, the copy is recorded instead.

mod across;
mod between;
mod deferred;
mod download;
mod ends;
mod extent;
mod upload;
mod way;

use std::sync::Arc;

use floe_abi::{Context, CudaError, CudaResult, DevicePtr, Stream};
use floe_surface::graph::{CopyWork, Work};
use floe_surface::{CopyBox, CopyCalls, CopyEnd, CopyPlace, HostRange, PeerBox, UnifiedRange};

use crate::client::Client;
use crate::log::log;
use crate::lookup::OnDevice;
use crate::memory::managed::resident::Resident;
use crate::objects::context::ContextState;
use crate::objects::stream::StreamState;
use crate::vgpu::Vgpu;
use ends::{End, Spot};
use extent::Extent;
use way::Mode;

impl Client {
    /// A copy in one line.
    fn copy_line(&self, stream: Stream, to: CopyPlace, from: CopyPlace, bytes: usize, mode: Mode) -> CudaResult<()> {
        if mode == Mode::Queues
            && let Some(stream) = self.capturing(stream)?
        {
            return self.record_copy(&stream, &CopyBox::line(to, from, bytes));
        }
        let stream = self.working_stream(stream)?;
        if bytes == 0 {
            return Ok(());
        }
        let (to, from) = (self.line_end(to, &stream.vgpu)?, self.line_end(from, &stream.vgpu)?);
        self.copy_and_end(&stream, to, from, &Extent::Line(bytes), mode)
    }

    fn copy_box(&self, stream: Stream, copy: &CopyBox, mode: Mode) -> CudaResult<()> {
        if let (Mode::Queues, Some(stream)) = (mode, self.capturing(stream)?) {
            return self.record_copy(&stream, copy);
        }
        let stream = self.working_stream(stream)?;
        self.copy_box_on(&stream, copy, mode)
    }

    /// A copy of a graph, on the stream that launches the graph.
    pub(crate) fn copy_recorded(&self, stream: &StreamState, copy: &CopyBox) -> CudaResult<()> {
        self.copy_box_on(stream, copy, Mode::Recorded)
    }

    fn copy_box_on(&self, stream: &StreamState, copy: &CopyBox, mode: Mode) -> CudaResult<()> {
        if copy.is_empty() {
            return Ok(());
        }
        let to = self.box_end(&copy.destination, copy, &stream.vgpu)?;
        let from = self.box_end(&copy.source, copy, &stream.vgpu)?;
        self.copy_and_end(stream, to, from, &Extent::of(copy), mode)
    }

    /// A copy of a box between memory of two contexts, which say whose each end is.
    fn peer_box(&self, stream: Stream, peers: &PeerBox, mode: Mode) -> CudaResult<()> {
        let copy = &peers.copy;
        let vgpu_of = |context: Context| Ok(Arc::clone(&self.context(context)?.vgpu));
        let (target, source) = (peers.destination.map(vgpu_of).transpose()?, peers.source.map(vgpu_of).transpose()?);
        if let (Mode::Queues, Some(stream)) = (mode, self.capturing(stream)?) {
            let mut ends = peers.ends().into_iter().filter_map(|(end, context)| Some((end.device()?, context?)));
            ends.try_for_each(|(at, context)| self.refuse_other_owner(at, context, &stream))?;
            return self.record_copy(&stream, copy);
        }
        let stream = self.working_stream(stream)?;
        if copy.is_empty() {
            return Ok(());
        }
        let to = self.box_end_of(&copy.destination, copy, target.as_ref(), &stream.vgpu)?;
        let from = self.box_end_of(&copy.source, copy, source.as_ref(), &stream.vgpu)?;
        self.copy_and_end(&stream, to, from, &Extent::of(copy), mode)
    }

    /// An end of a box that a context's vGPU has to have, if there is one.
    fn box_end_of<'c>(
        &'c self,
        end: &CopyEnd,
        copy: &CopyBox,
        named: Option<&'c Arc<Vgpu>>,
        current: &'c Arc<Vgpu>,
    ) -> CudaResult<End<'c>> {
        let Some(named) = named else { return self.box_end(end, copy, current) };
        match end.device().and_then(|at| self.owner(at, Some(named))) {
            Some(owner) if !Arc::ptr_eq(owner, named) => Err(CudaError::INVALID_VALUE),
            _ => self.box_end(end, copy, named),
        }
    }

    /// Copies. Behind a copy that the program waits for it may touch managed memory, by calls of the system too.
    fn copy_and_end(
        &self,
        stream: &StreamState,
        to: End<'_>,
        from: End<'_>,
        extent: &Extent,
        mode: Mode,
    ) -> CudaResult<()> {
        let copied = self.copy(stream, &to, &from, extent, mode);
        // A part may be queued even where it failed.
        to.note_use(stream);
        from.note_use(stream);
        copied?;
        let is_managed = to.is_managed() || from.is_managed();
        // Managed memory is the device's while its end lives.
        drop((to, from));
        if mode == Mode::Waits {
            if is_managed || self.waits_for_device() {
                stream.vgpu.synchronize_stream(stream.progress())?;
            }
            stream.vgpu.open_after_wait();
        }
        Ok(())
    }

    /// Whether a synchronous call returns only when the device is done, though CUDA promises less: the program said so of
    /// its context or of memory.
    pub(crate) fn waits_for_device(&self) -> bool {
        self.synchronous.any() || self.with_current(ContextState::has_synchronous_operations).unwrap_or(false)
    }

    /// A synchronous call on this stream is about to return.
    pub(crate) fn end_synchronous(&self, stream: Stream) -> CudaResult<()> {
        if !self.waits_for_device() {
            return Ok(());
        }
        let stream = self.stream(stream)?;
        stream.vgpu.synchronize_stream(stream.progress())
    }

    /// Copies between two ends, by the sides they are on.
    fn copy(&self, stream: &StreamState, to: &End<'_>, from: &End<'_>, extent: &Extent, mode: Mode) -> CudaResult<()> {
        // A program that calls pinned memory the device's does not expect the copy to outlast the call.
        let is_misnamed = to.is_host_named_as_device() || from.is_host_named_as_device();
        let mode = if is_misnamed { Mode::Waits } else { mode };
        let vgpus: Vec<_> = [to, from].into_iter().filter_map(End::vgpu).collect();
        self.among(stream, &vgpus, || self.copy_ends(stream, to, from, extent, mode))
    }

    fn copy_ends(
        &self,
        stream: &StreamState,
        to: &End<'_>,
        from: &End<'_>,
        extent: &Extent,
        mode: Mode,
    ) -> CudaResult<()> {
        match (to, from) {
            (End::Device(to), End::Host(from)) => self.upload(stream, to.spot(), from, extent, mode),
            (End::Host(to), End::Device(from)) => self.download(stream, to, from.spot(), extent, mode),
            (End::Device(to), End::Device(from)) => self.move_between(stream, to.spot(), from.spot(), extent),
            (End::Host(to), End::Host(from)) => self.move_on_host(stream, &to.range, &from.range, extent),
        }
    }

    /// A copy on a stream that is captured.
    fn record_copy(&self, stream: &StreamState, copy: &CopyBox) -> CudaResult<()> {
        if copy.is_empty() {
            return Ok(());
        }
        let copy = self.settled_box(copy, &stream.vgpu)?;
        self.record_work(stream, Work::Copy(Box::new(CopyWork::new(copy, stream.context()))))
    }

    /// A graph's copy names addresses alone. So what it finds there has to be what the contexts of a copy say.
    fn refuse_other_owner(&self, at: DevicePtr, context: Context, stream: &StreamState) -> CudaResult<()> {
        let named = &self.context(context)?.vgpu;
        match self.owner(at, Some(&stream.vgpu)) {
            Some(owner) if !Arc::ptr_eq(owner, named) && named.global_at(at).is_some() => {
                log!(Warn, "two GPUs have a variable at {:#x}, and a graph's copy cannot say which", at.0);
                Err(CudaError::NOT_SUPPORTED)
            }
            Some(owner) if !Arc::ptr_eq(owner, named) => Err(CudaError::INVALID_VALUE),
            _ => Ok(()),
        }
    }

    /// A copy in one line between memory of two contexts, which say whose each end is.
    fn peer(
        &self,
        stream: Stream,
        to: (DevicePtr, Context),
        from: (DevicePtr, Context),
        bytes: usize,
    ) -> CudaResult<()> {
        let (target, source) = (self.context(to.1)?, self.context(from.1)?);
        let end = |vgpu: &Arc<Vgpu>, at| -> CudaResult<Resident> {
            let found = OnDevice::of(vgpu, at, bytes as u64).ok_or(CudaError::INVALID_VALUE)?;
            self.with_holder(found).resident()
        };
        let (target, source) = (end(&target.vgpu, to.0)?, end(&source.vgpu, from.0)?);
        let stream = self.working_stream(stream)?;
        if bytes == 0 {
            return Ok(());
        }
        let (to, from) = (Spot::line(to.0, &target), Spot::line(from.0, &source));
        let vgpus = [target.vgpu(), source.vgpu()];
        let moved = self.among(&stream, &vgpus, || self.move_between(&stream, to, from, &Extent::Line(bytes)));
        target.note_use(&stream);
        source.note_use(&stream);
        moved
    }
}

impl CopyCalls for Client {
    fn memcpy(&self, stream: Stream, destination: UnifiedRange, source: UnifiedRange) -> CudaResult<()> {
        let (to, from) = (CopyPlace::Unified(destination), CopyPlace::Unified(source));
        self.copy_line(stream, to, from, source.len(), Mode::Waits)
    }

    fn memcpy_async(&self, destination: UnifiedRange, source: UnifiedRange, stream: Stream) -> CudaResult<()> {
        let (to, from) = (CopyPlace::Unified(destination), CopyPlace::Unified(source));
        self.copy_line(stream, to, from, source.len(), Mode::Queues)
    }

    fn memcpy_in_order(&self, destination: UnifiedRange, source: UnifiedRange, stream: Stream) -> CudaResult<()> {
        let (to, from) = (CopyPlace::Unified(destination), CopyPlace::Unified(source));
        self.copy_line(stream, to, from, source.len(), Mode::Recorded)
    }

    fn memcpy_htod(&self, stream: Stream, destination: DevicePtr, source: HostRange) -> CudaResult<()> {
        let (to, from) = (CopyPlace::Device(destination, source.len()), CopyPlace::Host(source));
        self.copy_line(stream, to, from, source.len(), Mode::Waits)
    }

    fn memcpy_htod_async(&self, destination: DevicePtr, source: HostRange, stream: Stream) -> CudaResult<()> {
        let (to, from) = (CopyPlace::Device(destination, source.len()), CopyPlace::Host(source));
        self.copy_line(stream, to, from, source.len(), Mode::Queues)
    }

    fn memcpy_dtoh(&self, stream: Stream, destination: HostRange, source: DevicePtr) -> CudaResult<()> {
        let (to, from) = (CopyPlace::Host(destination), CopyPlace::Device(source, destination.len()));
        self.copy_line(stream, to, from, destination.len(), Mode::Waits)
    }

    fn memcpy_dtoh_async(&self, destination: HostRange, source: DevicePtr, stream: Stream) -> CudaResult<()> {
        let (to, from) = (CopyPlace::Host(destination), CopyPlace::Device(source, destination.len()));
        self.copy_line(stream, to, from, destination.len(), Mode::Queues)
    }

    fn memcpy_dtod(&self, stream: Stream, destination: DevicePtr, source: DevicePtr, bytes: usize) -> CudaResult<()> {
        let (to, from) = (CopyPlace::Device(destination, bytes), CopyPlace::Device(source, bytes));
        self.copy_line(stream, to, from, bytes, Mode::Waits)
    }

    fn memcpy_dtod_async(
        &self,
        destination: DevicePtr,
        source: DevicePtr,
        bytes: usize,
        stream: Stream,
    ) -> CudaResult<()> {
        let (to, from) = (CopyPlace::Device(destination, bytes), CopyPlace::Device(source, bytes));
        self.copy_line(stream, to, from, bytes, Mode::Queues)
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
        self.peer(stream, to, from, bytes)?;
        self.end_synchronous(stream)
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
        if let Some(stream) = self.capturing(stream)? {
            let ends = [(destination, destination_context), (source, source_context)];
            ends.into_iter().try_for_each(|(at, context)| self.refuse_other_owner(at, context, &stream))?;
            return self.record_copy(&stream, &CopyBox::line(to, from, bytes));
        }
        self.peer(stream, (destination, destination_context), (source, source_context), bytes)
    }

    fn memcpy_box_peer(&self, stream: Stream, copy: &PeerBox) -> CudaResult<()> {
        self.peer_box(stream, copy, Mode::Waits)
    }

    fn memcpy_box_peer_async(&self, copy: &PeerBox, stream: Stream) -> CudaResult<()> {
        self.peer_box(stream, copy, Mode::Queues)
    }
}
