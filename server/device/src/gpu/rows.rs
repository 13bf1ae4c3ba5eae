//! Copies of rows as C's structs say them: memory with a pitch, or a place in an array. Two sides and an extent come in, one
//! queued copy goes out. Arrays of three dimensions and of layers are only in the struct for boxes.

use floe_abi::{CudaError, CudaResult, Memcpy2d, Memcpy3d, Stream, memory_type};

use crate::Driver;
use crate::requests::ArrayPlace;

/// One side of a copy of rows.
#[derive(Clone, Copy, Debug)]
pub(super) enum Side {
    /// An address of this process and the bytes from row to row.
    Host(u64, usize),
    /// An address of the device and the bytes from row to row.
    Device(u64, usize),
    /// In an array.
    Array(ArrayPlace),
}

/// A side as numbers of a struct.
#[derive(Default)]
struct Numbers {
    kind: u32,
    host: u64,
    device: u64,
    array: u64,
    pitch: usize,
    at: [usize; 3],
    deep: bool,
}

impl Side {
    fn numbers(self, [width, height]: [usize; 2]) -> CudaResult<Numbers> {
        // One row has no pitch of its own, and drivers refuse one below the width.
        let pitch = |pitch: usize| if height == 1 { pitch.max(width) } else { pitch };
        let (host, device) = (memory_type::HOST, memory_type::DEVICE);
        Ok(match self {
            Self::Host(at, step) => Numbers { kind: host, host: at, pitch: pitch(step), ..Numbers::default() },
            Self::Device(at, step) => Numbers { kind: device, device: at, pitch: pitch(step), ..Numbers::default() },
            Self::Array(place) => {
                let mut at = [0; 3];
                for (at, wide) in at.iter_mut().zip(place.at) {
                    *at = usize::try_from(wide).map_err(|_| CudaError::INVALID_VALUE)?;
                }
                let (kind, array) = (memory_type::ARRAY, place.array.0);
                Numbers { kind, array, at, deep: place.deep, ..Numbers::default() }
            }
        })
    }
}

/// Queues a copy of rows, `extent` being their width and number.
///
/// # Safety
/// Host sides are valid for all rows until the copy has completed.
pub(super) unsafe fn queue(
    driver: &Driver,
    to: Side,
    from: Side,
    extent: [usize; 2],
    stream: Stream,
) -> CudaResult<()> {
    let (to, from, [width, height]) = (to.numbers(extent)?, from.numbers(extent)?, extent);
    if !to.deep && !from.deep {
        let copy = Memcpy2d {
            source_x_bytes: from.at[0],
            source_y: from.at[1],
            source_memory_type: from.kind,
            source_host: from.host,
            source_device: from.device,
            source_array: from.array,
            source_pitch: from.pitch,
            destination_x_bytes: to.at[0],
            destination_y: to.at[1],
            destination_memory_type: to.kind,
            destination_host: to.host,
            destination_device: to.device,
            destination_array: to.array,
            destination_pitch: to.pitch,
            width_bytes: width,
            height,
        };
        // SAFETY: passed on to our caller.
        return unsafe { driver.memcpy_2d_async(&copy, stream) };
    }
    let copy = Memcpy3d {
        source_x_bytes: from.at[0],
        source_y: from.at[1],
        source_z: from.at[2],
        source_memory_type: from.kind,
        source_host: from.host,
        source_device: from.device,
        source_array: from.array,
        source_pitch: from.pitch,
        source_height: height,
        destination_x_bytes: to.at[0],
        destination_y: to.at[1],
        destination_z: to.at[2],
        destination_memory_type: to.kind,
        destination_host: to.host,
        destination_device: to.device,
        destination_array: to.array,
        destination_pitch: to.pitch,
        destination_height: height,
        width_bytes: width,
        height,
        depth: 1,
        ..Memcpy3d::default()
    };
    // SAFETY: passed on to our caller.
    unsafe { driver.memcpy_3d_async(&copy, stream) }
}
