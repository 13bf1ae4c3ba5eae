//! Floats of 8 bits: `cvt` of pairs between them and f32 or f16. A pair comes in and a pair goes out; in a pair of 8-bit floats
//! the second operand is the low byte. Nothing is computed with them.
//!
//! Rounding is to the nearest, ties to even, and `.satfinite`: what is larger than the largest finite value becomes that,
//! with its sign. A NaN is 0x7f in both formats, as cuda_fp8.h has it for e4m3; which bits hardware gives for e5m2 was
//! not measured. In f16 it is the canonical one.

use super::float::{canonical, relu};
use super::half::{F16, HalfFormat};
use super::round::Rn;

/// A format of 8 bits with a sign.
pub trait Float8 {
    /// Bits of the fraction.
    const FRACTION: u32;
    /// What is added to an exponent.
    const BIAS: i32;
    /// The largest finite value.
    const LARGEST: u8;
    /// Infinity, of a format that has one.
    const INFINITY: Option<u8>;
}

/// 4 bits of exponent, 3 of fraction; no infinity, and one NaN of each sign.
#[derive(Clone, Copy, Debug)]
pub struct E4m3;

/// 5 bits of exponent, 2 of fraction: the high byte of an f16.
#[derive(Clone, Copy, Debug)]
pub struct E5m2;

impl Float8 for E4m3 {
    const FRACTION: u32 = 3;
    const BIAS: i32 = 7;
    const LARGEST: u8 = 0x7e;
    const INFINITY: Option<u8> = None;
}

impl Float8 for E5m2 {
    const FRACTION: u32 = 2;
    const BIAS: i32 = 15;
    const LARGEST: u8 = 0x7b;
    const INFINITY: Option<u8> = Some(0x7c);
}

const NAN: u8 = 0x7f;
const SIGN: u8 = 0x80;

fn encode<F: Float8, const RELU: bool>(x: f32) -> u8 {
    let x = if RELU { relu(x) } else { canonical(x) };
    if x.is_nan() {
        return NAN;
    }
    let magnitude = f64::from(x.abs());
    // The distance of neighbours here is 2^(exponent - FRACTION); below the least exponent it stays the same.
    let exponent = ((x.to_bits() >> 23 & 0xff) as i32 - 127).max(1 - F::BIAS);
    let distances = (magnitude * f64::powi(2.0, F::FRACTION as i32 - exponent)).round_ties_even();
    // The first distances of a binade are the fraction's, its last one leads to the next binade.
    let code = ((exponent + F::BIAS - 1) << F::FRACTION) as f64 + distances;
    let code = code.min(f64::from(F::LARGEST)) as u8;
    if x.is_sign_negative() { code | SIGN } else { code }
}

/// Its value, which an f16 has exactly.
fn decode<F: Float8>(code: u8) -> f32 {
    let magnitude = code & !SIGN;
    let value = if magnitude > F::INFINITY.unwrap_or(F::LARGEST) {
        return canonical(f32::NAN);
    } else if F::INFINITY == Some(magnitude) {
        f32::INFINITY
    } else {
        let (exponent, fraction) = (i32::from(magnitude >> F::FRACTION), magnitude & ((1 << F::FRACTION) - 1));
        let implicit = if exponent == 0 { 0 } else { 1 << F::FRACTION };
        f32::from(fraction | implicit) * f32::powi(2.0, exponent.max(1) - F::BIAS - F::FRACTION as i32)
    };
    if code & SIGN == 0 { value } else { -value }
}

/// `cvt.rn.satfinite{.relu}.{e4m3x2,e5m2x2}.f32 d, a, b`.
pub fn f32_to_pair<F: Float8, const RELU: bool>(a: f32, b: f32) -> u16 {
    u16::from_be_bytes([a, b].map(encode::<F, RELU>))
}

/// `cvt.rn.satfinite{.relu}.{e4m3x2,e5m2x2}.f16x2 d, a`.
pub fn half2_to_pair<F: Float8, const RELU: bool>(halves: u32) -> u16 {
    let [high, low] = [halves >> 16, halves].map(|half| F16::to_f32(half as u16));
    f32_to_pair::<F, RELU>(high, low)
}

/// `cvt.rn{.relu}.f16x2.{e4m3x2,e5m2x2} d, a`.
pub fn pair_to_half2<F: Float8, const RELU: bool>(pair: u16) -> u32 {
    let [high, low] = pair.to_be_bytes().map(|code| {
        let value = decode::<F>(code);
        u32::from(F16::from_f32::<Rn>(if RELU { relu(value) } else { value }))
    });
    high << 16 | low
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All values of a format, by the definition of its fields, with their codes, in order of size.
    fn finite<F: Float8>() -> Vec<(f64, u8)> {
        let value = |code: u8| {
            let (exponent, fraction) = (i32::from(code >> F::FRACTION), f64::from(code & ((1 << F::FRACTION) - 1)));
            let part = fraction / f64::from(1 << F::FRACTION);
            match exponent {
                0 => part * f64::powi(2.0, 1 - F::BIAS),
                _ => (1.0 + part) * f64::powi(2.0, exponent - F::BIAS),
            }
        };
        (0..=F::LARGEST).map(|code| (value(code), code)).collect()
    }

    /// The nearest finite value's code, by looking at all of them; of two the even one.
    fn nearest<F: Float8>(all: &[(f64, u8)], x: f32) -> u8 {
        let distance = |value: f64| (value - f64::from(x.abs())).abs();
        let best = all.iter().map(|(value, _)| distance(*value)).fold(f64::INFINITY, f64::min);
        let mut codes = all.iter().filter(|(value, _)| distance(*value) == best).map(|(_, code)| *code);
        let (first, second) = (codes.next().expect("one is nearest"), codes.next());
        let is_beyond = all.iter().all(|(value, _)| f64::from(x.abs()) >= *value);
        let code = if is_beyond { F::LARGEST } else { second.filter(|_| first % 2 == 1).unwrap_or(first) };
        if x.is_sign_negative() { code | 0x80 } else { code }
    }

    fn encodes_as_by_looking<F: Float8>() {
        let all = finite::<F>();
        // Every f16, with its neighbours among f32: so each value, each point half-way between two, and just beside them.
        for bits in 0..=u16::MAX {
            let half = F16::to_f32(bits);
            for step in [-1_i32, 0, 1] {
                let x = f32::from_bits(half.to_bits().wrapping_add_signed(step));
                let [wide, relu] = [f32_to_pair::<F, false>(x, 1.0), f32_to_pair::<F, true>(x, 1.0)];
                let one = nearest::<F>(&all, 1.0);
                if x.is_nan() {
                    assert_eq!([wide, relu], [u16::from_be_bytes([0x7f, one]); 2], "{x}");
                    continue;
                }
                let want = nearest::<F>(&all, x);
                assert_eq!(wide, u16::from_be_bytes([want, one]), "{x:e}");
                let positive = if x > 0.0 { want } else { 0 };
                assert_eq!(relu, u16::from_be_bytes([positive, one]), "{x:e}");
            }
            let both = half2_to_pair::<F, false>(u32::from(bits) << 16 | 0x3c00);
            assert_eq!(both, f32_to_pair::<F, false>(half, 1.0));
        }
        for x in [f32::MIN_POSITIVE, f32::from_bits(1), f32::MAX, f32::INFINITY, -f32::INFINITY, -0.0] {
            assert_eq!(f32_to_pair::<F, false>(1.0, x).to_be_bytes()[1], nearest::<F>(&all, x), "{x:e}");
        }
    }

    #[test]
    fn every_float_becomes_the_nearest_one() {
        encodes_as_by_looking::<E4m3>();
        encodes_as_by_looking::<E5m2>();
        assert_eq!(f32_to_pair::<E4m3, false>(448.0, -1000.0), 0x7efe);
        assert_eq!(f32_to_pair::<E5m2, false>(57344.0, 1e30), 0x7b7b);
    }

    #[test]
    fn every_code_has_its_value_and_comes_back() {
        for (value, code) in finite::<E4m3>() {
            let half = F16::from_f32::<Rn>(value as f32);
            assert_eq!(f64::from(F16::to_f32(half)), value, "an f16 has it");
            let pair = u16::from_be_bytes([code, code | 0x80]);
            assert_eq!(pair_to_half2::<E4m3, false>(pair), u32::from(half) << 16 | u32::from(half | 0x8000));
            assert_eq!(pair_to_half2::<E4m3, true>(pair), u32::from(half) << 16);
            assert_eq!(f32_to_pair::<E4m3, false>(value as f32, -value as f32), pair);
        }
        assert_eq!(pair_to_half2::<E4m3, false>(0x7fff), 0x7fff_7fff);
        // These are the high bytes of f16, but for what is no number.
        for code in 0..=u8::MAX {
            let is_nan = code & 0x7f > 0x7c;
            let want = if is_nan { 0x7fff } else { u32::from(code) << 8 };
            assert_eq!(pair_to_half2::<E5m2, false>(u16::from_be_bytes([0, code])), want, "{code:#x}");
        }
    }
}
