//! `cvt` between all integer and float types, with integer and float rounding, `.sat`, `.ftz`, `.relu`; `cvt.pack`.
//! A typed value comes in, the converted value goes out, rounded once whatever the pair of types.
//! Floats of 8 bits are in `fp8`; e2m1, e3m2, e2m3 and ue8m0 are not here.

use super::float::{canonical, flush, input, output, relu, saturate};
use super::half::{self, HalfFormat};
use super::round::{Mode, Odd, Round, integral_f32, integral_f64, narrow, rounds_away};
use super::{Int, NAN_F32, double};

/// Integer to integer: truncates, sign-extends or zero-extends, by the source's signedness.
#[inline(always)]
pub fn int_to_int<S: Int, D: Int>(x: S) -> D {
    D::from_u64(x.to_u64())
}

/// Integer to integer with `.sat`: clamps to the destination's range.
#[inline(always)]
pub fn int_to_int_sat<S: Int, D: Int>(x: S) -> D {
    if S::SIGNED { D::clamp_i64(x.to_u64() as i64) } else { D::clamp_u64(x.to_u64()) }
}

/// f32 to integer: rounds to integral in mode `R` (`.rzi` is [`super::Rz`]), then clamps, `.sat` or not.
///
/// NaN gives 0, and the top bit alone for a 64-bit destination, as the ISA has it.
#[inline(always)]
pub fn f32_to_int<D: Int, R: Round, const FTZ: bool>(x: f32) -> D {
    let x = input::<FTZ>(x);
    let clamped = D::clamp_f32(match R::MODE {
        Mode::Zero => x,
        _ => integral_f32::<R>(x),
    });
    if D::BITS == 64 && x.is_nan() { top_bit() } else { clamped }
}

/// f64 to integer; NaN gives the top bit alone for every destination.
#[inline(always)]
pub fn f64_to_int<D: Int, R: Round>(x: f64) -> D {
    let clamped = D::clamp_f64(match R::MODE {
        Mode::Zero => x,
        _ => integral_f64::<R>(x),
    });
    if x.is_nan() { top_bit() } else { clamped }
}

/// f16 or bf16 to integer; NaN as for [`f32_to_int`].
#[inline(always)]
pub fn half_to_int<H: HalfFormat, D: Int, R: Round>(x: u16) -> D {
    f32_to_int::<D, R, false>(H::to_f32(x))
}

#[inline(always)]
fn top_bit<D: Int>() -> D {
    D::ONE.left(D::BITS - 1)
}

/// Integer to f32 in mode `R`.
#[inline(always)]
pub fn int_to_f32<S: Int, R: Round>(x: S) -> f32 {
    match R::MODE {
        Mode::Nearest => x.nearest_f32(),
        _ => narrow::<R>(int_to_odd_f64(x), 0.0),
    }
}

/// Integer to f64 in mode `R`; exact for up to 32 bits.
#[inline(always)]
pub fn int_to_f64<S: Int, R: Round>(x: S) -> f64 {
    if S::BITS < 64 || matches!(R::MODE, Mode::Nearest) {
        return x.nearest_f64();
    }
    let (magnitude, negative) = sign_and_magnitude(x);
    let (truncated, inexact) = truncate_to_53_bits(magnitude);
    let away = rounds_away(R::MODE, negative, inexact);
    let rounded = f64::from_bits((truncated as f64).to_bits().wrapping_add(u64::from(away)));
    if negative { -rounded } else { rounded }
}

/// Integer to f16 or bf16 in mode `R`.
#[inline(always)]
pub fn int_to_half<H: HalfFormat, S: Int, R: Round>(x: S) -> u16 {
    H::from_f32::<R>(narrow::<Odd>(int_to_odd_f64(x), 0.0))
}

/// The integer as f64: exact where it has at most 53 bits, else rounded to odd.
#[inline(always)]
fn int_to_odd_f64<S: Int>(x: S) -> f64 {
    if S::BITS < 64 {
        return x.nearest_f64();
    }
    let (magnitude, negative) = sign_and_magnitude(x);
    let (truncated, inexact) = truncate_to_53_bits(magnitude);
    let odd = f64::from_bits((truncated as f64).to_bits() | u64::from(inexact));
    if negative { -odd } else { odd }
}

#[inline(always)]
fn sign_and_magnitude<S: Int>(x: S) -> (u64, bool) {
    let negative = x < S::ZERO;
    let bits = x.to_u64();
    (if negative { bits.wrapping_neg() } else { bits }, negative)
}

/// Clears what does not fit f64's significand, and says whether that was anything.
#[inline(always)]
fn truncate_to_53_bits(magnitude: u64) -> (u64, bool) {
    let drop = 11u32.saturating_sub(magnitude.leading_zeros());
    let truncated = magnitude >> drop << drop;
    (truncated, truncated != magnitude)
}

/// f32 to f32 with an integer rounding (`.rni` is [`super::Rn`]), `.ftz` and `.sat`.
#[inline(always)]
pub fn f32_to_integral<R: Round, const FTZ: bool, const SAT: bool>(x: f32) -> f32 {
    output::<FTZ, SAT>(integral_f32::<R>(input::<FTZ>(x)))
}

/// f32 to f32 without rounding: only `.ftz` and `.sat` act.
#[inline(always)]
pub fn f32_to_f32<const FTZ: bool, const SAT: bool>(x: f32) -> f32 {
    output::<FTZ, SAT>(input::<FTZ>(x))
}

/// f64 to f64 with an integer rounding and `.sat`.
#[inline(always)]
pub fn f64_to_integral<R: Round, const SAT: bool>(x: f64) -> f64 {
    let rounded = integral_f64::<R>(x);
    if SAT { double::saturate(rounded) } else { keep_nan(x, rounded, |nan| nan | QUIET) }
}

/// The quiet bit of an f64 NaN.
const QUIET: u64 = 1 << 51;

/// The NaN that `nan` makes of the bits of `x`, or `value` if `x` is a number. On bits, as `float::canonical`.
#[inline(always)]
fn keep_nan(x: f64, value: f64, nan: impl Fn(u64) -> u64) -> f64 {
    let bits = x.to_bits();
    f64::from_bits(if is_nan_bits(bits) { nan(bits) } else { value.to_bits() })
}

#[inline(always)]
fn is_nan_bits(bits: u64) -> bool {
    bits & !(1 << 63) > f64::INFINITY.to_bits()
}

/// f64 to f32 in mode `R`. A NaN keeps its sign and the top of its payload, as on an H200.
#[inline(always)]
pub fn f64_to_f32<R: Round, const FTZ: bool, const SAT: bool>(x: f64) -> f32 {
    let rounded = output::<FTZ, SAT>(narrow::<R>(x, 0.0));
    let bits = x.to_bits();
    let nan = (bits >> 32) as u32 & 0x8000_0000 | 0x7fc0_0000 | (bits >> 29) as u32 & 0x003f_ffff;
    f32::from_bits(if is_nan_bits(bits) && !SAT { nan } else { rounded.to_bits() })
}

/// f32 to f64, exact. `.ftz` flushes the operand and makes a NaN canonical; otherwise it keeps sign and payload.
#[inline(always)]
pub fn f32_to_f64<const FTZ: bool, const SAT: bool>(x: f32) -> f64 {
    let wide = f64::from(input::<FTZ>(x));
    if SAT {
        return double::saturate(wide);
    }
    let bits = u64::from(if FTZ { NAN_F32.to_bits() } else { x.to_bits() });
    keep_nan(wide, wide, |_| bits >> 31 << 63 | 0x7ff8 << 48 | (bits & 0x003f_ffff) << 29)
}

/// f16 or bf16 to f32, exact; `.ftz` flushes a subnormal result (only bf16 has any).
///
/// The NaN of an f16 becomes canonical. That of a bf16 keeps its bits unless `.ftz` or `.sat` make the instruction more
/// than a move, as on an H200.
#[inline(always)]
pub fn half_to_f32<H: HalfFormat, const FTZ: bool, const SAT: bool>(x: u16) -> f32 {
    let is_bf16 = H::FRACTION == 7;
    if is_bf16 && !FTZ && !SAT {
        return f32::from_bits(u32::from(x) << 16);
    }
    output::<FTZ, SAT>(H::to_f32(x))
}

/// f16 or bf16 to f64, exact. A NaN keeps its sign and payload.
#[inline(always)]
pub fn half_to_f64<H: HalfFormat, const SAT: bool>(x: u16) -> f64 {
    let wide = f64::from(H::to_f32(x));
    if SAT {
        return double::saturate(wide);
    }
    let payload = u64::from(x) << (52 - H::FRACTION) & (QUIET - 1);
    keep_nan(wide, wide, |_| u64::from(x >> 15) << 63 | 0x7ff8 << 48 | payload)
}

/// f32 to f16 or bf16 in mode `R`; `.ftz` flushes the f32 operand.
#[inline(always)]
pub fn f32_to_half<H: HalfFormat, R: Round, const FTZ: bool, const SAT: bool, const RELU: bool>(x: f32) -> u16 {
    let x = input::<FTZ>(x);
    let saturated = if SAT { saturate(x) } else { x };
    H::from_f32::<R>(if RELU { relu(saturated) } else { saturated })
}

/// f32 to f16 or bf16 with `.satfinite`: overflow gives the largest finite value; NaN stays NaN.
#[inline(always)]
pub fn f32_to_half_finite<H: HalfFormat, R: Round, const RELU: bool>(x: f32) -> u16 {
    half::finite::<H>(f32_to_half::<H, R, false, false, RELU>(x))
}

/// Two f32 to a pair of f16 or bf16 (`cvt.rn.f16x2.f32 d, a, b`): `a` becomes the high half.
#[inline(always)]
pub fn f32_to_half2<H: HalfFormat, R: Round, const RELU: bool>(a: f32, b: f32) -> u32 {
    let high = f32_to_half::<H, R, false, false, RELU>(a);
    let low = f32_to_half::<H, R, false, false, RELU>(b);
    u32::from(high) << 16 | u32::from(low)
}

/// f64 to f16 or bf16 in mode `R`, rounded once. A NaN keeps its sign and the top of its payload.
#[inline(always)]
pub fn f64_to_half<H: HalfFormat, R: Round, const SAT: bool>(x: f64) -> u16 {
    let rounded = f32_to_half::<H, R, false, SAT, false>(narrow::<Odd>(x, 0.0));
    let bits = x.to_bits();
    let quiet = 1u16 << (H::FRACTION - 1);
    let payload = (bits >> (52 - H::FRACTION)) as u16 & (quiet - 1);
    let nan = (bits >> 48) as u16 & 0x8000 | H::INFINITY | quiet | payload;
    if is_nan_bits(bits) && !SAT { nan } else { rounded }
}

/// Between f16 and bf16, or either to itself, in mode `R`.
#[inline(always)]
pub fn half_to_half<S: HalfFormat, D: HalfFormat, R: Round, const SAT: bool>(x: u16) -> u16 {
    f32_to_half::<D, R, false, SAT, false>(S::to_f32(x))
}

/// f16 or bf16 to itself with an integer rounding.
#[inline(always)]
pub fn half_to_integral<H: HalfFormat, R: Round, const SAT: bool>(x: u16) -> u16 {
    // An integral value between two representable ones is representable: no second rounding happens.
    let integral = integral_f32::<R>(H::to_f32(x));
    H::from_f32::<R>(if SAT { saturate(integral) } else { integral })
}

/// `cvt.rna.tf32.f32`: to nearest, ties away from zero, with 10 fraction bits kept in an f32.
///
/// A NaN is truncated like anything else, as on an H200; one whose payload is in the low bits becomes infinite.
#[inline(always)]
pub fn f32_to_tf32_rna(x: f32) -> u32 {
    let bits = x.to_bits();
    let finite = bits & 0x7f80_0000 != 0x7f80_0000;
    bits.wrapping_add(if finite { 0x1000 } else { 0 }) & !0x1fff
}

/// `cvt.{rn,rz}{.relu}.tf32.f32`: in mode [`super::Rn`] or [`super::Rz`]; any NaN becomes `0x7fffe000`.
#[inline(always)]
pub fn f32_to_tf32<R: Round, const RELU: bool>(x: f32) -> u32 {
    let x = if RELU { relu(x) } else { canonical(x) };
    let bits = x.to_bits();
    let step = match R::MODE {
        Mode::Nearest => 0xfff + (bits >> 13 & 1),
        _ => 0,
    };
    let finite = bits & 0x7f80_0000 != 0x7f80_0000;
    bits.wrapping_add(if finite { step } else { 0 }) & !0x1fff
}

/// `cvt.pack.sat.D.S` of 16-bit `D`: clamps both; `a` becomes the high half.
#[inline(always)]
pub fn pack_16<S: Int, D: Int>(a: S, b: S) -> u32 {
    pack_onto::<S, D>(a, b, 0)
}

/// `cvt.pack.sat.D.S.b32` of 8-bit `D`: clamps `a` and `b` and shifts them into `c` from below, `a` above `b`.
#[inline(always)]
pub fn pack_onto<S: Int, D: Int>(a: S, b: S, c: u32) -> u32 {
    let mask = (1u64 << D::BITS) - 1;
    let [high, low] = [a, b].map(|x| (int_to_int_sat::<S, D>(x).to_u64() & mask) as u32);
    let kept = super::int::shl(c, 2 * D::BITS);
    kept | high << D::BITS | low
}

/// `.sat` for a converted f32, where the conversion itself has no such parameter.
#[inline(always)]
pub fn saturate_f32(x: f32) -> f32 {
    saturate(x)
}

/// `.ftz` for a converted f32, where the conversion itself has no such parameter.
#[inline(always)]
pub fn flush_f32(x: f32) -> f32 {
    flush(x)
}

#[cfg(test)]
mod tests;
