//! Several small integers in one 32-bit word: pairs of 16 bits, and dot products of bytes and halves.
//! Words come in, words go out; each element is treated as the single-element instruction treats it.
//! Nothing here handles pairs of floats (see `half`).

use super::int;

/// Applies `op` to the two halves of each word; element 0 is the low half.
#[inline(always)]
pub fn each_half(a: u32, b: u32, op: impl Fn(u16, u16) -> u16) -> u32 {
    u32::from(op(a as u16, b as u16)) | u32::from(op((a >> 16) as u16, (b >> 16) as u16)) << 16
}

/// `add.u16x2` and `add.s16x2`.
#[inline(always)]
pub fn add_16x2(a: u32, b: u32) -> u32 {
    each_half(a, b, int::add)
}

/// `min.u16x2`.
#[inline(always)]
pub fn min_u16x2(a: u32, b: u32) -> u32 {
    each_half(a, b, int::min)
}

/// `max.u16x2`.
#[inline(always)]
pub fn max_u16x2(a: u32, b: u32) -> u32 {
    each_half(a, b, int::max)
}

/// `min{.relu}.s16x2`.
#[inline(always)]
pub fn min_s16x2<const RELU: bool>(a: u32, b: u32) -> u32 {
    each_half(a, b, |x, y| clamp::<RELU>(int::min(x as i16, y as i16)))
}

/// `max{.relu}.s16x2`.
#[inline(always)]
pub fn max_s16x2<const RELU: bool>(a: u32, b: u32) -> u32 {
    each_half(a, b, |x, y| clamp::<RELU>(int::max(x as i16, y as i16)))
}

#[inline(always)]
fn clamp<const RELU: bool>(x: i16) -> u16 {
    (if RELU { int::relu(x) } else { x }) as u16
}

/// `dp4a`: `c` plus the dot product of four bytes; each operand's bytes are signed or not on their own.
#[inline(always)]
pub fn dp4a<const A_SIGNED: bool, const B_SIGNED: bool>(a: u32, b: u32, c: u32) -> u32 {
    (0..4).fold(c, |sum, lane| {
        let product = byte::<A_SIGNED>(a, lane).wrapping_mul(byte::<B_SIGNED>(b, lane));
        sum.wrapping_add(product as u32)
    })
}

/// `dp2a`: `c` plus the dot product of two halves of `a` with two bytes of `b`, the upper ones if `HIGH` (`.hi`).
#[inline(always)]
pub fn dp2a<const A_SIGNED: bool, const B_SIGNED: bool, const HIGH: bool>(a: u32, b: u32, c: u32) -> u32 {
    let first = if HIGH { 2 } else { 0 };
    (0..2).fold(c, |sum, lane| {
        let bits = (a >> (lane * 16)) as u16;
        let factor = if A_SIGNED { i32::from(bits as i16) } else { i32::from(bits) };
        let product = factor.wrapping_mul(byte::<B_SIGNED>(b, first + lane));
        sum.wrapping_add(product as u32)
    })
}

#[inline(always)]
fn byte<const SIGNED: bool>(word: u32, lane: u32) -> i32 {
    let bits = (word >> (lane * 8)) as u8;
    if SIGNED { i32::from(bits as i8) } else { i32::from(bits) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_do_not_carry_into_each_other() {
        assert_eq!(add_16x2(0x0001_ffff, 0x0001_0001), 0x0002_0000);
        assert_eq!(min_u16x2(0x8000_0001, 0x7fff_ffff), 0x7fff_0001);
        assert_eq!(max_u16x2(0x8000_0001, 0x7fff_ffff), 0x8000_ffff);
        assert_eq!(min_s16x2::<false>(0x8000_0001, 0x7fff_ffff), 0x8000_ffff);
        assert_eq!(max_s16x2::<false>(0x8000_0001, 0x7fff_ffff), 0x7fff_0001);
        assert_eq!(min_s16x2::<true>(0x8000_0001, 0x7fff_ffff), 0);
        assert_eq!(max_s16x2::<true>(0x8000_fffe, 0x8001_0003), 0x0000_0003);
    }

    #[test]
    fn dot_products_honour_each_operands_sign() {
        assert_eq!(dp4a::<false, false>(0xffff_ffff, 0x0101_0101, 1), 4 * 255 + 1);
        assert_eq!(dp4a::<true, false>(0xffff_ffff, 0x0101_0101, 1) as i32, -3);
        assert_eq!(dp4a::<false, true>(0x0000_00ff, 0x0000_00ff, 0) as i32, -255);
        assert_eq!(dp4a::<true, true>(0x8080_8080, 0x8080_8080, 0), 4 * 16384);
        assert_eq!(dp2a::<true, true, false>(0x0002_ffff, 0x0403_0201, 0), 3);
        assert_eq!(dp2a::<false, false, true>(0x0002_ffff, 0x0403_0201, 5), 3 * 65535 + 8 + 5);
        assert_eq!(dp2a::<false, true, true>(0x0001_0001, 0x80ff_0000, 0) as i32, -129);
    }
}
