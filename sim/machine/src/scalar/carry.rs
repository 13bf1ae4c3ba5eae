//! Extended-precision integer arithmetic: two words and a carry in, a word and a carry out.
//! The carry is the `CC.CF` flag of `add.cc`, `addc`, `sub.cc`, `subc`, `mad.cc` and `madc`; the caller keeps it.
//! Nothing here is signed: the bits are the same for s32 and u32, s64 and u64.

/// A word that carry chains work on: u32 or u64.
pub trait CarryWord: super::Int {
    /// `self + b + carry`, and whether it overflowed.
    fn add_with(self, b: Self, carry: bool) -> (Self, bool);
    /// `self - b - borrow`, and whether it borrowed.
    fn sub_with(self, b: Self, borrow: bool) -> (Self, bool);
}

macro_rules! carry_word {
    ($($t:ty)*) => {$(
        impl CarryWord for $t {
            #[inline(always)]
            fn add_with(self, b: Self, carry: bool) -> (Self, bool) {
                let (partial, first) = self.overflowing_add(b);
                let (sum, second) = partial.overflowing_add(Self::from(carry));
                (sum, first | second)
            }
            #[inline(always)]
            fn sub_with(self, b: Self, borrow: bool) -> (Self, bool) {
                let (partial, first) = self.overflowing_sub(b);
                let (difference, second) = partial.overflowing_sub(Self::from(borrow));
                (difference, first | second)
            }
        }
    )*};
}

carry_word!(u32 u64);

/// `add.cc`: sum and carry-out.
#[inline(always)]
pub fn add_cc<T: CarryWord>(a: T, b: T) -> (T, bool) {
    a.add_with(b, false)
}

/// `addc` and `addc.cc`: sum with carry-in, and carry-out.
#[inline(always)]
pub fn addc<T: CarryWord>(a: T, b: T, carry: bool) -> (T, bool) {
    a.add_with(b, carry)
}

/// `sub.cc`: difference and borrow-out (the flag is set when `a < b`).
#[inline(always)]
pub fn sub_cc<T: CarryWord>(a: T, b: T) -> (T, bool) {
    a.sub_with(b, false)
}

/// `subc` and `subc.cc`: `a - (b + borrow)`, and borrow-out.
#[inline(always)]
pub fn subc<T: CarryWord>(a: T, b: T, borrow: bool) -> (T, bool) {
    a.sub_with(b, borrow)
}

/// `mad.lo.cc` (`carry` false) and `madc.lo{.cc}`: low half of the product plus `c` plus carry, and carry-out.
#[inline(always)]
pub fn madc_lo<T: CarryWord>(a: T, b: T, c: T, carry: bool) -> (T, bool) {
    a.times(b).add_with(c, carry)
}

/// `mad.hi.cc` and `madc.hi{.cc}` of unsigned operands: high half of the product plus `c` plus carry, and carry-out.
#[inline(always)]
pub fn madc_hi<T: CarryWord>(a: T, b: T, c: T, carry: bool) -> (T, bool) {
    a.times_high(b).add_with(c, carry)
}

/// `mad.hi.cc.s32` and `madc.hi{.cc}.s32`: as [`madc_hi`], with the high half of the signed product.
#[inline(always)]
pub fn madc_hi_s32(a: i32, b: i32, c: u32, carry: bool) -> (u32, bool) {
    (super::int::mul_hi(a, b) as u32).add_with(c, carry)
}

/// `mad.hi.cc.s64` and `madc.hi{.cc}.s64`: as [`madc_hi`], with the high half of the signed product.
#[inline(always)]
pub fn madc_hi_s64(a: i64, b: i64, c: u64, carry: bool) -> (u64, bool) {
    (super::int::mul_hi(a, b) as u64).add_with(c, carry)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn chains_of_32_bits_compute_64_bits(a: u64, b: u64, c: u64) {
            let (low, carry) = add_cc(a as u32, b as u32);
            let (high, overflow) = addc((a >> 32) as u32, (b >> 32) as u32, carry);
            prop_assert_eq!((u64::from(high) << 32 | u64::from(low), overflow), a.overflowing_add(b));

            let (low, borrow) = sub_cc(a as u32, b as u32);
            let (high, underflow) = subc((a >> 32) as u32, (b >> 32) as u32, borrow);
            prop_assert_eq!((u64::from(high) << 32 | u64::from(low), underflow), a.overflowing_sub(b));

            let (x, y) = (a as u32, b as u32);
            let (low, carry) = madc_lo(x, y, c as u32, false);
            let (high, _) = madc_hi(x, y, (c >> 32) as u32, carry);
            let whole = u64::from(x).wrapping_mul(u64::from(y)).wrapping_add(c);
            prop_assert_eq!(u64::from(high) << 32 | u64::from(low), whole);

            let (low, carry) = madc_lo(x, y, c as u32, false);
            let (high, _) = madc_hi_s32(x as i32, y as i32, (c >> 32) as u32, carry);
            let whole = i64::from(x as i32).wrapping_mul(i64::from(y as i32)).wrapping_add(c as i64);
            prop_assert_eq!(u64::from(high) << 32 | u64::from(low), whole as u64);

            let (low, carry) = madc_lo(a, b, c, true);
            let (high, _) = madc_hi(a, b, 0, carry);
            let whole = u128::from(a) * u128::from(b) + u128::from(c) + 1;
            prop_assert_eq!(u128::from(high) << 64 | u128::from(low), whole);

            let (low, carry) = madc_lo(a, b, c, false);
            let (high, _) = madc_hi_s64(a as i64, b as i64, 0, carry);
            let whole = i128::from(a as i64) * i128::from(b as i64) + i128::from(c);
            prop_assert_eq!((u128::from(high) << 64 | u128::from(low)) as i128, whole);
        }
    }

    #[test]
    fn borrow_is_set_when_the_subtrahend_is_larger() {
        assert_eq!(sub_cc(3u32, 4), (u32::MAX, true));
        assert_eq!(subc(4u32, 4, true), (u32::MAX, true));
        assert_eq!(subc(5u32, 4, true), (0, false));
    }
}
