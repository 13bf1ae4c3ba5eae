//! Shapes of arrays: their descriptors, their sizes, and which boxes of bytes lie inside. Descriptors come in from C or
//! the wire, checked shapes go out. Nothing here knows how a device lays an array out.

use crate::memory::same_layout;
use crate::{CudaError, CudaResult, array_flags, array_format};

/// `CUDA_ARRAY_DESCRIPTOR`: an array of one or two dimensions.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct ArrayDescriptor {
    /// Elements of a row.
    pub width: usize,
    /// Rows; 0 for an array of one dimension.
    pub height: usize,
    /// One of [`crate::array_format`].
    pub format: u32,
    /// Channels of an element: 1, 2 or 4.
    pub channels: u32,
}

/// `CUDA_ARRAY3D_DESCRIPTOR`: any array.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Array3dDescriptor {
    /// Elements of a row.
    pub width: usize,
    /// Rows of a slice; 0 for arrays of one dimension.
    pub height: usize,
    /// Slices or layers; 0 for arrays of one or two dimensions without layers.
    pub depth: usize,
    /// One of [`crate::array_format`].
    pub format: u32,
    /// Channels of an element: 1, 2 or 4.
    pub channels: u32,
    /// Any of [`crate::array_flags`].
    pub flags: u32,
}

same_layout!(ArrayDescriptor, CUDA_ARRAY_DESCRIPTOR_st, {
    width: Width, height: Height, format: Format, channels: NumChannels,
});
same_layout!(Array3dDescriptor, CUDA_ARRAY3D_DESCRIPTOR_st, {
    width: Width, height: Height, depth: Depth, format: Format, channels: NumChannels, flags: Flags,
});

/// Faces of a cube.
const FACES: usize = 6;
/// Flags that floe's arrays may have. The rest (sparse, deferred, depth and colour targets) is refused by name.
const SUPPORTED_FLAGS: u32 =
    array_flags::LAYERED | array_flags::SURFACE_LDST | array_flags::CUBEMAP | array_flags::TEXTURE_GATHER;

/// Bytes of an element; `None` for a format or a number of channels that is none of the plain ones.
pub const fn element_bytes(format: u32, channels: u32) -> Option<usize> {
    let channel = match format {
        array_format::UNSIGNED_INT8 | array_format::SIGNED_INT8 => 1,
        array_format::UNSIGNED_INT16 | array_format::SIGNED_INT16 | array_format::HALF => 2,
        array_format::UNSIGNED_INT32 | array_format::SIGNED_INT32 | array_format::FLOAT => 4,
        _ => return None,
    };
    match channels {
        1 | 2 | 4 => Some(channel * channels as usize),
        _ => None,
    }
}

/// An array's shape, of which every extent and the whole were checked.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ArrayShape {
    descriptor: Array3dDescriptor,
    element: usize,
}

impl ArrayShape {
    /// Checks a descriptor. The device's maxima are its own to check.
    ///
    /// # Errors
    /// INVALID_VALUE for extents, channels and flags that do not fit each other; NOT_SUPPORTED for formats and flags of
    /// arrays floe does not have.
    pub fn new(descriptor: &Array3dDescriptor) -> CudaResult<Self> {
        let Array3dDescriptor { width, height, depth, format, channels, flags } = *descriptor;
        if !matches!(channels, 1 | 2 | 4) {
            return Err(CudaError::INVALID_VALUE);
        }
        if !array_format::is_known(format) || flags & !array_flags::KNOWN != 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        let element = element_bytes(format, channels).ok_or(CudaError::NOT_SUPPORTED)?;
        if flags & !SUPPORTED_FLAGS != 0 {
            return Err(CudaError::NOT_SUPPORTED);
        }
        let shape = Self { descriptor: *descriptor, element };
        let possible = width != 0
            && if shape.is_cube() {
                width == height && shape.has_faces()
            } else if shape.is_layered() {
                depth != 0
            } else {
                depth == 0 || height != 0
            };
        let bytes = element
            .checked_mul(width)
            .and_then(|row| row.checked_mul(shape.rows()))
            .and_then(|slice| slice.checked_mul(shape.slices()));
        // A size beyond any address space is refused, too.
        if possible && bytes.is_some_and(|bytes| isize::try_from(bytes).is_ok()) {
            Ok(shape)
        } else {
            Err(CudaError::INVALID_VALUE)
        }
    }

    fn is_cube(&self) -> bool {
        self.descriptor.flags & array_flags::CUBEMAP != 0
    }

    fn has_faces(&self) -> bool {
        let depth = self.descriptor.depth;
        if self.is_layered() { depth != 0 && depth.is_multiple_of(FACES) } else { depth == FACES }
    }

    /// The descriptor as C reads it.
    pub const fn descriptor(&self) -> Array3dDescriptor {
        self.descriptor
    }

    /// Whether its slices are layers, which nothing is filtered between.
    pub const fn is_layered(&self) -> bool {
        self.descriptor.flags & array_flags::LAYERED != 0
    }

    /// Bytes of an element.
    pub const fn element_bytes(&self) -> usize {
        self.element
    }

    /// Elements of a row.
    pub const fn width(&self) -> usize {
        self.descriptor.width
    }

    /// Rows of a slice, at least one.
    pub const fn rows(&self) -> usize {
        if self.descriptor.height == 0 { 1 } else { self.descriptor.height }
    }

    /// Slices or layers, at least one.
    pub const fn slices(&self) -> usize {
        if self.descriptor.depth == 0 { 1 } else { self.descriptor.depth }
    }

    /// Bytes of a row.
    pub const fn row_bytes(&self) -> usize {
        // Checked with the whole when it was made, here and below.
        self.element * self.descriptor.width
    }

    /// Bytes of a slice.
    pub const fn slice_bytes(&self) -> usize {
        self.row_bytes() * self.rows()
    }

    /// Bytes of the whole, without the gaps a device may put in.
    pub const fn bytes(&self) -> usize {
        self.slice_bytes() * self.slices()
    }

    /// Levels of a mipmapped array of this shape, down to the one whose longest extent is one element. Layers and faces are
    /// all on every level.
    pub fn most_levels(&self) -> u32 {
        let Array3dDescriptor { width, height, depth, .. } = self.descriptor;
        let halved = [width, height, if self.keeps_depth() { 0 } else { depth }];
        halved.into_iter().max().map_or(0, |longest| longest.checked_ilog2().unwrap_or(0)) + 1
    }

    /// The shape of a level: half the extents of the one before, rounded down, at least one. `None` behind the last.
    #[must_use]
    pub fn level(&self, level: u32) -> Option<Self> {
        if level >= self.most_levels() {
            return None;
        }
        let halved = |extent: usize| if extent == 0 { 0 } else { (extent >> level).max(1) };
        let Array3dDescriptor { width, height, depth, .. } = self.descriptor;
        let depth = if self.keeps_depth() { depth } else { halved(depth) };
        let descriptor = Array3dDescriptor { width: halved(width), height: halved(height), depth, ..self.descriptor };
        Some(Self { descriptor, element: self.element })
    }

    /// Whether its slices are layers or faces, of which each is an image of its own.
    fn keeps_depth(&self) -> bool {
        self.is_layered() || self.is_cube()
    }

    /// Whether a box lies inside: where it begins and its extent, both as bytes of a row, rows, slices. It may begin and end
    /// within an element, as NVIDIA's driver has it.
    pub fn holds(&self, at: [usize; 3], extent: [usize; 3]) -> bool {
        let whole = [self.row_bytes(), self.rows(), self.slices()];
        let inside = |axis: usize| at[axis].checked_add(extent[axis]).is_some_and(|end| end <= whole[axis]);
        (0..3).all(inside)
    }
}

impl From<&ArrayDescriptor> for Array3dDescriptor {
    fn from(flat: &ArrayDescriptor) -> Self {
        let ArrayDescriptor { width, height, format, channels } = *flat;
        Self { width, height, depth: 0, format, channels, flags: 0 }
    }
}

impl From<&Array3dDescriptor> for ArrayDescriptor {
    fn from(whole: &Array3dDescriptor) -> Self {
        let Array3dDescriptor { width, height, format, channels, .. } = *whole;
        Self { width, height, format, channels }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptor(extents: [usize; 3], flags: u32) -> Array3dDescriptor {
        let [width, height, depth] = extents;
        Array3dDescriptor { width, height, depth, format: array_format::FLOAT, channels: 2, flags }
    }

    fn made(extents: [usize; 3], flags: u32) -> CudaResult<ArrayShape> {
        ArrayShape::new(&descriptor(extents, flags))
    }

    #[test]
    fn missing_extents_count_as_one() {
        let row = made([10, 0, 0], 0).expect("one dimension");
        assert_eq!((row.row_bytes(), row.rows(), row.slices(), row.bytes()), (80, 1, 1, 80));
        let layers = made([10, 0, 3], array_flags::LAYERED).expect("layers of one dimension");
        assert_eq!((layers.rows(), layers.slices(), layers.bytes()), (1, 3, 240));
    }

    #[test]
    fn extents_that_make_no_array_are_invalid() {
        use array_flags::{CUBEMAP, LAYERED};
        for (extents, flags) in [
            ([0, 4, 4], 0),
            ([4, 0, 4], 0),
            ([4, 4, 0], LAYERED),
            ([4, 5, 6], CUBEMAP),
            ([4, 4, 5], CUBEMAP),
            ([4, 4, 7], CUBEMAP | LAYERED),
            ([usize::MAX / 8, 2, 0], 0),
            ([1 << 30, 1 << 30, 1 << 30], 0),
        ] {
            assert_eq!(made(extents, flags), Err(CudaError::INVALID_VALUE), "{extents:?} {flags:#x}");
        }
        assert!(made([4, 4, 12], CUBEMAP | LAYERED).is_ok());
    }

    #[test]
    fn a_level_has_half_the_extents_and_all_layers() {
        use array_flags::{CUBEMAP, LAYERED};
        let levels = |extents, flags| {
            let shape = made(extents, flags).expect("an array");
            let levels: Vec<_> = (0..).map_while(|level| shape.level(level)).map(|level| level.descriptor()).collect();
            assert_eq!(levels.len(), shape.most_levels() as usize);
            levels.into_iter().map(|level| [level.width, level.height, level.depth]).collect::<Vec<_>>()
        };
        assert_eq!(levels([10, 3, 0], 0), [[10, 3, 0], [5, 1, 0], [2, 1, 0], [1, 1, 0]]);
        assert_eq!(levels([1, 0, 0], 0), [[1, 0, 0]]);
        assert_eq!(levels([2, 1, 5], 0), [[2, 1, 5], [1, 1, 2], [1, 1, 1]]);
        assert_eq!(levels([2, 0, 5], LAYERED), [[2, 0, 5], [1, 0, 5]]);
        assert_eq!(levels([3, 3, 6], CUBEMAP), [[3, 3, 6], [1, 1, 6]]);
        let shape = made([usize::MAX >> 5, 0, 0], 0).expect("an array");
        assert_eq!(shape.level(u32::MAX), None);
        assert_eq!(shape.level(58).map(|level| level.width()), Some(1));
    }

    #[test]
    fn unknown_formats_and_flags_are_not_supported_and_three_channels_invalid() {
        let plain = descriptor([4, 4, 0], 0);
        let refused = |descriptor: &Array3dDescriptor| ArrayShape::new(descriptor).expect_err("refused");
        assert_eq!(refused(&Array3dDescriptor { format: 0x91, ..plain }), CudaError::NOT_SUPPORTED);
        assert_eq!(refused(&Array3dDescriptor { flags: 0x40, ..plain }), CudaError::NOT_SUPPORTED);
        assert_eq!(refused(&Array3dDescriptor { channels: 3, ..plain }), CudaError::INVALID_VALUE);
    }

    #[test]
    fn boxes_lie_inside_to_the_byte_and_may_cut_elements() {
        let shape = made([10, 4, 3], 0).expect("an array");
        for (at, extent) in [
            ([0, 0, 0], [80, 4, 3]),
            ([72, 3, 2], [8, 1, 1]),
            ([4, 0, 0], [8, 1, 1]),
            ([0, 0, 0], [12, 1, 1]),
            ([79, 3, 2], [1, 1, 1]),
            ([80, 4, 3], [0, 0, 0]),
        ] {
            assert!(shape.holds(at, extent), "{at:?} {extent:?}");
        }
        for (at, extent) in [
            ([1, 0, 0], [80, 4, 3]),
            ([0, 1, 0], [80, 4, 3]),
            ([0, 0, 1], [80, 4, 3]),
            ([0, 0, 0], [81, 1, 1]),
            ([79, 0, 0], [2, 1, 1]),
            ([81, 0, 0], [0, 1, 1]),
            ([usize::MAX - 7, 0, 0], [8, 1, 1]),
            ([1, 0, 0], [usize::MAX, 1, 1]),
            ([0, usize::MAX, 0], [8, 1, 1]),
        ] {
            assert!(!shape.holds(at, extent), "{at:?} {extent:?}");
        }
    }
}
