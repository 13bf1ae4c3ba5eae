//! Copies between vGPUs of different servers, from worker to worker. Ends come in; each worker is told of its part, in the order
//! of the program's stream. No byte passes this process, and nothing is waited for. Rows, arrays and variables are packed
//! by the device they come from, and unpacked by the one they go to.

use std::sync::Arc;

use floe_abi::{CudaResult, DevicePtr, stream_flags};
use floe_wire::{ArrayId, Message, ReceiveFrom, SendTo};

use super::between::is_reached;
use super::ends::Spot;
use super::extent::Extent;
use crate::client::Client;
use crate::memory::peers::links::Road;
use crate::objects::stream::StreamState;
use crate::vgpu::Vgpu;
use floe_lock::lock;

/// Whether an end is memory that a link reaches by itself, whatever stands on the GPU. Arrays and variables are not.
fn is_block_memory(spot: Spot<'_>) -> bool {
    spot.end.array == ArrayId(0) && !spot.memory.vgpu().is_variable(spot.end.at)
}

/// Memory of a vGPU that packed rows lie in meanwhile.
pub(super) struct Packed<'v> {
    pub(super) vgpu: &'v Arc<Vgpu>,
    pub(super) at: DevicePtr,
}

impl Packed<'_> {
    /// Frees it behind the work that was posted so far.
    pub(super) fn free(&self) {
        let fence = self.vgpu.fence_of(self.at.0);
        lock(&self.vgpu.blocks).free(self.at.0, fence, None);
    }
}

impl Client {
    /// From one server's vGPU to another's. False: the servers do not connect, or cannot for this.
    pub(super) fn send_across(
        &self,
        stream: &StreamState,
        to: Spot<'_>,
        from: Spot<'_>,
        extent: &Extent,
    ) -> CudaResult<bool> {
        let (source, target) = (from.memory.vgpu(), to.memory.vgpu());
        if source.is_beside(target) || !is_reached(source, from, extent)? || !is_reached(target, to, extent)? {
            return Ok(false);
        }
        // Made before memory is taken for it.
        let Some(road) = Road::between(source, target)? else { return Ok(false) };
        drop(road);
        if extent.is_line() && is_block_memory(from) && is_block_memory(to) {
            return self.across(stream, [source, target], (from.end.at, to.end.at, extent.bytes() as u64), None);
        }
        let [Some(packed), Some(unpacked)] = [self.room(source, extent)?, self.room(target, extent)?] else {
            return Ok(false);
        };
        let line = (packed.at, unpacked.at, extent.bytes() as u64);
        let sent = self.across(stream, [source, target], line, Some((from, to, extent)));
        packed.free();
        unpacked.free();
        sent
    }

    /// Memory for packed rows; `None`: there is none.
    pub(super) fn room<'v>(&self, vgpu: &'v Arc<Vgpu>, extent: &Extent) -> CudaResult<Option<Packed<'v>>> {
        let owner = self.device_having(vgpu)?.primary.handle();
        Ok(vgpu.allocate(extent.bytes() as u64, owner, None).ok().map(|at| Packed { vgpu, at }))
    }

    /// Sends a line of bytes, from packed rows and to them where there are `rows`.
    fn across(
        &self,
        stream: &StreamState,
        [source, target]: [&Arc<Vgpu>; 2],
        (from, to, bytes): (DevicePtr, DevicePtr, u64),
        rows: Option<(Spot<'_>, Spot<'_>, &Extent)>,
    ) -> CudaResult<bool> {
        let remotes = [self.stream_at(stream, source)?, self.stream_at(stream, target)?];
        let posted = self.post_across(stream, &remotes, [source, target], (from, to, bytes), rows);
        remotes.iter().flatten().for_each(|remote| remote.abandon());
        posted
    }

    fn post_across(
        &self,
        stream: &StreamState,
        remotes: &[Option<Arc<StreamState>>; 2],
        [source, target]: [&Arc<Vgpu>; 2],
        (from, to, bytes): (DevicePtr, DevicePtr, u64),
        rows: Option<(Spot<'_>, Spot<'_>, &Extent)>,
    ) -> CudaResult<bool> {
        let [sends, receives] = [&remotes[0], &remotes[1]].map(|remote| remote.as_deref().unwrap_or(stream));
        // A transfer is in the order of both its streams. So the program's is enough where it is one of them and has
        // nothing to wait for but the transfer.
        let is_ordered = rows.is_none() && remotes.iter().any(Option::is_none);
        let others = || remotes.iter().flatten().filter(|_| !is_ordered);
        others().try_for_each(|remote| Self::wait_for_stream(remote, stream))?;
        if let Some((spot, _, extent)) = rows {
            extent.post_on_device(sends, extent.packed_at(from), spot.end)?;
        }
        let Some(road) = Road::between(source, target)? else { return Ok(false) };
        road.post(|transfer| {
            let (number, stream) = (transfer.number, sends.id());
            sends.post_standing(&SendTo { link: transfer.sender, transfer: number, stream, from, bytes })?;
            let stream = receives.id();
            receives.post_standing(&ReceiveFrom { link: transfer.receiver, transfer: number, stream, to, bytes })
        })?;
        if let Some((_, spot, extent)) = rows {
            extent.post_on_device(receives, spot.end, extent.packed_at(to))?;
        }
        others().try_for_each(|remote| Self::wait_for_stream(stream, remote))?;
        Ok(true)
    }

    /// A stream of a vGPU for a part of `stream`'s work; `None`: `stream` is of that vGPU.
    fn stream_at(&self, stream: &StreamState, vgpu: &Arc<Vgpu>) -> CudaResult<Option<Arc<StreamState>>> {
        if Arc::ptr_eq(&stream.vgpu, vgpu) {
            return Ok(None);
        }
        vgpu.errors.report()?;
        let context = self.device_having(vgpu)?.primary.handle();
        StreamState::create(vgpu, context, stream_flags::NON_BLOCKING, stream.priority()).map(Some)
    }
}

impl StreamState {
    /// Posts something that the stream waits at until another server has done its part.
    fn post_standing(&self, message: &impl Message) -> CudaResult<()> {
        let connection = &self.vgpu.connection;
        let _held = self.vgpu.far.hold();
        let sequence = connection.post_on(self.progress(), message)?;
        self.vgpu.watched.stands(self.progress(), sequence);
        connection.watch();
        Ok(())
    }
}
