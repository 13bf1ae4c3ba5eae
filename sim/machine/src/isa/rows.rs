//! Rows of the opcode table and the macros that write them.
//! A row names the instruction, the kinds of its operands and its handlers. The macros turn a function of one lane into
//! handlers for all levels. Nothing here knows operands' text.

use crate::exec::Handlers;

/// The kind of an operand: its slot, and how an immediate in its place is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// Predicate.
    Predicate,
    /// 8 bits in a 32-bit slot; signed results are sign-extended to the register.
    Bits8,
    /// 16 bits in a 32-bit slot.
    Bits16,
    /// 32 bits.
    Bits32,
    /// 64 bits.
    Bits64,
    /// As `Bits8`, signed.
    Signed8,
    /// As `Bits16`, signed.
    Signed16,
    /// As `Bits32`, signed.
    Signed32,
    /// As `Bits64`, signed.
    Signed64,
    /// Single precision.
    Float32,
    /// Double precision.
    Float64,
}

impl Value {
    /// Whether it lives in a 64-bit slot.
    pub(crate) fn is_wide(self) -> bool {
        matches!(self, Self::Bits64 | Self::Signed64 | Self::Float64)
    }

    /// Bits of the value.
    pub(crate) fn bits(self) -> u32 {
        match self {
            Self::Predicate => 1,
            Self::Bits8 | Self::Signed8 => 8,
            Self::Bits16 | Self::Signed16 => 16,
            Self::Bits32 | Self::Signed32 | Self::Float32 => 32,
            Self::Bits64 | Self::Signed64 | Self::Float64 => 64,
        }
    }

    /// Whether a result narrower than its register is sign-extended.
    pub(crate) fn is_signed(self) -> bool {
        matches!(self, Self::Signed8 | Self::Signed16 | Self::Signed32 | Self::Signed64)
    }
}

/// How operands are placed in the instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// d, a, b, c, aux: sources in order.
    Plain,
    /// `setp`: d|extra, a, b and, with the boolean combination given here, c.
    SetPredicate(u32),
    /// Carry in from the flag, carry out to it.
    Carry { reads: bool, writes: bool },
    /// `selp`: the third source is a predicate that may be negated.
    Select,
}

/// One instruction.
#[derive(Clone, Copy)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) shape: Shape,
    pub(crate) result: Value,
    pub(crate) sources: [Option<Value>; 4],
    pub(crate) handlers: Handlers,
}

/// The kind of value a lane type is.
pub(crate) trait Typed {
    const VALUE: Value;
}

macro_rules! typed {
    ($($type:ty => $value:ident),*) => {$(impl Typed for $type { const VALUE: Value = Value::$value; })*};
}
typed! {
    u8 => Bits8, i8 => Signed8, u16 => Bits16, i16 => Signed16, u32 => Bits32, i32 => Signed32,
    u64 => Bits64, i64 => Signed64, f32 => Float32, f64 => Float64
}

/// `one!(rows, "not.b32", (u32) -> u32, |a| !a)`; with `@baseline_handlers,` in front, every level gets the handlers of
/// the baseline level. Rare instructions use that, because three handlers of each would be most of the machine.
macro_rules! one {
    (@$made:ident, $rows:expr, $name:expr, ($a:ty) -> $d:ty, $function:expr) => {{
        struct F;
        impl $crate::exec::Function1 for F {
            type A = $a;
            type D = $d;
            #[inline(always)]
            fn apply(a: $a) -> $d {
                ($function)(a)
            }
        }
        $rows.push($crate::isa::Row {
            name: $name,
            shape: $crate::isa::Shape::Plain,
            result: <$d as $crate::isa::rows::Typed>::VALUE,
            sources: [Some(<$a as $crate::isa::rows::Typed>::VALUE), None, None, None],
            handlers: $crate::exec::$made::<$crate::exec::One<F>>(),
        });
    }};
    ($rows:expr, $($rest:tt)*) => {
        $crate::isa::rows::one!(@handlers, $rows, $($rest)*)
    };
}

/// `two!(rows, "add.u32", (u32, u32) -> u32, int::add)`
macro_rules! two {
    (@$made:ident, $rows:expr, $name:expr, ($a:ty, $b:ty) -> $d:ty, $function:expr) => {{
        struct F;
        impl $crate::exec::Function2 for F {
            type A = $a;
            type B = $b;
            type D = $d;
            #[inline(always)]
            fn apply(a: $a, b: $b) -> $d {
                ($function)(a, b)
            }
        }
        $rows.push($crate::isa::Row {
            name: $name,
            shape: $crate::isa::Shape::Plain,
            result: <$d as $crate::isa::rows::Typed>::VALUE,
            sources: [
                Some(<$a as $crate::isa::rows::Typed>::VALUE),
                Some(<$b as $crate::isa::rows::Typed>::VALUE),
                None,
                None,
            ],
            handlers: $crate::exec::$made::<$crate::exec::Two<F>>(),
        });
    }};
    ($rows:expr, $($rest:tt)*) => {
        $crate::isa::rows::two!(@handlers, $rows, $($rest)*)
    };
}

/// `three!(rows, "mad.lo.u32", (u32, u32, u32) -> u32, int::mad_lo)`
macro_rules! three {
    (@$made:ident, $rows:expr, $name:expr, ($a:ty, $b:ty, $c:ty) -> $d:ty, $function:expr) => {{
        struct F;
        impl $crate::exec::Function3 for F {
            type A = $a;
            type B = $b;
            type C = $c;
            type D = $d;
            #[inline(always)]
            fn apply(a: $a, b: $b, c: $c) -> $d {
                ($function)(a, b, c)
            }
        }
        $rows.push($crate::isa::Row {
            name: $name,
            shape: $crate::isa::Shape::Plain,
            result: <$d as $crate::isa::rows::Typed>::VALUE,
            sources: [
                Some(<$a as $crate::isa::rows::Typed>::VALUE),
                Some(<$b as $crate::isa::rows::Typed>::VALUE),
                Some(<$c as $crate::isa::rows::Typed>::VALUE),
                None,
            ],
            handlers: $crate::exec::$made::<$crate::exec::Three<F>>(),
        });
    }};
    ($rows:expr, $($rest:tt)*) => {
        $crate::isa::rows::three!(@handlers, $rows, $($rest)*)
    };
}

/// `four!(rows, "bfi.b32", (u32, u32, u32, u32) -> u32, bits::bfi_b32)`
macro_rules! four {
    ($rows:expr, $name:expr, ($a:ty, $b:ty, $c:ty, $e:ty) -> $d:ty, $function:expr) => {{
        struct F;
        impl $crate::exec::Function4 for F {
            type A = $a;
            type B = $b;
            type C = $c;
            type E = $e;
            type D = $d;
            #[inline(always)]
            fn apply(a: $a, b: $b, c: $c, e: $e) -> $d {
                ($function)(a, b, c, e)
            }
        }
        $rows.push($crate::isa::Row {
            name: $name,
            shape: $crate::isa::Shape::Plain,
            result: <$d as $crate::isa::rows::Typed>::VALUE,
            sources: [
                Some(<$a as $crate::isa::rows::Typed>::VALUE),
                Some(<$b as $crate::isa::rows::Typed>::VALUE),
                Some(<$c as $crate::isa::rows::Typed>::VALUE),
                Some(<$e as $crate::isa::rows::Typed>::VALUE),
            ],
            handlers: $crate::exec::handlers::<$crate::exec::Four<F>>(),
        });
    }};
}

/// `carry!(rows, "addc.cc.u32", reads, writes, (u32, u32, u32) -> u32, |a, b, _, carry| …)`; `sources` counts a, b, c.
macro_rules! carry {
    ($rows:expr, $name:expr, $sources:expr, $reads:expr, $writes:expr,
     ($a:ty, $b:ty, $c:ty) -> $d:ty, $function:expr) => {{
        struct F;
        impl $crate::exec::Carry3 for F {
            type A = $a;
            type B = $b;
            type C = $c;
            type D = $d;
            #[inline(always)]
            fn apply(a: $a, b: $b, c: $c, carry: bool) -> ($d, bool) {
                ($function)(a, b, c, carry)
            }
        }
        $rows.push($crate::isa::Row {
            name: $name,
            shape: $crate::isa::Shape::Carry { reads: $reads, writes: $writes },
            result: <$d as $crate::isa::rows::Typed>::VALUE,
            sources: [
                Some(<$a as $crate::isa::rows::Typed>::VALUE),
                Some(<$b as $crate::isa::rows::Typed>::VALUE),
                if $sources == 3 { Some(<$c as $crate::isa::rows::Typed>::VALUE) } else { None },
                None,
            ],
            handlers: $crate::exec::handlers::<$crate::exec::WithCarry<F>>(),
        });
    }};
}

pub(crate) use {carry, four, one, three, two};
