//! Opcodes and operands: dotted words and untyped values.
//! Immediates are kept as exact bits; names borrow from the text.
//! Nothing here says which operand an instruction writes.

use std::fmt;

use super::scalar_type::ScalarType;

/// Mnemonic and modifiers as one piece of the text: `ld.global.nc.v4.f32`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Opcode<'a> {
    text: &'a str,
    mnemonic_length: u32,
}

impl<'a> Opcode<'a> {
    /// Takes `ld.global.f32` apart; what stands before the first dot is the mnemonic.
    pub fn new(text: &'a str) -> Self {
        let length = text.find('.').unwrap_or(text.len());
        Self { text, mnemonic_length: u32::try_from(length).unwrap_or(u32::MAX) }
    }

    /// `ld` of `ld.global.f32`.
    pub fn mnemonic(self) -> &'a str {
        self.text.get(..self.mnemonic_length as usize).unwrap_or(self.text).trim_ascii_end()
    }

    /// `global`, `f32` of `ld.global.f32`, without their dots. A qualified modifier stays whole: `L2::cache_hint`.
    pub fn modifiers(self) -> impl DoubleEndedIterator<Item = &'a str> + Clone {
        let rest = self.text.get(self.mnemonic_length as usize..).unwrap_or("");
        // The text may have blanks around dots (`add .s32`); they are no part of a modifier.
        let mut words = rest.split('.').map(str::trim_ascii);
        words.next();
        words
    }

    /// Whether a modifier, given without its dot, is present.
    pub fn has(self, modifier: &str) -> bool {
        self.modifiers().any(|word| word == modifier)
    }

    /// The last modifier that names a type: the instruction's operand type in most families.
    pub fn last_type(self) -> Option<ScalarType> {
        self.modifiers().rev().find_map(ScalarType::from_modifier)
    }

    /// All of it, as written (normally without blanks): for messages, and as a key into an opcode table.
    pub fn text(self) -> &'a str {
        self.text
    }
}

impl fmt::Debug for Opcode<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Opcode({})", self.text)
    }
}

impl fmt::Display for Opcode<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.mnemonic())?;
        self.modifiers().try_for_each(|word| write!(out, ".{word}"))
    }
}

/// One operand, untyped.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand<'a> {
    /// Register, special register with its component (`%tid.x`), register part (`%r1.b0`, `%v.x`), variable, label or
    /// function.
    Name(&'a str),
    /// `_`: the value is thrown away, or a placeholder.
    Sink,
    /// Integer immediate. `WARP_SZ` is 32.
    Integer(Integer),
    /// Float immediate.
    Float(Float),
    /// `!p`.
    Not(&'a str),
    /// `-%r1`: negated source of the video instructions.
    Negated(&'a str),
    /// `d|p`, each side `None` for `_`.
    Pair(Option<&'a str>, Option<&'a str>),
    /// `sym+4`, outside brackets.
    Offset {
        /// Variable.
        name: &'a str,
        /// Bytes added to its address.
        offset: i64,
    },
    /// `[base+offset]`; `base` is a register or variable, `None` for an absolute address, which is then `offset`.
    Address {
        /// Register or variable.
        base: Option<&'a str>,
        /// Bytes added.
        offset: i64,
    },
    /// `array[index+offset]`: address of an array's element; `index` a register, `None` where only a number is written.
    Element {
        /// The array.
        array: &'a str,
        /// Register that holds the index.
        index: Option<&'a str>,
        /// Number added to the index, in elements.
        offset: i64,
    },
    /// `{a, b, c, d}`.
    Vector(Vec<Operand<'a>>),
    /// `[texture, {x, y}]`, `[texture, sampler, {x}]`, `[tensor_map, {x, y}]`: brackets with commas. An element that is
    /// itself an address sum (`[%r1+4, 1]`) is an [`Operand::Offset`].
    Tuple(Vec<Operand<'a>>),
    /// `(a, b)`: argument or result list of a call.
    List(Vec<Operand<'a>>),
}

/// An integer constant: 64 bits of two's complement, as PTX evaluates it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Integer {
    /// The bits; a use in a narrower type takes the low ones.
    pub bits: u64,
    /// Whether it is of type `.u64` (suffix `U`, or a value beyond `.s64`) rather than `.s64`.
    pub unsigned: bool,
}

impl Integer {
    /// A signed constant.
    pub fn signed(value: i64) -> Self {
        Self { bits: value.cast_unsigned(), unsigned: false }
    }

    /// Its bits as a signed number.
    pub fn as_i64(self) -> i64 {
        self.bits.cast_signed()
    }
}

/// A float constant, by its bits so that equality and copying are exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Float {
    /// `0f3F800000`: IEEE single.
    Single(u32),
    /// `0d3FF0000000000000` or decimal (`1.5`, `1e10`): IEEE double; a use in `.f32` rounds to nearest even.
    Double(u64),
}

impl Float {
    /// The value in double precision; exact.
    pub fn as_f64(self) -> f64 {
        match self {
            Self::Single(bits) => f64::from(f32::from_bits(bits)),
            Self::Double(bits) => f64::from_bits(bits),
        }
    }

    /// The value in single precision, rounded to nearest even; the bits are kept when it is written as single.
    pub fn as_f32(self) -> f32 {
        match self {
            Self::Single(bits) => f32::from_bits(bits),
            // PTX rounds a double constant used in `.f32`; this is that rounding.
            #[allow(clippy::cast_possible_truncation)]
            Self::Double(bits) => f64::from_bits(bits) as f32,
        }
    }
}
