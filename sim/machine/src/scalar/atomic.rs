//! The read-modify-write functions of `atom` and `red`: the old value and the operands in, the new value out.
//! How the exchange is made indivisible, and on which memory, is the caller's matter.
//! Nothing here rounds differently from the plain instructions: sums are `.rn`, with `.ftz` where memory asks for it.

use super::half::{self, HalfFormat};
use super::{Int, Rn, double, float, int, order};

/// `add` of an integer, wrapping.
#[inline(always)]
pub fn add<T: Int>(old: T, operand: T) -> T {
    int::add(old, operand)
}

/// `min` of an integer.
#[inline(always)]
pub fn min<T: Int>(old: T, operand: T) -> T {
    int::min(old, operand)
}

/// `max` of an integer.
#[inline(always)]
pub fn max<T: Int>(old: T, operand: T) -> T {
    int::max(old, operand)
}

/// `and`.
#[inline(always)]
pub fn and<T: Int>(old: T, operand: T) -> T {
    old & operand
}

/// `or`.
#[inline(always)]
pub fn or<T: Int>(old: T, operand: T) -> T {
    old | operand
}

/// `xor`.
#[inline(always)]
pub fn xor<T: Int>(old: T, operand: T) -> T {
    old ^ operand
}

/// `exch`: the operand, whatever was there.
#[inline(always)]
pub fn exch<T: Copy>(_old: T, operand: T) -> T {
    operand
}

/// `cas`: the operand if the old value equals `compare` bit for bit, else the old value.
#[inline(always)]
pub fn cas<T: Copy + Eq>(old: T, compare: T, operand: T) -> T {
    if old == compare { operand } else { old }
}

/// `inc.u32`: counts up, and back to zero from `limit` on.
#[inline(always)]
pub fn inc(old: u32, limit: u32) -> u32 {
    if old >= limit { 0 } else { old + 1 }
}

/// `dec.u32`: counts down, and back to `limit` from zero or from above it.
#[inline(always)]
pub fn dec(old: u32, limit: u32) -> u32 {
    if old == 0 || old > limit { limit } else { old - 1 }
}

/// `add.f32`: with `FTZ` as global memory does it, without as shared memory does.
#[inline(always)]
pub fn add_f32<const FTZ: bool>(old: f32, operand: f32) -> f32 {
    float::add_f32::<Rn, FTZ, false>(old, operand)
}

/// `add.f64`.
#[inline(always)]
pub fn add_f64(old: f64, operand: f64) -> f64 {
    double::add_f64::<Rn>(old, operand)
}

/// `min.f32`: a NaN loses against a number.
#[inline(always)]
pub fn min_f32(old: f32, operand: f32) -> f32 {
    order::min_f32::<false, false, false>(old, operand)
}

/// `max.f32`: a NaN loses against a number.
#[inline(always)]
pub fn max_f32(old: f32, operand: f32) -> f32 {
    order::max_f32::<false, false, false>(old, operand)
}

/// `add.noftz` of f16 or bf16.
#[inline(always)]
pub fn add_half<H: HalfFormat>(old: u16, operand: u16) -> u16 {
    half::add::<H, false, false>(old, operand)
}

/// `add.noftz` of a pair of f16 or bf16; the ISA makes each half indivisible on its own.
#[inline(always)]
pub fn add_half2<H: HalfFormat>(old: u32, operand: u32) -> u32 {
    half::each2(old, operand, half::add::<H, false, false>)
}

/// `min.noftz` of f16 or bf16.
#[inline(always)]
pub fn min_half<H: HalfFormat>(old: u16, operand: u16) -> u16 {
    half::min::<H, false, false, false>(old, operand)
}

/// `max.noftz` of f16 or bf16.
#[inline(always)]
pub fn max_half<H: HalfFormat>(old: u16, operand: u16) -> u16 {
    half::max::<H, false, false, false>(old, operand)
}

/// `min.noftz` of a pair of f16 or bf16.
#[inline(always)]
pub fn min_half2<H: HalfFormat>(old: u32, operand: u32) -> u32 {
    half::each2(old, operand, half::min::<H, false, false, false>)
}

/// `max.noftz` of a pair of f16 or bf16.
#[inline(always)]
pub fn max_half2<H: HalfFormat>(old: u32, operand: u32) -> u32 {
    half::each2(old, operand, half::max::<H, false, false, false>)
}

#[cfg(test)]
mod tests {
    use super::super::{Bf16, F16};
    use super::*;

    #[test]
    fn counters_wrap_at_their_limit() {
        assert_eq!([inc(0, 3), inc(3, 3), inc(9, 3), inc(u32::MAX, u32::MAX)], [1, 0, 0, 0]);
        assert_eq!([dec(3, 3), dec(0, 3), dec(4, 3), dec(1, 0)], [2, 3, 3, 0]);
    }

    #[test]
    fn exchanges_look_at_the_old_value_only_when_comparing() {
        assert_eq!(exch(1u64, 2), 2);
        assert_eq!(cas(1u16, 1, 9), 9);
        assert_eq!(cas(1u16, 2, 9), 1);
    }

    #[test]
    fn integers_follow_their_type() {
        assert_eq!(add(u64::MAX, 2), 1);
        assert_eq!((min(-1i32, 1), min(u32::MAX, 1)), (-1, 1));
        assert_eq!((max(-1i64, 1), max(u64::MAX, 1)), (1, u64::MAX));
        assert_eq!((and(6u32, 3), or(6u32, 3), xor(6u32, 3)), (2, 7, 5));
    }

    #[test]
    fn float_sums_flush_only_where_asked() {
        let tiny = f32::from_bits(1);
        assert_eq!(add_f32::<true>(tiny, tiny), 0.0);
        assert_eq!(add_f32::<false>(tiny, tiny), f32::from_bits(2));
        assert_eq!(add_f64(0.5, 0.25), 0.75);
        assert_eq!((min_f32(f32::NAN, 2.0), max_f32(-0.0, 0.0).to_bits()), (2.0, 0));
        assert_eq!(add_half::<F16>(0x3c00, 0x0001), 0x3c00);
        assert_eq!(add_half2::<F16>(0x0001_3c00, 0x0001_3c00), 0x0002_4000);
        assert_eq!(add_half2::<Bf16>(0x3f80_3f80, 0x3f80_0000), 0x4000_3f80);
        assert_eq!((min_half::<F16>(0x3c00, 0xbc00), max_half::<Bf16>(0x7fc0, 0xbf80)), (0xbc00, 0xbf80));
        assert_eq!(min_half2::<F16>(0x3c00_bc00, 0xbc00_3c00), 0xbc00_bc00);
        assert_eq!(max_half2::<F16>(0x3c00_bc00, 0xbc00_3c00), 0x3c00_3c00);
    }
}
