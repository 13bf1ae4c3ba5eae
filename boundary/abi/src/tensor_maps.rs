//! Tensor maps: what a kernel's tensor memory accesses go by, and the shapes they are made from. A map's bytes are the
//! driver's own but for the first eight, which are the tensor's address. Nothing here judges a shape.

use crate::handles::DevicePtr;

/// The most dimensions a tensor map has.
pub const TENSOR_RANK: usize = 5;

/// `CUtensorMap`: 128 bytes only drivers understand.
#[repr(C, align(64))]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct TensorMap {
    /// The bytes as sixteen little-endian words.
    pub words: [u64; 16],
}

impl TensorMap {
    /// The tensor's address (measured on driver 580: it stands in clear in the first word).
    pub const fn address(&self) -> DevicePtr {
        DevicePtr(self.words[0])
    }

    /// The same map for a tensor elsewhere.
    #[must_use]
    pub const fn at(mut self, address: DevicePtr) -> Self {
        self.words[0] = address.0;
        self
    }
}

/// The part of the tensor that one access moves.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TensorForm {
    /// A box: elements per dimension.
    Tiled {
        /// As many as the tensor has dimensions.
        box_dimensions: [u32; TENSOR_RANK],
    },
    /// Columns of an image, as a convolution reads them; corners per spatial dimension, of which there are two less than
    /// dimensions.
    Im2col {
        /// Lower corner of the box of pixels.
        lower: [i32; TENSOR_RANK - 2],
        /// Upper corner.
        upper: [i32; TENSOR_RANK - 2],
        /// Channels per pixel.
        channels: u32,
        /// Pixels per column.
        pixels: u32,
    },
    /// As above along the width alone.
    Im2colWide {
        /// Lower corner.
        lower: i32,
        /// Upper corner.
        upper: i32,
        /// Channels per pixel.
        channels: u32,
        /// Pixels per column.
        pixels: u32,
        /// `CUtensorMapIm2ColWideMode`.
        mode: u32,
    },
}

/// A tensor and how it is accessed: everything a map depends on but the address. Places of the arrays beyond the rank are
/// zero, so that equal shapes are equal values.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TensorShape {
    /// `CUtensorMapDataType`.
    pub data_type: u32,
    /// Dimensions, from 1 to [`TENSOR_RANK`].
    pub rank: usize,
    /// Elements per dimension.
    pub dimensions: [u64; TENSOR_RANK],
    /// Bytes from one element to the next, of every dimension but the first.
    pub strides: [u64; TENSOR_RANK - 1],
    /// Steps in elements per dimension.
    pub element_strides: [u32; TENSOR_RANK],
    /// The part that one access moves.
    pub form: TensorForm,
    /// `CUtensorMapInterleave`.
    pub interleave: u32,
    /// `CUtensorMapSwizzle`.
    pub swizzle: u32,
    /// `CUtensorMapL2promotion`.
    pub promotion: u32,
    /// `CUtensorMapFloatOOBfill`.
    pub fill: u32,
}

// The bindings lose the header's alignment of 64, which drivers demand.
const _: () = assert!(size_of::<TensorMap>() == size_of::<cudarc::driver::sys::CUtensorMap_st>());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_word_changes_with_the_address() {
        let map = TensorMap { words: [7; 16] }.at(DevicePtr(0x2000));
        assert_eq!(map.address(), DevicePtr(0x2000));
        assert_eq!(map.words[1..], [7; 15]);
    }
}
