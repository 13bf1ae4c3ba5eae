//! Variables and parameters: linkage, space, type, shape, value at load.
//! Sizes and alignments are computed from what is declared; nothing is placed at an address.
//! Nothing here looks up the symbols an initialiser names.

use super::operand::{Float, Integer};
use super::position::Position;
use super::scalar_type::ScalarType;

/// Visibility of a symbol.
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

/// A variable or parameter: anything declared with a space other than a function body's `.reg`.
#[derive(Clone, Debug, PartialEq)]
pub struct Variable<'a> {
    /// Position of its name (where the declaration starts for an unnamed parameter).
    pub position: Position,
    /// Its visibility; `Internal` for parameters and locals.
    pub linkage: Linkage,
    /// Its state space.
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
