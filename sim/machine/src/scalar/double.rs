//! f64 arithmetic: `add sub mul fma div rcp sqrt rsqrt` with every rounding mode.
//! Operands come in as f64, one correctly rounded result goes out; the two gross approximations say their error.
//! Nothing here flushes or saturates: f64 instructions have neither modifier, save for those approximations.

use super::round::{Mode, Round};
use super::soft;

/// `.sat` on one value: clamps to [0, 1]; NaN and -0 become +0.
#[inline(always)]
pub fn saturate(x: f64) -> f64 {
    let above = if x > 0.0 { x } else { 0.0 };
    if above < 1.0 { above } else { 1.0 }
}

/// `add.rnd.f64`.
#[inline(always)]
pub fn add_f64<R: Round>(a: f64, b: f64) -> f64 {
    match R::MODE {
        Mode::Nearest => a + b,
        mode => soft::fma(mode, a, 1.0, b),
    }
}

/// `sub.rnd.f64`.
#[inline(always)]
pub fn sub_f64<R: Round>(a: f64, b: f64) -> f64 {
    match R::MODE {
        Mode::Nearest => a - b,
        // A NaN keeps its sign.
        mode => soft::fma(mode, a, 1.0, if b.is_nan() { b } else { -b }),
    }
}

/// `mul.rnd.f64`.
#[inline(always)]
pub fn mul_f64<R: Round>(a: f64, b: f64) -> f64 {
    match R::MODE {
        Mode::Nearest => a * b,
        mode => soft::mul(mode, a, b),
    }
}

/// `fma.rnd.f64` and `mad.rnd.f64`.
#[inline(always)]
pub fn fma_f64<R: Round>(a: f64, b: f64, c: f64) -> f64 {
    match R::MODE {
        Mode::Nearest => a.mul_add(b, c),
        mode => soft::fma(mode, a, b, c),
    }
}

/// `div.rnd.f64`.
#[inline(always)]
pub fn div_f64<R: Round>(a: f64, b: f64) -> f64 {
    match R::MODE {
        Mode::Nearest => a / b,
        mode => soft::div(mode, a, b),
    }
}

/// `rcp.rnd.f64`.
#[inline(always)]
pub fn rcp_f64<R: Round>(a: f64) -> f64 {
    div_f64::<R>(1.0, a)
}

/// `sqrt.rnd.f64`.
#[inline(always)]
pub fn sqrt_f64<R: Round>(a: f64) -> f64 {
    match R::MODE {
        Mode::Nearest => a.sqrt(),
        mode => soft::sqrt(mode, a),
    }
}

/// `rsqrt.approx.f64`: within 2 ulp.
#[inline(always)]
pub fn rsqrt_f64(a: f64) -> f64 {
    1.0 / a.sqrt()
}

/// `rcp.approx.ftz.f64`: the low words of operand and result are dropped, so about 20 bits are right. Subnormal
/// operands and results count as zeros of the same sign.
#[inline(always)]
pub fn rcp_approx_ftz_f64(a: f64) -> f64 {
    gross_result(1.0 / gross(a))
}

/// `rsqrt.approx.ftz.f64`: as [`rcp_approx_ftz_f64`], of the root.
#[inline(always)]
pub fn rsqrt_approx_ftz_f64(a: f64) -> f64 {
    gross_result(1.0 / gross(a).sqrt())
}

/// The high word of an operand, subnormals flushed: a NaN whose payload is in the low word only counts as infinite.
#[inline(always)]
fn gross(x: f64) -> f64 {
    let high = x.to_bits() & 0xffff_ffff_0000_0000;
    let subnormal = high & 0x7ff0_0000_0000_0000 == 0;
    f64::from_bits(if subnormal { high & (1 << 63) } else { high })
}

/// A result rounded to its high word, subnormals flushed; any NaN becomes the one these instructions make.
#[inline(always)]
fn gross_result(x: f64) -> f64 {
    let bits = x.to_bits();
    let nan = bits & !(1 << 63) > f64::INFINITY.to_bits();
    let rounded = gross(f64::from_bits(bits.wrapping_add(0x8000_0000)));
    f64::from_bits(if nan { 0x7fff_ffff_0000_0000 } else { rounded.to_bits() })
}

#[cfg(test)]
mod tests {
    use super::super::{Rm, Rn, Rp, Rz};
    use super::*;

    #[test]
    fn gross_reciprocals_have_20_bits_and_an_empty_low_word() {
        for step in 1..100_000u64 {
            let x = f64::from_bits((step << 36).wrapping_mul(0x0000_1357_9bdf_0135) & 0x7fdf_ffff_ffff_ffff | 1 << 60);
            for (result, exact) in [(rcp_approx_ftz_f64(x), 1.0 / x), (rsqrt_approx_ftz_f64(x), 1.0 / x.sqrt())] {
                assert_eq!(result.to_bits() & 0xffff_ffff, 0);
                let subnormal = exact < f64::MIN_POSITIVE;
                assert!(subnormal || ((result - exact) / exact).abs() < 2f64.powi(-18), "{x:e}: {result:e} {exact:e}");
            }
        }
    }

    #[test]
    fn gross_reciprocals_treat_subnormals_as_zero() {
        assert_eq!(rcp_approx_ftz_f64(-f64::from_bits(1)), f64::NEG_INFINITY);
        assert_eq!(rcp_approx_ftz_f64(f64::NEG_INFINITY).to_bits(), 1 << 63);
        assert_eq!(rcp_approx_ftz_f64(f64::MAX), 0.0);
        assert_eq!(rsqrt_approx_ftz_f64(-f64::from_bits(9)), f64::NEG_INFINITY);
        assert!(rsqrt_approx_ftz_f64(-1.0).is_nan());
        assert_eq!(rcp_approx_ftz_f64(core::hint::black_box(-f64::NAN)).to_bits(), 0x7fff_ffff_0000_0000);
        // The payload is in the low word, which the instruction does not see.
        assert_eq!(rcp_approx_ftz_f64(f64::from_bits(0x7ff0_0000_0000_0001)), 0.0);
    }

    #[test]
    fn directed_results_enclose_the_nearest_one() {
        let third = (div_f64::<Rm>(1.0, 3.0), div_f64::<Rn>(1.0, 3.0), div_f64::<Rp>(1.0, 3.0));
        assert!(third.0 <= third.1 && third.1 <= third.2 && third.0.next_up() == third.2);
        assert_eq!(rcp_f64::<Rz>(4.0), 0.25);
        assert_eq!(sqrt_f64::<Rp>(2.0), sqrt_f64::<Rm>(2.0).next_up());
        assert_eq!(sub_f64::<Rm>(1.0, 1.0).to_bits(), 1 << 63);
        assert_eq!(add_f64::<Rp>(1.0, 1e-300), 1.0f64.next_up());
        assert_eq!(rsqrt_f64(0.25), 2.0);
        assert_eq!(saturate(-0.0).to_bits(), 0);
    }
}
