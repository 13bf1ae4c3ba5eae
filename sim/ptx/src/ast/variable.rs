//! Variables and parameters: linkage, space, type, shape, value at load.
//! Sizes and alignments are computed from what is declared; nothing is placed at an address.
//! Nothing here looks up the symbols an initialiser names.

use super::{Float, Integer, Position};

/// Who sees a symbol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Linkage {
    /// None written (or `.internal`): this module only.
    #[default]
    Internal,
    /// `.visible`: defined here, seen by other modules.
    Visible,
    /// `.extern`: defined elsewhere.
    Extern,
    /// `.weak`: a definition that another may replace.
    Weak,
    /// `.common`: one storage for all modules' declarations of the name.
    Common,
}

/// State space of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Space {
    /// `.reg`; only in parameter and return lists (`.func (.reg .b32 r) f (.reg .b32 a)`).
    Register,
    /// `.global`.
    Global,
    /// `.const`, whatever bank is written.
    Constant,
    /// `.shared`.
    Shared,
    /// `.local`.
    Local,
    /// `.param`: kernel or function parameters, and a caller's argument buffers.
    Parameter,
    /// `.tex`: old-style texture.
    Texture,
}

/// Fundamental types that a declaration or a modifier may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScalarType {
    /// `.pred`: one bit; has no size in memory.
    Predicate,
    /// `.b8`
    B8,
    /// `.b16`
    B16,
    /// `.b32`
    B32,
    /// `.b64`
    B64,
    /// `.b128`
    B128,
    /// `.u8`
    U8,
    /// `.u16`
    U16,
    /// `.u32`
    U32,
    /// `.u64`
    U64,
    /// `.s8`
    S8,
    /// `.s16`
    S16,
    /// `.s32`
    S32,
    /// `.s64`
    S64,
    /// `.f16`
    F16,
    /// `.f16x2`
    F16x2,
    /// `.bf16`
    Bf16,
    /// `.bf16x2`
    Bf16x2,
    /// `.tf32`
    Tf32,
    /// `.f32`
    F32,
    /// `.f64`
    F64,
    /// `.u16x2`
    U16x2,
    /// `.s16x2`
    S16x2,
    /// `.f32x2`
    F32x2,
    /// `.texref`: opaque handle, 8 bytes.
    TextureReference,
    /// `.samplerref`: opaque handle, 8 bytes.
    SamplerReference,
    /// `.surfref`: opaque handle, 8 bytes.
    SurfaceReference,
}

impl ScalarType {
    /// The type a modifier names, without its dot (`f32`, `b64`); `None` when the word is not a type listed here.
    pub fn from_modifier(word: &str) -> Option<Self> {
        Some(match word {
            "pred" => Self::Predicate,
            "b8" => Self::B8,
            "b16" => Self::B16,
            "b32" => Self::B32,
            "b64" => Self::B64,
            "b128" => Self::B128,
            "u8" => Self::U8,
            "u16" => Self::U16,
            "u32" => Self::U32,
            "u64" => Self::U64,
            "s8" => Self::S8,
            "s16" => Self::S16,
            "s32" => Self::S32,
            "s64" => Self::S64,
            "f16" => Self::F16,
            "f16x2" => Self::F16x2,
            "bf16" => Self::Bf16,
            "bf16x2" => Self::Bf16x2,
            "tf32" => Self::Tf32,
            "f32" => Self::F32,
            "f64" => Self::F64,
            "u16x2" => Self::U16x2,
            "s16x2" => Self::S16x2,
            "f32x2" => Self::F32x2,
            "texref" => Self::TextureReference,
            "samplerref" => Self::SamplerReference,
            "surfref" => Self::SurfaceReference,
            _ => return None,
        })
    }

    /// The word for the type, without a dot.
    pub fn name(self) -> &'static str {
        match self {
            Self::Predicate => "pred",
            Self::B8 => "b8",
            Self::B16 => "b16",
            Self::B32 => "b32",
            Self::B64 => "b64",
            Self::B128 => "b128",
            Self::U8 => "u8",
            Self::U16 => "u16",
            Self::U32 => "u32",
            Self::U64 => "u64",
            Self::S8 => "s8",
            Self::S16 => "s16",
            Self::S32 => "s32",
            Self::S64 => "s64",
            Self::F16 => "f16",
            Self::F16x2 => "f16x2",
            Self::Bf16 => "bf16",
            Self::Bf16x2 => "bf16x2",
            Self::Tf32 => "tf32",
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::U16x2 => "u16x2",
            Self::S16x2 => "s16x2",
            Self::F32x2 => "f32x2",
            Self::TextureReference => "texref",
            Self::SamplerReference => "samplerref",
            Self::SurfaceReference => "surfref",
        }
    }

    /// Size in memory, in bytes; 0 for a predicate, which has none.
    pub fn size(self) -> u32 {
        match self {
            Self::Predicate => 0,
            Self::B8 | Self::U8 | Self::S8 => 1,
            Self::B16 | Self::U16 | Self::S16 | Self::F16 | Self::Bf16 => 2,
            Self::B32 | Self::U32 | Self::S32 | Self::F32 | Self::Tf32 => 4,
            Self::F16x2 | Self::Bf16x2 | Self::U16x2 | Self::S16x2 => 4,
            Self::B64 | Self::U64 | Self::S64 | Self::F64 | Self::F32x2 => 8,
            Self::TextureReference | Self::SamplerReference | Self::SurfaceReference => 8,
            Self::B128 => 16,
        }
    }
}

/// A variable or parameter: anything declared with a space other than a function body's `.reg`.
#[derive(Clone, Debug, PartialEq)]
pub struct Variable<'a> {
    /// Where its name stands (where the declaration starts for an unnamed parameter).
    pub position: Position,
    /// Who sees it; `Internal` for parameters and locals.
    pub linkage: Linkage,
    /// Where it lives.
    pub space: Space,
    /// `.align`, in bytes, a power of two; `None` means natural alignment (see [`Variable::alignment_bytes`]).
    pub alignment: Option<u32>,
    /// Vector width: 1, 2, 4 or 8.
    pub lanes: u8,
    /// Type of one element of the vector.
    pub scalar: ScalarType,
    /// The name; `_` where a prototype leaves a parameter unnamed.
    pub name: &'a str,
    /// `name<count>`: declares `name0` … `name{count-1}`; `None` for the plain form.
    pub range: Option<u32>,
    /// Array dimensions, outermost first, empty for a scalar. `None` is `[]`: as long as the initialiser, or, for an
    /// extern shared array, as long as the launch says.
    pub dimensions: Vec<Option<u64>>,
    /// Value at load.
    pub initializer: Option<Initializer<'a>>,
    /// `.ptr` of a kernel parameter.
    pub pointer: Option<Pointer>,
    /// `.attribute(.managed)`: host and device see the same storage.
    pub managed: bool,
    /// `.attribute(.unified(upper, lower))`: the name's 128-bit identifier.
    pub unified: Option<[u64; 2]>,
}

impl Variable<'_> {
    /// Bytes of one array element: scalar size times vector width.
    pub fn element_size(&self) -> u64 {
        u64::from(self.scalar.size()) * u64::from(self.lanes)
    }

    /// Number of elements: product of the dimensions, 1 for a scalar; `None` when a dimension is open or the product
    /// leaves 64 bits.
    pub fn element_count(&self) -> Option<u64> {
        self.dimensions.iter().try_fold(1_u64, |count, dimension| count.checked_mul((*dimension)?))
    }

    /// Bytes of the whole variable; `None` as for [`Variable::element_count`].
    pub fn size(&self) -> Option<u64> {
        self.element_count()?.checked_mul(self.element_size())
    }

    /// Alignment in bytes: what is written, otherwise the size of one element (at least 1).
    pub fn alignment_bytes(&self) -> u64 {
        self.alignment.map_or_else(|| self.element_size().max(1), u64::from)
    }

    /// Whether the outermost dimension is open (`name[]`).
    pub fn is_open(&self) -> bool {
        self.dimensions.iter().any(Option::is_none)
    }
}

/// `.ptr .space .align n` of a kernel parameter: what the parameter points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pointer {
    /// Space pointed into; `None` is generic.
    pub space: Option<Space>,
    /// Alignment of what is pointed to, in bytes.
    pub alignment: Option<u32>,
}

/// Value of a variable at load.
#[derive(Clone, Debug, PartialEq)]
pub enum Initializer<'a> {
    /// A number.
    Integer(Integer),
    /// A number.
    Float(Float),
    /// An address.
    Symbol(SymbolAddress<'a>),
    /// `{ … }`; fewer elements than declared leave the rest zero.
    List(Vec<Initializer<'a>>),
}

/// Address of a symbol in an initialiser: `sym`, `sym+4`, `generic(sym)+4`, `0xFF00(sym)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SymbolAddress<'a> {
    /// Variable or function.
    pub name: &'a str,
    /// Bytes added to its address.
    pub offset: i64,
    /// Whether the generic address is meant (`generic(sym)`) rather than the one in the symbol's own space.
    pub generic: bool,
    /// `mask(sym)`: only these bits of the address, shifted down to bit 0.
    pub mask: Option<u64>,
}
