//! Copies from a vGPU to the program's memory, in lines and boxes, each by the way that was chosen for it. Two ends
//! come in; the bytes are there when this returns, unless the program continues before. It chooses nothing.

use floe_abi::CudaResult;
use floe_surface::HostRange;
use floe_wire::{Call, CopyBoxFromDevice, CopyFromDevice};

use super::between::is_reached;
use super::ends::{ProgramEnd, Spot};
use super::extent::Extent;
use super::way::{Mode, ToHost, to_host};
use crate::client::Client;
use crate::lookup::OnHost;
use crate::memory::staging::path::SlotPath;
use crate::objects::stream::StreamState;
use crate::vgpu::connection::Target;

impl Client {
    /// Device to host.
    pub(super) fn download(
        &self,
        stream: &StreamState,
        to: &OnHost<'_>,
        from: Spot<'_>,
        extent: &Extent,
        mode: Mode,
    ) -> CudaResult<()> {
        let (vgpu, target) = (&stream.vgpu, to.range);
        if !is_reached(vgpu, from, extent)? {
            let owner = from.memory.other_than(vgpu)?;
            return self.on_behalf(stream, owner, |remote| self.download(remote, to, from, extent, mode));
        }
        let end = ProgramEnd::new(self, to, stream);
        match to_host(&end, mode, extent) {
            ToHost::ByDevice => {
                vgpu.statistics.written_by_device(extent.bytes() as u64);
                extent.post_on_device(stream, extent.target(&target), from.end)?;
                Self::wait_where(mode, stream)
            }
            ToHost::Slots => {
                let staged = self.download_by_slots(stream, end.into_path(), &target, from)?;
                let rest = target.sub(staged, target.len() - staged)?;
                if rest.is_empty() {
                    return Ok(());
                }
                deliver(stream, rest, from.offset(staged)?, &Extent::Line(rest.len()), true)
            }
            ToHost::Awaited => deliver(stream, target, from, extent, true),
            ToHost::Delivered => deliver(stream, target, from, extent, false),
        }
    }

    /// Sends a copy to the host through slots, as far as there are any.
    fn download_by_slots(
        &self,
        stream: &StreamState,
        path: Option<SlotPath>,
        target: &HostRange,
        from: Spot<'_>,
    ) -> CudaResult<usize> {
        let Some(path) = path else { return Ok(0) };
        let staged = path.download(self.copiers()?, target, from.end.at);
        stream.vgpu.errors.report()?;
        staged
    }
}

/// Has the server send the bytes, and waits for them where they are awaited.
fn deliver(
    stream: &StreamState,
    target: HostRange,
    from: Spot<'_>,
    extent: &Extent,
    is_awaited: bool,
) -> CudaResult<()> {
    stream.vgpu.statistics.came_from_device(extent.bytes() as u64);
    match extent {
        Extent::Line(bytes) => {
            let message = CopyFromDevice { stream: stream.id(), from: from.end.at, bytes: *bytes as u64 };
            fetch(stream, &message, Target::Line(target), is_awaited)
        }
        Extent::Box(shape) => {
            let [width, height, depth] = [shape.width, shape.height, shape.depth].map(|size| size as u64);
            let message = CopyBoxFromDevice { stream: stream.id(), from: from.end, width, height, depth };
            fetch(stream, &message, shape.delivered_to(target), is_awaited)
        }
    }
}

fn fetch(stream: &StreamState, message: &impl Call, target: Target, is_awaited: bool) -> CudaResult<()> {
    let vgpu = &stream.vgpu;
    if !is_awaited {
        return vgpu.connection.post_fetch(message, target, stream.progress());
    }
    let ticket = vgpu.connection.fetch(message, target, stream.progress())?;
    vgpu.connection.wait(&ticket)?;
    vgpu.errors.report()
}
