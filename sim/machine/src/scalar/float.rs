//! f32 arithmetic: `add sub mul fma div rcp sqrt rsqrt` with every rounding mode, `.ftz` and `.sat`.
//! Operands come in as f32, one correctly rounded result goes out (approximate forms say their error).
//! Nothing here compares (see `order`, `compare`) or converts (see `convert`).

use super::NAN_F32;
use super::round::{Mode, Round, narrow, sum_to_f32};

/// `.ftz` on one value: a subnormal becomes zero of the same sign.
#[inline(always)]
pub fn flush(x: f32) -> f32 {
    let bits = x.to_bits();
    let kept = if bits & 0x7f80_0000 == 0 { bits & 0x8000_0000 } else { bits };
    f32::from_bits(kept)
}

/// `.sat` on one value: clamps to [0, 1]; NaN and -0 become +0.
#[inline(always)]
pub fn saturate(x: f32) -> f32 {
    let above = if x > 0.0 { x } else { 0.0 };
    if above < 1.0 { above } else { 1.0 }
}

/// `.relu` on one value: negative values and -0 become +0, NaN the canonical NaN.
#[inline(always)]
pub fn relu(x: f32) -> f32 {
    let positive = if x > 0.0 { x } else { 0.0 };
    let nan = x.to_bits() & 0x7fff_ffff > 0x7f80_0000;
    f32::from_bits(if nan { NAN_F32.to_bits() } else { positive.to_bits() })
}

/// Replaces any NaN by the canonical one.
#[inline(always)]
pub fn canonical(x: f32) -> f32 {
    // On the bits: the compiler treats all NaN as alike and drops a choice between two of them.
    let bits = x.to_bits();
    f32::from_bits(if bits & 0x7fff_ffff > 0x7f80_0000 { NAN_F32.to_bits() } else { bits })
}

/// 2^48: operands scaled by it give a result that is never subnormal.
const SCALE: f32 = 281_474_976_710_656.0;

/// `.ftz` on a result, given the same result of operands scaled by 2^48.
///
/// GPUs flush what is below the smallest normal number when rounded as if exponents had no limit. A result just below
/// it, which gradual underflow would round up to it, is zero therefore; the scaled result tells.
#[inline(always)]
fn flush_scaled<const FTZ: bool>(x: f32, scaled: f32) -> f32 {
    if !FTZ {
        return x;
    }
    let zero = f32::from_bits(x.to_bits() & 0x8000_0000);
    if scaled.abs() < f32::MIN_POSITIVE * SCALE { zero } else { flush(x) }
}

/// The factor for the second evaluation that [`flush_scaled`] wants.
#[inline(always)]
fn scaled(x: f32) -> f32 {
    x * SCALE
}

#[inline(always)]
pub(crate) fn input<const FTZ: bool>(x: f32) -> f32 {
    if FTZ { flush(x) } else { x }
}

#[inline(always)]
pub(crate) fn output<const FTZ: bool, const SAT: bool>(x: f32) -> f32 {
    let flushed = if FTZ { flush(x) } else { x };
    if SAT { saturate(flushed) } else { canonical(flushed) }
}

/// `add.rnd{.ftz}{.sat}.f32`.
#[inline(always)]
pub fn add_f32<R: Round, const FTZ: bool, const SAT: bool>(a: f32, b: f32) -> f32 {
    let (a, b) = (input::<FTZ>(a), input::<FTZ>(b));
    output::<FTZ, SAT>(match R::MODE {
        Mode::Nearest => a + b,
        _ => sum_to_f32::<R>(f64::from(a), f64::from(b)),
    })
}

/// `sub.rnd{.ftz}{.sat}.f32`.
#[inline(always)]
pub fn sub_f32<R: Round, const FTZ: bool, const SAT: bool>(a: f32, b: f32) -> f32 {
    add_f32::<R, FTZ, SAT>(a, -b)
}

/// `mul.rnd{.ftz}{.sat}.f32`.
#[inline(always)]
pub fn mul_f32<R: Round, const FTZ: bool, const SAT: bool>(a: f32, b: f32) -> f32 {
    let (a, b) = (input::<FTZ>(a), input::<FTZ>(b));
    let product = |a: f32, b: f32| match R::MODE {
        Mode::Nearest => a * b,
        // 24 x 24 bits fit f64's 53, and its exponents reach far below the smallest product.
        _ => narrow::<R>(f64::from(a) * f64::from(b), 0.0),
    };
    output::<FTZ, SAT>(flush_scaled::<FTZ>(product(a, b), product(scaled(a), b)))
}

/// `fma.rnd{.ftz}{.sat}.f32`, and `mad` of every target since sm_20.
#[inline(always)]
pub fn fma_f32<R: Round, const FTZ: bool, const SAT: bool>(a: f32, b: f32, c: f32) -> f32 {
    let (a, b, c) = (input::<FTZ>(a), input::<FTZ>(b), input::<FTZ>(c));
    let sum = |a: f32, b: f32, c: f32| match R::MODE {
        Mode::Nearest => a.mul_add(b, c),
        _ => sum_to_f32::<R>(f64::from(a) * f64::from(b), f64::from(c)),
    };
    output::<FTZ, SAT>(flush_scaled::<FTZ>(sum(a, b, c), sum(scaled(a), b, scaled(c))))
}

/// `div.rnd{.ftz}.f32`, IEEE. `div.full` is this with [`super::Rn`].
#[inline(always)]
pub fn div_f32<R: Round, const FTZ: bool>(a: f32, b: f32) -> f32 {
    let (a, b) = (input::<FTZ>(a), input::<FTZ>(b));
    let quotient = |a: f32, b: f32| match R::MODE {
        Mode::Nearest => a / b,
        _ => {
            let (a, b) = (f64::from(a), f64::from(b));
            let quotient = a / b;
            // The remainder of the dividend shows on which side of the exact quotient this one lies.
            let left = (-quotient).mul_add(b, a);
            narrow::<R>(quotient, left.signum_or_zero() * b.signum())
        }
    };
    output::<FTZ, false>(flush_scaled::<FTZ>(quotient(a, b), quotient(scaled(a), b)))
}

/// `div.approx{.ftz}.f32`: at most 2 ulp. A divisor above 2^126 gives 0, or NaN for an infinite dividend, as the ISA
/// documents.
#[inline(always)]
pub fn div_approx_f32<const FTZ: bool>(a: f32, b: f32) -> f32 {
    const LARGE: f32 = f32::from_bits(0x7e80_0000); // 2^126
    let (a, b) = (input::<FTZ>(a), input::<FTZ>(b));
    let quotient = a / b;
    let magnitude = b.abs();
    let huge = (magnitude > LARGE) & (magnitude < f32::INFINITY);
    let lost = if a.is_infinite() { NAN_F32 } else { 0f32.copysign(quotient) };
    output::<FTZ, false>(if huge & !a.is_nan() { lost } else { quotient })
}

/// `rcp.rnd{.ftz}.f32`, IEEE; with [`super::Rn`] also `rcp.approx{.ftz}.f32` (the ISA allows 1 ulp there).
#[inline(always)]
pub fn rcp_f32<R: Round, const FTZ: bool>(a: f32) -> f32 {
    // No reciprocal lies so close below the smallest normal number that the two ways of flushing differ.
    output::<FTZ, false>(div_f32::<R, false>(1.0, input::<FTZ>(a)))
}

/// `sqrt.rnd{.ftz}.f32`, IEEE; with [`super::Rn`] also `sqrt.approx{.ftz}.f32`.
#[inline(always)]
pub fn sqrt_f32<R: Round, const FTZ: bool>(a: f32) -> f32 {
    let a = input::<FTZ>(a);
    output::<FTZ, false>(match R::MODE {
        Mode::Nearest => a.sqrt(),
        _ => {
            let wide = f64::from(a);
            let root = wide.sqrt();
            narrow::<R>(root, (-root).mul_add(root, wide))
        }
    })
}

/// `rsqrt.approx{.ftz}.f32`: relative error at most 2^-23.
#[inline(always)]
pub fn rsqrt_f32<const FTZ: bool>(a: f32) -> f32 {
    output::<FTZ, false>(1.0 / input::<FTZ>(a).sqrt())
}

/// The sign of a value as -1, 0 or 1; 0 for NaN.
trait SignumOrZero {
    fn signum_or_zero(self) -> Self;
}

impl SignumOrZero for f64 {
    #[inline(always)]
    fn signum_or_zero(self) -> f64 {
        f64::from(u8::from(self > 0.0)) - f64::from(u8::from(self < 0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::super::exact::{any_f32, check_f32_modes, compare_product_sum};
    use super::super::{Rm, Rn, Rp, Rz};
    use super::*;
    use core::cmp::Ordering;
    use proptest::prelude::*;

    /// The four roundings of one operation.
    macro_rules! in_all_modes {
        ($f:ident::<R $(, $flag:literal)*>($($arg:expr),*)) => {
            [$f::<Rn $(, $flag)*>($($arg),*), $f::<Rz $(, $flag)*>($($arg),*), $f::<Rm $(, $flag)*>($($arg),*), $f::<Rp $(, $flag)*>($($arg),*)]
        };
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        #[test]
        fn sums_are_rounded_as_the_exact_sum(a in any_f32(), b in any_f32()) {
            let results = in_all_modes!(add_f32::<R, false, false>(a, b));
            check_f32_modes(results, a + b, |r| compare_product_sum(f64::from(a), 1.0, f64::from(b), f64::from(r), 1.0))?;
        }

        #[test]
        fn products_are_rounded_as_the_exact_product(a in any_f32(), b in any_f32()) {
            let results = in_all_modes!(mul_f32::<R, false, false>(a, b));
            check_f32_modes(results, a * b, |r| compare_product_sum(f64::from(a), f64::from(b), 0.0, f64::from(r), 1.0))?;
        }

        #[test]
        fn fused_sums_are_rounded_once(a in any_f32(), b in any_f32(), c in any_f32()) {
            let results = in_all_modes!(fma_f32::<R, false, false>(a, b, c));
            check_f32_modes(results, a.mul_add(b, c), |r| compare_product_sum(f64::from(a), f64::from(b), f64::from(c), f64::from(r), 1.0))?;
        }

        #[test]
        fn cancelling_fused_sums_are_rounded_once(a in any_f32(), b in any_f32(), ulps in -3i32..4) {
            let c = f32::from_bits((-(a * b)).to_bits().wrapping_add(ulps as u32));
            let results = in_all_modes!(fma_f32::<R, false, false>(a, b, c));
            check_f32_modes(results, a.mul_add(b, c), |r| compare_product_sum(f64::from(a), f64::from(b), f64::from(c), f64::from(r), 1.0))?;
        }

        #[test]
        fn quotients_are_rounded_as_the_exact_quotient(a in any_f32(), b in any_f32()) {
            let results = in_all_modes!(div_f32::<R, false>(a, b));
            check_f32_modes(results, a / b, |r| {
                let order = compare_product_sum(f64::from(a), 1.0, 0.0, f64::from(r), f64::from(b));
                if b.is_sign_negative() { order.reverse() } else { order }
            })?;
        }

        #[test]
        fn roots_are_rounded_as_the_exact_root(a in any_f32()) {
            let a = a.abs();
            let results = in_all_modes!(sqrt_f32::<R, false>(a));
            check_f32_modes(results, a.sqrt(), |r| if r < 0.0 { Ordering::Greater } else {
                compare_product_sum(f64::from(a), 1.0, 0.0, f64::from(r), f64::from(r))
            })?;
        }
    }

    #[test]
    fn an_exact_zero_sum_has_the_sign_of_the_mode() {
        assert_eq!(in_all_modes!(add_f32::<R, false, false>(1.5, -1.5)).map(f32::to_bits), [0, 0, 1 << 31, 0]);
        assert_eq!(add_f32::<Rm, false, false>(0.0, 0.0).to_bits(), 0);
        assert_eq!(add_f32::<Rm, false, false>(0.0, -0.0).to_bits(), 1 << 31);
        assert_eq!(add_f32::<Rp, false, false>(-0.0, -0.0).to_bits(), 1 << 31);
        assert_eq!(fma_f32::<Rm, false, false>(2.0, 3.0, -6.0).to_bits(), 1 << 31);
        assert_eq!(fma_f32::<Rz, false, false>(2.0, 3.0, -6.0).to_bits(), 0);
    }

    #[test]
    fn nan_is_canonical_and_infinities_pass_in_every_mode() {
        let payload = f32::from_bits(0xffc1_2345);
        for r in in_all_modes!(add_f32::<R, false, false>(payload, 1.0)) {
            assert_eq!(r.to_bits(), 0x7fff_ffff);
        }
        for r in in_all_modes!(mul_f32::<R, true, false>(f32::INFINITY, 0.0)) {
            assert_eq!(r.to_bits(), 0x7fff_ffff);
        }
        assert_eq!(in_all_modes!(add_f32::<R, false, false>(f32::NEG_INFINITY, 1.0)), [f32::NEG_INFINITY; 4]);
        assert_eq!(in_all_modes!(div_f32::<R, false>(1.0, 0.0)), [f32::INFINITY; 4]);
        assert_eq!(in_all_modes!(div_f32::<R, false>(1.0, f32::INFINITY)), [0.0; 4]);
        assert_eq!(in_all_modes!(sqrt_f32::<R, false>(f32::INFINITY)), [f32::INFINITY; 4]);
        assert!(in_all_modes!(sqrt_f32::<R, false>(-1.0)).iter().all(|r| r.to_bits() == 0x7fff_ffff));
        assert_eq!(sqrt_f32::<Rm, false>(-0.0).to_bits(), 1 << 31);
        assert_eq!(
            in_all_modes!(add_f32::<R, false, false>(f32::MAX, f32::MAX)),
            [f32::INFINITY, f32::MAX, f32::MAX, f32::INFINITY]
        );
    }

    #[test]
    fn results_flush_as_if_exponents_had_no_limit() {
        let (below_one, smallest) = (1f32.next_down(), f32::MIN_POSITIVE);
        // As an H200 computes it: gradual underflow would round this up to the smallest normal number.
        assert_eq!(mul_f32::<Rn, true, false>(below_one, -smallest).to_bits(), 0x8000_0000);
        assert_eq!(mul_f32::<Rn, false, false>(below_one, -smallest), -smallest);
        assert_eq!(fma_f32::<Rn, true, false>(below_one, smallest, 0.0), 0.0);
        assert_eq!(fma_f32::<Rn, true, false>(1.0, smallest, 0.0), smallest);
        assert_eq!(mul_f32::<Rp, true, false>(below_one, smallest), 0.0);
        assert_eq!(div_f32::<Rn, true>(smallest, 1f32.next_up()), 0.0);
        assert_eq!(div_f32::<Rn, true>(smallest, -1.0), -smallest);
        assert_eq!(mul_f32::<Rn, true, false>(f32::MAX, 0.0), 0.0);
        assert_eq!(fma_f32::<Rn, true, false>(f32::MAX, 1.0, f32::MIN), 0.0);
        assert_eq!(mul_f32::<Rn, true, false>(f32::MAX, smallest), f32::MAX * smallest);
    }

    #[test]
    fn nan_is_canonical_whatever_the_compiler_knows() {
        let hide = core::hint::black_box::<f32>;
        assert_eq!(sqrt_f32::<Rn, false>(hide(-1.0)).to_bits(), 0x7fff_ffff);
        assert_eq!(rsqrt_f32::<false>(hide(-1.0)).to_bits(), 0x7fff_ffff);
        assert_eq!(add_f32::<Rn, false, false>(hide(f32::INFINITY), hide(f32::NEG_INFINITY)).to_bits(), 0x7fff_ffff);
        assert_eq!(fma_f32::<Rn, true, false>(hide(0.0), hide(f32::INFINITY), 1.0).to_bits(), 0x7fff_ffff);
        assert_eq!(div_f32::<Rn, false>(hide(0.0), hide(0.0)).to_bits(), 0x7fff_ffff);
        assert_eq!(div_approx_f32::<true>(hide(0.0), hide(0.0)).to_bits(), 0x7fff_ffff);
    }

    #[test]
    fn flushing_keeps_the_sign_on_both_sides() {
        let tiny = f32::from_bits(0x8000_0001);
        assert_eq!(flush(tiny).to_bits(), 0x8000_0000);
        assert_eq!(add_f32::<Rn, true, false>(tiny, -0.0).to_bits(), 0x8000_0000);
        assert_eq!(mul_f32::<Rn, true, false>(-f32::MIN_POSITIVE, 0.5).to_bits(), 0x8000_0000);
        assert_eq!(mul_f32::<Rn, false, false>(f32::MIN_POSITIVE, 0.5).to_bits(), 0x0040_0000);
        assert_eq!(rcp_f32::<Rn, true>(tiny), f32::NEG_INFINITY);
        assert_eq!(rsqrt_f32::<true>(tiny), f32::NEG_INFINITY);
    }

    #[test]
    fn saturation_clamps_and_drops_nan() {
        assert_eq!(add_f32::<Rn, false, true>(2.0, 3.0), 1.0);
        assert_eq!(add_f32::<Rn, false, true>(-2.0, 0.0).to_bits(), 0);
        assert_eq!(mul_f32::<Rn, false, true>(f32::NAN, 0.0).to_bits(), 0);
        assert_eq!(mul_f32::<Rn, false, true>(-0.0, 1.0).to_bits(), 0);
        assert_eq!(fma_f32::<Rz, false, true>(0.5, 0.5, 0.25), 0.5);
        assert_eq!(relu(-0.0).to_bits(), 0);
        assert_eq!(relu(-f32::NAN).to_bits(), 0x7fff_ffff);
    }

    #[test]
    fn approximate_division_loses_huge_divisors() {
        assert_eq!(div_approx_f32::<false>(6.0, 2.0), 3.0);
        assert_eq!(div_approx_f32::<false>(f32::MAX, -f32::MAX).to_bits(), 1 << 31);
        assert!(div_approx_f32::<false>(f32::INFINITY, f32::MAX).is_nan());
        assert_eq!(div_approx_f32::<false>(1.0, f32::INFINITY), 0.0);
    }

    #[test]
    fn inverse_roots_stay_within_their_error() {
        for step in 1..0x7f80_0000u32 / 4099 {
            let x = f32::from_bits(step * 4099);
            let exact = 1.0 / f64::from(x).sqrt();
            let error = (f64::from(rsqrt_f32::<false>(x)) - exact).abs() / exact;
            assert!(error <= 2f64.powi(-23), "{x:e}: {error:e}");
        }
    }
}
