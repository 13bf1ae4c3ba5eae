//! The integer types of PTX operands, as a trait that the generic functions of the other files are written against.
//! One method per primitive of one type; the instructions' own rules (clamped shifts, zero divisors) are named where
//! they live here. Nothing outside this folder should need the methods: it calls the functions.

use core::ops::{BitAnd, BitOr, BitXor, Not};

/// An integer type of a PTX register operand.
pub trait Int:
    Copy
    + Ord
    + Default
    + core::fmt::Debug
    + BitAnd<Output = Self>
    + BitOr<Output = Self>
    + BitXor<Output = Self>
    + Not<Output = Self>
    + Send
    + Sync
    + 'static
{
    /// The type of twice the width and the same signedness (`u128`/`i128` for 64 bits, where PTX has none).
    type Wide: Copy;
    /// Width in bits.
    const BITS: u32;
    /// Whether the type is signed.
    const SIGNED: bool;
    /// Zero.
    const ZERO: Self;
    /// One.
    const ONE: Self;
    /// The smallest value.
    const MIN: Self;
    /// The largest value.
    const MAX: Self;

    /// `self + b`, wrapping.
    fn plus(self, b: Self) -> Self;
    /// `self - b`, wrapping.
    fn minus(self, b: Self) -> Self;
    /// Low half of `self * b`.
    fn times(self, b: Self) -> Self;
    /// High half of `self * b`.
    fn times_high(self, b: Self) -> Self;
    /// The whole of `self * b`.
    fn times_wide(self, b: Self) -> Self::Wide;
    /// `a + b` in the wide type, wrapping.
    fn plus_wide(a: Self::Wide, b: Self::Wide) -> Self::Wide;
    /// Quotient; see [`super::int::div`].
    fn quotient(self, b: Self) -> Self;
    /// Remainder; see [`super::int::rem`].
    fn remainder(self, b: Self) -> Self;
    /// `self << amount` for `amount < BITS`.
    fn left(self, amount: u32) -> Self;
    /// `self >> amount` for `amount < BITS`, arithmetic if signed.
    fn right(self, amount: u32) -> Self;
    /// `self + b`, clamped to the type's range.
    fn plus_saturating(self, b: Self) -> Self;
    /// `self - b`, clamped to the type's range.
    fn minus_saturating(self, b: Self) -> Self;
    /// Truncates or sign-extends a 64-bit value.
    fn from_i64(x: i64) -> Self;
    /// Truncates or zero-extends a 64-bit value.
    fn from_u64(x: u64) -> Self;
    /// Clamps a signed value to the type's range.
    fn clamp_i64(x: i64) -> Self;
    /// Clamps an unsigned value to the type's range.
    fn clamp_u64(x: u64) -> Self;
    /// The value in 64 bits: sign-extended if signed, zero-extended if not, as a bit pattern.
    fn to_u64(self) -> u64;
    /// The truncated value of an f32 clamped to the type's range; 0 for NaN.
    fn clamp_f32(x: f32) -> Self;
    /// The truncated value of an f64 clamped to the type's range; 0 for NaN.
    fn clamp_f64(x: f64) -> Self;
    /// The value of a sign and a magnitude, clamped to the type's range; 0 if `nan`.
    fn from_magnitude(magnitude: u64, negative: bool, nan: bool) -> Self;
    /// The nearest f32.
    fn nearest_f32(self) -> f32;
    /// The nearest f64.
    fn nearest_f64(self) -> f64;
}

macro_rules! int {
    ($($t:ty, $wide:ty, $unsigned:ty, $signed:literal;)*) => {$(
        impl Int for $t {
            type Wide = $wide;
            const BITS: u32 = <$t>::BITS;
            const SIGNED: bool = $signed;
            const ZERO: Self = 0;
            const ONE: Self = 1;
            const MIN: Self = <$t>::MIN;
            const MAX: Self = <$t>::MAX;

            #[inline(always)]
            fn plus(self, b: Self) -> Self {
                self.wrapping_add(b)
            }
            #[inline(always)]
            fn minus(self, b: Self) -> Self {
                self.wrapping_sub(b)
            }
            #[inline(always)]
            fn times(self, b: Self) -> Self {
                self.wrapping_mul(b)
            }
            #[inline(always)]
            fn times_high(self, b: Self) -> Self {
                (self.times_wide(b) >> <$t>::BITS) as $t
            }
            #[inline(always)]
            fn times_wide(self, b: Self) -> $wide {
                <$wide>::from(self).wrapping_mul(<$wide>::from(b))
            }
            #[inline(always)]
            fn plus_wide(a: $wide, b: $wide) -> $wide {
                a.wrapping_add(b)
            }
            #[inline(always)]
            fn quotient(self, b: Self) -> Self {
                let divisor = if b == 0 { 1 } else { b };
                let quotient = self.wrapping_div(divisor);
                if b == 0 { !0 } else { quotient }
            }
            #[inline(always)]
            fn remainder(self, b: Self) -> Self {
                let divisor = if b == 0 { 1 } else { b };
                let remainder = self.wrapping_rem(divisor);
                if b == 0 { !0 } else { remainder }
            }
            #[inline(always)]
            fn left(self, amount: u32) -> Self {
                self.wrapping_shl(amount)
            }
            #[inline(always)]
            fn right(self, amount: u32) -> Self {
                self.wrapping_shr(amount)
            }
            #[inline(always)]
            fn plus_saturating(self, b: Self) -> Self {
                self.saturating_add(b)
            }
            #[inline(always)]
            fn minus_saturating(self, b: Self) -> Self {
                self.saturating_sub(b)
            }
            #[inline(always)]
            fn from_i64(x: i64) -> Self {
                x as $t
            }
            #[inline(always)]
            fn from_u64(x: u64) -> Self {
                x as $t
            }
            #[inline(always)]
            fn clamp_i64(x: i64) -> Self {
                // u64::MAX does not fit i64: every non-negative i64 is in range there.
                let high = if <$t>::BITS == 64 { i64::MAX } else { <$t>::MAX as i64 };
                x.clamp(<$t>::MIN as i64, high) as $t
            }
            #[inline(always)]
            fn clamp_u64(x: u64) -> Self {
                x.min(<$t>::MAX as u64) as $t
            }
            #[inline(always)]
            fn to_u64(self) -> u64 {
                self as u64
            }
            #[inline(always)]
            fn clamp_f32(x: f32) -> Self {
                if <$t>::BITS == 64 {
                    return Self::from_magnitude(magnitude_f32_u64(x), x < 0.0, x.is_nan());
                }
                // The same in words of half the size, twice as many to a vector.
                let least = (<$t>::MIN as u32).wrapping_neg();
                let limit = if x < 0.0 { least } else { <$t>::MAX as u32 };
                let limited = if x.is_nan() { 0 } else { magnitude_f32_u32(x).min(limit) };
                (if x < 0.0 { limited.wrapping_neg() } else { limited }) as $t
            }
            #[inline(always)]
            fn clamp_f64(x: f64) -> Self {
                Self::from_magnitude(magnitude_f64(x), x < 0.0, x.is_nan())
            }
            #[inline(always)]
            fn from_magnitude(magnitude: u64, negative: bool, nan: bool) -> Self {
                let least = (<$t>::MIN as u64).wrapping_neg();
                let limit = if negative { least } else { <$t>::MAX as u64 };
                let limited = if nan { 0 } else { magnitude.min(limit) };
                (if negative { limited.wrapping_neg() } else { limited }) as $t
            }
            #[inline(always)]
            fn nearest_f32(self) -> f32 {
                self as f32
            }
            #[inline(always)]
            fn nearest_f64(self) -> f64 {
                self as f64
            }
        }
    )*};
}

int! {
    u8, u16, u8, false;
    u16, u32, u16, false;
    u32, u64, u32, false;
    u64, u128, u64, false;
    i8, i16, u8, true;
    i16, i32, u16, true;
    i32, i64, u32, true;
    i64, i128, u64, true;
}

/// The integral part of `|x|`, at most `u32::MAX`, also for infinities and NaN.
///
/// The host's own saturating casts do the same one value at a time; shifts are done for all lanes at once.
#[inline(always)]
fn magnitude_f32_u32(x: f32) -> u32 {
    let bits = x.to_bits();
    let field = bits >> 23 & 0xff;
    let significand = bits & 0x007f_ffff | 0x0080_0000;
    let below = significand >> 150u32.saturating_sub(field).min(31);
    let above = significand << (field.saturating_sub(150) & 31);
    let integral = if field < 150 { below } else { above };
    if field > 158 { u32::MAX } else { integral }
}

/// The integral part of `|x|`, at most `u64::MAX`, also for infinities and NaN.
#[inline(always)]
fn magnitude_f32_u64(x: f32) -> u64 {
    let bits = x.to_bits();
    let field = u64::from(bits >> 23 & 0xff);
    let significand = u64::from(bits & 0x007f_ffff | 0x0080_0000);
    let below = significand >> 150u64.saturating_sub(field).min(63);
    let above = significand << (field.saturating_sub(150) & 63);
    let integral = if field < 150 { below } else { above };
    if field > 190 { u64::MAX } else { integral }
}

/// The integral part of `|x|`, at most `u64::MAX`, also for infinities and NaN.
#[inline(always)]
fn magnitude_f64(x: f64) -> u64 {
    let bits = x.to_bits();
    let field = bits >> 52 & 0x7ff;
    let significand = bits & 0x000f_ffff_ffff_ffff | 0x0010_0000_0000_0000;
    let below = significand >> 1075u64.saturating_sub(field).min(63);
    let above = significand << (field.saturating_sub(1075) & 63);
    let integral = if field < 1075 { below } else { above };
    if field > 1086 { u64::MAX } else { integral }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same_as_the_hosts_casts(x: f64) {
        let single = x as f32;
        macro_rules! check {
            ($($t:ty)*) => {$(
                assert_eq!(<$t>::clamp_f64(x), x as $t, "{x:e}");
                assert_eq!(<$t>::clamp_f32(single), single as $t, "{single:e}");
            )*};
        }
        check!(u8 u16 u32 u64 i8 i16 i32 i64);
    }

    #[test]
    fn clamped_truncation_is_the_hosts_on_a_sweep_and_at_every_limit() {
        for step in 0..(1u64 << 18) {
            same_as_the_hosts_casts(f64::from_bits(step.wrapping_mul(0x0000_4000_1357_9bdf)));
        }
        for power in 0..70 {
            let limit = 2f64.powi(power);
            for x in [limit, limit - 1.0, limit + 1.0, limit.next_down(), limit.next_up(), limit + 0.5] {
                same_as_the_hosts_casts(x);
                same_as_the_hosts_casts(-x);
            }
        }
        for x in [0.0, -0.0, 0.999, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -f64::NAN, f64::from_bits(1)] {
            same_as_the_hosts_casts(x);
        }
    }
}
