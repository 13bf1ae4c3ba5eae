//! f16 and bf16, single and in pairs: `add sub mul fma neg abs min max setp set ex2 tanh`.
//! The formats and flags are expanded here by name; a pair applies the function to both halves.

use super::Row;
use super::compare::push_setp;
use super::rows::{Value, one, three, two};
use crate::exec::{Comparison2, SetPredicate};
use crate::scalar::compare::{Comparison, operators};
use crate::scalar::half::{abs, add, compare, each, each2, each3, fma, max, min, mul, neg, sub};
use crate::scalar::{Bf16, F16, transcend};

macro_rules! sums {
    ($made:ident, $rows:expr, $format:ty, $type:literal, $infix:literal, $flags:literal, $ftz:literal, $sat:literal) => {
        two!(@$made, $rows, concat!("add", $infix, $flags, ".", $type), (u16, u16) -> u16, add::<$format, $ftz, $sat>);
        two!(@$made, $rows, concat!("sub", $infix, $flags, ".", $type), (u16, u16) -> u16, sub::<$format, $ftz, $sat>);
        two!(@$made, $rows, concat!("mul", $infix, $flags, ".", $type), (u16, u16) -> u16, mul::<$format, $ftz, $sat>);
        two!(@$made, $rows, concat!("add", $infix, $flags, ".", $type, "x2"), (u32, u32) -> u32,
            |a, b| each2(a, b, add::<$format, $ftz, $sat>));
        two!(@$made, $rows, concat!("sub", $infix, $flags, ".", $type, "x2"), (u32, u32) -> u32,
            |a, b| each2(a, b, sub::<$format, $ftz, $sat>));
        two!(@$made, $rows, concat!("mul", $infix, $flags, ".", $type, "x2"), (u32, u32) -> u32,
            |a, b| each2(a, b, mul::<$format, $ftz, $sat>));
    };
}

macro_rules! fused {
    ($made:ident, $rows:expr, $format:ty, $type:literal, $flags:literal, $ftz:literal, $sat:literal, $relu:literal) => {
        three!(@$made, $rows, concat!("fma.rn", $flags, ".", $type), (u16, u16, u16) -> u16, fma::<$format, $ftz, $sat, $relu>);
        three!(@$made, $rows, concat!("fma.rn", $flags, ".", $type, "x2"), (u32, u32, u32) -> u32,
            |a, b, c| each3(a, b, c, fma::<$format, $ftz, $sat, $relu>));
    };
}

macro_rules! signs {
    ($made:ident, $rows:expr, $format:ty, $type:literal, $flags:literal, $ftz:literal) => {
        one!(@$made, $rows, concat!("neg", $flags, ".", $type), (u16) -> u16, neg::<$format, $ftz>);
        one!(@$made, $rows, concat!("abs", $flags, ".", $type), (u16) -> u16, abs::<$format, $ftz>);
        one!(@$made, $rows, concat!("neg", $flags, ".", $type, "x2"), (u32) -> u32, |a| each(a, neg::<$format, $ftz>));
        one!(@$made, $rows, concat!("abs", $flags, ".", $type, "x2"), (u32) -> u32, |a| each(a, abs::<$format, $ftz>));
    };
}

macro_rules! ordering {
    ($made:ident, $rows:expr, $format:ty, $type:literal, $flags:literal, $ftz:literal, $nan:literal, $xorsign:literal) => {
        two!(@$made, $rows, concat!("min", $flags, ".", $type), (u16, u16) -> u16, min::<$format, $ftz, $nan, $xorsign>);
        two!(@$made, $rows, concat!("max", $flags, ".", $type), (u16, u16) -> u16, max::<$format, $ftz, $nan, $xorsign>);
        two!(@$made, $rows, concat!("min", $flags, ".", $type, "x2"), (u32, u32) -> u32,
            |a, b| each2(a, b, min::<$format, $ftz, $nan, $xorsign>));
        two!(@$made, $rows, concat!("max", $flags, ".", $type, "x2"), (u32, u32) -> u32,
            |a, b| each2(a, b, max::<$format, $ftz, $nan, $xorsign>));
    };
}

macro_rules! comparisons {
    ($rows:expr, $format:ty, $type:literal, $one:literal, $flags:literal, $ftz:literal, [$($op:ident $name:literal),*]) => {$({
        struct Relation;
        impl Comparison2 for Relation {
            type A = u16;
            type B = u16;
            #[inline(always)]
            fn apply(a: u16, b: u16) -> bool {
                compare::<$format, $ftz>(<operators::$op as Comparison>::OP, a, b)
            }
        }
        let suffix = if $ftz { concat!("ftz.", $type) } else { $type };
        push_setp($rows, $name, suffix, Value::Bits16, crate::exec::baseline_handlers::<SetPredicate<Relation>>());
        two!(@baseline_handlers, $rows, concat!("set.", $name, $flags, ".", $type, ".", $type), (u16, u16) -> u16,
            |a, b| if Relation::apply(a, b) { $one } else { 0 });
        two!(@baseline_handlers, $rows, concat!("set.", $name, $flags, ".u16.", $type), (u16, u16) -> u16,
            |a, b| u16::from(Relation::apply(a, b)).wrapping_neg());
        two!(@baseline_handlers, $rows, concat!("set.", $name, $flags, ".u32.", $type), (u16, u16) -> u32,
            |a, b| u32::from(Relation::apply(a, b)).wrapping_neg());
        two!(@baseline_handlers, $rows, concat!("set.", $name, $flags, ".", $type, "x2.", $type, "x2"), (u32, u32) -> u32,
            |a, b| each2(a, b, #[inline(always)] |a, b| if Relation::apply(a, b) { $one } else { 0 }));
        two!(@baseline_handlers, $rows, concat!("set.", $name, $flags, ".u32.", $type, "x2"), (u32, u32) -> u32,
            |a, b| each2(a, b, #[inline(always)] |a, b| u16::from(Relation::apply(a, b)).wrapping_neg()));
    })*};
}

macro_rules! format {
    ($rows:expr, $format:ty, $type:literal, $one:literal) => {
        sums!(handlers, $rows, $format, $type, "", "", false, false);
        sums!(handlers, $rows, $format, $type, ".rn", "", false, false);
        fused!(handlers, $rows, $format, $type, "", false, false, false);
        fused!(baseline_handlers, $rows, $format, $type, ".relu", false, false, true);
        signs!(handlers, $rows, $format, $type, "", false);
        ordering!(handlers, $rows, $format, $type, "", false, false, false);
        ordering!(baseline_handlers, $rows, $format, $type, ".NaN", false, true, false);
        ordering!(baseline_handlers, $rows, $format, $type, ".xorsign.abs", false, false, true);
        ordering!(baseline_handlers, $rows, $format, $type, ".NaN.xorsign.abs", false, true, true);
        comparisons!($rows, $format, $type, $one, "", false, [
            Eq "eq", Ne "ne", Lt "lt", Le "le", Gt "gt", Ge "ge", Equ "equ", Neu "neu", Ltu "ltu", Leu "leu",
            Gtu "gtu", Geu "geu", Num "num", Nan "nan"
        ]);
        one!($rows, concat!("tanh.approx.", $type), (u16) -> u16, transcend::tanh_half::<$format>);
        one!($rows, concat!("tanh.approx.", $type, "x2"), (u32) -> u32, |a| each(a, transcend::tanh_half::<$format>));
    };
}

pub(super) fn rows(rows: &mut Vec<Row>) {
    format!(rows, F16, "f16", 0x3c00);
    format!(rows, Bf16, "bf16", 0x3f80);
    flushing(rows);
    one!(rows, "ex2.approx.f16", (u16) -> u16, transcend::ex2_half::<F16, false>);
    one!(rows, "ex2.approx.f16x2", (u32) -> u32, |a| each(a, transcend::ex2_half::<F16, false>));
    one!(rows, "ex2.approx.ftz.bf16", (u16) -> u16, transcend::ex2_half::<Bf16, true>);
    one!(rows, "ex2.approx.ftz.bf16x2", (u32) -> u32, |a| each(a, transcend::ex2_half::<Bf16, true>));
}

/// The forms with `.ftz` and `.sat`, which only f16 has.
fn flushing(rows: &mut Vec<Row>) {
    sums!(baseline_handlers, rows, F16, "f16", "", ".ftz", true, false);
    sums!(baseline_handlers, rows, F16, "f16", ".rn", ".ftz", true, false);
    sums!(baseline_handlers, rows, F16, "f16", "", ".sat", false, true);
    sums!(baseline_handlers, rows, F16, "f16", ".rn", ".sat", false, true);
    sums!(baseline_handlers, rows, F16, "f16", "", ".ftz.sat", true, true);
    sums!(baseline_handlers, rows, F16, "f16", ".rn", ".ftz.sat", true, true);
    fused!(baseline_handlers, rows, F16, "f16", ".ftz", true, false, false);
    fused!(baseline_handlers, rows, F16, "f16", ".sat", false, true, false);
    fused!(baseline_handlers, rows, F16, "f16", ".ftz.sat", true, true, false);
    fused!(baseline_handlers, rows, F16, "f16", ".ftz.relu", true, false, true);
    signs!(baseline_handlers, rows, F16, "f16", ".ftz", true);
    ordering!(baseline_handlers, rows, F16, "f16", ".ftz", true, false, false);
    ordering!(baseline_handlers, rows, F16, "f16", ".ftz.NaN", true, true, false);
    ordering!(baseline_handlers, rows, F16, "f16", ".ftz.xorsign.abs", true, false, true);
    ordering!(baseline_handlers, rows, F16, "f16", ".ftz.NaN.xorsign.abs", true, true, true);
    comparisons!(rows, F16, "f16", 0x3c00, ".ftz", true, [
        Eq "eq", Ne "ne", Lt "lt", Le "le", Gt "gt", Ge "ge", Equ "equ", Neu "neu", Ltu "ltu", Leu "leu", Gtu "gtu",
        Geu "geu", Num "num", Nan "nan"
    ]);
}
