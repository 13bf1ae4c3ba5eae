//! Copies from the program's memory to a vGPU, in lines and boxes, each by the way that was chosen for it. Two ends come in; their
//! bytes have been read when this returns, unless the way reads them later. It chooses nothing.

use std::sync::Arc;

use floe_abi::CudaResult;
use floe_surface::HostRange;
use floe_wire::{BoxEnd, CopyBoxToDevice};

use super::between::is_reached;
use super::ends::{ProgramEnd, Spot};
use super::extent::{Extent, Rows};
use super::way::{Mode, ToDevice, to_device};
use crate::client::Client;
use crate::lookup::OnHost;
use crate::memory::sending::{Sending, send, send_at_once};
use crate::objects::stream::StreamState;
use crate::vgpu::Vgpu;
use crate::vgpu::order::StreamProgress;

impl Client {
    /// Host to device. Where another session may read the memory, the bytes are there when the program continues: the
    /// program may then tell it, by a way that no stream knows of.
    pub(super) fn upload(
        &self,
        stream: &StreamState,
        to: Spot<'_>,
        from: &OnHost<'_>,
        extent: &Extent,
        mode: Mode,
    ) -> CudaResult<()> {
        let (vgpu, source) = (&stream.vgpu, &from.range);
        if !is_reached(vgpu, to, extent)? {
            let owner = to.memory.other_than(vgpu)?;
            return self.on_behalf(stream, owner, |remote| self.upload(remote, to, from, extent, mode));
        }
        let end = ProgramEnd::new(self, from, stream);
        let (first, way) = to_device(&end, mode, extent);
        if first.stream {
            vgpu.synchronize_place(stream.progress())?;
        }
        if first.writers {
            self.wait_for_writes(source)?;
        }
        let is_by_device = way == ToDevice::ByDevice;
        match (way, extent) {
            (ToDevice::ByDevice, _) => {
                vgpu.statistics.read_by_device(extent.bytes() as u64);
                extent.post_on_device(stream, to.end, extent.source(source))?;
                Self::wait_where(mode, stream)
            }
            (ToDevice::ByMirror, _) => {
                let mirror = BoxEnd { at: vgpu.device_place(source), ..extent.source(source) };
                extent.post_on_device(stream, to.end, mirror)
            }
            (ToDevice::Slots(reading), _) => {
                let staged = match end.into_path() {
                    Some(path) => path.upload(self.copiers()?, to.end.at, source)?,
                    None => 0,
                };
                let rest = source.sub(staged, source.len() - staged)?;
                let sending = Sending::of(rest.len(), reading, vgpu.connection.has_stripes());
                send(vgpu, stream.progress(), to.offset(staged)?.end.at, &rest, sending)
            }
            (ToDevice::Sent(sending), _) => send(vgpu, stream.progress(), to.end.at, source, sending),
            (ToDevice::Deferred, Extent::Line(_)) => Self::defer_line(stream, to.end.at, source),
            (ToDevice::Deferred, Extent::Box(shape)) => {
                shape.each_rows(to.end, source, |rows| Self::defer_rows(stream, rows))
            }
            (ToDevice::Packed, extent) => send_packed(vgpu, stream.progress(), to.end, source, extent),
        }?;
        if mode != Mode::Waits || is_by_device {
            return Ok(());
        }
        // Before the question: a session that begins to share memory waits for what it finds noted.
        stream.progress().note_return();
        // CUDA's copy from pinned memory is over when it returns. Streams that wait for this one cannot tell whether it is.
        let is_seen = vgpu.peers.shares() || from.pinned().is_some() && self.has_unordered(stream);
        if is_seen { vgpu.await_stream(stream.progress()) } else { Ok(()) }
    }

    /// Whether the program has streams that do not wait for one: not for a legacy default stream, or of another vGPU.
    fn has_unordered(&self, stream: &StreamState) -> bool {
        !stream.is_legacy() || stream.vgpu.order.has_unblocking() || self.devices().is_ok_and(|all| all.len() > 1)
    }

    /// Waits for what was queued, where the program does.
    pub(super) fn wait_where(mode: Mode, stream: &StreamState) -> CudaResult<()> {
        if mode == Mode::Waits { stream.vgpu.synchronize_stream(stream.progress()) } else { Ok(()) }
    }

    /// Waits until no copy in flight writes these host bytes, on any vGPU.
    pub(super) fn wait_for_writes(&self, range: &HostRange) -> CudaResult<()> {
        for device in self.devices()? {
            let connection = &device.vgpu.connection;
            connection.wait_for_writes(range.pointer().0, range.len() as u64);
        }
        Ok(())
    }
}

/// Posts the rows of a box; a line has none that travel so.
fn send_packed(
    vgpu: &Arc<Vgpu>,
    progress: &StreamProgress,
    to: BoxEnd,
    source: &HostRange,
    extent: &Extent,
) -> CudaResult<()> {
    match extent {
        Extent::Line(_) => send_at_once(vgpu, progress, to.at, source),
        Extent::Box(shape) => shape.each_rows(to, source, |rows| send_rows(vgpu, progress, &rows)),
    }
}

/// Posts rows of host bytes.
fn send_rows(vgpu: &Vgpu, progress: &StreamProgress, rows: &Rows) -> CudaResult<()> {
    if rows.is_long() {
        return send_at_once(vgpu, progress, rows.to.at, &rows.source);
    }
    let message = CopyBoxToDevice {
        stream: floe_wire::StreamId(progress.stream()),
        to: rows.to,
        width: rows.width as u64,
        height: rows.count as u64,
        depth: 1,
        bytes: &[],
    };
    let sequence = vgpu.connection.post_filled(&message, rows.bytes(), |target| rows.pack(target))?;
    progress.issue(sequence);
    vgpu.statistics.went_to_device(rows.bytes() as u64);
    Ok(())
}
