//! Copies to the device whose bytes may still change by work that was issued before: a copy into them, a host function. Where
//! that is so, the stream reads them when it gets there, or the program waits for what writes them.

use floe_abi::CudaResult;
use floe_surface::HostRange;
use floe_wire::{BoxEnd, CopyLate, PIECE_BYTES};

use super::lines::Mode;
use crate::client::Client;
use crate::objects::stream::StreamState;
use crate::vgpu::connection::HostWork;

/// Where bytes go that are read late.
#[derive(Debug, Clone, Copy)]
pub(super) struct LateRows {
    pub(super) to: BoxEnd,
    pub(super) width: usize,
    pub(super) height: u64,
}

impl Client {
    /// Waits until no copy under way writes these host bytes, on any vGPU.
    pub(super) fn wait_for_writes(&self, range: &HostRange) -> CudaResult<()> {
        for device in self.devices()? {
            let connection = &device.vgpu.connection;
            connection.wait_for_writes(range.pointer().0, range.len() as u64);
        }
        Ok(())
    }

    /// Whether the bytes of `source` may still change by work that was issued before: a copy into them, a host function.
    fn may_change(&self, source: &HostRange) -> CudaResult<bool> {
        Ok(self.devices()?.iter().any(|device| {
            let connection = &device.vgpu.connection;
            connection.host_functions_may_write() || connection.writes_into(source.pointer().0, source.len() as u64)
        }))
    }

    /// Makes the bytes of `source` those that stream order says, or leaves reading them to the stream: then `true`.
    pub(super) fn must_read_late(&self, stream: &StreamState, source: &HostRange, mode: Mode) -> CudaResult<bool> {
        if self.is_mirrored(source.pointer().0, source.len() as u64) {
            // Kernels issued before may write it; what they wrote comes with the wait.
            stream.vgpu.synchronize_stream(stream.course())?;
        }
        if !self.may_change(source)? {
            return Ok(false);
        }
        if mode.goes_on(|| self.host_memory.is_pinned(source.pointer().0, source.len() as u64)) {
            return Ok(true);
        }
        if mode == Mode::Waits {
            // CUDA reads the source of such a copy when the stream has got there.
            stream.vgpu.synchronize_stream(stream.course())?;
        }
        // Pageable memory is read by the call itself, so only what writes it must be over.
        self.wait_for_writes(source)?;
        Ok(false)
    }

    /// Puts a copy on `stream` whose bytes are read when the stream gets there. They go past all that waits at the server:
    /// it may be in a call that waits for this very stream, as loading a module does.
    pub(super) fn copy_late(stream: &StreamState, to: u64, source: &HostRange) -> CudaResult<()> {
        let mut done = 0;
        while done < source.len() {
            let piece = source.sub(done, PIECE_BYTES.min(source.len() - done))?;
            let to = BoxEnd::memory(floe_wire::DevicePtr(to + done as u64), 0, 0);
            let row = LateRows { to, width: piece.len(), height: 1 };
            Self::copy_piece_late(stream, row, move || piece.to_vec())?;
            done += piece.len();
        }
        Ok(())
    }

    /// The same for rows that are a piece at most, which `read` gives without gaps.
    pub(super) fn copy_piece_late(
        stream: &StreamState,
        rows: LateRows,
        read: impl FnOnce() -> Vec<u8> + Send + 'static,
    ) -> CudaResult<()> {
        let vgpu = &stream.vgpu;
        let message = CopyLate {
            stream: stream.id(),
            function: floe_wire::FunctionId(vgpu.next_id()),
            to: rows.to,
            width: rows.width as u64,
            height: rows.height,
        };
        vgpu.statistics.went_to_device(message.width * message.height);
        vgpu.connection.late_copy(stream.course(), &message, HostWork::Bytes(Box::new(read)))
    }
}
