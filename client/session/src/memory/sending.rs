//! Host bytes on their way to a vGPU as messages: in pieces, in the frame or from where they lie, or on the bulk connections. When
//! they are read is the caller's to say.

use floe_abi::{CudaError, CudaResult, DevicePtr};
use floe_surface::HostRange;
use floe_transport::{Help, Load, STRIPED_FROM, SendMode, transfers};
use floe_wire::{CopyBulkToDevice, CopyToDevice, PIECE_BYTES, StreamId};

use crate::vgpu::Vgpu;
use crate::vgpu::order::StreamProgress;

/// Bytes from which on a piece is not copied on its way to the socket.
const LARGE: usize = 32 << 10;

/// How host bytes that travel are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reading {
    /// From where they lie, later: the memory is pinned and the copy asynchronous. Otherwise before the call returns.
    pub(crate) is_borrowed: bool,
    /// How sockets are given them.
    pub(crate) send_mode: SendMode,
}

impl Reading {
    /// Before the call returns, by copies.
    pub(crate) const AT_ONCE: Self = Self { is_borrowed: false, send_mode: SendMode::Copy };
}

/// How host bytes leave for a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sending {
    /// In the command's frame, together with other frames.
    InFrame,
    /// Behind the heads of frames, from where they lie, in pieces; the call returns when the socket or ring has them.
    LargeFrames,
    /// The same, written after the call has returned.
    Borrowed(SendMode),
    /// On the bulk connections, in transfers.
    Bulk(Reading),
}

impl Sending {
    /// How so many bytes leave.
    pub(crate) fn of(bytes: usize, reading: Reading, has_bulk: bool) -> Self {
        match bytes {
            STRIPED_FROM.. if has_bulk => Self::Bulk(reading),
            ..LARGE => Self::InFrame,
            _ if reading.is_borrowed => Self::Borrowed(reading.send_mode),
            _ => Self::LargeFrames,
        }
    }
}

/// Posts host bytes. The last piece may be small enough to go in the frame.
pub(crate) fn send(
    vgpu: &Vgpu,
    progress: &StreamProgress,
    to: DevicePtr,
    source: &HostRange,
    sending: Sending,
) -> CudaResult<()> {
    if let Sending::Bulk(reading) = sending {
        send_by_bulk(vgpu, progress, to, source, reading)?;
        vgpu.statistics.went_to_device(source.len() as u64);
        return Ok(());
    }
    let mut done = 0;
    while done < source.len() {
        let length = PIECE_BYTES.min(source.len() - done);
        let piece = source.sub(done, length)?;
        let to = to.offset(done as u64).ok_or(CudaError::INVALID_VALUE)?;
        let message = CopyToDevice { stream: StreamId(progress.stream()), to, bytes: &[] };
        progress.issue_reading(send_piece(vgpu, message, piece, sending)?);
        done += length;
    }
    vgpu.statistics.went_to_device(source.len() as u64);
    Ok(())
}

/// Posts host bytes that the bulk connections carry: a command for every transfer, its bytes beside it, from where they lie. They
/// have been read when this returns, or are read later where they are borrowed.
fn send_by_bulk(
    vgpu: &Vgpu,
    progress: &StreamProgress,
    to: DevicePtr,
    source: &HostRange,
    reading: Reading,
) -> CudaResult<()> {
    let connection = &vgpu.connection;
    let help = if reading.is_borrowed { Help::None } else { Help::Follows };
    let load = Load::new(Box::new(vgpu.lent.lend(*source, reading.send_mode)));
    let posted = transfers(source.len()).try_for_each(|place| {
        let to = to.offset(place.start as u64).ok_or(CudaError::INVALID_VALUE)?;
        let message = CopyBulkToDevice { stream: StreamId(progress.stream()), to, bytes: place.len() as u64 };
        progress.issue(connection.post_striped(&message, &load, place, help)?);
        Ok(())
    });
    if help == Help::Follows {
        // Also where the link is over: others may still be reading.
        connection.see_off(&load);
    }
    posted
}

/// Posts one piece: a small one together with other frames, a large one from where it lies.
fn send_piece(vgpu: &Vgpu, message: CopyToDevice<'_>, piece: HostRange, sending: Sending) -> CudaResult<u64> {
    let connection = &vgpu.connection;
    if piece.len() < LARGE {
        let fill = |target: &mut [u8]| piece.read_into(target).expect("the piece has the target's length");
        return connection.post_filled(&message, piece.len(), fill);
    }
    if let Sending::Borrowed(send_mode) = sending {
        return connection.post_borrowed(&message, Box::new(vgpu.lent.lend(piece, send_mode)));
    }
    let mut sent = Err(CudaError::UNKNOWN);
    piece.show(&mut |bytes| sent = connection.post(&CopyToDevice { bytes, ..message }));
    sent
}

/// Posts host bytes, which have been read when this returns.
pub(crate) fn send_at_once(
    vgpu: &Vgpu,
    progress: &StreamProgress,
    to: DevicePtr,
    source: &HostRange,
) -> CudaResult<()> {
    send(vgpu, progress, to, source, Sending::of(source.len(), Reading::AT_ONCE, vgpu.connection.has_stripes()))
}
