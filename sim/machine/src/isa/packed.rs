//! Pairs in one register: 16-bit integers, and two f32 in 64 bits.
//! Each element is treated as the instruction of one element treats it.

use super::Row;
use super::rows::{three, two};
use crate::scalar::{Rn, float, packed};

fn each2(a: u64, b: u64, function: impl Fn(f32, f32) -> f32) -> u64 {
    let of = |bits: u64| f32::from_bits(bits as u32);
    let low = function(of(a), of(b)).to_bits();
    let high = function(of(a >> 32), of(b >> 32)).to_bits();
    u64::from(low) | (u64::from(high) << 32)
}

fn each3(a: u64, b: u64, c: u64, function: impl Fn(f32, f32, f32) -> f32) -> u64 {
    let of = |bits: u64| f32::from_bits(bits as u32);
    let low = function(of(a), of(b), of(c)).to_bits();
    let high = function(of(a >> 32), of(b >> 32), of(c >> 32)).to_bits();
    u64::from(low) | (u64::from(high) << 32)
}

macro_rules! float_pairs {
    ($rows:expr, $infix:literal, $flags:literal, $ftz:literal) => {
        two!($rows, concat!("add", $infix, $flags, ".f32x2"), (u64, u64) -> u64,
            |a, b| each2(a, b, float::add_f32::<Rn, $ftz, false>));
        two!($rows, concat!("sub", $infix, $flags, ".f32x2"), (u64, u64) -> u64,
            |a, b| each2(a, b, float::sub_f32::<Rn, $ftz, false>));
        two!($rows, concat!("mul", $infix, $flags, ".f32x2"), (u64, u64) -> u64,
            |a, b| each2(a, b, float::mul_f32::<Rn, $ftz, false>));
    };
}

/// The four absolute differences of bytes, each in its byte.
#[inline(always)]
fn byte_differences(a: u32, b: u32) -> [u32; 4] {
    std::array::from_fn(|byte| {
        let of = |word: u32| word >> (8 * byte) & 0xff;
        of(a).abs_diff(of(b))
    })
}

pub(super) fn rows(rows: &mut Vec<Row>) {
    two!(rows, "add.u16x2", (u32, u32) -> u32, packed::add_16x2);
    two!(rows, "add.s16x2", (u32, u32) -> u32, packed::add_16x2);
    two!(rows, "min.u16x2", (u32, u32) -> u32, packed::min_u16x2);
    two!(rows, "max.u16x2", (u32, u32) -> u32, packed::max_u16x2);
    two!(rows, "min.s16x2", (u32, u32) -> u32, packed::min_s16x2::<false>);
    two!(rows, "max.s16x2", (u32, u32) -> u32, packed::max_s16x2::<false>);
    two!(rows, "min.relu.s16x2", (u32, u32) -> u32, packed::min_s16x2::<true>);
    two!(rows, "max.relu.s16x2", (u32, u32) -> u32, packed::max_s16x2::<true>);
    // The third source keeps bytes that a mask leaves out; without a mask there are none.
    three!(@baseline_handlers, rows, "vabsdiff4.u32.u32.u32", (u32, u32, u32) -> u32,
        |a, b, _| byte_differences(a, b).iter().rev().fold(0, |word, byte| word << 8 | byte));
    three!(@baseline_handlers, rows, "vabsdiff4.u32.u32.u32.add", (u32, u32, u32) -> u32,
        |a, b, c: u32| byte_differences(a, b).iter().fold(c, |sum, byte| sum.wrapping_add(*byte)));
    float_pairs!(rows, "", "", false);
    float_pairs!(rows, "", ".ftz", true);
    float_pairs!(rows, ".rn", "", false);
    float_pairs!(rows, ".rn", ".ftz", true);
    three!(rows, "fma.rn.f32x2", (u64, u64, u64) -> u64, |a, b, c| each3(a, b, c, float::fma_f32::<Rn, false, false>));
    three!(rows, "fma.rn.ftz.f32x2", (u64, u64, u64) -> u64, |a, b, c| each3(a, b, c, float::fma_f32::<Rn, true, false>));
}
