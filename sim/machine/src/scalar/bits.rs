//! Bit fields, counts, funnel shifts, byte permutes and bit logic of one lane.
//! Words of 32 or 64 bits come in, words and positions go out; positions outside a word clamp as the ISA says.
//! Nothing here is arithmetic beyond the dot products `dp4a` and `dp2a`, which live in `packed`.

/// `lop3`: the three-input function whose truth table is `table`; `0xf0`, `0xcc` and `0xaa` name `a`, `b`, `c`.
#[inline(always)]
pub fn lop3(a: u32, b: u32, c: u32, table: u8) -> u32 {
    // The masks depend on the instruction alone and leave the loop over lanes.
    let chosen = |index: u32| 0u32.wrapping_sub(u32::from(table) >> index & 1);
    let with_ab = (chosen(7) & c) | (chosen(6) & !c);
    let with_a = (chosen(5) & c) | (chosen(4) & !c);
    let with_b = (chosen(3) & c) | (chosen(2) & !c);
    let with_none = (chosen(1) & c) | (chosen(0) & !c);
    (a & ((b & with_ab) | (!b & with_a))) | (!a & ((b & with_b) | (!b & with_none)))
}

/// `shf.l`: the high word of `high:low` shifted left; `.clamp` limits the amount to 32, `.wrap` takes it modulo 32.
#[inline(always)]
pub fn shf_l<const WRAP: bool>(low: u32, high: u32, amount: u32) -> u32 {
    let amount = funnel_amount::<WRAP>(amount);
    ((joined(low, high) << amount) >> 32) as u32
}

/// `shf.r`: the low word of `high:low` shifted right; `.clamp` limits the amount to 32, `.wrap` takes it modulo 32.
#[inline(always)]
pub fn shf_r<const WRAP: bool>(low: u32, high: u32, amount: u32) -> u32 {
    let amount = funnel_amount::<WRAP>(amount);
    (joined(low, high) >> amount) as u32
}

#[inline(always)]
fn funnel_amount<const WRAP: bool>(amount: u32) -> u32 {
    if WRAP { amount & 31 } else { amount.min(32) }
}

#[inline(always)]
fn joined(low: u32, high: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

macro_rules! fields {
    ($unsigned:ty, $signed:ty, $bfe_u:ident, $bfe_s:ident, $bfi:ident, $names:literal, $byte:expr, $range:literal) => {
        #[doc = concat!("`bfe.u", $names, "`: `length` bits of `a` from `position`, zero-extended. ", $range)]
        #[inline(always)]
        pub fn $bfe_u(a: $unsigned, position: u32, length: u32) -> $unsigned {
            let (position, length) = ($byte(position), $byte(length));
            super::int::shr(a, position) & low_ones!($unsigned, length)
        }

        #[doc = concat!("`bfe.s", $names, "`: as the unsigned form, extended with the field's top bit (the word's, where the field reaches past it).")]
        #[inline(always)]
        pub fn $bfe_s(a: $signed, position: u32, length: u32) -> $signed {
            let (position, length) = ($byte(position), $byte(length));
            let moved = super::int::shr(a, position);
            let unused = (<$signed>::BITS - 1) - (length.clamp(1, <$signed>::BITS) - 1);
            let extended = (moved << unused) >> unused;
            if length == 0 { 0 } else { extended }
        }

        #[doc = concat!("`bfi.b", $names, "`: `base` with its `length` bits from `position` replaced by the low bits of `field`.")]
        #[inline(always)]
        pub fn $bfi(field: $unsigned, base: $unsigned, position: u32, length: u32) -> $unsigned {
            let (position, length) = ($byte(position), $byte(length));
            let mask = super::int::shl(low_ones!($unsigned, length), position);
            (base & !mask) | (super::int::shl(field, position) & mask)
        }
    };
}

macro_rules! low_ones {
    ($t:ty, $count:expr) => {
        !super::int::shl(!(0 as $t), $count)
    };
}

fields!(u32, i32, bfe_u32, bfe_s32, bfi_b32, "32", low_byte, "Both are taken modulo 256.");
fields!(
    u64,
    i64,
    bfe_u64,
    bfe_s64,
    bfi_b64,
    "64",
    unlimited,
    "Neither is taken modulo 256 (open in the ISA), as on an H200."
);

#[inline(always)]
fn low_byte(x: u32) -> u32 {
    x & 0xff
}

#[inline(always)]
fn unlimited(x: u32) -> u32 {
    x
}

/// `bfind.u32`: position of the highest 1, or all ones; with `.shiftamt` the left shift that brings it to the top.
#[inline(always)]
pub fn bfind_u32<const SHIFT_AMOUNT: bool>(a: u32) -> u32 {
    let zeros = a.leading_zeros();
    let found = if SHIFT_AMOUNT { zeros } else { 31u32.wrapping_sub(zeros) };
    if a == 0 { u32::MAX } else { found }
}

/// `bfind.s32`: position of the highest bit that differs from the sign; see [`bfind_u32`].
#[inline(always)]
pub fn bfind_s32<const SHIFT_AMOUNT: bool>(a: i32) -> u32 {
    bfind_u32::<SHIFT_AMOUNT>((a ^ (a >> 31)) as u32)
}

/// `bfind.u64`: as [`bfind_u32`] over 64 bits.
#[inline(always)]
pub fn bfind_u64<const SHIFT_AMOUNT: bool>(a: u64) -> u32 {
    let zeros = a.leading_zeros();
    let found = if SHIFT_AMOUNT { zeros } else { 63u32.wrapping_sub(zeros) };
    if a == 0 { u32::MAX } else { found }
}

/// `bfind.s64`: as [`bfind_s32`] over 64 bits.
#[inline(always)]
pub fn bfind_s64<const SHIFT_AMOUNT: bool>(a: i64) -> u32 {
    bfind_u64::<SHIFT_AMOUNT>((a ^ (a >> 63)) as u64)
}

/// `brev.b32`: the bits in reverse order.
#[inline(always)]
pub fn brev_b32(a: u32) -> u32 {
    a.reverse_bits()
}

/// `brev.b64`: the bits in reverse order.
#[inline(always)]
pub fn brev_b64(a: u64) -> u64 {
    a.reverse_bits()
}

/// `clz.b32`: leading zeros, 32 for zero.
#[inline(always)]
pub fn clz_b32(a: u32) -> u32 {
    a.leading_zeros()
}

/// `clz.b64`: leading zeros, 64 for zero.
#[inline(always)]
pub fn clz_b64(a: u64) -> u32 {
    a.leading_zeros()
}

/// `popc.b32`: number of ones.
#[inline(always)]
pub fn popc_b32(a: u32) -> u32 {
    a.count_ones()
}

/// `popc.b64`: number of ones.
#[inline(always)]
pub fn popc_b64(a: u64) -> u32 {
    a.count_ones()
}

/// `fns.b32`: position of the `|offset|`-th 1 of `mask` from `base`, upwards for a positive offset, downwards for a
/// negative one. Offset 0 means `base` itself if its bit is set. All ones if there is none.
///
/// The ISA leaves a base above 31 open: nothing is found there.
#[inline(always)]
pub fn fns_b32(mask: u32, base: u32, offset: i32) -> u32 {
    if base > 31 {
        return u32::MAX;
    }
    if offset == 0 {
        return if mask >> base & 1 == 1 { base } else { u32::MAX };
    }
    let downwards = offset < 0;
    // Mirrored, a search downwards is a search upwards.
    let ahead = if downwards { mask.reverse_bits() >> (31 - base) } else { mask >> base };
    let mut rest = ahead;
    for _ in 1..offset.unsigned_abs().min(33) {
        rest &= rest.wrapping_sub(1);
    }
    if rest == 0 {
        return u32::MAX;
    }
    let distance = rest.trailing_zeros();
    if downwards { base - distance } else { base + distance }
}

/// `bmsk`: a mask of `width` ones from `position`; `.wrap` takes both modulo 32, `.clamp` limits them.
#[inline(always)]
pub fn bmsk_b32<const WRAP: bool>(position: u32, width: u32) -> u32 {
    let (position, width) = if WRAP { (position & 31, width & 31) } else { (position, width) };
    super::int::shl(low_ones!(u32, width), position)
}

/// `szext.s32`: the low `width` bits of `a`, sign-extended; width 0 gives 0, 32 and more the word itself (`.clamp`).
#[inline(always)]
pub fn szext_s32<const WRAP: bool>(a: i32, width: u32) -> i32 {
    let width = if WRAP { width & 31 } else { width.min(32) };
    bfe_s32(a, 0, width)
}

/// `szext.u32`: the low `width` bits of `a`, zero-extended; width 0 gives 0, 32 and more the word itself (`.clamp`).
#[inline(always)]
pub fn szext_u32<const WRAP: bool>(a: u32, width: u32) -> u32 {
    let width = if WRAP { width & 31 } else { width.min(32) };
    bfe_u32(a, 0, width)
}

/// How `prmt` reads its selector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PermuteMode {
    /// Four selector nibbles; a nibble's top bit replicates the chosen byte's sign.
    Index,
    /// `.f4e`: four bytes from the selected one upwards.
    Forward4,
    /// `.b4e`: four bytes from the selected one downwards.
    Backward4,
    /// `.rc8`: the selected byte four times.
    Replicate8,
    /// `.ecl`: byte positions clamped from the left.
    EdgeLeft,
    /// `.ecr`: byte positions clamped from the right.
    EdgeRight,
    /// `.rc16`: the selected half twice.
    Replicate16,
}

/// `prmt`: four of the eight bytes of `b:a`, chosen by `selector`.
#[inline(always)]
pub fn prmt(mode: PermuteMode, a: u32, b: u32, selector: u32) -> u32 {
    let bytes = joined(a, b);
    let pick = |index: u32| (bytes >> ((index & 7) * 8)) as u32 & 0xff;
    let s = selector & 3;
    match mode {
        PermuteMode::Index => (0..4).fold(0, |word, lane| {
            let nibble = selector >> (lane * 4);
            let byte = pick(nibble);
            let sign = 0u32.wrapping_sub(byte >> 7) & 0xff;
            word | (if nibble & 8 != 0 { sign } else { byte }) << (lane * 8)
        }),
        PermuteMode::Forward4 => from_picks(|lane| pick(s + lane)),
        PermuteMode::Backward4 => from_picks(|lane| pick(s.wrapping_sub(lane))),
        PermuteMode::Replicate8 => from_picks(|_| pick(s)),
        PermuteMode::EdgeLeft => from_picks(|lane| pick(lane.max(s))),
        PermuteMode::EdgeRight => from_picks(|lane| pick(lane.min(s))),
        PermuteMode::Replicate16 => from_picks(|lane| pick((s & 1) * 2 + (lane & 1))),
    }
}

#[inline(always)]
fn from_picks(pick: impl Fn(u32) -> u32) -> u32 {
    pick(0) | pick(1) << 8 | pick(2) << 16 | pick(3) << 24
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn limited(position: u32, length: u32, top: u32) -> (u32, u32) {
        if top == 31 { (position & 0xff, length & 0xff) } else { (position, length) }
    }

    /// The ISA's definition of `bfe`, bit by bit.
    fn bfe_by_bits(a: u64, position: u32, length: u32, top: u32, signed: bool) -> u64 {
        let (position, length) = limited(position, length, top);
        let bit = |at: u32| if at > 63 { 0 } else { a >> at & 1 };
        let fill = if !signed || length == 0 { 0 } else { bit((position + length - 1).min(top)) };
        (0..=top).fold(0, |word, at| {
            let inside = at < length && position + at <= top;
            word | (if inside { bit(position + at) } else { fill }) << at
        })
    }

    /// The ISA's definition of `bfi`, bit by bit.
    fn bfi_by_bits(field: u64, base: u64, position: u32, length: u32, top: u32) -> u64 {
        let (position, length) = limited(position, length, top);
        let mut word = base;
        for at in 0..length {
            if position + at <= top {
                word = word & !(1 << (position + at)) | (field >> at & 1) << (position + at);
            }
        }
        word
    }

    fn fns_by_walk(mask: u32, base: u32, offset: i32) -> u32 {
        if offset == 0 {
            return if mask >> base & 1 == 1 { base } else { u32::MAX };
        }
        let (mut at, mut left) = (base as i32, offset.unsigned_abs() - 1);
        while (0..32).contains(&at) {
            if mask >> at & 1 == 1 {
                if left == 0 {
                    return at as u32;
                }
                left -= 1;
            }
            at += offset.signum();
        }
        u32::MAX
    }

    proptest! {
        #[test]
        fn fields_follow_the_definition(a: u64, b: u64, position in 0u32..300, length in 0u32..300) {
            let (x, y) = (a as u32, b as u32);
            prop_assert_eq!(u64::from(bfe_u32(x, position, length)), bfe_by_bits(u64::from(x), position, length, 31, false));
            prop_assert_eq!(u64::from(bfe_s32(x as i32, position, length) as u32), bfe_by_bits(u64::from(x), position, length, 31, true));
            prop_assert_eq!(bfe_u64(a, position, length), bfe_by_bits(a, position, length, 63, false));
            prop_assert_eq!(bfe_s64(a as i64, position, length) as u64, bfe_by_bits(a, position, length, 63, true));
            prop_assert_eq!(u64::from(bfi_b32(x, y, position, length)), bfi_by_bits(u64::from(x), u64::from(y), position, length, 31));
            prop_assert_eq!(bfi_b64(a, b, position, length), bfi_by_bits(a, b, position, length, 63));
        }

        #[test]
        fn lop3_follows_its_table(a: u32, b: u32, c: u32, table: u8) {
            let result = lop3(a, b, c, table);
            for bit in 0..32 {
                let index = (a >> bit & 1) << 2 | (b >> bit & 1) << 1 | (c >> bit & 1);
                prop_assert_eq!(result >> bit & 1, u32::from(table) >> index & 1);
            }
        }

        #[test]
        fn fns_follows_the_walk(mask: u32, base in 0u32..32, offset in -40i32..40) {
            prop_assert_eq!(fns_b32(mask, base, offset), fns_by_walk(mask, base, offset));
        }
    }

    #[test]
    fn funnel_shifts_clamp_or_wrap() {
        let (low, high) = (0x1122_3344, 0x5566_7788);
        assert_eq!(shf_l::<false>(low, high, 8), 0x6677_8811);
        assert_eq!(shf_l::<false>(low, high, 99), low);
        assert_eq!(shf_l::<true>(low, high, 32), high);
        assert_eq!(shf_r::<false>(low, high, 8), 0x8811_2233);
        assert_eq!(shf_r::<false>(low, high, 99), high);
        assert_eq!(shf_r::<true>(low, high, 32), low);
    }

    #[test]
    fn masks_and_extensions_at_the_edges() {
        assert_eq!(bmsk_b32::<true>(1, 2), 6);
        assert_eq!(bmsk_b32::<true>(30, 4), 0xc000_0000);
        assert_eq!(bmsk_b32::<true>(32, 33), 1);
        assert_eq!(bmsk_b32::<false>(32, 3), 0);
        assert_eq!(bmsk_b32::<false>(4, 32), 0xffff_fff0);
        assert_eq!(bmsk_b32::<false>(4, 0), 0);
        assert_eq!(szext_s32::<false>(0x80, 8), -128);
        assert_eq!(szext_s32::<false>(-5, 0), 0);
        assert_eq!(szext_s32::<false>(-5, 77), -5);
        assert_eq!(szext_u32::<true>(u32::MAX, 32), 0);
        assert_eq!(szext_u32::<true>(u32::MAX, 36), 15);
    }

    #[test]
    fn finding_bits() {
        assert_eq!(bfind_u32::<false>(0), u32::MAX);
        assert_eq!(bfind_u32::<true>(0), u32::MAX);
        assert_eq!(bfind_u32::<false>(0x0010_0000), 20);
        assert_eq!(bfind_u32::<true>(0x0010_0000), 11);
        assert_eq!(bfind_s32::<false>(-1), u32::MAX);
        assert_eq!(bfind_s32::<false>(-2), 0);
        assert_eq!(bfind_u64::<false>(1 << 40), 40);
        assert_eq!(bfind_s64::<true>(i64::MIN), 1);
        assert_eq!((clz_b32(0), clz_b64(0), popc_b32(7), popc_b64(u64::MAX)), (32, 64, 3, 64));
        assert_eq!((brev_b32(1), brev_b64(2)), (1 << 31, 1 << 62));
    }

    #[test]
    fn permutes_in_every_mode() {
        let (a, b) = (0x3322_1180, 0x7766_5544);
        assert_eq!(prmt(PermuteMode::Index, a, b, 0x7410), 0x7744_1180);
        assert_eq!(prmt(PermuteMode::Index, a, b, 0x0008), 0x8080_80ff);
        assert_eq!(prmt(PermuteMode::Index, a, b, 0xfffb), 0);
        // The ISA's table: selector 1 of each mode, most significant byte first.
        assert_eq!(prmt(PermuteMode::Forward4, a, b, 1), 0x4433_2211);
        assert_eq!(prmt(PermuteMode::Backward4, a, b, 1), 0x6677_8011);
        assert_eq!(prmt(PermuteMode::Replicate8, a, b, 1), 0x1111_1111);
        assert_eq!(prmt(PermuteMode::EdgeLeft, a, b, 1), 0x3322_1111);
        assert_eq!(prmt(PermuteMode::EdgeRight, a, b, 1), 0x1111_1180);
        assert_eq!(prmt(PermuteMode::Replicate16, a, b, 1), 0x3322_3322);
        assert_eq!(prmt(PermuteMode::Replicate16, a, b, 2), 0x1180_1180);
    }
}
