//! Operands of texture and surface instructions: lowering fills the plans in, `texture` executes them.
//! Plain data; no plan checks its slots.

/// A texture instruction: where its operands are, as slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TexturePlan {
    pub(crate) texture: u32,
    /// The slot holds the address of a texture reference, not a number.
    pub(crate) is_reference: bool,
    pub(crate) layer: Option<u32>,
    /// As many count as there are axes.
    pub(crate) coordinates: [u32; 3],
    pub(crate) axes: usize,
    pub(crate) reading: Reading,
    pub(crate) level: TextureLevel,
    pub(crate) targets: [u32; 4],
}

/// The kind of read of a texture instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// The sample at float coordinates.
    Sample,
    /// The element at whole coordinates.
    Fetch,
    /// One channel of four elements.
    Gather(usize),
}

/// The level that a texture instruction names, as slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextureLevel {
    /// None: the first.
    Base,
    /// By its number.
    Number(u32),
    /// By the growth of each coordinate in two directions.
    Gradient([[u32; 3]; 2]),
}

/// A surface instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SurfacePlan {
    pub(crate) surface: u32,
    pub(crate) layer: Option<u32>,
    /// Of a byte in its row, a row, a slice.
    pub(crate) coordinates: [u32; 3],
    pub(crate) axes: usize,
    /// As many count as are moved.
    pub(crate) elements: [u32; 4],
    pub(crate) count: usize,
    /// Bytes of each.
    pub(crate) bytes: usize,
    pub(crate) beyond: Beyond,
}

/// The behaviour of a surface instruction beyond the ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beyond {
    /// Ends the launch.
    Trap,
    /// Moves the nearest element.
    Clamp,
    /// Reads zeros and writes nothing.
    Zero,
}
