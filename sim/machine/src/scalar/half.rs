//! Arithmetic of f16 and bf16, one at a time and in pairs: bits in, correctly rounded bits out.
//! The format is a type parameter ([`F16`], [`Bf16`]); conversion to and from f32 is here too, as everything rests on it.
//! Nothing here calls the host's half-precision instructions or a library: all of it is integer and f32/f64 code that
//! vectorises on every instruction set.

use super::compare::{CompareOp, compare_f32};
use super::float::{relu, saturate};
use super::round::{Mode, Odd, Rn, Round, narrow, rounds_away, two_sum};
use super::{NAN_F32, NAN_HALF};

/// A 16-bit floating-point format.
pub trait HalfFormat: Copy + Default + Send + Sync + 'static {
    /// Bits of plus infinity, which are also the exponent mask.
    const INFINITY: u16;
    /// Bits of 1.
    const ONE: u16;
    /// Number of fraction bits.
    const FRACTION: u32;

    /// The value as f32, exactly. NaN becomes the canonical f32 NaN.
    fn to_f32(bits: u16) -> f32;
    /// The value rounded from f32; NaN becomes the canonical NaN.
    fn from_f32<R: Round>(x: f32) -> u16;
    /// `a * b` of two values of the format, exact or rounded to odd.
    fn product(a: f32, b: f32) -> f32;
    /// `a * b + c` of three values of the format, exact or rounded to odd.
    fn product_sum(a: f32, b: f32, c: f32) -> f32;
}

/// IEEE half precision: 5 exponent bits, 10 fraction bits.
#[derive(Clone, Copy, Debug, Default)]
pub struct F16;

/// The upper half of an f32: 8 exponent bits, 7 fraction bits.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bf16;

impl HalfFormat for F16 {
    const INFINITY: u16 = 0x7c00;
    const ONE: u16 = 0x3c00;
    const FRACTION: u32 = 10;

    #[inline(always)]
    fn to_f32(bits: u16) -> f32 {
        let sign = u32::from(bits & 0x8000) << 16;
        let magnitude = u32::from(bits & 0x7fff) << 13;
        let normal = magnitude.wrapping_add(112 << 23);
        // A subnormal is what its fraction adds to the smallest normal number.
        let subnormal = (f32::from_bits(magnitude + (113 << 23)) - f32::from_bits(113 << 23)).to_bits();
        let finite = if magnitude < 1 << 23 { subnormal } else { normal };
        let infinite = 0x7f80_0000;
        let nan = NAN_F32.to_bits();
        let value = if magnitude >= 0x0f80_0000 { infinite } else { finite };
        f32::from_bits(if magnitude > 0x0f80_0000 { nan } else { value | sign })
    }

    #[inline(always)]
    fn from_f32<R: Round>(x: f32) -> u16 {
        let nearest = f16_nearest(x);
        if matches!(R::MODE, Mode::Nearest) {
            return nearest;
        }
        // As `round::narrow`: step back to the truncated magnitude, then out again if the mode asks for it.
        let negative = x.is_sign_negative();
        let back = Self::to_f32(nearest).abs();
        let too_large = back > x.abs();
        let inexact = back != x.abs();
        let truncated = (nearest & 0x7fff).wrapping_sub(u16::from(too_large));
        let rounded = match R::MODE {
            Mode::Odd => truncated | u16::from(inexact),
            mode => truncated.wrapping_add(u16::from(rounds_away(mode, negative, inexact))),
        };
        let signed = rounded | u16::from(negative) << 15;
        if x.is_nan() { NAN_HALF } else { signed }
    }

    #[inline(always)]
    fn product(a: f32, b: f32) -> f32 {
        // 11 x 11 bits, nothing below 2^-48: exact.
        a * b
    }

    #[inline(always)]
    fn product_sum(a: f32, b: f32, c: f32) -> f32 {
        // The product is exact; the sum is made odd where it is not.
        let product = a * b;
        let sum = product + c;
        let of_c = sum - product;
        let of_product = sum - of_c;
        let rest = (product - of_product) + (c - of_c);
        let bits = sum.to_bits();
        let even = bits & 1 == 0;
        let outward = (rest > 0.0) == (sum > 0.0);
        let odd = if outward { bits.wrapping_add(1) } else { bits.wrapping_sub(1) };
        // An infinite or NaN sum has a NaN rest, for which both comparisons are false.
        let inexact = (rest > 0.0) | (rest < 0.0);
        f32::from_bits(if inexact & even { odd } else { bits })
    }
}

/// Rounds to the nearest f16, ties to even.
#[inline(always)]
fn f16_nearest(x: f32) -> u16 {
    let bits = x.to_bits();
    let sign = (bits >> 16) as u16 & 0x8000;
    let magnitude = bits & 0x7fff_ffff;
    let tie = magnitude >> 13 & 1;
    let normal = magnitude.wrapping_add(0xfff + tie).wrapping_sub(112 << 23) >> 13;
    // 1/2 has the unit of f16's subnormals, so the addition rounds to it.
    let subnormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0x3f00_0000);
    let finite = if magnitude < 0x3880_0000 { subnormal } else { normal };
    let limited = if magnitude >= 0x477f_f000 { 0x7c00 } else { finite };
    if magnitude > 0x7f80_0000 { NAN_HALF } else { limited as u16 | sign }
}

impl HalfFormat for Bf16 {
    const INFINITY: u16 = 0x7f80;
    const ONE: u16 = 0x3f80;
    const FRACTION: u32 = 7;

    #[inline(always)]
    fn to_f32(bits: u16) -> f32 {
        let value = f32::from_bits(u32::from(bits) << 16);
        if value.is_nan() { NAN_F32 } else { value }
    }

    #[inline(always)]
    fn from_f32<R: Round>(x: f32) -> u16 {
        let bits = x.to_bits();
        let inexact = bits & 0xffff != 0;
        let rounded = match R::MODE {
            Mode::Nearest => bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16,
            Mode::Odd => bits >> 16 | u32::from(inexact),
            mode => (bits >> 16) + u32::from(rounds_away(mode, x.is_sign_negative(), inexact)),
        };
        if x.is_nan() { NAN_HALF } else { rounded as u16 }
    }

    #[inline(always)]
    fn product(a: f32, b: f32) -> f32 {
        // Exact in f64; in f32 it would be only above 2^-133.
        narrow::<Odd>(f64::from(a) * f64::from(b), 0.0)
    }

    #[inline(always)]
    fn product_sum(a: f32, b: f32, c: f32) -> f32 {
        let (sum, rest) = two_sum(f64::from(a) * f64::from(b), f64::from(c));
        narrow::<Odd>(sum, rest)
    }
}

/// `.ftz` on one value: a subnormal becomes zero of the same sign.
#[inline(always)]
pub fn flush<H: HalfFormat>(a: u16) -> u16 {
    if a & H::INFINITY == 0 { a & 0x8000 } else { a }
}

/// `.satfinite` on one result: infinities become the largest finite value of the same sign.
#[inline(always)]
pub fn finite<H: HalfFormat>(a: u16) -> u16 {
    if a & 0x7fff == H::INFINITY { a - 1 } else { a }
}

#[inline(always)]
fn is_nan<H: HalfFormat>(a: u16) -> bool {
    a & 0x7fff > H::INFINITY
}

#[inline(always)]
fn widen<H: HalfFormat, const FTZ: bool>(a: u16) -> f32 {
    H::to_f32(if FTZ { flush::<H>(a) } else { a })
}

/// The one rounding of a result. `.sat` and `.relu` commute with it, as 0 and 1 are representable.
#[inline(always)]
fn finish<H: HalfFormat, const FTZ: bool, const SAT: bool, const RELU: bool>(x: f32) -> u16 {
    let saturated = if SAT { saturate(x) } else { x };
    let positive = if RELU { relu(saturated) } else { saturated };
    let rounded = H::from_f32::<Rn>(positive);
    if FTZ { flush::<H>(rounded) } else { rounded }
}

/// `add{.rn}{.ftz}{.sat}` of f16 or bf16.
#[inline(always)]
pub fn add<H: HalfFormat, const FTZ: bool, const SAT: bool>(a: u16, b: u16) -> u16 {
    // f32 has more than twice the bits and two: rounding its nearest sum again equals rounding once.
    finish::<H, FTZ, SAT, false>(widen::<H, FTZ>(a) + widen::<H, FTZ>(b))
}

/// `sub{.rn}{.ftz}{.sat}` of f16 or bf16.
#[inline(always)]
pub fn sub<H: HalfFormat, const FTZ: bool, const SAT: bool>(a: u16, b: u16) -> u16 {
    finish::<H, FTZ, SAT, false>(widen::<H, FTZ>(a) - widen::<H, FTZ>(b))
}

/// `mul{.rn}{.ftz}{.sat}` of f16 or bf16.
#[inline(always)]
pub fn mul<H: HalfFormat, const FTZ: bool, const SAT: bool>(a: u16, b: u16) -> u16 {
    finish::<H, FTZ, SAT, false>(H::product(widen::<H, FTZ>(a), widen::<H, FTZ>(b)))
}

/// `fma.rn{.ftz}{.sat}{.relu}` of f16 or bf16.
#[inline(always)]
pub fn fma<H: HalfFormat, const FTZ: bool, const SAT: bool, const RELU: bool>(a: u16, b: u16, c: u16) -> u16 {
    let sum = H::product_sum(widen::<H, FTZ>(a), widen::<H, FTZ>(b), widen::<H, FTZ>(c));
    finish::<H, FTZ, SAT, RELU>(sum)
}

/// `neg{.ftz}` of f16 or bf16; a NaN becomes the canonical one.
#[inline(always)]
pub fn neg<H: HalfFormat, const FTZ: bool>(a: u16) -> u16 {
    let negated = (if FTZ { flush::<H>(a) } else { a }) ^ 0x8000;
    if is_nan::<H>(a) { NAN_HALF } else { negated }
}

/// `abs{.ftz}` of f16 or bf16; a NaN becomes the canonical one.
#[inline(always)]
pub fn abs<H: HalfFormat, const FTZ: bool>(a: u16) -> u16 {
    let magnitude = (if FTZ { flush::<H>(a) } else { a }) & 0x7fff;
    if is_nan::<H>(a) { NAN_HALF } else { magnitude }
}

/// `min{.ftz}{.NaN}{.xorsign.abs}` of f16 or bf16; rules as for f32.
#[inline(always)]
pub fn min<H: HalfFormat, const FTZ: bool, const NAN: bool, const XORSIGN: bool>(a: u16, b: u16) -> u16 {
    choose::<H, FTZ, NAN, XORSIGN>(a, b, |x, y| x < y)
}

/// `max{.ftz}{.NaN}{.xorsign.abs}` of f16 or bf16; rules as for f32.
#[inline(always)]
pub fn max<H: HalfFormat, const FTZ: bool, const NAN: bool, const XORSIGN: bool>(a: u16, b: u16) -> u16 {
    choose::<H, FTZ, NAN, XORSIGN>(a, b, |x, y| x > y)
}

#[inline(always)]
fn choose<H: HalfFormat, const FTZ: bool, const NAN: bool, const XORSIGN: bool>(
    a: u16,
    b: u16,
    wins: impl Fn(i16, i16) -> bool,
) -> u16 {
    let (x, y) = if FTZ { (flush::<H>(a), flush::<H>(b)) } else { (a, b) };
    let (x, y) = if XORSIGN { (x & 0x7fff, y & 0x7fff) } else { (x, y) };
    let first = (wins(sort_key(x), sort_key(y)) & !is_nan::<H>(x)) | is_nan::<H>(y);
    let chosen = if first { x } else { y };
    let signed = if XORSIGN { chosen | (a ^ b) & 0x8000 } else { chosen };
    let no_number = if NAN { is_nan::<H>(a) | is_nan::<H>(b) } else { is_nan::<H>(chosen) };
    if no_number { NAN_HALF } else { signed }
}

/// An integer that orders the non-NaN values, -0 below +0.
#[inline(always)]
fn sort_key(bits: u16) -> i16 {
    let signed = bits as i16;
    signed ^ (((signed >> 15) as u16) >> 1) as i16
}

/// The comparisons of `setp` and `set` on f16 or bf16.
#[inline(always)]
pub fn compare<H: HalfFormat, const FTZ: bool>(op: CompareOp, a: u16, b: u16) -> bool {
    compare_f32::<false>(op, widen::<H, FTZ>(a), widen::<H, FTZ>(b))
}

/// Applies a unary operation to both halves of a pair.
#[inline(always)]
pub fn each(a: u32, op: impl Fn(u16) -> u16) -> u32 {
    u32::from(op(a as u16)) | u32::from(op((a >> 16) as u16)) << 16
}

/// Applies a binary operation to both halves of two pairs: `each2(a, b, add::<F16, false, false>)` is `add.f16x2`.
#[inline(always)]
pub fn each2(a: u32, b: u32, op: impl Fn(u16, u16) -> u16) -> u32 {
    super::packed::each_half(a, b, op)
}

/// Applies a ternary operation to both halves of three pairs.
#[inline(always)]
pub fn each3(a: u32, b: u32, c: u32, op: impl Fn(u16, u16, u16) -> u16) -> u32 {
    let low = op(a as u16, b as u16, c as u16);
    let high = op((a >> 16) as u16, (b >> 16) as u16, (c >> 16) as u16);
    u32::from(low) | u32::from(high) << 16
}

/// `setp` on a pair: the truth values of the low and of the high halves.
#[inline(always)]
pub fn compare2<H: HalfFormat, const FTZ: bool>(op: CompareOp, a: u32, b: u32) -> (bool, bool) {
    let low = compare::<H, FTZ>(op, a as u16, b as u16);
    (low, compare::<H, FTZ>(op, (a >> 16) as u16, (b >> 16) as u16))
}

#[cfg(test)]
mod tests;
