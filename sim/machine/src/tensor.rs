//! Tensor maps: what copies of boxes of a tensor go by. A tensor's shape and address come in and become 128 bytes. The
//! bytes of a program come back as a map that is possible, or as none: a program may hand over any bytes.
//! Nothing here touches memory: `rows` says which bytes a box has and where they lie.

mod map_bytes;
mod rows;

#[cfg(test)]
mod tests;

pub use map_bytes::MAP_BYTES;
pub(crate) use rows::{Row, UNIT};

/// The most dimensions of a tensor.
pub const TENSOR_AXES: usize = 5;

/// Most elements of a box along a dimension.
const BOX_LIMIT: u32 = 256;
/// Most bytes of a box: those of a block's shared memory.
const BOX_BYTES: u64 = 227 << 10;
/// Largest step along a dimension.
const STEP_LIMIT: u32 = 8;
/// Elements of a tensor along a dimension, at most.
const SIZE_LIMIT: u64 = 1 << 32;
/// Bytes from one element to the next along a dimension: below this.
const STRIDE_LIMIT: u64 = 1 << 40;
/// A tensor's address: below this.
const ADDRESS_LIMIT: u64 = 1 << 57;

/// The type of an element, as `CUtensorMapDataType` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum TensorElement {
    U8,
    U16,
    U32,
    S32,
    U64,
    S64,
    F16,
    F32,
    F64,
    Bf16,
    /// 32 bits, of which loads keep 19.
    Tf32,
}

impl TensorElement {
    /// Each with its number, which is CUDA's. 10 is f32 without subnormal numbers, which is not done; loads treat both
    /// TF32 types alike (11 and 12).
    const NUMBERS: [(u8, Self); 12] = [
        (0, Self::U8),
        (1, Self::U16),
        (2, Self::U32),
        (3, Self::S32),
        (4, Self::U64),
        (5, Self::S64),
        (6, Self::F16),
        (7, Self::F32),
        (8, Self::F64),
        (9, Self::Bf16),
        (11, Self::Tf32),
        (12, Self::Tf32),
    ];

    /// The type of a number.
    pub fn from_number(number: u32) -> Option<Self> {
        Self::NUMBERS.iter().find(|(known, _)| u32::from(*known) == number).map(|(_, element)| *element)
    }

    fn number(self) -> u8 {
        Self::NUMBERS.iter().find(|(_, element)| *element == self).map_or(0, |(number, _)| *number)
    }

    /// Bytes of an element.
    pub fn bytes(self) -> u32 {
        match self {
            Self::U8 => 1,
            Self::U16 | Self::F16 | Self::Bf16 => 2,
            Self::U32 | Self::S32 | Self::F32 | Self::Tf32 => 4,
            Self::U64 | Self::S64 | Self::F64 => 8,
        }
    }

    fn is_float(self) -> bool {
        matches!(self, Self::F16 | Self::F32 | Self::F64 | Self::Bf16 | Self::Tf32)
    }
}

/// A tensor in global memory, and the box of it that a copy moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorMap {
    /// Address of the first element.
    pub address: u64,
    /// The type of an element.
    pub element: TensorElement,
    /// Dimensions, from 1 to [`TENSOR_AXES`].
    pub axes: usize,
    /// Elements per dimension; places behind the dimensions are zero here and below.
    pub sizes: [u64; TENSOR_AXES],
    /// Bytes from one element to the next, of every dimension but the first.
    pub strides: [u64; TENSOR_AXES - 1],
    /// Elements that a box spans per dimension.
    pub spans: [u32; TENSOR_AXES],
    /// Every so manieth of these is moved; the first dimension's step means nothing.
    pub steps: [u32; TENSOR_AXES],
    /// Bytes among which units of 16 change places: 0 (they do not), 32, 64 or 128.
    pub swizzle: u32,
    /// Whether loads put NaN where the tensor has no elements, else zeros.
    pub fills_nan: bool,
}

impl TensorMap {
    /// The map, if it is one that an H200 takes.
    #[must_use]
    pub fn check(self) -> Option<Self> {
        let axes = self.axes;
        let known = (1..=TENSOR_AXES).contains(&axes) && matches!(self.swizzle, 0 | 32 | 64 | 128);
        if !known || !self.address.is_multiple_of(UNIT.into()) || self.address >= ADDRESS_LIMIT {
            return None;
        }
        let sizes = self.sizes[..axes].iter().all(|size| (1..=SIZE_LIMIT).contains(size));
        let strides =
            self.strides[..axes - 1].iter().all(|stride| *stride < STRIDE_LIMIT && stride.is_multiple_of(UNIT.into()));
        let spans = self.spans[..axes].iter().all(|span| (1..=BOX_LIMIT).contains(span));
        let steps = self.steps[..axes].iter().all(|step| (1..=STEP_LIMIT).contains(step));
        if !(sizes && strides && spans && steps) || self.fills_nan && !self.element.is_float() {
            return None;
        }
        let row = self.row_bytes();
        let fits = row.is_multiple_of(UNIT) && (self.swizzle == 0 || row <= self.swizzle);
        (fits && self.box_bytes() <= BOX_BYTES).then_some(self)
    }

    /// Bytes of a row of the box.
    pub(crate) fn row_bytes(&self) -> u32 {
        self.spans[0] * self.element.bytes()
    }

    /// Elements of a box along a dimension but the first.
    fn count(&self, axis: usize) -> u32 {
        self.spans[axis].div_ceil(self.steps[axis])
    }

    /// Rows of a box.
    pub(crate) fn row_count(&self) -> u64 {
        (1..self.axes).map(|axis| u64::from(self.count(axis))).product()
    }

    /// Bytes of a box: what a load reports to its barrier.
    pub(crate) fn box_bytes(&self) -> u64 {
        self.row_count() * u64::from(self.row_bytes())
    }

    /// Bytes from one row to the next in shared memory: a narrow row has all the bytes among which its units move.
    pub(crate) fn pitch(&self) -> u32 {
        self.row_bytes().max(self.swizzle)
    }
}
