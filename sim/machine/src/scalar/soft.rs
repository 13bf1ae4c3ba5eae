//! f64 arithmetic in integers, for the directed rounding modes that the host's instructions do not offer.
//! Operands and a mode come in, the exactly rounded result goes out, subnormals and overflow included.
//! It never runs for round-to-nearest, where the host is faster, and it does not vectorise.

use super::round::{Mode, rounds_away};

/// A finite nonzero-or-zero value: `(-1)^negative * significand * 2^exponent`.
#[derive(Clone, Copy)]
struct Parts {
    negative: bool,
    significand: u128,
    exponent: i32,
}

const SIGN: u64 = 1 << 63;
const INFINITY: u64 = 0x7ff0_0000_0000_0000;
/// The exponent of the smallest subnormal: no result has a finer unit.
const SMALLEST: i32 = -1074;
/// Position of the top bit of an aligned significand: room for a carry above, for a sticky bit far below.
const TOP: u32 = 124;

impl Parts {
    fn of(x: f64) -> Parts {
        let bits = x.to_bits();
        let field = (bits >> 52 & 0x7ff) as i32;
        let fraction = bits & ((1 << 52) - 1);
        let implicit = u64::from(field != 0) << 52;
        Parts {
            negative: bits & SIGN != 0,
            significand: u128::from(fraction | implicit),
            exponent: field.max(1) - 1 + SMALLEST,
        }
    }

    /// The same value with its top bit at `TOP`; the significand must not be zero.
    fn aligned(self) -> Parts {
        let shift = TOP as i32 - (127 - self.significand.leading_zeros() as i32);
        Parts {
            significand: if shift >= 0 { self.significand << shift } else { self.significand >> -shift },
            exponent: self.exponent - shift,
            ..self
        }
    }

    /// Rounds to f64; the lowest bit may stand for everything below it, as long as it lies below the result's unit.
    fn round(self, mode: Mode) -> f64 {
        if self.significand == 0 {
            return f64::from_bits(u64::from(self.negative) << 63);
        }
        let top = self.exponent + 127 - self.significand.leading_zeros() as i32;
        let unit = (top - 52).max(SMALLEST);
        let drop = unit - self.exponent;
        let (kept, rest_over_half, inexact) = split(self.significand, drop);
        let up = match mode {
            Mode::Nearest => rest_over_half.is_gt() || (rest_over_half.is_eq() && kept & 1 == 1),
            Mode::Odd => inexact && kept & 1 == 0,
            _ => rounds_away(mode, self.negative, inexact),
        };
        // A carry out of the significand runs on into the exponent field, which is what it should do.
        let magnitude = ((unit - SMALLEST) as u64) << 52;
        let magnitude = magnitude.saturating_add(kept + u64::from(up));
        let magnitude = if magnitude >= INFINITY { overflowed(mode, self.negative) } else { magnitude };
        f64::from_bits(u64::from(self.negative) << 63 | magnitude)
    }
}

/// Drops the low `drop` bits: what is kept, how the rest compares with half a unit, whether there is a rest.
fn split(significand: u128, drop: i32) -> (u64, core::cmp::Ordering, bool) {
    use core::cmp::Ordering::Less;
    if drop <= 0 {
        return ((significand << -drop) as u64, Less, false);
    }
    if drop >= 128 {
        return (0, Less, true);
    }
    let rest = significand & ((1u128 << drop) - 1);
    let half = 1u128 << (drop - 1);
    ((significand >> drop) as u64, rest.cmp(&half), rest != 0)
}

fn overflowed(mode: Mode, negative: bool) -> u64 {
    match mode {
        Mode::Nearest => INFINITY,
        Mode::Down if negative => INFINITY,
        Mode::Up if !negative => INFINITY,
        _ => INFINITY - 1,
    }
}

/// Shifts right; ones that fall out leave the lowest bit set.
fn shift_sticky(x: u128, amount: u32) -> u128 {
    if amount == 0 {
        x
    } else if amount >= 128 {
        u128::from(x != 0)
    } else {
        x >> amount | u128::from(x << (128 - amount) != 0)
    }
}

/// The first NaN of the operands, made quiet. The callers list them in the order in which an H200 looks at them.
pub(crate) fn quiet_nan<const N: usize>(operands: [f64; N]) -> Option<f64> {
    let nan = operands.into_iter().find(|x| x.is_nan())?;
    Some(f64::from_bits(nan.to_bits() | 1 << 51))
}

/// `a * b + c`, rounded once.
pub fn fma(mode: Mode, a: f64, b: f64, c: f64) -> f64 {
    if !(a.is_finite() && b.is_finite() && c.is_finite()) {
        if let Some(nan) = quiet_nan([b, c, a]) {
            return nan;
        }
        // Infinities do not depend on the mode, but a finite product must not overflow on the way.
        return if a.is_finite() && b.is_finite() { c } else { a.mul_add(b, c) };
    }
    let (x, y, addend) = (Parts::of(a), Parts::of(b), Parts::of(c));
    let product = Parts {
        negative: x.negative != y.negative,
        significand: x.significand * y.significand,
        exponent: x.exponent + y.exponent,
    };
    match (product.significand == 0, addend.significand == 0) {
        (true, true) => zero_sum(mode, product.negative, addend.negative),
        (true, false) => c,
        (false, true) => product.round(mode),
        (false, false) => sum(mode, product.aligned(), addend.aligned()),
    }
}

/// `a * b`, rounded once; unlike an `fma` with zero it keeps the product's sign of zero.
pub fn mul(mode: Mode, a: f64, b: f64) -> f64 {
    if !(a.is_finite() && b.is_finite()) {
        return quiet_nan([b, a]).unwrap_or(a * b);
    }
    let (x, y) = (Parts::of(a), Parts::of(b));
    Parts {
        negative: x.negative != y.negative,
        significand: x.significand * y.significand,
        exponent: x.exponent + y.exponent,
    }
    .round(mode)
}

fn zero_sum(mode: Mode, first: bool, second: bool) -> f64 {
    let negative = if matches!(mode, Mode::Down) { first | second } else { first & second };
    f64::from_bits(u64::from(negative) << 63)
}

fn sum(mode: Mode, x: Parts, y: Parts) -> f64 {
    let (large, small) = if (x.exponent, x.significand) >= (y.exponent, y.significand) { (x, y) } else { (y, x) };
    let distance = (large.exponent - small.exponent).unsigned_abs();
    let moved = shift_sticky(small.significand, distance);
    if large.negative == small.negative {
        return Parts { significand: large.significand + moved, ..large }.round(mode);
    }
    let significand = large.significand - moved;
    if significand == 0 {
        return zero_sum(mode, true, false);
    }
    Parts { significand, ..large }.round(mode)
}

/// `a / b`, rounded once.
pub fn div(mode: Mode, a: f64, b: f64) -> f64 {
    if !(a.is_finite() && b.is_finite()) || a == 0.0 || b == 0.0 {
        return quiet_nan([a, b]).unwrap_or(a / b);
    }
    let (x, y) = (Parts::of(a).aligned(), Parts::of(b).aligned());
    // Top bits at 124 and 60: the quotient has at least 64 bits, and the sticky bit is one more.
    let divisor = y.significand >> 64;
    let quotient = x.significand / divisor;
    let sticky = u128::from(x.significand % divisor != 0);
    Parts {
        negative: x.negative != y.negative,
        significand: quotient << 1 | sticky,
        exponent: x.exponent - (y.exponent + 64) - 1,
    }
    .round(mode)
}

/// The square root, rounded once.
pub fn sqrt(mode: Mode, a: f64) -> f64 {
    if !a.is_finite() || a <= 0.0 {
        return a.sqrt();
    }
    let x = Parts::of(a).aligned();
    let odd = x.exponent & 1;
    let radicand = x.significand << odd;
    let root = radicand.isqrt();
    let sticky = u128::from(root * root != radicand);
    Parts { negative: false, significand: root << 1 | sticky, exponent: (x.exponent - odd) / 2 - 1 }.round(mode)
}

#[cfg(test)]
mod tests {
    use super::super::exact::{any_f64, check_f64_modes, compare_product_sum};
    use super::*;
    use core::cmp::Ordering;
    use proptest::prelude::*;

    const MODES: [Mode; 4] = [Mode::Nearest, Mode::Zero, Mode::Down, Mode::Up];

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        #[test]
        fn fused_sums_are_exactly_rounded(a in any_f64(), b in any_f64(), c in any_f64()) {
            let results = MODES.map(|mode| fma(mode, a, b, c));
            check_f64_modes(results, a.mul_add(b, c), |r| compare_product_sum(a, b, c, r, 1.0))?;
        }

        #[test]
        fn near_cancellation_is_exactly_rounded(a in any_f64(), b in any_f64(), ulps in -3i64..4) {
            let c = f64::from_bits((-(a * b)).to_bits().wrapping_add(ulps as u64));
            let results = MODES.map(|mode| fma(mode, a, b, c));
            check_f64_modes(results, a.mul_add(b, c), |r| compare_product_sum(a, b, c, r, 1.0))?;
        }

        #[test]
        fn sums_and_products_are_exactly_rounded(a in any_f64(), b in any_f64()) {
            let results = MODES.map(|mode| fma(mode, a, 1.0, b));
            check_f64_modes(results, a + b, |r| compare_product_sum(a, 1.0, b, r, 1.0))?;
            let results = MODES.map(|mode| mul(mode, a, b));
            check_f64_modes(results, a * b, |r| compare_product_sum(a, b, 0.0, r, 1.0))?;
        }

        #[test]
        fn quotients_are_exactly_rounded(a in any_f64(), b in any_f64()) {
            let results = MODES.map(|mode| div(mode, a, b));
            check_f64_modes(results, a / b, |r| {
                let order = compare_product_sum(a, 1.0, 0.0, r, b);
                if b.is_sign_negative() { order.reverse() } else { order }
            })?;
        }

        #[test]
        fn roots_are_exactly_rounded(a in any_f64()) {
            let a = a.abs();
            let results = MODES.map(|mode| sqrt(mode, a));
            check_f64_modes(results, a.sqrt(), |r| if r < 0.0 { Ordering::Greater } else {
                compare_product_sum(a, 1.0, 0.0, r, r)
            })?;
        }
    }

    #[test]
    fn special_values_do_not_depend_on_the_mode() {
        for mode in MODES {
            assert_eq!(fma(mode, 1e300, 1e300, f64::NEG_INFINITY), f64::NEG_INFINITY);
            assert!(fma(mode, f64::INFINITY, 0.0, 1.0).is_nan());
            assert_eq!(div(mode, -1.0, 0.0), f64::NEG_INFINITY);
            assert!(sqrt(mode, -1.0).is_nan());
            assert_eq!(sqrt(mode, -0.0).to_bits(), SIGN);
            assert_eq!(mul(mode, -0.0, 5.0).to_bits(), SIGN);
            assert_eq!(div(mode, 1.0, f64::NEG_INFINITY).to_bits(), SIGN);
        }
        assert_eq!(fma(Mode::Zero, 1e300, 1e300, -1.0), f64::MAX);
        assert_eq!(mul(Mode::Up, 1e-300, 1e-300), f64::from_bits(1));
    }
}
