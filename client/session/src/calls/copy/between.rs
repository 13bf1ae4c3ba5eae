//! Copies that leave the program's memory alone or the vGPUs: within a vGPU, from one to another, within the host. Ends come in;
//! between vGPUs of one server a device copies by itself, in the order of its streams. Between servers that do not connect to
//! each other, bytes pass through the client, and then all is over when this returns.

use std::sync::Arc;

use floe_abi::{CudaError, CudaResult, stream_flags};
use floe_surface::{HostBlock, HostRange};
use floe_wire::{ArrayId, BoxEnd};

use super::across::Packed;
use super::ends::Spot;
use super::extent::{Extent, Shape};
use super::way::Mode;
use crate::client::Client;
use crate::log::log;
use crate::lookup::OnHost;
use crate::memory::managed::resident::Resident;
use crate::objects::stream::StreamState;
use crate::vgpu::Vgpu;
use floe_lock::lock;

/// Bytes of a copy between vGPUs that are in the client at a time.
const RELAY_BYTES: usize = 32 << 20;

impl Client {
    /// From one vGPU's memory to the same or another's. Two vGPUs may have global variables at one address, so the memory
    /// says which has it.
    pub(super) fn move_between(
        &self,
        stream: &StreamState,
        to: Spot<'_>,
        from: Spot<'_>,
        extent: &Extent,
    ) -> CudaResult<()> {
        // The stream's device copies where it reaches both ends, else that of an end.
        for vgpu in [&stream.vgpu, from.memory.vgpu(), to.memory.vgpu()] {
            if is_reached(vgpu, to, extent)? && is_reached(vgpu, from, extent)? {
                return self.on_behalf(stream, vgpu, |remote| extent.post_on_device(remote, to.end, from.end));
            }
        }
        let (source, target) = (from.memory.vgpu(), to.memory.vgpu());
        if !Arc::ptr_eq(source, target) && target.ability_with(source)?.access != 0 {
            return self.bounce(stream, to, from, extent);
        }
        if self.send_across(stream, to, from, extent)? {
            return Ok(());
        }
        match extent {
            Extent::Line(bytes) => self.relay(stream, to, from, *bytes),
            Extent::Box(shape) => self.relay_box(stream, to, from, extent, *shape),
        }
    }

    /// Between two ends that only their own devices reach, arrays and variables: by memory of the source's device.
    fn bounce(&self, stream: &StreamState, to: Spot<'_>, from: Spot<'_>, extent: &Extent) -> CudaResult<()> {
        let (source, target) = (from.memory.vgpu(), to.memory.vgpu());
        let owner = self.device_having(source)?.primary.handle();
        let at = source.allocate(extent.bytes() as u64, owner, None)?;
        let memory = Resident::always(Arc::clone(source));
        let between = Spot { end: extent.packed_at(at), memory: &memory };
        let moved = self
            .on_behalf(stream, source, |remote| extent.post_on_device(remote, between.end, from.end))
            .and_then(|()| is_reached(target, between, extent))
            .and_then(|reached| if reached { Ok(()) } else { Err(CudaError::NOT_SUPPORTED) })
            .and_then(|()| self.on_behalf(stream, target, |remote| extent.post_on_device(remote, to.end, between.end)));
        let fence = source.fence_of(at.0);
        lock(&source.blocks).free(at.0, fence, None);
        moved
    }

    /// A box through the client: packed by the device it comes from, unpacked by the one it goes to.
    fn relay_box(
        &self,
        stream: &StreamState,
        to: Spot<'_>,
        from: Spot<'_>,
        extent: &Extent,
        shape: Shape,
    ) -> CudaResult<()> {
        let (source, target) = (from.memory.vgpu(), to.memory.vgpu());
        if !is_reached(source, from, extent)? || !is_reached(target, to, extent)? {
            return self.relay_rows(stream, to, from, shape);
        }
        let rooms = [self.room(source, extent)?, self.room(target, extent)?];
        let moved = match &rooms {
            [Some(packed), Some(unpacked)] => self.relay_packed(stream, to, from, extent, [packed, unpacked]),
            _ => self.relay_rows(stream, to, from, shape),
        };
        rooms.iter().flatten().for_each(Packed::free);
        moved
    }

    fn relay_packed(
        &self,
        stream: &StreamState,
        to: Spot<'_>,
        from: Spot<'_>,
        extent: &Extent,
        [packed, unpacked]: [&Packed<'_>; 2],
    ) -> CudaResult<()> {
        let (source, target) = (Resident::always(Arc::clone(packed.vgpu)), Resident::always(Arc::clone(unpacked.vgpu)));
        let pack = |remote: &StreamState| extent.post_on_device(remote, extent.packed_at(packed.at), from.end);
        let unpack = |remote: &StreamState| extent.post_on_device(remote, to.end, extent.packed_at(unpacked.at));
        self.on_behalf(stream, packed.vgpu, pack)?;
        self.relay(stream, Spot::line(unpacked.at, &target), Spot::line(packed.at, &source), extent.bytes())?;
        self.on_behalf(stream, unpacked.vgpu, unpack)
    }

    /// Row by row through the client.
    fn relay_rows(&self, stream: &StreamState, to: Spot<'_>, from: Spot<'_>, shape: Shape) -> CudaResult<()> {
        if to.end.array != ArrayId(0) || from.end.array != ArrayId(0) {
            log!(Warn, "no memory for the copy of an array between servers\n  copy by way of host memory instead");
            return Err(CudaError::OUT_OF_MEMORY);
        }
        shape
            .rows()
            .try_for_each(|(target, source)| self.relay(stream, to.offset(target)?, from.offset(source)?, shape.width))
    }

    /// From one vGPU to another, through the client.
    fn relay(&self, stream: &StreamState, to: Spot<'_>, from: Spot<'_>, bytes: usize) -> CudaResult<()> {
        let buffer = HostBlock::new(bytes.min(RELAY_BYTES)).ok_or(CudaError::OUT_OF_MEMORY)?;
        for done in (0..bytes).step_by(RELAY_BYTES) {
            let length = RELAY_BYTES.min(bytes - done);
            let (piece, extent) = (OnHost::unpinned(buffer.range().sub(0, length)?, self), Extent::Line(length));
            self.download(stream, &piece, from.offset(done)?, &extent, Mode::Waits)?;
            // The bytes leave with the message, so the buffer is free again when this returns.
            self.upload(stream, to.offset(done)?, &piece, &extent, Mode::Waits)?;
        }
        Ok(())
    }

    /// Does something of `stream`'s on another vGPU, in its place of `stream`'s order: after what it holds, before what
    /// comes. Nobody waits for it here.
    pub(crate) fn on_behalf(
        &self,
        stream: &StreamState,
        vgpu: &Arc<Vgpu>,
        act: impl FnOnce(&StreamState) -> CudaResult<()>,
    ) -> CudaResult<()> {
        if Arc::ptr_eq(&stream.vgpu, vgpu) {
            return act(stream);
        }
        vgpu.errors.report()?;
        // As with work that the program itself puts on a stream of that vGPU.
        vgpu.send_mirrors()?;
        // A stream of its own, so that it stands in no other work's way.
        let context = self.device_having(vgpu)?.primary.handle();
        let remote = StreamState::create(vgpu, context, stream_flags::NON_BLOCKING, stream.priority())?;
        let done = Self::wait_for_stream(&remote, stream)
            .and_then(|()| act(&remote))
            .and_then(|()| Self::wait_for_stream(stream, &remote));
        remote.abandon();
        done
    }

    /// Does something on a stream that uses memory of other vGPUs. As CUDA has it, work of the legacy default stream that
    /// concerns several devices is in order of all their legacy default streams.
    pub(crate) fn among(
        &self,
        stream: &StreamState,
        vgpus: &[&Arc<Vgpu>],
        act: impl FnOnce() -> CudaResult<()>,
    ) -> CudaResult<()> {
        let mut others = Vec::new();
        for vgpu in vgpus.iter().filter(|vgpu| stream.is_legacy() && !Arc::ptr_eq(vgpu, &stream.vgpu)) {
            others.push(self.device_having(vgpu)?.primary.legacy());
        }
        others.dedup_by(|left, right| Arc::ptr_eq(left, right));
        others.iter().try_for_each(|other| Self::wait_for_stream(stream, other))?;
        act()?;
        others.iter().try_for_each(|other| Self::wait_for_stream(other, stream))
    }

    /// Host to host, in stream order: the stream is waited for.
    pub(super) fn move_on_host(
        &self,
        stream: &StreamState,
        to: &HostRange,
        from: &HostRange,
        extent: &Extent,
    ) -> CudaResult<()> {
        stream.vgpu.synchronize_place(stream.progress())?;
        self.wait_for_writes(from)?;
        self.wait_for_writes(to)?;
        match extent {
            Extent::Line(bytes) => to.copy_from(from, *bytes),
            Extent::Box(shape) => shape.rows().try_for_each(|(target, source)| {
                to.sub(target, shape.width)?.copy_from(&from.sub(source, shape.width)?, shape.width)
            }),
        }
    }
}

/// Whether a vGPU's device reaches an end of a copy. Memory that it can have from others is imported now.
pub(super) fn is_reached(vgpu: &Arc<Vgpu>, spot: Spot<'_>, extent: &Extent) -> CudaResult<bool> {
    let BoxEnd { at, array, .. } = spot.end;
    let is_own = spot.memory.is_on(vgpu);
    if array != ArrayId(0) || is_own && !vgpu.is_programs_own(at) {
        return Ok(is_own);
    }
    let end = at.offset(extent.span_at(&spot.end)).ok_or(CudaError::INVALID_VALUE)?;
    vgpu.reach_range(&(at.0..end.0))
}
