//! Integer arithmetic of every width: signed and unsigned operands of 8 to 64 bits in, the same out.
//! All arithmetic wraps unless the name says otherwise; shift amounts clamp to the width, as PTX wants.
//! Nothing here keeps a carry (see `carry`) or works on bit fields (see `bits`).

pub use super::operand::Int;

/// `add`: `a + b`, wrapping.
#[inline(always)]
pub fn add<T: Int>(a: T, b: T) -> T {
    a.plus(b)
}

/// `add.sat`: `a + b`, clamped (PTX has it for s32).
#[inline(always)]
pub fn add_sat<T: Int>(a: T, b: T) -> T {
    a.plus_saturating(b)
}

/// `sub`: `a - b`, wrapping.
#[inline(always)]
pub fn sub<T: Int>(a: T, b: T) -> T {
    a.minus(b)
}

/// `sub.sat`: `a - b`, clamped (PTX has it for s32).
#[inline(always)]
pub fn sub_sat<T: Int>(a: T, b: T) -> T {
    a.minus_saturating(b)
}

/// `mul.lo`: the low half of the product.
#[inline(always)]
pub fn mul_lo<T: Int>(a: T, b: T) -> T {
    a.times(b)
}

/// `mul.hi`: the high half of the product.
#[inline(always)]
pub fn mul_hi<T: Int>(a: T, b: T) -> T {
    a.times_high(b)
}

/// `mul.wide`: the whole product, in twice the width.
#[inline(always)]
pub fn mul_wide<T: Int>(a: T, b: T) -> T::Wide {
    a.times_wide(b)
}

/// `mad.lo`: low half of the product, plus `c`, wrapping.
#[inline(always)]
pub fn mad_lo<T: Int>(a: T, b: T, c: T) -> T {
    a.times(b).plus(c)
}

/// `mad.hi`: high half of the product, plus `c`, wrapping.
#[inline(always)]
pub fn mad_hi<T: Int>(a: T, b: T, c: T) -> T {
    a.times_high(b).plus(c)
}

/// `mad.hi.sat`: high half of the product, plus `c`, clamped (PTX has it for s32).
#[inline(always)]
pub fn mad_hi_sat<T: Int>(a: T, b: T, c: T) -> T {
    a.times_high(b).plus_saturating(c)
}

/// `mad.wide`: the whole product, plus `c` of twice the width, wrapping.
#[inline(always)]
pub fn mad_wide<T: Int>(a: T, b: T, c: T::Wide) -> T::Wide {
    T::plus_wide(a.times_wide(b), c)
}

/// `mul24.lo.s32`: low 32 bits of the 48-bit product of the low 24 bits.
#[inline(always)]
pub fn mul24_lo_s32(a: i32, b: i32) -> i32 {
    product24_signed(a, b) as i32
}

/// `mul24.hi.s32`: high 32 bits of the 48-bit product of the low 24 bits.
#[inline(always)]
pub fn mul24_hi_s32(a: i32, b: i32) -> i32 {
    (product24_signed(a, b) >> 16) as i32
}

/// `mul24.lo.u32`: low 32 bits of the 48-bit product of the low 24 bits.
#[inline(always)]
pub fn mul24_lo_u32(a: u32, b: u32) -> u32 {
    product24_unsigned(a, b) as u32
}

/// `mul24.hi.u32`: high 32 bits of the 48-bit product of the low 24 bits.
#[inline(always)]
pub fn mul24_hi_u32(a: u32, b: u32) -> u32 {
    (product24_unsigned(a, b) >> 16) as u32
}

/// `mad24.hi.sat.s32`: [`mul24_hi_s32`] plus `c`, clamped. The other `mad24` forms are a `mul24` and an [`add`].
#[inline(always)]
pub fn mad24_hi_sat_s32(a: i32, b: i32, c: i32) -> i32 {
    mul24_hi_s32(a, b).saturating_add(c)
}

#[inline(always)]
fn product24_signed(a: i32, b: i32) -> i64 {
    i64::from((a << 8) >> 8) * i64::from((b << 8) >> 8)
}

#[inline(always)]
fn product24_unsigned(a: u32, b: u32) -> u64 {
    u64::from(a & 0xff_ffff) * u64::from(b & 0xff_ffff)
}

/// `div`: quotient towards zero. The ISA leaves division by zero open: all ones here, as GPUs answer;
/// the smallest signed value divided by -1 wraps.
#[inline(always)]
pub fn div<T: Int>(a: T, b: T) -> T {
    a.quotient(b)
}

/// `rem`: remainder with the dividend's sign. All ones for a zero divisor (open in the ISA), as an H200 answers.
#[inline(always)]
pub fn rem<T: Int>(a: T, b: T) -> T {
    a.remainder(b)
}

/// `abs`: magnitude; the smallest value stays itself.
#[inline(always)]
pub fn abs<T: Int>(a: T) -> T {
    if a < T::ZERO { T::ZERO.minus(a) } else { a }
}

/// `neg`: two's complement negation.
#[inline(always)]
pub fn neg<T: Int>(a: T) -> T {
    T::ZERO.minus(a)
}

/// `min`.
#[inline(always)]
pub fn min<T: Int>(a: T, b: T) -> T {
    if b < a { b } else { a }
}

/// `max`.
#[inline(always)]
pub fn max<T: Int>(a: T, b: T) -> T {
    if b > a { b } else { a }
}

/// `.relu`: negative values become zero. `min.relu` and `max.relu` are the operation, then this.
#[inline(always)]
pub fn relu<T: Int>(a: T) -> T {
    max(a, T::ZERO)
}

/// `sad`: `c + |a - b|`, the difference taken without wrapping, the sum wrapping.
#[inline(always)]
pub fn sad<T: Int>(a: T, b: T, c: T) -> T {
    c.plus(max(a, b).minus(min(a, b)))
}

/// `shl`: amounts of the width and more give zero.
#[inline(always)]
pub fn shl<T: Int>(a: T, amount: u32) -> T {
    let shifted = a.left(amount & (T::BITS - 1));
    if amount >= T::BITS { T::ZERO } else { shifted }
}

/// `shr`: arithmetic for signed types; amounts beyond the width shift by the width.
#[inline(always)]
pub fn shr<T: Int>(a: T, amount: u32) -> T {
    if T::SIGNED {
        let clamped = if amount >= T::BITS { T::BITS - 1 } else { amount };
        a.right(clamped)
    } else {
        let shifted = a.right(amount & (T::BITS - 1));
        if amount >= T::BITS { T::ZERO } else { shifted }
    }
}

/// `and`.
#[inline(always)]
pub fn and<T: Int>(a: T, b: T) -> T {
    a & b
}

/// `or`.
#[inline(always)]
pub fn or<T: Int>(a: T, b: T) -> T {
    a | b
}

/// `xor`.
#[inline(always)]
pub fn xor<T: Int>(a: T, b: T) -> T {
    a ^ b
}

/// `not`.
#[inline(always)]
pub fn not<T: Int>(a: T) -> T {
    !a
}

/// `cnot`: 1 for zero, 0 for anything else.
#[inline(always)]
pub fn cnot<T: Int>(a: T) -> T {
    if a == T::ZERO { T::ONE } else { T::ZERO }
}

/// `slct` with an s32 selector: `a` if `c >= 0`, else `b`. Works for any operand type.
#[inline(always)]
pub fn slct_s32<T: Copy>(a: T, b: T, c: i32) -> T {
    if c >= 0 { a } else { b }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_bit_arithmetic_agrees_with_wide_arithmetic_everywhere() {
        for a in i8::MIN..=i8::MAX {
            for b in i8::MIN..=i8::MAX {
                let (x, y) = (i32::from(a), i32::from(b));
                assert_eq!(add(a, b), (x + y) as i8);
                assert_eq!(sub(a, b), (x - y) as i8);
                assert_eq!(mul_lo(a, b), (x * y) as i8);
                assert_eq!(mul_hi(a, b), ((x * y) >> 8) as i8);
                assert_eq!(mul_wide(a, b), (x * y) as i16);
                assert_eq!(add_sat(a, b), (x + y).clamp(-128, 127) as i8);
                assert_eq!(sad(a, b, 3), ((x - y).abs() + 3) as i8);
                if y != 0 {
                    assert_eq!(div(a, b), (x / y) as i8);
                    assert_eq!(rem(a, b), (x % y) as i8);
                } else {
                    assert_eq!((div(a, b), rem(a, b)), (-1, -1));
                }
                let (u, v) = (a as u8, b as u8);
                let (p, q) = (u32::from(u), u32::from(v));
                assert_eq!(mul_hi(u, v), ((p * q) >> 8) as u8);
                assert_eq!(sad(u, v, 9), (p.abs_diff(q) + 9) as u8);
                assert_eq!(shl(u, q), if q >= 8 { 0 } else { (p << q) as u8 });
                assert_eq!(shr(u, q), if q >= 8 { 0 } else { (p >> q) as u8 });
                assert_eq!(shr(a, q), (x >> q.min(31)) as i8);
            }
        }
    }

    #[test]
    fn the_smallest_value_wraps() {
        assert_eq!(div(i32::MIN, -1), i32::MIN);
        assert_eq!(rem(i32::MIN, -1), 0);
        assert_eq!(abs(i64::MIN), i64::MIN);
        assert_eq!(neg(i16::MIN), i16::MIN);
        assert_eq!(div(7u64, 0), u64::MAX);
        assert_eq!(rem(7u64, 0), u64::MAX);
    }

    #[test]
    fn shifts_clamp_to_the_width() {
        assert_eq!(shl(1u32, 32), 0);
        assert_eq!(shl(1u64, 63), 1 << 63);
        assert_eq!(shl(1u64, u32::MAX), 0);
        assert_eq!(shr(-8i32, 1), -4);
        assert_eq!(shr(-8i32, 1000), -1);
        assert_eq!(shr(0x8000_0000u32, 32), 0);
    }

    #[test]
    fn products_of_24_bits_ignore_the_high_byte() {
        assert_eq!(mul24_lo_u32(0xff00_0003, 0xaa00_0005), 15);
        assert_eq!(mul24_hi_u32(0x00ff_ffff, 0x00ff_ffff), 0xffff_fe00);
        assert_eq!(mul24_lo_s32(0x00ff_ffff, 2), -2);
        assert_eq!(mul24_hi_s32(0x0080_0000, 0x0080_0000), 0x4000_0000);
        assert_eq!(mad24_hi_sat_s32(0x0080_0000, 0x0080_0000, i32::MAX), i32::MAX);
    }

    #[test]
    fn high_products_of_64_bits() {
        assert_eq!(mul_hi(u64::MAX, u64::MAX), u64::MAX - 1);
        assert_eq!(mul_hi(i64::MIN, i64::MIN), 1 << 62);
        assert_eq!(mad_wide(u32::MAX, u32::MAX, 1), 0xffff_fffe_0000_0002);
        assert_eq!(mad_hi_sat(i32::MAX, i32::MAX, i32::MAX), i32::MAX);
        assert_eq!(mad_lo(3u16, 5, 7), 22);
        assert_eq!(mad_hi(-1i32, 1, 0), -1);
    }

    #[test]
    fn clamping_conversions_reach_both_ends() {
        assert_eq!(i8::clamp_i64(-1000), -128);
        assert_eq!(u8::clamp_i64(-1), 0);
        assert_eq!(u64::clamp_i64(-1), 0);
        assert_eq!(u64::clamp_i64(i64::MAX), i64::MAX as u64);
        assert_eq!(i64::clamp_u64(u64::MAX), i64::MAX);
        assert_eq!(u32::clamp_u64(1 << 40), u32::MAX);
    }
}
