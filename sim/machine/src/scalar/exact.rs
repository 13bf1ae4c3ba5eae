//! Exact arithmetic for tests: the sign of `a * b + c - d * e` for f64 values, without any rounding.
//! Finite values come in, an ordering goes out; also the strategies that generate interesting floats.
//! Used by tests only.

use core::cmp::Ordering;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

/// Words of a fixed-point number whose unit is 2^-2148, the smallest product of two f64: 4300 bits and some slack.
const WORDS: usize = 70;
const UNIT: i32 = -2148;

/// A signed number in two's complement.
struct Fixed([u64; WORDS]);

impl Fixed {
    /// Adds `x * y`, or subtracts it.
    fn add_product(&mut self, x: f64, y: f64, negate: bool) {
        let ((sx, mx, ex), (sy, my, ey)) = (parts(x), parts(y));
        let product = u128::from(mx) * u128::from(my);
        let shift = (ex + ey - UNIT) as usize;
        let (word, bit) = (shift / 64, shift % 64);
        let mut pieces = [0u64; 3];
        pieces[0] = (product << bit) as u64;
        pieces[1] = (product >> (64 - bit).min(127)) as u64;
        pieces[2] = if bit == 0 { 0 } else { (product >> (128 - bit)) as u64 };
        if bit == 0 {
            pieces[1] = (product >> 64) as u64;
        }
        self.accumulate(word, pieces, (sx != sy) != negate);
    }

    fn accumulate(&mut self, word: usize, pieces: [u64; 3], subtract: bool) {
        let mut carry = false;
        for (index, slot) in self.0.iter_mut().enumerate().skip(word) {
            let piece = pieces.get(index - word).copied().unwrap_or(0);
            let (partial, first) = if subtract { slot.overflowing_sub(piece) } else { slot.overflowing_add(piece) };
            let (total, second) =
                if subtract { partial.overflowing_sub(carry.into()) } else { partial.overflowing_add(carry.into()) };
            *slot = total;
            carry = first | second;
        }
    }

    fn sign(&self) -> Ordering {
        if self.0[WORDS - 1] >> 63 == 1 {
            Ordering::Less
        } else if self.0.iter().all(|&word| word == 0) {
            Ordering::Equal
        } else {
            Ordering::Greater
        }
    }
}

fn parts(x: f64) -> (bool, u64, i32) {
    assert!(x.is_finite(), "exact arithmetic has no {x}");
    let bits = x.to_bits();
    let field = (bits >> 52 & 0x7ff) as i32;
    let fraction = bits & ((1 << 52) - 1);
    let significand = if field == 0 { fraction } else { fraction | 1 << 52 };
    (bits >> 63 == 1, significand, field.max(1) - 1075)
}

/// Compares `a * b + c` with `d * e`, exactly. If an operand is not finite, a finite result is exact: equal.
pub(crate) fn compare_product_sum(a: f64, b: f64, c: f64, d: f64, e: f64) -> Ordering {
    if [a, b, c, d, e].iter().any(|x| !x.is_finite()) {
        return Ordering::Equal;
    }
    let mut total = Fixed([0; WORDS]);
    total.add_product(a, b, false);
    total.add_product(c, 1.0, false);
    total.add_product(d, e, true);
    total.sign()
}

macro_rules! check_modes {
    ($name:ident, $t:ty) => {
        /// Checks results in the order rn, rz, rm, rp. `nearest` is the host's rounding of the same exact value;
        /// `compare(r)` orders the exact value against a finite candidate.
        pub(crate) fn $name(
            [rn, rz, rm, rp]: [$t; 4],
            nearest: $t,
            compare: impl Fn($t) -> Ordering,
        ) -> Result<(), TestCaseError> {
            if nearest.is_nan() {
                prop_assert!(rn.is_nan() && rz.is_nan() && rm.is_nan() && rp.is_nan());
                return Ok(());
            }
            prop_assert_eq!(rn.to_bits(), nearest.to_bits(), "nearest {:e} {:e}", rn, nearest);
            // An infinite bound has no exact comparison: it must then come from an overflow or an infinite operand.
            prop_assert!(
                rm == <$t>::NEG_INFINITY || rm == <$t>::INFINITY || compare(rm).is_ge(),
                "rm {:e} too high",
                rm
            );
            prop_assert!(
                rp == <$t>::INFINITY || rp == <$t>::NEG_INFINITY || compare(rp).is_le(),
                "rp {:e} too low",
                rp
            );
            prop_assert!(rm <= nearest && nearest <= rp, "{:e} {:e} {:e}", rm, nearest, rp);
            prop_assert!(rm == rp || rm.next_up() == rp, "{:e} and {:e} are not neighbours", rm, rp);
            if rm == rp && rm.is_finite() {
                prop_assert!(compare(rm).is_eq());
            } else if rm != rp {
                prop_assert!(!rm.is_finite() || compare(rm).is_gt());
                prop_assert!(!rp.is_finite() || compare(rp).is_lt());
            }
            let truncated = if rp <= 0.0 && (rm < 0.0 || rm.is_sign_negative()) { rp } else { rm };
            prop_assert_eq!(rz, truncated);
            Ok(())
        }
    };
}

check_modes!(check_f32_modes, f32);
check_modes!(check_f64_modes, f64);

/// Floats of every kind: any bits, simple values, near powers of two, subnormals.
pub(crate) fn any_f32() -> impl Strategy<Value = f32> {
    prop_oneof![
        3 => any::<u32>().prop_map(f32::from_bits),
        2 => (-20i32..20, any::<u32>()).prop_map(|(e, bits)| {
            f32::from_bits(bits & 0x807f_ffff | ((127 + e) as u32) << 23)
        }),
        1 => (0u32..255, -2i32..3, any::<bool>()).prop_map(|(field, ulps, negative)| {
            f32::from_bits((field << 23).wrapping_add(ulps as u32) & 0x7fff_ffff | u32::from(negative) << 31)
        }),
        1 => (0u32..0x0100_0000, any::<bool>()).prop_map(|(bits, negative)| f32::from_bits(bits | u32::from(negative) << 31)),
        1 => prop::sample::select(vec![0.0, -0.0, 1.0, -1.0, 3.0, f32::MAX, f32::MIN, f32::INFINITY, f32::NEG_INFINITY, f32::NAN]),
    ]
}

/// As [`any_f32`], for f64.
pub(crate) fn any_f64() -> impl Strategy<Value = f64> {
    prop_oneof![
        2 => any::<u64>().prop_map(f64::from_bits),
        3 => (-60i32..60, any::<u64>()).prop_map(|(e, bits)| {
            f64::from_bits(bits & 0x800f_ffff_ffff_ffff | ((1023 + e) as u64) << 52)
        }),
        1 => (0u64..2047, -2i64..3, any::<bool>()).prop_map(|(field, ulps, negative)| {
            f64::from_bits((field << 52).wrapping_add(ulps as u64) & !(1 << 63) | u64::from(negative) << 63)
        }),
        1 => (0u64..0x0020_0000_0000_0000, any::<bool>()).prop_map(|(bits, negative)| f64::from_bits(bits | u64::from(negative) << 63)),
        1 => prop::sample::select(vec![0.0, -0.0, 1.0, -1.0, 3.0, f64::MAX, f64::MIN, f64::INFINITY, f64::NEG_INFINITY, f64::NAN]),
    ]
}
