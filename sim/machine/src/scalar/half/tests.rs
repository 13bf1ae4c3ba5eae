//! Tests of 16-bit arithmetic: conversions over all bit patterns, operations against exactly rounded f64 arithmetic.
//! Results come from `super`, references from the `half` crate (round to nearest) and from exact comparison.
//! Never used outside tests.

use super::super::exact::compare_product_sum;
use super::super::{Rm, Rp, Rz};
use super::*;
use proptest::prelude::*;

/// The reference crate's own f64 conversion ignores the low word, so it gets an f32 rounded to odd.
fn f16_reference(x: f64) -> u16 {
    ::half::f16::from_f32(narrow::<Odd>(x, 0.0)).to_bits()
}

#[test]
fn every_f16_converts_exactly_and_back_in_every_mode() {
    for bits in 0..=u16::MAX {
        let value = F16::to_f32(bits);
        if is_nan::<F16>(bits) {
            assert_eq!(value.to_bits(), 0x7fff_ffff);
            assert_eq!(F16::from_f32::<Rn>(value), 0x7fff);
            continue;
        }
        assert_eq!(value.to_bits(), ::half::f16::from_bits(bits).to_f32().to_bits());
        assert_eq!(F16::from_f32::<Rn>(value), bits);
        assert_eq!(F16::from_f32::<Rz>(value), bits);
        assert_eq!(F16::from_f32::<Rm>(value), bits);
        assert_eq!(F16::from_f32::<Rp>(value), bits);
    }
}

#[test]
fn every_bf16_converts_exactly_and_back_in_every_mode() {
    for bits in 0..=u16::MAX {
        let value = Bf16::to_f32(bits);
        if is_nan::<Bf16>(bits) {
            assert_eq!(value.to_bits(), 0x7fff_ffff);
            assert_eq!(Bf16::from_f32::<Rn>(value), 0x7fff);
            continue;
        }
        assert_eq!(value.to_bits(), u32::from(bits) << 16);
        assert_eq!(Bf16::from_f32::<Rn>(value), bits);
        assert_eq!(Bf16::from_f32::<Rz>(value), bits);
        assert_eq!(Bf16::from_f32::<Rm>(value), bits);
        assert_eq!(Bf16::from_f32::<Rp>(value), bits);
    }
}

#[test]
fn rounding_to_f16_hits_every_gap() {
    // Between neighbours: just above, a quarter, half, three quarters, just below.
    for bits in 0..0x7c00u16 {
        let (low, high) =
            (f64::from(F16::to_f32(bits)), if bits == 0x7bff { 65536.0 } else { f64::from(F16::to_f32(bits + 1)) });
        for part in [1e-3, 0.25, 0.5, 0.75, 0.999] {
            let x = (low + (high - low) * part) as f32;
            for (sign, negative) in [(1.0, false), (-1.0, true)] {
                let (x, top) = (x * sign, u16::from(negative) << 15);
                assert_eq!(F16::from_f32::<Rn>(x), ::half::f16::from_f32(x).to_bits(), "{x:e}");
                assert_eq!(F16::from_f32::<Rz>(x), bits | top);
                assert_eq!(F16::from_f32::<Rm>(x), (bits + u16::from(negative)) | top);
                assert_eq!(F16::from_f32::<Rp>(x), (bits + u16::from(!negative)) | top);
            }
        }
    }
    assert_eq!(F16::from_f32::<Rz>(f32::INFINITY), 0x7c00);
    assert_eq!(F16::from_f32::<Rz>(1e30), 0x7bff);
    assert_eq!(F16::from_f32::<Rm>(-1e30), 0xfc00);
    assert_eq!(F16::from_f32::<Rm>(-1e-30), 0x8001);
    assert_eq!(F16::from_f32::<Rn>(65520.0), 0x7c00);
    assert_eq!(F16::from_f32::<Rn>(65519.996), 0x7bff);
}

#[test]
fn rounding_to_bf16_matches_the_reference_on_a_sweep() {
    for step in 0..(1u32 << 22) {
        let x = f32::from_bits(step.wrapping_mul(1021));
        if x.is_nan() {
            assert_eq!(Bf16::from_f32::<Rm>(x), 0x7fff);
            continue;
        }
        assert_eq!(Bf16::from_f32::<Rn>(x), ::half::bf16::from_f32(x).to_bits());
        let (down, up) = (Bf16::to_f32(Bf16::from_f32::<Rm>(x)), Bf16::to_f32(Bf16::from_f32::<Rp>(x)));
        assert!(down <= x && x <= up);
        assert_eq!(Bf16::from_f32::<Rz>(x), (x.to_bits() >> 16) as u16);
    }
}

/// Every pair of a thinned set of f16 values that keeps all exponents and both ends of each binade.
#[test]
fn f16_sums_and_products_are_correctly_rounded() {
    let sample: Vec<u16> =
        (0..=u16::MAX).filter(|bits| [0, 1, 2, 341, 682, 1022, 1023].contains(&(bits & 1023))).collect();
    for &a in &sample {
        for &b in &sample {
            let (x, y) = (f64::from(F16::to_f32(a)), f64::from(F16::to_f32(b)));
            if x.is_nan() || y.is_nan() {
                assert_eq!(add::<F16, false, false>(a, b), 0x7fff);
                continue;
            }
            // Both are exact in f64.
            for (result, exact) in [
                (add::<F16, false, false>(a, b), x + y),
                (sub::<F16, false, false>(a, b), x - y),
                (mul::<F16, false, false>(a, b), x * y),
            ] {
                let expected = if exact.is_nan() { 0x7fff } else { f16_reference(exact) };
                assert_eq!(result, expected, "{x:e} {y:e}");
            }
        }
    }
}

/// Checks that `result` is the value of the format nearest to `a * b + c`, ties to even, by exact comparison.
fn check_nearest<H: HalfFormat>(a: u16, b: u16, c: u16, result: u16) -> Result<(), TestCaseError> {
    let [x, y, z, r] = [a, b, c, result].map(|bits| f64::from(H::to_f32(bits)));
    let rough = x.mul_add(y, z);
    if [x, y, z].iter().any(|operand| !operand.is_finite()) {
        prop_assert!(r == rough || (r.is_nan() && rough.is_nan()));
        return Ok(());
    }
    let magnitude = result & 0x7fff;
    // Midpoints to the neighbours; beyond the largest value the next binade's first value stands in.
    let value = |bits: u16| {
        if bits == H::INFINITY {
            2.0 * f64::from(H::to_f32(bits - 1)) - f64::from(H::to_f32(bits - 2))
        } else {
            f64::from(H::to_f32(bits))
        }
    };
    let sign = if result & 0x8000 != 0 { -1.0 } else { 1.0 };
    let even = magnitude & 1 == 0;
    let order = |limit: f64| {
        let order = compare_product_sum(x, y, z, limit, 1.0);
        if sign < 0.0 { order.reverse() } else { order }
    };
    if magnitude > 0 {
        let below = sign * (value(magnitude - 1) + value(magnitude)) / 2.0;
        prop_assert!(order(below).is_gt() || (even && order(below).is_eq()), "{x:e}*{y:e}+{z:e} = {r:e} too large");
    }
    if magnitude < H::INFINITY {
        let above = sign * (value(magnitude) + value(magnitude + 1)) / 2.0;
        prop_assert!(order(above).is_lt() || (even && order(above).is_eq()), "{x:e}*{y:e}+{z:e} = {r:e} too small");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100_000))]

    #[test]
    fn f16_fused_sums_are_rounded_once(a: u16, b: u16, c: u16) {
        check_nearest::<F16>(a, b, c, fma::<F16, false, false, false>(a, b, c))?;
    }

    #[test]
    fn bf16_fused_sums_are_rounded_once(a: u16, b: u16, c: u16) {
        check_nearest::<Bf16>(a, b, c, fma::<Bf16, false, false, false>(a, b, c))?;
    }

    #[test]
    fn close_bf16_fused_sums_are_rounded_once(a in 0x3f00u16..0x4080, b in 0x3f00u16..0x4080, c: u16, scale in 0u16..20) {
        // Addends near half a unit of the product, where double rounding would show.
        let c = c & 0x807f | (0x3f80 - (scale << 7));
        check_nearest::<Bf16>(a, b, c, fma::<Bf16, false, false, false>(a, b, c))?;
    }

    #[test]
    fn close_f16_fused_sums_are_rounded_once(a in 0x3800u16..0x4400, b in 0x3800u16..0x4400, c: u16, scale in 0u16..14) {
        let c = c & 0x83ff | (0x3c00 - (scale << 10));
        check_nearest::<F16>(a, b, c, fma::<F16, false, false, false>(a, b, c))?;
    }

    #[test]
    fn subnormal_bf16_products_are_rounded_once(a in 0x1000u16..0x2100, b in 0x1000u16..0x2100) {
        check_nearest::<Bf16>(a, b, 0, mul::<Bf16, false, false>(a, b))?;
    }

    #[test]
    fn bf16_sums_and_products_are_correctly_rounded(a: u16, b: u16) {
        check_nearest::<Bf16>(a, Bf16::ONE, b, add::<Bf16, false, false>(a, b))?;
        check_nearest::<Bf16>(a, Bf16::ONE, b ^ 0x8000, sub::<Bf16, false, false>(a, b))?;
        check_nearest::<Bf16>(a, b, 0, mul::<Bf16, false, false>(a, b))?;
    }

    #[test]
    fn extremes_agree_with_f32(a: u16, b: u16) {
        use super::super::order::{max_f32, min_f32};
        fn same<H: HalfFormat>(a: u16, b: u16) -> bool {
            let (x, y) = (H::to_f32(a), H::to_f32(b));
            let back = |x: f32| H::from_f32::<Rn>(x);
            min::<H, false, false, false>(a, b) == back(min_f32::<false, false, false>(x, y))
                && max::<H, false, false, false>(a, b) == back(max_f32::<false, false, false>(x, y))
                && max::<H, false, true, false>(a, b) == back(max_f32::<false, true, false>(x, y))
                && (is_nan::<H>(a) || is_nan::<H>(b)
                    || min::<H, false, false, true>(a, b) == back(min_f32::<false, false, true>(x, y)))
        }
        prop_assert!(same::<F16>(a, b) && same::<Bf16>(a, b));
    }
}

#[test]
fn modifiers_apply_to_the_rounded_result() {
    let (one, two) = (0x3c00, 0x4000);
    assert_eq!(add::<F16, false, true>(one, two), one);
    assert_eq!(sub::<F16, false, true>(one, two), 0);
    assert_eq!(add::<F16, false, true>(0x7e00, one), 0);
    assert_eq!(fma::<F16, false, false, true>(one, 0xc000, one), 0);
    assert_eq!(fma::<F16, false, false, true>(0x7e00, one, one), 0x7fff);
    assert_eq!(fma::<Bf16, false, false, true>(0x3f80, 0xc000, 0x3f80), 0);
    assert_eq!(add::<F16, true, false>(0x0001, 0x8002), 0);
    assert_eq!(add::<F16, false, false>(0x0001, 0x0002), 3);
    assert_eq!(mul::<F16, true, false>(0x0400, 0xb800), 0x8000);
    assert_eq!(neg::<F16, true>(0x0001), 0x8000);
    assert_eq!(abs::<Bf16, false>(0xbf80), 0x3f80);
    assert_eq!(finite::<F16>(0xfc00), 0xfbff);
    assert_eq!(finite::<Bf16>(0x7f80), 0x7f7f);
}

#[test]
fn pairs_work_half_by_half() {
    let (a, b) = (0x4000_3c00, 0x3c00_4000);
    assert_eq!(each2(a, b, add::<F16, false, false>), 0x4200_4200);
    assert_eq!(each3(a, b, a, fma::<F16, false, false, false>), 0x4400_4200);
    assert_eq!(each(a, neg::<F16, false>), 0xc000_bc00);
    assert_eq!(compare2::<F16, false>(CompareOp::Lt, a, b), (true, false));
    assert!(compare::<Bf16, false>(CompareOp::Nan, 0x7fc0, 0));
    assert!(compare::<F16, true>(CompareOp::Eq, 1, 0x8001));
}
