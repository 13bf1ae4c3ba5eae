//! Host bytes on their way to a vGPU as messages: in pieces, in the frame or from where they lie, or on the bulk connections. When
//! they are read is the passage's to say.

use floe_abi::{CudaError, CudaResult};
use floe_surface::HostRange;
use floe_transport::{Giving, Help, Load, STRIPED_FROM, transfers};
use floe_wire::{CopyBulkToDevice, CopyToDevice, PIECE_BYTES};

use crate::vgpu::Vgpu;
use crate::vgpu::order::Course;

/// Bytes from which on a piece is not copied on its way to the socket.
const LARGE: usize = 32 << 10;

/// How host bytes get to the socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Passage {
    /// From where they lie, later: the memory is pinned and the copy asynchronous. Otherwise before the call returns.
    pub(crate) is_lent: bool,
    /// How sockets are given them.
    pub(crate) giving: Giving,
}

impl Passage {
    /// Before the call returns, by copies.
    pub(crate) const AT_ONCE: Self = Self { is_lent: false, giving: Giving::Copies };
}

/// Posts host bytes in pieces.
pub(crate) fn send(vgpu: &Vgpu, course: &Course, to: u64, source: &HostRange, passage: Passage) -> CudaResult<()> {
    if source.len() >= STRIPED_FROM && vgpu.connection.has_stripes() {
        send_by_bulk(vgpu, course, to, source, passage)?;
        vgpu.statistics.went_to_device(source.len() as u64);
        return Ok(());
    }
    let mut done = 0;
    while done < source.len() {
        let length = PIECE_BYTES.min(source.len() - done);
        let piece = source.sub(done, length)?;
        let message = CopyToDevice {
            stream: floe_wire::StreamId(course.stream()),
            to: floe_wire::DevicePtr(to + done as u64),
            bytes: &[],
        };
        course.issue_reading(send_piece(vgpu, message, piece, passage)?);
        done += length;
    }
    vgpu.statistics.went_to_device(source.len() as u64);
    Ok(())
}

/// Posts host bytes that the bulk connections carry: a command for every transfer, its bytes beside it, from where they lie. They
/// have been read when this returns, or are read later where `passage` says so.
fn send_by_bulk(vgpu: &Vgpu, course: &Course, to: u64, source: &HostRange, passage: Passage) -> CudaResult<()> {
    let connection = &vgpu.connection;
    let help = if passage.is_lent { Help::None } else { Help::Follows };
    let load = Load::new(Box::new(vgpu.lent.lend(*source, passage.giving)));
    let posted = transfers(source.len()).try_for_each(|place| {
        let message = CopyBulkToDevice {
            stream: floe_wire::StreamId(course.stream()),
            to: floe_wire::DevicePtr(to + place.start as u64),
            bytes: place.len() as u64,
        };
        course.issue(connection.post_striped(&message, &load, place, help)?);
        Ok(())
    });
    if help == Help::Follows {
        // Also where the link is over: others may still be reading.
        connection.see_off(&load);
    }
    posted
}

/// Posts one piece: a small one together with other frames, a large one from where it lies.
fn send_piece(vgpu: &Vgpu, message: CopyToDevice<'_>, piece: HostRange, passage: Passage) -> CudaResult<u64> {
    let connection = &vgpu.connection;
    if piece.len() < LARGE {
        let fill = |target: &mut [u8]| piece.read_into(target).expect("the piece has the target's length");
        return connection.post_filled(&message, piece.len(), fill);
    }
    if passage.is_lent {
        return connection.post_lent(&message, Box::new(vgpu.lent.lend(piece, passage.giving)));
    }
    let mut sent = Err(CudaError::UNKNOWN);
    piece.show(&mut |bytes| sent = connection.post(&CopyToDevice { bytes, ..message }));
    sent
}

/// Posts host bytes, which have been read when this returns.
pub(crate) fn send_at_once(vgpu: &Vgpu, course: &Course, to: u64, source: &HostRange) -> CudaResult<()> {
    send(vgpu, course, to, source, Passage::AT_ONCE)
}
