//! Arrays of the session.
//! In: shapes by the client's ids. Out: the driver's arrays, charged to the quota, and places in them for copies.
//! An array lies where and as the driver pleases, so what it is charged is a bound: no less than any device takes for it.

use std::sync::Arc;

use floe_abi::{Array, Array3dDescriptor, ArrayShape, CudaError, MipmappedArray};
use floe_device::{ArrayPlace, Device};
use floe_wire::{ArrayId, ArrayRequests, BoxEnd, CreateArray, DestroyArray, Object, ObjectKind, TakeLevel};

use super::{Answer, Issuer, body};
use crate::issue::fault::{Fault, violation};
use crate::issue::objects::array::{ArrayObject, Made};

/// GPUs keep arrays in tiles of 64 bytes by 8 rows. A block has up to 16 tiles above each other, and in volumes up to
/// 32 slices behind each other. Arrays begin and end with blocks.
const TILE_BYTES: u64 = 64;
const TILE_ROWS: u64 = 8;
const BLOCK_ROWS: u64 = 128;
const BLOCK_SLICES: u64 = 32;
/// Units of memory: small arrays share small pages, large ones have whole large pages.
const SMALL_PAGE: u64 = 64 << 10;
const LARGE_PAGE: u64 = 2 << 20;

/// Bytes that an array takes at most; 0 levels: a plain one.
fn charge(shape: &ArrayShape, levels: u32) -> Option<u64> {
    let bytes = (0..levels.max(1))
        .map_while(|level| shape.level(level))
        .try_fold(0_u64, |all, level| all.checked_add(padded(&level)?))?;
    bytes.checked_next_multiple_of(if bytes < LARGE_PAGE / 2 { SMALL_PAGE } else { LARGE_PAGE })
}

/// Bytes of elements with what they are padded to.
fn padded(shape: &ArrayShape) -> Option<u64> {
    let wide = |size: usize| u64::try_from(size).ok();
    let row = wide(shape.row_bytes())?.checked_next_multiple_of(TILE_BYTES)?;
    let (rows, slices) = (wide(shape.rows())?, wide(shape.slices())?);
    let block_rows = rows.checked_next_power_of_two()?.clamp(TILE_ROWS, BLOCK_ROWS);
    let block_slices = if shape.is_layered() { 1 } else { slices.checked_next_power_of_two()?.min(BLOCK_SLICES) };
    let padded = [rows.checked_next_multiple_of(block_rows)?, slices.checked_next_multiple_of(block_slices)?];
    row.checked_mul(padded[0])?.checked_mul(padded[1])
}

/// The shape a message names. The client has checked a shape before it sends it, so an impossible one is a protocol
/// violation.
fn shape(message: &CreateArray) -> Result<ArrayShape, Fault> {
    let size =
        |size: u64| usize::try_from(size).map_err(|_| Fault::ProtocolViolation(format!("no size of an array: {size}")));
    let CreateArray { format, channels, flags, .. } = *message;
    let (width, height, depth) = (size(message.width)?, size(message.height)?, size(message.depth)?);
    let descriptor = Array3dDescriptor { width, height, depth, format, channels, flags };
    ArrayShape::new(&descriptor).or_else(|error| violation(format!("no array is so ({error}): {descriptor:?}")))
}

impl<D: Device> ArrayRequests for Issuer<D> {
    fn create_array(&mut self, message: CreateArray) -> Result<Answer, Fault> {
        self.arrays.check_new(message.array.0)?;
        let shape = shape(&message)?;
        let levels = message.levels;
        if levels > shape.most_levels() {
            return violation(format!("no array of this shape has {levels} levels: {:?}", shape.descriptor()));
        }
        let charge = charge(&shape, levels).ok_or(CudaError::OUT_OF_MEMORY)?;
        let made = self.charged(charge, |device| match levels {
            0 => device.create_array(&shape).map(Made::Plain),
            _ => device.create_mipmapped_array(&shape, levels).map(|made| Made::Mipmapped(made, levels, Vec::new())),
        })?;
        self.arrays.bind(message.array.0, Ok(ArrayObject { made, shape, charge }));
        body(&())
    }

    fn take_level(&mut self, message: TakeLevel) -> Result<Answer, Fault> {
        let TakeLevel { of, level, array: ArrayId(id) } = message;
        let posted = self.arrays.check_posted(id);
        if let Err(Fault::ProtocolViolation(_)) = posted {
            return posted.map(|()| Answer::Nothing);
        }
        let device = Arc::clone(&self.shared.device);
        let whole = self.arrays.get_mut(of.0)?;
        let Made::Mipmapped(array, levels, taken) = &mut whole.made else {
            return violation(format!("array {} has no levels", of.0));
        };
        let Some(shape) = whole.shape.level(level).filter(|_| level < *levels) else {
            return violation(format!("array {} has {levels} levels, not: {level}", of.0));
        };
        // Also one that fails: its name ends with the whole, as the client has it.
        taken.push(id);
        posted?;
        let level = device.mipmapped_array_get_level(*array, level);
        let object = level.map(|level| ArrayObject { made: Made::Level(level, of.0), shape, charge: 0 });
        let outcome = object.as_ref().map(|_| Answer::Nothing).map_err(|error| Fault::from(*error));
        self.arrays.bind(id, object);
        outcome
    }

    fn destroy_array(&mut self, message: DestroyArray) -> Result<Answer, Fault> {
        let ArrayId(id) = message.array;
        match self.arrays.remove(id)? {
            Some(object) => {
                self.allowance.ledger.give(object.charge);
                self.end_array(id, object)?;
            }
            // A level that failed does not say of which: its id may be another array's from now on.
            None => self.arrays.values_mut().for_each(|whole| whole.forget_level(id)),
        }
        Ok(Answer::Nothing)
    }
}

impl<D: Device> Issuer<D> {
    /// The driver's array of an id.
    pub(super) fn array(&self, id: ArrayId) -> Result<Array, Fault> {
        self.plain(id).map(|(array, _)| array)
    }

    /// The driver's mipmapped array of an id.
    pub(super) fn mipmapped_array(&self, id: ArrayId) -> Result<MipmappedArray, Fault> {
        match self.arrays.get(id.0)?.made {
            Made::Mipmapped(array, ..) => Ok(array),
            Made::Plain(_) | Made::Level(..) => violation(format!("array {} has no levels", id.0)),
        }
    }

    fn plain(&self, id: ArrayId) -> Result<(Array, &ArrayObject), Fault> {
        let object = self.arrays.get(id.0)?;
        match object.plain() {
            Some(array) => Ok((array, object)),
            None => violation(format!("array {} is only reached by its levels", id.0)),
        }
    }

    /// Ends an array that was taken out; its levels are no more.
    fn end_array(&mut self, id: u64, object: ArrayObject) -> Result<(), Fault> {
        match object.made {
            Made::Plain(array) => self.device().array_destroy(array)?,
            Made::Level(_, of) => {
                if let Ok(whole) = self.arrays.get_mut(of) {
                    whole.forget_level(id);
                }
            }
            Made::Mipmapped(array, _, taken) => {
                for level in taken {
                    drop(self.arrays.remove(level)?);
                    self.recipes.forget(Object { kind: ObjectKind::Array, id: level });
                }
                self.device().mipmapped_array_destroy(array)?;
            }
        }
        Ok(())
    }

    /// The place where a box lies in an array, all of it inside.
    pub(super) fn array_place(&self, end: &BoxEnd, extent: [u64; 3]) -> Result<ArrayPlace, Fault> {
        let (array, ArrayObject { shape, .. }) = self.plain(end.array)?;
        let at = [end.x, end.y, end.z];
        let size = |values: [u64; 3]| values.map(|value| usize::try_from(value).unwrap_or(usize::MAX));
        if !shape.holds(size(at), size(extent)) {
            return violation(format!(
                "a box of {extent:?} from {at:?} is not inside the array: {:?}",
                shape.descriptor()
            ));
        }
        Ok(ArrayPlace { array, deep: shape.descriptor().depth != 0, at })
    }

    /// Destroys all; errors of a context beyond use do not matter, they go with it.
    pub(super) fn drop_arrays(&mut self) {
        for object in self.arrays.drain() {
            self.allowance.ledger.give(object.charge);
            let _ = match object.made {
                Made::Plain(array) => self.shared.device.array_destroy(array),
                Made::Mipmapped(array, ..) => self.shared.device.mipmapped_array_destroy(array),
                Made::Level(..) => Ok(()),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;

    fn charged(width: u64, height: u64, depth: u64, flags: u32) -> Option<u64> {
        let message =
            CreateArray { array: ArrayId(1), width, height, depth, format: 0x20, channels: 1, flags, levels: 0 };
        charge(&shape(&message).unwrap(), 0)
    }

    #[test]
    fn a_charge_is_whole_blocks_and_pages() {
        assert_eq!(charged(1, 0, 0, 0), Some(SMALL_PAGE));
        // 1000 floats are 4032 bytes of tiles; 1000 rows 1024.
        assert_eq!(charged(1000, 1000, 0, 0), Some((4032_u64 * 1024).next_multiple_of(LARGE_PAGE)));
        // Five slices of a volume are eight, five layers are five.
        assert_eq!(charged(256, 512, 5, 0), Some(1024 * 512 * 8));
        assert_eq!(charged(256, 512, 5, 1), Some((1024_u64 * 512 * 5).next_multiple_of(LARGE_PAGE)));
    }

    /// An H200's demand (driver 580.159): the loss of free memory by 400 equal arrays, in bytes of one. Pages had room
    /// left in them before, so small arrays may take more.
    #[test]
    fn a_charge_is_no_less_than_what_an_h200_took_and_a_large_page_more_at_most() {
        const CUBE: u32 = floe_abi::array_flags::CUBEMAP;
        const LAYERED: u32 = floe_abi::array_flags::LAYERED;
        const SURFACE: u32 = floe_abi::array_flags::SURFACE_LDST;
        const BYTES: u32 = floe_abi::array_format::UNSIGNED_INT8;
        const FLOATS: u32 = floe_abi::array_format::FLOAT;
        for ([width, height, depth], format, channels, flags, took) in [
            ([64, 0, 0], FLOATS, 1, 0, 0),
            ([1000, 0, 0], FLOATS, 4, 0, 125_829),
            ([16, 16, 0], BYTES, 1, 0, 5_243),
            ([100, 100, 0], FLOATS, 1, 0, 57_672),
            ([1025, 1025, 0], FLOATS, 1, 0, 6_291_456),
            ([33, 17, 9], FLOATS, 4, 0, 230_687),
            ([100, 100, 100], FLOATS, 1, 0, 6_291_456),
            ([512, 1, 512], BYTES, 4, 0, 8_388_608),
            ([300, 0, 100], FLOATS, 2, LAYERED, 2_097_152),
            ([300, 200, 7], FLOATS, 2, LAYERED, 6_291_456),
            ([65, 65, 6], FLOATS, 4, CUBE, 1_043_333),
            ([4096, 4096, 0], FLOATS, 4, SURFACE, 268_435_456),
            ([1, 4097, 0], FLOATS, 4, 0, 298_844),
        ] {
            let message = CreateArray { array: ArrayId(1), width, height, depth, format, channels, flags, levels: 0 };
            let charge = charge(&shape(&message).unwrap(), 0).unwrap();
            assert!((took..=took + LARGE_PAGE).contains(&charge), "{message:?} took {took}, charged: {charge}");
        }
    }

    #[test]
    fn shapes_that_cannot_be_violate_the_protocol_and_never_overflow() {
        let violation = |width, height, depth, channels| {
            let message =
                CreateArray { array: ArrayId(1), width, height, depth, format: 0x20, channels, flags: 0, levels: 0 };
            matches!(shape(&message), Err(Fault::ProtocolViolation(_)))
        };
        assert!(
            violation(0, 1, 1, 1)
                && violation(u64::MAX, u64::MAX, 1, 4)
                && violation(4, 0, 4, 1)
                && violation(4, 4, 0, 3)
        );
        // Sizes there may be, of which the second is none any more with its padding.
        assert_eq!(charged((1 << 31) - 1, (1 << 28) + 1, 1, 0).map(|bytes| bytes > 1 << 61), Some(true));
        assert_eq!(charged((1 << 31) - 1, 1, (1 << 30) - 1, 0), None);
    }
}
