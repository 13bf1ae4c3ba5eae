//! Tests of conversions: exhaustive over 16-bit sources, by property elsewhere.
//! References are the host's casts, the `half` crate for f32 sources, and exact comparison.
//! Never used outside tests.

use super::super::exact::{any_f64, compare_product_sum};
use super::super::{Bf16, F16, Rm, Rn, Rp, Rz};
use super::*;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn integers_of_64_bits_round_once(x: u64, drop in 0u32..64) {
        let x = x >> drop;
        let exact = |r: f64| compare_product_sum((x >> 32) as f64, 4_294_967_296.0, (x & 0xffff_ffff) as f64, r, 1.0);
        prop_assert!(exact(int_to_f64::<u64, Rm>(x)).is_ge() && exact(int_to_f64::<u64, Rp>(x)).is_le());
        let (down, up) = (int_to_f64::<u64, Rm>(x), int_to_f64::<u64, Rp>(x));
        prop_assert!(down == up || down.next_up() == up);
        prop_assert_eq!(int_to_f64::<u64, Rz>(x), down);
        let (down, up) = (int_to_f32::<u64, Rm>(x), int_to_f32::<u64, Rp>(x));
        prop_assert!(exact(f64::from(down)).is_ge() && exact(f64::from(up)).is_le());
        prop_assert!(down == up || down.next_up() == up);
        prop_assert_eq!(int_to_f32::<u64, Rn>(x), x as f32);
        let negative = -((x >> 1) as i64);
        prop_assert_eq!(int_to_f64::<i64, Rm>(negative), -int_to_f64::<u64, Rp>(x >> 1));
        prop_assert_eq!(int_to_f32::<i64, Rz>(negative), -int_to_f32::<u64, Rz>(x >> 1));
    }

    #[test]
    fn integers_round_to_halves_once(x: i64, drop in 0u32..64) {
        let x = x >> drop;
        // Truncated to odd at 24 bits an integer rounds to 8 and 11 bits as itself, and is exact in f32.
        let odd = |x: i64| {
            let magnitude = x.unsigned_abs();
            let cut = 40u32.saturating_sub(magnitude.leading_zeros());
            let kept = magnitude >> cut << cut;
            let odd = (kept | u64::from(kept != magnitude) << cut) as f32;
            if x < 0 { -odd } else { odd }
        };
        prop_assert_eq!(int_to_half::<F16, i64, Rn>(x), ::half::f16::from_f32(odd(x)).to_bits());
        prop_assert_eq!(int_to_half::<Bf16, i64, Rn>(x), ::half::bf16::from_f32(odd(x)).to_bits());
        let small = x as i32;
        prop_assert_eq!(int_to_half::<Bf16, i32, Rn>(small), ::half::bf16::from_f32(odd(small.into())).to_bits());
        prop_assert_eq!(int_to_half::<F16, i32, Rn>(small), ::half::f16::from_f32(odd(small.into())).to_bits());
    }

    #[test]
    fn doubles_round_to_narrower_formats_once(x in any_f64()) {
        prop_assume!(!x.is_nan());
        // The reference crate looks at the upper half of an f64 only, so it gets an f32 rounded to odd.
        let odd = narrow::<Odd>(x, 0.0);
        prop_assert_eq!(f64_to_half::<F16, Rn, false>(x), ::half::f16::from_f32(odd).to_bits());
        prop_assert_eq!(f64_to_half::<Bf16, Rn, false>(x), ::half::bf16::from_f32(odd).to_bits());
        let (down, up) = (f64_to_f32::<Rm, false, false>(x), f64_to_f32::<Rp, false, false>(x));
        prop_assert!(f64::from(down) <= x && x <= f64::from(up));
        prop_assert!(down == up || down.next_up() == up);
        let nearest = f64_to_f32::<Rn, false, false>(x);
        prop_assert_eq!(nearest, x as f32);
        let toward = if x < 0.0 { up } else { down };
        prop_assert_eq!(f64_to_f32::<Rz, false, false>(x), toward);
    }

    #[test]
    fn floats_to_integers_round_then_clamp(x in any_f64()) {
        let single = x as f32;
        prop_assume!(!x.is_nan() && !single.is_nan());
        prop_assert_eq!(f64_to_int::<i32, Rm>(x), x.floor() as i32);
        prop_assert_eq!(f64_to_int::<u64, Rp>(x), x.ceil() as u64);
        prop_assert_eq!(f64_to_int::<i8, Rn>(x), x.round_ties_even() as i8);
        prop_assert_eq!(f64_to_int::<u16, Rz>(x), x as u16);
        prop_assert_eq!(f32_to_int::<u8, Rp, false>(single), single.ceil() as u8);
        prop_assert_eq!(f32_to_int::<i64, Rn, false>(single), single.round_ties_even() as i64);
        prop_assert_eq!(f32_to_int::<i32, Rm, false>(single), single.floor() as i32);
    }

    #[test]
    fn integers_to_integers_truncate_or_clamp(x: i64) {
        prop_assert_eq!(int_to_int::<i64, u8>(x), x as u8);
        prop_assert_eq!(int_to_int::<i8, u64>(x as i8), x as i8 as u64);
        prop_assert_eq!(int_to_int::<u8, i32>(x as u8), i32::from(x as u8));
        prop_assert_eq!(int_to_int_sat::<i64, u8>(x), x.clamp(0, 255) as u8);
        prop_assert_eq!(int_to_int_sat::<u64, i32>(x as u64), (x as u64).min(i32::MAX as u64) as i32);
        prop_assert_eq!(int_to_int_sat::<i32, u32>(x as i32), (x as i32).max(0) as u32);
        prop_assert_eq!(int_to_int_sat::<i32, i16>(x as i32), (x as i32).clamp(-32768, 32767) as i16);
        prop_assert_eq!(int_to_int_sat::<i32, u64>(x as i32), (x as i32).max(0) as u64);
    }
}

#[test]
fn nan_becomes_zero_or_the_top_bit() {
    assert_eq!(f32_to_int::<i32, Rz, false>(f32::NAN), 0);
    assert_eq!(f32_to_int::<u8, Rn, false>(f32::NAN), 0);
    assert_eq!(f32_to_int::<i64, Rz, false>(f32::NAN), i64::MIN);
    assert_eq!(f32_to_int::<u64, Rz, false>(f32::NAN), 1 << 63);
    assert_eq!(f64_to_int::<i32, Rz>(f64::NAN), i32::MIN);
    assert_eq!(f64_to_int::<u32, Rp>(f64::NAN), 1 << 31);
    assert_eq!(half_to_int::<F16, i16, Rz>(0x7e00), 0);
    assert_eq!(half_to_int::<F16, i64, Rz>(0x7e00), i64::MIN);
}

/// The pairs were seen on an H200.
#[test]
fn payloads_of_nan_survive_where_they_do_on_hardware() {
    let hide = core::hint::black_box::<u64>;
    let double = f64::from_bits(hide(0x7ff4_56c9_5495_a2fb));
    assert_eq!(f64_to_f32::<Rz, false, false>(double).to_bits(), 0x7fe2_b64a);
    assert_eq!(f64_to_half::<F16, Rn, false>(double), 0x7f15);
    assert_eq!(f64_to_half::<Bf16, Rn, false>(-double), 0xffe2);
    assert_eq!(f64_to_integral::<Rn, false>(double).to_bits(), 0x7ffc_56c9_5495_a2fb);
    assert_eq!(f64_to_f32::<Rn, false, true>(double), 0.0);
    let single = f32::from_bits(hide(0xffb7_3e7e) as u32);
    assert_eq!(f32_to_f64::<false, false>(single).to_bits(), 0xfffe_e7cf_c000_0000);
    assert_eq!(f32_to_f64::<true, false>(single).to_bits(), 0x7fff_ffff_e000_0000);
    assert_eq!(half_to_f64::<F16, false>(0x7c4f).to_bits(), 0x7ff9_3c00_0000_0000);
    assert_eq!(half_to_f64::<Bf16, false>(0xffa3).to_bits(), 0xfffc_6000_0000_0000);
    assert_eq!(half_to_f32::<Bf16, false, false>(0xffa3).to_bits(), 0xffa3_0000);
    assert_eq!(half_to_f32::<Bf16, true, false>(0xffa3).to_bits(), 0x7fff_ffff);
    assert_eq!(half_to_f32::<F16, false, false>(0xfe01).to_bits(), 0x7fff_ffff);
}

#[test]
fn every_f16_converts_to_every_integer() {
    for bits in 0..=u16::MAX {
        let x = F16::to_f32(bits);
        if x.is_nan() {
            continue;
        }
        assert_eq!(half_to_int::<F16, i32, Rn>(bits), x.round_ties_even() as i32);
        assert_eq!(half_to_int::<F16, u16, Rm>(bits), x.floor() as u16);
        assert_eq!(half_to_int::<F16, i8, Rp>(bits), x.ceil() as i8);
        assert_eq!(half_to_int::<F16, u64, Rz>(bits), x as u64);
        assert_eq!(F16::to_f32(half_to_integral::<F16, Rm, false>(bits)), x.floor());
        assert_eq!(F16::to_f32(half_to_integral::<F16, Rn, false>(bits)), x.round_ties_even());
        assert_eq!(half_to_half::<F16, F16, Rn, false>(bits), bits);
        assert_eq!(half_to_half::<F16, Bf16, Rn, false>(bits), ::half::bf16::from_f32(x).to_bits());
        assert_eq!(half_to_f64::<F16, false>(bits), f64::from(x));
        assert_eq!(half_to_half::<Bf16, F16, Rn, false>(bits), {
            let wide = Bf16::to_f32(bits);
            if wide.is_nan() { 0x7fff } else { ::half::f16::from_f32(wide).to_bits() }
        });
    }
    for x in i16::MIN..=i16::MAX {
        assert_eq!(int_to_half::<F16, i16, Rn>(x), ::half::f16::from_f32(f32::from(x)).to_bits());
        let (down, up) = (int_to_half::<F16, i16, Rm>(x), int_to_half::<F16, i16, Rp>(x));
        assert!(F16::to_f32(down) <= f32::from(x) && f32::from(x) <= F16::to_f32(up));
    }
}

#[test]
fn modifiers_of_float_conversions() {
    assert_eq!(f32_to_integral::<Rn, false, false>(2.5), 2.0);
    assert_eq!(f32_to_integral::<Rp, true, false>(f32::from_bits(1)).to_bits(), 0);
    assert_eq!(f32_to_integral::<Rp, false, false>(f32::from_bits(1)), 1.0);
    assert_eq!(f32_to_f32::<false, true>(f32::NAN).to_bits(), 0);
    assert_eq!(f64_to_integral::<Rm, true>(1.5), 1.0);
    assert_eq!(f64_to_f32::<Rn, true, false>(-1e-40).to_bits(), 1 << 31);
    assert_eq!(f32_to_f64::<true, false>(-f32::from_bits(1)).to_bits(), 1 << 63);
    assert_eq!(half_to_f32::<Bf16, true, false>(0x8001).to_bits(), 1 << 31);
    assert_eq!(half_to_f32::<F16, true, true>(0x4000), 1.0);
    assert_eq!(f32_to_half::<F16, Rn, false, true, false>(7.0), 0x3c00);
    assert_eq!(f32_to_half::<F16, Rn, false, false, true>(-7.0), 0);
    assert_eq!(f32_to_half::<Bf16, Rp, true, false, false>(f32::from_bits(1)), 0);
    assert_eq!(f32_to_half_finite::<F16, Rn, false>(-1e9), 0xfbff);
    assert_eq!(f32_to_half2::<F16, Rn, false>(1.0, 2.0), 0x3c00_4000);
    assert_eq!(f32_to_half2::<Bf16, Rz, true>(-1.0, 2.0), 0x0000_4000);
}

#[test]
fn tf32_keeps_ten_bits() {
    assert_eq!(f32_to_tf32_rna(f32::from_bits(0x3f80_1000)), 0x3f80_2000);
    assert_eq!(f32_to_tf32::<Rn, false>(f32::from_bits(0x3f80_1000)), 0x3f80_0000);
    assert_eq!(f32_to_tf32::<Rz, false>(f32::from_bits(0xbf80_1fff)), 0xbf80_0000);
    assert_eq!(f32_to_tf32::<Rz, true>(-1.0), 0);
    assert_eq!(f32_to_tf32_rna(f32::INFINITY), 0x7f80_0000);
    assert_eq!(f32_to_tf32_rna(f32::MAX), 0x7f80_0000);
    assert_eq!(f32_to_tf32_rna(f32::from_bits(0xffc0_3fff)), 0xffc0_2000);
    assert_eq!(f32_to_tf32::<Rn, false>(-f32::NAN), 0x7fff_e000);
}

#[test]
fn packing_clamps_each_part() {
    assert_eq!(pack_16::<i32, i16>(-100_000, 5), 0x8000_0005);
    assert_eq!(pack_16::<i32, u16>(-1, 70_000), 0x0000_ffff);
    assert_eq!(pack_onto::<i32, u8>(300, -1, 0x1234_5678), 0x5678_ff00);
    assert_eq!(pack_onto::<i32, i8>(-300, 1, 0x1234_5678), 0x5678_8001);
    assert_eq!((saturate_f32(2.0), flush_f32(f32::from_bits(1))), (1.0, 0.0));
}
