//! A tensor map as the 128 bytes that a program holds. The address is the first eight, so that it can be replaced without
//! knowing the rest; the rest is this device's own. Bytes that no map has are none.

use super::{TENSOR_AXES, TensorElement, TensorMap};

/// Bytes of a map.
pub const MAP_BYTES: usize = 128;

/// The word behind the address: maps of other makers do not have it.
const MARK: u32 = 0x7465_6e31;

/// Places of the fields. What is behind the strides is zero.
mod at {
    pub(super) const MARK: usize = 8;
    /// Type, axes, swizzle in units, fill.
    pub(super) const KIND: usize = 12;
    /// Sizes less 1, of 32 bits.
    pub(super) const SIZES: usize = 16;
    /// Spans less 1, of 8 bits.
    pub(super) const SPANS: usize = 36;
    pub(super) const STEPS: usize = 41;
    pub(super) const STRIDES: usize = 48;
}

impl TensorMap {
    /// The bytes of a map that was checked.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; MAP_BYTES] {
        let mut bytes = [0; MAP_BYTES];
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        put(0, &self.address.to_le_bytes());
        put(at::MARK, &MARK.to_le_bytes());
        let swizzle = (self.swizzle / 32) as u8;
        put(at::KIND, &[self.element.number(), self.axes as u8, swizzle, u8::from(self.fills_nan)]);
        for axis in 0..self.axes {
            put(at::SIZES + 4 * axis, &(self.sizes[axis].wrapping_sub(1) as u32).to_le_bytes());
            put(at::SPANS + axis, &[self.spans[axis].wrapping_sub(1) as u8]);
            put(at::STEPS + axis, &[self.steps[axis] as u8]);
        }
        for axis in 0..self.axes.saturating_sub(1) {
            put(at::STRIDES + 8 * axis, &self.strides[axis].to_le_bytes());
        }
        bytes
    }

    /// The map of these bytes; `None` where they are no map that [`TensorMap::check`] lets pass.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; MAP_BYTES]) -> Option<Self> {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        let [element, axes, swizzle, fill] = [0, 1, 2, 3].map(|field| bytes[at::KIND + field]);
        let axes = usize::from(axes);
        let known = word(at::MARK) == MARK && (1..=TENSOR_AXES).contains(&axes) && fill <= 1;
        if !known {
            return None;
        }
        let mut map = Self {
            address: long(0),
            element: TensorElement::from_number(element.into())?,
            axes,
            sizes: [0; TENSOR_AXES],
            strides: [0; TENSOR_AXES - 1],
            spans: [0; TENSOR_AXES],
            steps: [0; TENSOR_AXES],
            swizzle: 32 * u32::from(swizzle),
            fills_nan: fill == 1,
        };
        for axis in 0..axes {
            map.sizes[axis] = u64::from(word(at::SIZES + 4 * axis)) + 1;
            map.spans[axis] = u32::from(bytes[at::SPANS + axis]) + 1;
            map.steps[axis] = bytes[at::STEPS + axis].into();
        }
        for axis in 0..axes - 1 {
            map.strides[axis] = long(at::STRIDES + 8 * axis);
        }
        // What no field has is part of no map, so a map has one form only.
        map.check().filter(|map| map.to_bytes() == *bytes)
    }
}
