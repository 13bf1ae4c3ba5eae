//! Ends of boxes. In: memory or an array. Out: the message's form of either; fields of the other kind are 0.

use crate::{ArrayId, BoxEnd, DevicePtr};

impl BoxEnd {
    /// Memory from `at` on, with the bytes from row to row and from slice to slice.
    #[must_use]
    pub fn memory(at: DevicePtr, pitch: u64, slice: u64) -> Self {
        Self { at, pitch, slice, ..Self::default() }
    }

    /// An array, from a byte of a row, a row and a slice on.
    #[must_use]
    pub fn in_array(array: ArrayId, [x, y, z]: [u64; 3]) -> Self {
        Self { array, x, y, z, ..Self::default() }
    }

    /// The same end, begun further on: by rows and slices.
    #[must_use]
    pub fn further(&self, rows: u64, slices: u64) -> Self {
        if self.array == ArrayId(0) {
            let at = DevicePtr(self.at.0.wrapping_add(slices * self.slice).wrapping_add(rows * self.pitch));
            return Self { at, ..*self };
        }
        Self { y: self.y + rows, z: self.z + slices, ..*self }
    }
}
