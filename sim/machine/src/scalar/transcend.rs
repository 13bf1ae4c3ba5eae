//! The approximate functions: `ex2 lg2 sin cos tanh` of f32, and `ex2`, `tanh` of 16-bit floats.
//! A value comes in, the function's value rounded from an f64 evaluation goes out. It is within 0.6 ulp for f32, far
//! inside the ISA's bound; sine and cosine beyond 65,536 are within 2^-36 absolutely.
//! Straight-line code without calls, so loops over lanes vectorise; no fused operations, so that every instruction
//! set computes the same bits.

use super::float::{input, output};
use super::half::{self, HalfFormat};
use super::{NAN_F32, Rn};

/// Adding this to a small f64 leaves its nearest integer in the low bits of the sum.
const ROUNDER: f64 = 6_755_399_441_055_744.0; // 1.5 * 2^52

/// `ex2.approx{.ftz}.f32`: 2 to the power of `a`.
#[inline(always)]
pub fn ex2_f32<const FTZ: bool>(a: f32) -> f32 {
    let a = input::<FTZ>(a);
    // Beyond these bounds the result is infinite or zero in f32 anyway.
    let bounded = f64::from(a).clamp(-200.0, 200.0);
    let power = exp2_f64(bounded) as f32;
    output::<FTZ, false>(if a.is_nan() { a } else { power })
}

/// 2 to the power of `x`, for `|x| < 1000`; relative error below 2^-34, exact for integers. NaN gives nonsense.
#[inline(always)]
fn exp2_f64(x: f64) -> f64 {
    let shifted = x + ROUNDER;
    let fraction = x - (shifted - ROUNDER);
    // (2^f - 1) / f interpolated at the Chebyshev nodes of [-1/2, 1/2].
    let slope = horner(
        fraction,
        [
            core::f64::consts::LN_2,
            0.240_226_509_222_887_57,
            0.055_504_108_839_096_185,
            0.009_618_056_678_524_637,
            0.001_333_350_238_616_277,
            0.000_154_614_446_985_691_3,
            0.000_015_297_323_760_701_075,
        ],
    );
    let scale = f64::from_bits(shifted.to_bits().wrapping_add(1023) << 52);
    scale + scale * (fraction * slope)
}

/// Evaluates a polynomial, lowest coefficient first.
#[inline(always)]
fn horner<const N: usize>(x: f64, coefficients: [f64; N]) -> f64 {
    let mut value = coefficients[N - 1];
    for index in (0..N - 1).rev() {
        value = value * x + coefficients[index];
    }
    value
}

/// `lg2.approx{.ftz}.f32`: the binary logarithm; minus infinity for zeros, NaN for negative values.
#[inline(always)]
pub fn lg2_f32<const FTZ: bool>(a: f32) -> f32 {
    let a = input::<FTZ>(a);
    // Every f32, subnormals included, is a normal f64: split it into 2^k * m with m in [sqrt(1/2), sqrt(2)).
    const ROOT_HALF: i64 = 0x3fe6_a09e_667f_3bcd;
    let bits = f64::from(a).to_bits() as i64;
    let exponent = bits.wrapping_sub(ROOT_HALF) >> 52;
    let m = f64::from_bits(bits.wrapping_sub(exponent << 52) as u64);
    // log2(m) = 2/ln2 * artanh(s), with |s| < 0.172.
    let s = (m - 1.0) / (m + 1.0);
    let series = horner(
        s * s,
        [
            2.885_390_081_777_926_8,
            0.961_796_693_925_975_6,
            0.577_078_016_355_585_4,
            0.412_198_583_111_132_4,
            0.320_598_897_975_325_2,
            0.262_308_189_252_538_8,
        ],
    );
    let logarithm = (exponent_f64(exponent) + s * series) as f32;
    let special = if a == 0.0 { f32::NEG_INFINITY } else { a };
    let in_domain = (a > 0.0) & (a < f32::INFINITY);
    let result = if in_domain { logarithm } else { special };
    output::<FTZ, false>(if a < 0.0 { NAN_F32 } else { result })
}

/// A small integer as f64, without the 64-bit conversion that older instruction sets lack.
#[inline(always)]
fn exponent_f64(exponent: i64) -> f64 {
    f64::from(exponent as i32)
}

/// `sin.approx{.ftz}.f32`. Infinities give NaN, zeros themselves.
#[inline(always)]
pub fn sin_f32<const FTZ: bool>(a: f32) -> f32 {
    let a = input::<FTZ>(a);
    let (angle, quadrant) = reduce(a);
    let value = quarter_wave(angle, quadrant) as f32;
    // A zero or subnormal angle is its own sine; the product chain would lose a zero's sign.
    output::<FTZ, false>(if a == 0.0 { a } else { value })
}

/// `cos.approx{.ftz}.f32`. Infinities give NaN.
#[inline(always)]
pub fn cos_f32<const FTZ: bool>(a: f32) -> f32 {
    let (angle, quadrant) = reduce(input::<FTZ>(a));
    output::<FTZ, false>(quarter_wave(angle, quadrant.wrapping_add(1)) as f32)
}

/// The sine of `angle` plus `quadrant` quarter turns, for `|angle| <= pi/4` and a little more.
#[inline(always)]
fn quarter_wave(angle: f64, quadrant: u64) -> f64 {
    let square = angle * angle;
    let sine =
        angle * horner(square, [1.0, -1.0 / 6.0, 1.0 / 120.0, -1.0 / 5040.0, 1.0 / 362_880.0, -1.0 / 39_916_800.0]);
    let cosine =
        horner(square, [1.0, -0.5, 1.0 / 24.0, -1.0 / 720.0, 1.0 / 40_320.0, -1.0 / 3_628_800.0, 1.0 / 479_001_600.0]);
    let wave = if quadrant & 1 == 0 { sine } else { cosine };
    f64::from_bits(wave.to_bits() ^ (quadrant & 2) << 62)
}

/// Writes `a` as an angle within an eighth of a turn around a number of quarter turns (modulo 4).
///
/// NaN and infinities give a NaN angle.
#[inline(always)]
fn reduce(a: f32) -> (f64, u64) {
    // Two parts of pi/2; the first has 33 bits, so its product with up to 20 bits of quarters is exact.
    const FIRST: f64 = 1.570_796_326_734_125_6;
    const SECOND: f64 = 6.077_100_506_506_192e-11;
    let x = f64::from(a);
    let shifted = x * core::f64::consts::FRAC_2_PI + ROUNDER;
    let quarters = shifted - ROUNDER;
    let near = (x - quarters * FIRST) - quarters * SECOND;

    let (far, far_quadrant) = reduce_far(a);
    // Up to here the product with FIRST is exact; CUDA's own fast path ends at 48,039.
    let is_near = a.abs() <= 65_536.0;
    let angle = if is_near { near } else { far };
    let quadrant = if is_near { shifted.to_bits() } else { far_quadrant };
    (if a.is_finite() { angle } else { f64::NAN }, quadrant)
}

/// As [`reduce`], for large values: the angle in units of 2^-64 turns comes out of one wrapping product.
#[inline(always)]
fn reduce_far(a: f32) -> (f64, u64) {
    const UNIT: f64 = 3.406_121_580_086_554_5e-19; // 2 pi / 2^64
    let bits = a.to_bits();
    let field = bits >> 23 & 0xff;
    let significand = u64::from(bits & 0x007f_ffff | 0x0080_0000);
    let turns = significand.wrapping_mul(TURNS[field as usize]);
    let turns = if bits >> 31 == 1 { turns.wrapping_neg() } else { turns };
    let quadrant = turns.wrapping_add(1 << 61) >> 62;
    let rest = turns.wrapping_sub(quadrant << 62) as i64;
    (rest as f64 * UNIT, quadrant)
}

/// For each exponent field of an f32, the fraction of a turn (in 2^-64) that one unit of the significand makes up,
/// rounded down. Fields below 143 (values below 65,536) are not used.
const TURNS: [u64; 256] = {
    // The first 256 bits of 1 / (2 pi).
    const INVERSE: [u64; 4] =
        [0x28be_60db_9391_054a, 0x7f09_d5f4_7d4d_3770, 0x36d8_a566_4f10_e410, 0x7f94_58ea_f7ae_f158];
    let mut table = [0; 256];
    let mut field = 143;
    while field < 255 {
        // The significand counts units of 2^(field - 150).
        table[field] = if field < 150 {
            INVERSE[0] >> (150 - field)
        } else {
            let (word, bit) = ((field - 150) / 64, (field - 150) % 64);
            let next = if bit == 0 { 0 } else { INVERSE[word + 1] >> (64 - bit) };
            INVERSE[word] << bit | next
        };
        field += 1;
    }
    table
};

/// `tanh.approx.f32`.
#[inline(always)]
pub fn tanh_f32(a: f32) -> f32 {
    const TWICE_LOG2_E: f64 = 2.885_390_081_777_926_8;
    let magnitude = f64::from(a).abs();
    // From 20 on the result is 1 in f32.
    let power = exp2_f64(magnitude.min(20.0) * TWICE_LOG2_E);
    let large = 1.0 - 2.0 / (power + 1.0);
    // The difference above cancels for small values.
    let small = magnitude * horner(magnitude * magnitude, [1.0, -1.0 / 3.0, 2.0 / 15.0, -17.0 / 315.0]);
    let value = if magnitude < 0.031_25 { small } else { large };
    output::<false, false>(if a.is_nan() { a } else { (value as f32).copysign(a) })
}

/// `ex2.approx` of f16, `ex2.approx.ftz` of bf16 (with `FTZ`).
#[inline(always)]
pub fn ex2_half<H: HalfFormat, const FTZ: bool>(a: u16) -> u16 {
    let a = if FTZ { half::flush::<H>(a) } else { a };
    let power = H::from_f32::<Rn>(ex2_f32::<false>(H::to_f32(a)));
    if FTZ { half::flush::<H>(power) } else { power }
}

/// `tanh.approx` of f16 and bf16.
#[inline(always)]
pub fn tanh_half<H: HalfFormat>(a: u16) -> u16 {
    H::from_f32::<Rn>(tanh_f32(H::to_f32(a)))
}

#[cfg(test)]
mod tests {
    use super::super::{Bf16, F16};
    use super::*;

    /// Distance from the exact value in units in the last place of the result's binade (subnormals: of 2^-149).
    fn ulps(result: f32, exact: f64) -> f64 {
        let exponent = (exact.abs().log2().floor() as i32).clamp(-126, 127);
        (f64::from(result) - exact).abs() / 2f64.powi(exponent - 23)
    }

    fn worst(values: impl Iterator<Item = f32>, f: impl Fn(f32) -> f32, exact: impl Fn(f64) -> f64) -> (f64, f32) {
        values.map(|x| (ulps(f(x), exact(f64::from(x))), x)).fold((0.0, 0.0), |a, b| if b.0 > a.0 { b } else { a })
    }

    /// Bit patterns from `from` to `to` in steps that do not divide a power of two.
    fn sweep(from: f32, to: f32, step: u32) -> impl Iterator<Item = f32> {
        (from.to_bits()..=to.to_bits())
            .step_by(step as usize)
            .flat_map(|bits| [f32::from_bits(bits), -f32::from_bits(bits)])
    }

    #[test]
    fn powers_of_two_are_nearly_correctly_rounded() {
        let (error, at) =
            worst(sweep(1e-9, 150.0, 97).filter(|x| *x < 128.0 && *x > -149.0), ex2_f32::<false>, f64::exp2);
        assert!(error < 0.51, "{error} at {at:e}");
        for n in -149..128 {
            assert_eq!(f64::from(ex2_f32::<false>(n as f32)), 2f64.powi(n));
        }
        assert_eq!(ex2_f32::<true>(-127.0), 0.0);
        assert_eq!(ex2_f32::<true>(-126.0), f32::MIN_POSITIVE);
        assert_eq!(ex2_f32::<false>(128.0), f32::INFINITY);
        assert_eq!(ex2_f32::<false>(f32::INFINITY), f32::INFINITY);
        assert_eq!(ex2_f32::<false>(f32::NEG_INFINITY).to_bits(), 0);
        assert_eq!(ex2_f32::<false>(-1e30).to_bits(), 0);
        assert_eq!(ex2_f32::<false>(-f32::NAN).to_bits(), 0x7fff_ffff);
        assert_eq!(ex2_f32::<true>(f32::from_bits(0x8000_0009)), 1.0);
    }

    #[test]
    fn logarithms_are_nearly_correctly_rounded() {
        let positive = |from, to, step| sweep(from, to, step).filter(|x| *x > 0.0);
        let (error, at) = worst(positive(f32::from_bits(1), f32::MAX, 1009), lg2_f32::<false>, f64::log2);
        assert!(error < 0.51, "{error} at {at:e}");
        let (error, at) = worst(positive(0.7, 1.42, 7).filter(|x| *x != 1.0), lg2_f32::<false>, |x| {
            // libm's log2 of f64 loses nothing near 1 that matters here.
            (x - 1.0).ln_1p() * core::f64::consts::LOG2_E
        });
        assert!(error < 0.51, "{error} at {at:e}");
        for n in -149..128 {
            assert_eq!(lg2_f32::<false>(2f64.powi(n) as f32), n as f32);
        }
        assert_eq!(lg2_f32::<false>(1.0).to_bits(), 0);
        for zero in [0.0, -0.0] {
            assert_eq!(lg2_f32::<false>(zero), f32::NEG_INFINITY);
        }
        assert_eq!(lg2_f32::<true>(f32::from_bits(77)), f32::NEG_INFINITY);
        assert_eq!(lg2_f32::<false>(f32::INFINITY), f32::INFINITY);
        for outside in [-1.0, f32::NEG_INFINITY, f32::NAN, -f32::from_bits(1)] {
            assert_eq!(lg2_f32::<false>(outside).to_bits(), 0x7fff_ffff);
        }
    }

    #[test]
    fn sines_are_nearly_correctly_rounded_up_to_65536() {
        let (error, at) = worst(sweep(f32::from_bits(1), 65_536.0, 499), sin_f32::<false>, f64::sin);
        assert!(error < 0.6, "{error} at {at:e}");
        let (error, at) = worst(sweep(f32::from_bits(1), 65_536.0, 499), cos_f32::<false>, f64::cos);
        assert!(error < 0.6, "{error} at {at:e}");
    }

    #[test]
    fn sines_of_huge_values_are_right_to_2_to_the_minus_25() {
        for x in sweep(65_537.0, f32::MAX, 307) {
            let (sine, cosine) = f64::from(x).sin_cos();
            // Half an ulp of the result is 2^-25 at most.
            assert!((f64::from(sin_f32::<false>(x)) - sine).abs() < 2f64.powi(-24) * 0.51, "{x:e}");
            assert!((f64::from(cos_f32::<false>(x)) - cosine).abs() < 2f64.powi(-24) * 0.51, "{x:e}");
        }
    }

    #[test]
    fn sines_of_special_values() {
        assert_eq!(sin_f32::<false>(-0.0).to_bits(), 1 << 31);
        assert_eq!(sin_f32::<true>(-f32::from_bits(5)).to_bits(), 1 << 31);
        assert_eq!(sin_f32::<false>(-f32::from_bits(5)), -f32::from_bits(5));
        assert_eq!(cos_f32::<false>(f32::from_bits(5)), 1.0);
        for x in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, -f32::NAN] {
            assert_eq!(sin_f32::<false>(x).to_bits(), 0x7fff_ffff);
            assert_eq!(cos_f32::<false>(x).to_bits(), 0x7fff_ffff);
        }
    }

    #[test]
    fn hyperbolic_tangents_are_nearly_correctly_rounded() {
        let (error, at) = worst(sweep(f32::from_bits(1), 30.0, 251), tanh_f32, f64::tanh);
        assert!(error < 0.6, "{error} at {at:e}");
        assert_eq!(tanh_f32(f32::NEG_INFINITY), -1.0);
        assert_eq!(tanh_f32(-0.0).to_bits(), 1 << 31);
        assert_eq!(tanh_f32(-f32::NAN).to_bits(), 0x7fff_ffff);
    }

    #[test]
    fn sixteen_bit_functions_are_within_one_unit_everywhere() {
        for bits in 0..=u16::MAX {
            half_within::<F16>(bits, 2f64.powi(-11));
            half_within::<Bf16>(bits, 2f64.powi(-8));
        }
        assert_eq!(ex2_half::<Bf16, true>(0x0001), 0x3f80);
        assert_eq!(ex2_half::<Bf16, true>(0xc300), 0);
    }

    fn half_within<H: HalfFormat>(bits: u16, half_unit: f64) {
        let x = f64::from(H::to_f32(bits));
        let (power, tangent) = (ex2_half::<H, false>(bits), tanh_half::<H>(bits));
        if x.is_nan() {
            assert_eq!((power, tangent), (0x7fff, 0x7fff));
            return;
        }
        let near = |result: u16, exact: f64| {
            let result = f64::from(H::to_f32(result));
            let subnormal_unit = f64::from(H::to_f32(1));
            let bound = (exact.abs() * half_unit).max(subnormal_unit / 2.0) * 1.001;
            result == exact || (result - exact).abs() <= bound || (result.is_infinite() && exact > 65_519.0)
        };
        assert!(near(power, x.exp2()), "2^{x:e}");
        assert!(near(tangent, x.tanh()), "tanh {x:e}");
    }
}
