//! An array of the session.
//! In: the driver's array, its shape and what it is charged. Out: the same, by id. It holds no logic.

use floe_abi::{Array, ArrayShape, MipmappedArray};
use floe_device::{ArrayPlace, Rows, RowsPlace};

/// An array that exists.
#[derive(Debug)]
pub(crate) struct ArrayObject {
    pub(crate) made: Made,
    /// Of a mipmapped one the first level's.
    pub(crate) shape: ArrayShape,
    /// Bytes charged to the quota.
    pub(crate) charge: u64,
}

/// The driver's array.
#[derive(Debug)]
pub(crate) enum Made {
    /// Elements that copies, textures and surfaces reach.
    Plain(Array),
    /// The same, as a level of another, with that one's id.
    Level(Array, u64),
    /// Levels, which only textures reach as a whole: their number, and the ids of those that were taken.
    Mipmapped(MipmappedArray, u32, Vec<u64>),
}

impl ArrayObject {
    /// The elements' array; a mipmapped one has them in its levels.
    pub(crate) fn plain(&self) -> Option<Array> {
        match self.made {
            Made::Plain(array) | Made::Level(array, ..) => Some(array),
            Made::Mipmapped(..) => None,
        }
    }

    /// The id is none of its levels' any more.
    pub(crate) fn forget_level(&mut self, id: u64) {
        if let Made::Mipmapped(.., taken) = &mut self.made {
            taken.retain(|level| *level != id);
        }
    }

    /// The slices that have bytes of their own: those of a mipmapped array are its levels'.
    pub(crate) fn slices(&self) -> usize {
        if self.plain().is_some() { self.shape.slices() } else { 0 }
    }

    /// The rows of a slice, and their bytes.
    pub(crate) fn slice(&self, array: Array, slice: usize) -> (Rows, usize) {
        let shape = &self.shape;
        let place = ArrayPlace { array, deep: shape.descriptor().depth != 0, at: [0, 0, slice as u64] };
        let rows =
            Rows { place: RowsPlace::Array(place), width: shape.row_bytes() as u64, height: shape.rows() as u64 };
        (rows, shape.row_bytes() * shape.rows())
    }
}
