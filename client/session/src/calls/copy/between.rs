//! Copies that leave the program's memory alone or the vGPUs: within a vGPU, from one to another by way of the client, within the
//! host. Ends come in; on the host and between vGPUs all is over when this returns.

use std::sync::Arc;

use floe_abi::{CudaError, CudaResult};
use floe_surface::{HostBlock, HostRange};
use floe_wire::ArrayId;

use super::ends::Spot;
use super::extent::{Extent, Shape};
use super::way::Mode;
use crate::client::Client;
use crate::log::log;
use crate::lookup::OnHost;
use crate::objects::stream::StreamState;
use crate::vgpu::Vgpu;

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
        if !from.memory.is_on(to.memory.vgpu()) {
            return match extent {
                Extent::Line(bytes) => self.relay(stream, to, from, *bytes),
                Extent::Box(shape) => self.relay_rows(stream, to, from, *shape),
            };
        }
        if !from.memory.is_on(&stream.vgpu) {
            return self.with_remote(stream, from.memory.vgpu(), |remote| self.move_between(remote, to, from, extent));
        }
        extent.post_on_device(stream, to.end, from.end)
    }

    /// Row by row through the client.
    fn relay_rows(&self, stream: &StreamState, to: Spot<'_>, from: Spot<'_>, shape: Shape) -> CudaResult<()> {
        if to.end.array != ArrayId(0) || from.end.array != ArrayId(0) {
            log!(Warn, "copies of arrays between vGPUs are not supported\n  copy by way of host memory instead");
            return Err(CudaError::NOT_SUPPORTED);
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

    /// Does something of `stream`'s on another vGPU, in its place of `stream`'s order: after what it holds, before what comes.
    pub(crate) fn with_remote(
        &self,
        stream: &StreamState,
        vgpu: &Arc<Vgpu>,
        act: impl FnOnce(&StreamState) -> CudaResult<()>,
    ) -> CudaResult<()> {
        stream.vgpu.synchronize_stream(stream.progress())?;
        let remote = self.device_having(vgpu)?.primary.legacy();
        act(remote)?;
        vgpu.synchronize_stream(remote.progress())
    }

    /// Host to host, in stream order: the stream is waited for.
    pub(super) fn move_on_host(
        &self,
        stream: &StreamState,
        to: &HostRange,
        from: &HostRange,
        extent: &Extent,
    ) -> CudaResult<()> {
        stream.vgpu.synchronize_stream(stream.progress())?;
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
