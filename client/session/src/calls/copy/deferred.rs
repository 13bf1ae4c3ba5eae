//! Deferred reads: copies to the device whose bytes may still change by work that was issued before. Bytes or rows come in; a command
//! goes out behind which the stream waits, and the client reads the bytes when the stream gets there.

use floe_abi::{CudaError, CudaResult, DevicePtr};
use floe_surface::HostRange;
use floe_wire::{BoxEnd, CopyLate, PIECE_BYTES};

use super::extent::Rows;
use crate::client::Client;
use crate::objects::stream::StreamState;
use crate::vgpu::connection::HostWork;

/// The target of bytes that are read late.
#[derive(Debug, Clone, Copy)]
struct LateRows {
    to: BoxEnd,
    width: usize,
    height: u64,
}

impl Client {
    /// Puts a copy on `stream` whose bytes are read when the stream gets there. They bypass everything that waits at
    /// the server. The server may be in a call that waits for this stream, as loading a module does.
    pub(super) fn defer_line(stream: &StreamState, to: DevicePtr, source: &HostRange) -> CudaResult<()> {
        let mut done = 0;
        while done < source.len() {
            let piece = source.sub(done, PIECE_BYTES.min(source.len() - done))?;
            let to = BoxEnd::memory(to.offset(done as u64).ok_or(CudaError::INVALID_VALUE)?, 0, 0);
            let row = LateRows { to, width: piece.len(), height: 1 };
            Self::defer_piece(stream, row, move || piece.to_vec())?;
            done += piece.len();
        }
        Ok(())
    }

    /// The same for rows.
    pub(super) fn defer_rows(stream: &StreamState, rows: Rows) -> CudaResult<()> {
        if rows.is_long() {
            return Self::defer_line(stream, rows.to.at, &rows.source);
        }
        let Rows { to, width, count, .. } = rows;
        Self::defer_piece(stream, LateRows { to, width, height: count as u64 }, move || {
            let mut bytes = vec![0; rows.bytes()];
            rows.pack(&mut bytes);
            bytes
        })
    }

    /// The same for rows that are a piece at most, which `read` gives without gaps.
    fn defer_piece(
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
        vgpu.connection.late_copy(stream.progress(), &message, HostWork::Bytes(Box::new(read)))
    }
}
