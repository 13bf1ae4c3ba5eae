//! An array of the session.
//! In: the driver's array, its shape and what it is charged. Out: the same, by id. It holds no logic.

use floe_abi::{Array, ArrayShape};
use floe_device::{ArrayPlace, Rows, RowsPlace};

/// An array that exists.
#[derive(Debug)]
pub(crate) struct ArrayObject {
    pub(crate) array: Array,
    pub(crate) shape: ArrayShape,
    /// Bytes charged to the quota.
    pub(crate) charge: u64,
}

impl ArrayObject {
    /// The rows of a slice, and their bytes.
    pub(crate) fn slice(&self, slice: usize) -> (Rows, usize) {
        let shape = &self.shape;
        let place = ArrayPlace { array: self.array, deep: shape.descriptor().depth != 0, at: [0, 0, slice as u64] };
        let rows =
            Rows { place: RowsPlace::Array(place), width: shape.row_bytes() as u64, height: shape.rows() as u64 };
        (rows, shape.row_bytes() * shape.rows())
    }
}
