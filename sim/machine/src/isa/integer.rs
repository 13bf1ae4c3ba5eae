//! Integer arithmetic: `add sub mul mad div rem abs neg min max sad mul24 mad24`.
//! Each row binds an opcode to the function of one lane in `scalar::int`; the table says types and modifiers, nothing else.

use super::Row;
use super::rows::{one, three, two};
use crate::scalar::int;

macro_rules! of_type {
    ($rows:expr, $type:ty, $name:literal) => {
        two!($rows, concat!("add.", $name), ($type, $type) -> $type, int::add::<$type>);
        two!($rows, concat!("sub.", $name), ($type, $type) -> $type, int::sub::<$type>);
        two!($rows, concat!("mul.lo.", $name), ($type, $type) -> $type, int::mul_lo::<$type>);
        two!($rows, concat!("mul.hi.", $name), ($type, $type) -> $type, int::mul_hi::<$type>);
        three!($rows, concat!("mad.lo.", $name), ($type, $type, $type) -> $type, int::mad_lo::<$type>);
        three!($rows, concat!("mad.hi.", $name), ($type, $type, $type) -> $type, int::mad_hi::<$type>);
        two!($rows, concat!("div.", $name), ($type, $type) -> $type, int::div::<$type>);
        two!($rows, concat!("rem.", $name), ($type, $type) -> $type, int::rem::<$type>);
        two!($rows, concat!("min.", $name), ($type, $type) -> $type, int::min::<$type>);
        two!($rows, concat!("max.", $name), ($type, $type) -> $type, int::max::<$type>);
        three!($rows, concat!("sad.", $name), ($type, $type, $type) -> $type, int::sad::<$type>);
    };
}

macro_rules! of_signed {
    ($rows:expr, $type:ty, $name:literal) => {
        one!($rows, concat!("abs.", $name), ($type) -> $type, int::abs::<$type>);
        one!($rows, concat!("neg.", $name), ($type) -> $type, int::neg::<$type>);
    };
}

macro_rules! widening {
    ($rows:expr, $type:ty, $wide:ty, $name:literal) => {
        two!($rows, concat!("mul.wide.", $name), ($type, $type) -> $wide, int::mul_wide::<$type>);
        three!($rows, concat!("mad.wide.", $name), ($type, $type, $wide) -> $wide, int::mad_wide::<$type>);
    };
}

pub(super) fn rows(rows: &mut Vec<Row>) {
    of_type!(rows, u16, "u16");
    of_type!(rows, i16, "s16");
    of_type!(rows, u32, "u32");
    of_type!(rows, i32, "s32");
    of_type!(rows, u64, "u64");
    of_type!(rows, i64, "s64");
    of_signed!(rows, i16, "s16");
    of_signed!(rows, i32, "s32");
    of_signed!(rows, i64, "s64");
    widening!(rows, u16, u32, "u16");
    widening!(rows, i16, i32, "s16");
    widening!(rows, u32, u64, "u32");
    widening!(rows, i32, i64, "s32");
    two!(rows, "add.sat.s32", (i32, i32) -> i32, int::add_sat::<i32>);
    two!(rows, "sub.sat.s32", (i32, i32) -> i32, int::sub_sat::<i32>);
    three!(rows, "mad.hi.sat.s32", (i32, i32, i32) -> i32, int::mad_hi_sat::<i32>);
    two!(rows, "min.relu.s32", (i32, i32) -> i32, |a, b| int::relu(int::min::<i32>(a, b)));
    two!(rows, "max.relu.s32", (i32, i32) -> i32, |a, b| int::relu(int::max::<i32>(a, b)));
    twenty_four_bits(rows);
}

fn twenty_four_bits(rows: &mut Vec<Row>) {
    two!(rows, "mul24.lo.u32", (u32, u32) -> u32, int::mul24_lo_u32);
    two!(rows, "mul24.hi.u32", (u32, u32) -> u32, int::mul24_hi_u32);
    two!(rows, "mul24.lo.s32", (i32, i32) -> i32, int::mul24_lo_s32);
    two!(rows, "mul24.hi.s32", (i32, i32) -> i32, int::mul24_hi_s32);
    three!(rows, "mad24.lo.u32", (u32, u32, u32) -> u32, |a, b, c: u32| int::mul24_lo_u32(a, b).wrapping_add(c));
    three!(rows, "mad24.hi.u32", (u32, u32, u32) -> u32, |a, b, c: u32| int::mul24_hi_u32(a, b).wrapping_add(c));
    three!(rows, "mad24.lo.s32", (i32, i32, i32) -> i32, |a, b, c: i32| int::mul24_lo_s32(a, b).wrapping_add(c));
    three!(rows, "mad24.hi.s32", (i32, i32, i32) -> i32, |a, b, c: i32| int::mul24_hi_s32(a, b).wrapping_add(c));
    three!(rows, "mad24.hi.sat.s32", (i32, i32, i32) -> i32, int::mad24_hi_sat_s32);
}
