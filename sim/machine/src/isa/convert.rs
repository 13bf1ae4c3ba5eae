//! `cvt` between all integer and float types, and `cvt.pack`.
//! Types, rounding and flags are expanded here by name. Conversions that programs hardly use have handlers of the baseline
//! level only: they would be a third of the machine otherwise.

use super::Row;
use super::rows::{one, three, two};
use crate::scalar::convert::{
    f32_to_f32, f32_to_f64, f32_to_half, f32_to_half_finite, f32_to_half2, f32_to_int, f32_to_integral, f32_to_tf32,
    f32_to_tf32_rna, f64_to_f32, f64_to_half, f64_to_int, f64_to_integral, half_to_f32, half_to_f64, half_to_half,
    half_to_int, half_to_integral, int_to_f32, int_to_f64, int_to_half, int_to_int, int_to_int_sat, pack_16, pack_onto,
};
use crate::scalar::fp8::{E4m3, E5m2, f32_to_pair, half2_to_pair, pair_to_half2};
use crate::scalar::{Bf16, F16, Rm, Rn, Rp, Rz};

/// Calls `$with!(rows, type, name, …)` for every integer type.
macro_rules! integers {
    ($rows:expr, $with:ident $(, $rest:tt)*) => {
        $with!($rows, u8, "u8" $(, $rest)*);
        $with!($rows, i8, "s8" $(, $rest)*);
        $with!($rows, u16, "u16" $(, $rest)*);
        $with!($rows, i16, "s16" $(, $rest)*);
        $with!($rows, u32, "u32" $(, $rest)*);
        $with!($rows, i32, "s32" $(, $rest)*);
        $with!($rows, u64, "u64" $(, $rest)*);
        $with!($rows, i64, "s64" $(, $rest)*);
    };
}

macro_rules! from_integer {
    ($rows:expr, $source:ty, $name:literal) => {
        integers!($rows, integer_pair, $source, $name);
        one!($rows, concat!("cvt.rn.f32.", $name), ($source) -> f32, int_to_f32::<$source, Rn>);
        one!(@baseline_handlers, $rows, concat!("cvt.rz.f32.", $name), ($source) -> f32, int_to_f32::<$source, Rz>);
        one!(@baseline_handlers, $rows, concat!("cvt.rm.f32.", $name), ($source) -> f32, int_to_f32::<$source, Rm>);
        one!(@baseline_handlers, $rows, concat!("cvt.rp.f32.", $name), ($source) -> f32, int_to_f32::<$source, Rp>);
        one!($rows, concat!("cvt.rn.f64.", $name), ($source) -> f64, int_to_f64::<$source, Rn>);
        one!(@baseline_handlers, $rows, concat!("cvt.rz.f64.", $name), ($source) -> f64, int_to_f64::<$source, Rz>);
        one!(@baseline_handlers, $rows, concat!("cvt.rm.f64.", $name), ($source) -> f64, int_to_f64::<$source, Rm>);
        one!(@baseline_handlers, $rows, concat!("cvt.rp.f64.", $name), ($source) -> f64, int_to_f64::<$source, Rp>);
        one!(@baseline_handlers, $rows, concat!("cvt.rn.f16.", $name), ($source) -> u16, int_to_half::<F16, $source, Rn>);
        one!(@baseline_handlers, $rows, concat!("cvt.rz.f16.", $name), ($source) -> u16, int_to_half::<F16, $source, Rz>);
        one!(@baseline_handlers, $rows, concat!("cvt.rm.f16.", $name), ($source) -> u16, int_to_half::<F16, $source, Rm>);
        one!(@baseline_handlers, $rows, concat!("cvt.rp.f16.", $name), ($source) -> u16, int_to_half::<F16, $source, Rp>);
        one!(@baseline_handlers, $rows, concat!("cvt.rn.bf16.", $name), ($source) -> u16, int_to_half::<Bf16, $source, Rn>);
        one!(@baseline_handlers, $rows, concat!("cvt.rz.bf16.", $name), ($source) -> u16, int_to_half::<Bf16, $source, Rz>);
        one!(@baseline_handlers, $rows, concat!("cvt.rm.bf16.", $name), ($source) -> u16, int_to_half::<Bf16, $source, Rm>);
        one!(@baseline_handlers, $rows, concat!("cvt.rp.bf16.", $name), ($source) -> u16, int_to_half::<Bf16, $source, Rp>);
    };
}

macro_rules! integer_pair {
    ($rows:expr, $target:ty, $to:literal, $source:ty, $from:literal) => {
        one!($rows, concat!("cvt.", $to, ".", $from), ($source) -> $target, int_to_int::<$source, $target>);
        one!(@baseline_handlers, $rows, concat!("cvt.sat.", $to, ".", $from), ($source) -> $target, int_to_int_sat::<$source, $target>);
    };
}

/// A float to integer conversion clamps with and without `.sat`.
macro_rules! both {
    ($made:ident, $rows:expr, $round:literal, $flags:literal, $to:literal, $from:literal, ($source:ty) -> $target:ty, $function:expr) => {
        one!(@$made, $rows, concat!("cvt.", $round, $flags, ".", $to, ".", $from), ($source) -> $target, $function);
        alias($rows, concat!("cvt.", $round, $flags, ".sat.", $to, ".", $from));
    };
}

/// As `both!`, with baseline handlers.
macro_rules! seldom {
    ($rows:expr, $round:literal, $flags:literal, $to:literal, $from:literal, ($source:ty) -> $target:ty, $function:expr) => {
        one!(@baseline_handlers, $rows, concat!("cvt.", $round, $flags, ".", $to, ".", $from), ($source) -> $target, $function);
        alias($rows, concat!("cvt.", $round, $flags, ".sat.", $to, ".", $from));
    };
}

/// The last row once more, under another name.
fn alias(rows: &mut Vec<Row>, name: &'static str) {
    if let Some(last) = rows.last().copied() {
        rows.push(Row { name, ..last });
    }
}

macro_rules! to_integer {
    ($rows:expr, $target:ty, $name:literal) => {
        to_integer!(handlers, $rows, $target, $name, Rn, "rni");
        to_integer!(handlers, $rows, $target, $name, Rz, "rzi");
        to_integer!(baseline_handlers, $rows, $target, $name, Rm, "rmi");
        to_integer!(baseline_handlers, $rows, $target, $name, Rp, "rpi");
    };
    ($made:ident, $rows:expr, $target:ty, $name:literal, $mode:ty, $round:literal) => {
        both!($made, $rows, $round, "", $name, "f32", (f32) -> $target, f32_to_int::<$target, $mode, false>);
        both!($made, $rows, $round, ".ftz", $name, "f32", (f32) -> $target, f32_to_int::<$target, $mode, true>);
        both!($made, $rows, $round, "", $name, "f64", (f64) -> $target, f64_to_int::<$target, $mode>);
        seldom!($rows, $round, "", $name, "f16", (u16) -> $target, half_to_int::<F16, $target, $mode>);
        seldom!($rows, $round, "", $name, "bf16", (u16) -> $target, half_to_int::<Bf16, $target, $mode>);
    };
}

macro_rules! integral {
    ($made:ident, $rows:expr, $mode:ty, $round:literal) => {
        one!(@$made, $rows, concat!("cvt.", $round, ".f32.f32"), (f32) -> f32, f32_to_integral::<$mode, false, false>);
        one!(@$made, $rows, concat!("cvt.", $round, ".ftz.f32.f32"), (f32) -> f32, f32_to_integral::<$mode, true, false>);
        one!(@$made, $rows, concat!("cvt.", $round, ".sat.f32.f32"), (f32) -> f32, f32_to_integral::<$mode, false, true>);
        one!(@$made, $rows, concat!("cvt.", $round, ".ftz.sat.f32.f32"), (f32) -> f32, f32_to_integral::<$mode, true, true>);
        one!(@$made, $rows, concat!("cvt.", $round, ".f64.f64"), (f64) -> f64, f64_to_integral::<$mode, false>);
        one!(@$made, $rows, concat!("cvt.", $round, ".sat.f64.f64"), (f64) -> f64, f64_to_integral::<$mode, true>);
        one!(@$made, $rows, concat!("cvt.", $round, ".f16.f16"), (u16) -> u16, half_to_integral::<F16, $mode, false>);
        one!(@$made, $rows, concat!("cvt.", $round, ".sat.f16.f16"), (u16) -> u16, half_to_integral::<F16, $mode, true>);
        one!(@$made, $rows, concat!("cvt.", $round, ".bf16.bf16"), (u16) -> u16, half_to_integral::<Bf16, $mode, false>);
    };
}

macro_rules! narrowing {
    ($made:ident, $rows:expr, $mode:ty, $round:literal) => {
        one!(@$made, $rows, concat!("cvt.", $round, ".f32.f64"), (f64) -> f32, f64_to_f32::<$mode, false, false>);
        one!(@$made, $rows, concat!("cvt.", $round, ".ftz.f32.f64"), (f64) -> f32, f64_to_f32::<$mode, true, false>);
        one!(@$made, $rows, concat!("cvt.", $round, ".sat.f32.f64"), (f64) -> f32, f64_to_f32::<$mode, false, true>);
        one!(@$made, $rows, concat!("cvt.", $round, ".ftz.sat.f32.f64"), (f64) -> f32, f64_to_f32::<$mode, true, true>);
        to_half!($made, $rows, F16, "f16", $mode, $round);
        to_half!($made, $rows, Bf16, "bf16", $mode, $round);
        one!(@$made, $rows, concat!("cvt.", $round, ".bf16.f16"), (u16) -> u16, half_to_half::<F16, Bf16, $mode, false>);
        one!(@$made, $rows, concat!("cvt.", $round, ".f16.bf16"), (u16) -> u16, half_to_half::<Bf16, F16, $mode, false>);
    };
}

macro_rules! to_half {
    ($made:ident, $rows:expr, $format:ty, $name:literal, $mode:ty, $round:literal) => {
        one!(@$made, $rows, concat!("cvt.", $round, ".", $name, ".f32"), (f32) -> u16,
            f32_to_half::<$format, $mode, false, false, false>);
        one!(@$made, $rows, concat!("cvt.", $round, ".ftz.", $name, ".f32"), (f32) -> u16,
            f32_to_half::<$format, $mode, true, false, false>);
        one!(@$made, $rows, concat!("cvt.", $round, ".sat.", $name, ".f32"), (f32) -> u16,
            f32_to_half::<$format, $mode, false, true, false>);
        one!(@$made, $rows, concat!("cvt.", $round, ".relu.", $name, ".f32"), (f32) -> u16,
            f32_to_half::<$format, $mode, false, false, true>);
        one!(@$made, $rows, concat!("cvt.", $round, ".satfinite.", $name, ".f32"), (f32) -> u16,
            f32_to_half_finite::<$format, $mode, false>);
        one!(@$made, $rows, concat!("cvt.", $round, ".relu.satfinite.", $name, ".f32"), (f32) -> u16,
            f32_to_half_finite::<$format, $mode, true>);
        one!(@$made, $rows, concat!("cvt.", $round, ".", $name, ".f64"), (f64) -> u16, f64_to_half::<$format, $mode, false>);
        two!(@$made, $rows, concat!("cvt.", $round, ".", $name, "x2.f32"), (f32, f32) -> u32,
            f32_to_half2::<$format, $mode, false>);
        two!(@$made, $rows, concat!("cvt.", $round, ".relu.", $name, "x2.f32"), (f32, f32) -> u32,
            f32_to_half2::<$format, $mode, true>);
    };
}

macro_rules! pairs_of_8_bits {
    ($rows:expr, $format:ty, $name:literal) => {
        two!(@baseline_handlers, $rows, concat!("cvt.rn.satfinite.", $name, ".f32"), (f32, f32) -> u16,
            f32_to_pair::<$format, false>);
        two!(@baseline_handlers, $rows, concat!("cvt.rn.satfinite.relu.", $name, ".f32"), (f32, f32) -> u16,
            f32_to_pair::<$format, true>);
        one!(@baseline_handlers, $rows, concat!("cvt.rn.satfinite.", $name, ".f16x2"), (u32) -> u16,
            half2_to_pair::<$format, false>);
        one!(@baseline_handlers, $rows, concat!("cvt.rn.satfinite.relu.", $name, ".f16x2"), (u32) -> u16,
            half2_to_pair::<$format, true>);
        one!(@baseline_handlers, $rows, concat!("cvt.rn.f16x2.", $name), (u16) -> u32, pair_to_half2::<$format, false>);
        one!(@baseline_handlers, $rows, concat!("cvt.rn.relu.f16x2.", $name), (u16) -> u32, pair_to_half2::<$format, true>);
    };
}

macro_rules! packs {
    ($($rows:expr, $target:ty, $to:literal, $source:ty, $from:literal;)*) => {$(
        two!($rows, concat!("cvt.pack.sat.", $to, ".", $from), ($source, $source) -> u32, pack_16::<$source, $target>);
    )*};
}

pub(super) fn rows(rows: &mut Vec<Row>) {
    integers!(rows, from_integer);
    integers!(rows, to_integer);
    integral!(handlers, rows, Rn, "rni");
    integral!(handlers, rows, Rz, "rzi");
    integral!(baseline_handlers, rows, Rm, "rmi");
    integral!(baseline_handlers, rows, Rp, "rpi");
    narrowing!(handlers, rows, Rn, "rn");
    narrowing!(baseline_handlers, rows, Rz, "rz");
    narrowing!(baseline_handlers, rows, Rm, "rm");
    narrowing!(baseline_handlers, rows, Rp, "rp");
    exact(rows);
    one!(rows, "cvt.rna.tf32.f32", (f32) -> u32, f32_to_tf32_rna);
    one!(rows, "cvt.rn.tf32.f32", (f32) -> u32, f32_to_tf32::<Rn, false>);
    one!(rows, "cvt.rz.tf32.f32", (f32) -> u32, f32_to_tf32::<Rz, false>);
    one!(rows, "cvt.rn.relu.tf32.f32", (f32) -> u32, f32_to_tf32::<Rn, true>);
    one!(rows, "cvt.rz.relu.tf32.f32", (f32) -> u32, f32_to_tf32::<Rz, true>);
    pairs_of_8_bits!(rows, E4m3, "e4m3x2");
    pairs_of_8_bits!(rows, E5m2, "e5m2x2");
    packs! { rows, i16, "s16", i32, "s32"; rows, u16, "u16", i32, "s32"; }
    three!(rows, "cvt.pack.sat.s8.s32.b32", (i32, i32, u32) -> u32, pack_onto::<i32, i8>);
    three!(rows, "cvt.pack.sat.u8.s32.b32", (i32, i32, u32) -> u32, pack_onto::<i32, u8>);
}

/// Conversions that round nothing.
fn exact(rows: &mut Vec<Row>) {
    one!(rows, "cvt.f32.f32", (f32) -> f32, f32_to_f32::<false, false>);
    one!(rows, "cvt.ftz.f32.f32", (f32) -> f32, f32_to_f32::<true, false>);
    one!(rows, "cvt.sat.f32.f32", (f32) -> f32, f32_to_f32::<false, true>);
    one!(rows, "cvt.ftz.sat.f32.f32", (f32) -> f32, f32_to_f32::<true, true>);
    one!(rows, "cvt.f64.f32", (f32) -> f64, f32_to_f64::<false, false>);
    one!(rows, "cvt.ftz.f64.f32", (f32) -> f64, f32_to_f64::<true, false>);
    one!(rows, "cvt.sat.f64.f32", (f32) -> f64, f32_to_f64::<false, true>);
    one!(rows, "cvt.sat.f64.f64", (f64) -> f64, crate::scalar::double::saturate);
    one!(rows, "cvt.f32.f16", (u16) -> f32, half_to_f32::<F16, false, false>);
    one!(rows, "cvt.ftz.f32.f16", (u16) -> f32, half_to_f32::<F16, true, false>);
    one!(rows, "cvt.sat.f32.f16", (u16) -> f32, half_to_f32::<F16, false, true>);
    one!(rows, "cvt.ftz.sat.f32.f16", (u16) -> f32, half_to_f32::<F16, true, true>);
    one!(rows, "cvt.f32.bf16", (u16) -> f32, half_to_f32::<Bf16, false, false>);
    one!(rows, "cvt.ftz.f32.bf16", (u16) -> f32, half_to_f32::<Bf16, true, false>);
    one!(rows, "cvt.f64.f16", (u16) -> f64, half_to_f64::<F16, false>);
    one!(rows, "cvt.f64.bf16", (u16) -> f64, half_to_f64::<Bf16, false>);
    one!(rows, "cvt.f16.f16", (u16) -> u16, |a| a);
    one!(rows, "cvt.sat.f16.f16", (u16) -> u16, half_to_half::<F16, F16, Rn, true>);
    one!(rows, "cvt.f64.f64", (f64) -> f64, |a| a);
}
