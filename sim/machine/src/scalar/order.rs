//! Minimum, maximum, sign operations and classification of f32 and f64.
//! Values come in; a value, or a truth value for `testp`, goes out; `-0` counts as less than `+0`.
//! Nothing here rounds; 16-bit floats have their own file.

use super::float::flush;

/// The tests of `testp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Test {
    /// Neither infinite nor NaN.
    Finite,
    /// Infinite.
    Infinite,
    /// Not NaN.
    Number,
    /// NaN.
    NotANumber,
    /// Neither subnormal, infinite nor NaN; zeros count as normal.
    Normal,
    /// Subnormal; zero does not count.
    Subnormal,
}

macro_rules! order {
    ($t:ty, $bits:ty, $quiet:expr, $nan_name:literal, $input:expr, $min:ident, $max:ident, $abs:ident, $neg:ident, $copysign:ident, $testp:ident,
     $min3:ident, $max3:ident, $name:literal) => {
        #[doc = concat!("`min{.ftz}{.NaN}{.xorsign.abs}.", $name, "`: a NaN loses against a number unless `NAN`; two NaNs give ", $nan_name, ". With `XORSIGN` the smaller magnitude takes the product of the signs.")]
        #[inline(always)]
        pub fn $min<const FTZ: bool, const NAN: bool, const XORSIGN: bool>(a: $t, b: $t) -> $t {
            let (x, y) = prepare!($t, $input, a, b);
            let smaller = if (x < y) | (y.is_nan() & !x.is_nan()) { x } else { y };
            // Equal values differ at most in the sign of zero.
            let equal = <$t>::from_bits(x.to_bits() | y.to_bits());
            finish!($t, $bits, $quiet, if x == y { equal } else { smaller }, a, b)
        }

        #[doc = concat!("`max{.ftz}{.NaN}{.xorsign.abs}.", $name, "`; see [`", stringify!($min), "`].")]
        #[inline(always)]
        pub fn $max<const FTZ: bool, const NAN: bool, const XORSIGN: bool>(a: $t, b: $t) -> $t {
            let (x, y) = prepare!($t, $input, a, b);
            let larger = if (x > y) | (y.is_nan() & !x.is_nan()) { x } else { y };
            let equal = <$t>::from_bits(x.to_bits() & y.to_bits());
            finish!($t, $bits, $quiet, if x == y { equal } else { larger }, a, b)
        }

        #[doc = concat!("`min.", $name, "` of three operands (with `ABS`, of their magnitudes).")]
        #[inline(always)]
        pub fn $min3<const FTZ: bool, const NAN: bool, const ABS: bool>(a: $t, b: $t, c: $t) -> $t {
            let (a, b, c) = if ABS { (a.abs(), b.abs(), c.abs()) } else { (a, b, c) };
            $min::<FTZ, NAN, false>($min::<FTZ, NAN, false>(a, b), c)
        }

        #[doc = concat!("`max.", $name, "` of three operands (with `ABS`, of their magnitudes).")]
        #[inline(always)]
        pub fn $max3<const FTZ: bool, const NAN: bool, const ABS: bool>(a: $t, b: $t, c: $t) -> $t {
            let (a, b, c) = if ABS { (a.abs(), b.abs(), c.abs()) } else { (a, b, c) };
            $max::<FTZ, NAN, false>($max::<FTZ, NAN, false>(a, b), c)
        }

        #[doc = concat!("`abs{.ftz}.", $name, "`: clears the sign bit; a NaN becomes ", $nan_name, ".")]
        #[inline(always)]
        pub fn $abs<const FTZ: bool>(a: $t) -> $t {
            let x = if FTZ { $input(a) } else { a };
            $quiet(x, x.abs())
        }

        #[doc = concat!("`neg{.ftz}.", $name, "`: flips the sign bit; a NaN becomes ", $nan_name, ".")]
        #[inline(always)]
        pub fn $neg<const FTZ: bool>(a: $t) -> $t {
            let x = if FTZ { $input(a) } else { a };
            $quiet(x, -x)
        }

        #[doc = concat!("`copysign.", $name, "`: the magnitude of `b` with the sign of `a` (the order PTX has).")]
        #[inline(always)]
        pub fn $copysign(a: $t, b: $t) -> $t {
            b.copysign(a)
        }

        #[doc = concat!("`testp.", $name, "`.")]
        #[inline(always)]
        pub fn $testp(test: Test, a: $t) -> bool {
            let magnitude = a.abs();
            match test {
                Test::Finite => magnitude < <$t>::INFINITY,
                Test::Infinite => magnitude == <$t>::INFINITY,
                Test::Number => !a.is_nan(),
                Test::NotANumber => a.is_nan(),
                Test::Normal => (<$t>::MIN_POSITIVE..<$t>::INFINITY).contains(&magnitude) | (magnitude == 0.0),
                Test::Subnormal => (magnitude < <$t>::MIN_POSITIVE) & (magnitude > 0.0),
            }
        }
    };
}

macro_rules! prepare {
    ($t:ty, $input:expr, $a:ident, $b:ident) => {{
        let (x, y) = if FTZ { ($input($a), $input($b)) } else { ($a, $b) };
        if XORSIGN { (x.abs(), y.abs()) } else { (x, y) }
    }};
}

macro_rules! finish {
    ($t:ty, $bits:ty, $quiet:expr, $chosen:expr, $a:ident, $b:ident) => {{
        let chosen: $t = $chosen;
        let sign: $bits = ($a.to_bits() ^ $b.to_bits()) & !(<$bits>::MAX >> 1);
        let signed = if XORSIGN { <$t>::from_bits(chosen.to_bits() | sign) } else { chosen };
        // A single NaN decides the result.
        let decisive = if NAN & $a.is_nan() {
            $a
        } else if NAN & $b.is_nan() {
            $b
        } else {
            chosen
        };
        $quiet(decisive, signed)
    }};
}

/// The canonical NaN if `x` is one, else `value`.
#[inline(always)]
fn canonical_or(x: f32, value: f32) -> f32 {
    // On the bits, as in `float::canonical`.
    let nan = x.to_bits() & 0x7fff_ffff > 0x7f80_0000;
    f32::from_bits(if nan { super::NAN_F32.to_bits() } else { value.to_bits() })
}

/// `x` made quiet if it is NaN, else `value`.
#[inline(always)]
fn quiet_or(x: f64, value: f64) -> f64 {
    let nan = x.to_bits() & !(1 << 63) > f64::INFINITY.to_bits();
    f64::from_bits(if nan { x.to_bits() | 1 << 51 } else { value.to_bits() })
}

/// f64 instructions have no `.ftz`.
#[inline(always)]
fn as_is(x: f64) -> f64 {
    x
}

order!(
    f32,
    u32,
    canonical_or,
    "the canonical one",
    flush,
    min_f32,
    max_f32,
    abs_f32,
    neg_f32,
    copysign_f32,
    testp_f32,
    min3_f32,
    max3_f32,
    "f32"
);
order!(
    f64,
    u64,
    quiet_or,
    "quiet",
    as_is,
    min_f64,
    max_f64,
    abs_f64,
    neg_f64,
    copysign_f64,
    testp_f64,
    min3_f64,
    max3_f64,
    "f64"
);

/// `slct` with an f32 selector: `a` if `c >= 0`, else (also for NaN) `b`; `-0` and flushed negatives count as zero.
#[inline(always)]
pub fn slct_f32<T: Copy, const FTZ: bool>(a: T, b: T, c: f32) -> T {
    let selector = if FTZ { flush(c) } else { c };
    if selector >= 0.0 { a } else { b }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_are_ordered_and_nan_loses() {
        assert_eq!(min_f32::<false, false, false>(0.0, -0.0).to_bits(), 1 << 31);
        assert_eq!(min_f32::<false, false, false>(-0.0, 0.0).to_bits(), 1 << 31);
        assert_eq!(max_f32::<false, false, false>(-0.0, 0.0).to_bits(), 0);
        assert_eq!(max_f32::<false, false, false>(f32::NAN, -3.0), -3.0);
        assert_eq!(min_f32::<false, false, false>(2.0, f32::NAN), 2.0);
        assert_eq!(min_f32::<false, false, false>(-f32::NAN, f32::NAN).to_bits(), 0x7fff_ffff);
        assert_eq!(max_f32::<false, true, false>(1.0, -f32::NAN).to_bits(), 0x7fff_ffff);
        assert_eq!(max_f64::<false, true, false>(f64::NAN, 1.0).to_bits(), f64::NAN.to_bits());
        assert_eq!(max_f64::<false, false, false>(f64::NEG_INFINITY, 1.0), 1.0);
        assert_eq!(min_f64::<false, false, false>(-1.0, 1.0), -1.0);
    }

    #[test]
    fn signs_of_both_operands_are_combined() {
        assert_eq!(min_f32::<false, false, true>(-5.0, 3.0), -3.0);
        assert_eq!(min_f32::<false, false, true>(-5.0, -3.0), 3.0);
        assert_eq!(max_f32::<false, false, true>(5.0, -3.0), -5.0);
        assert_eq!(max_f32::<false, true, true>(-f32::NAN, 3.0).to_bits(), 0x7fff_ffff);
        assert_eq!(max_f32::<false, false, true>(-f32::NAN, 3.0), -3.0);
    }

    #[test]
    fn subnormals_are_flushed_on_request() {
        let tiny = f32::from_bits(3);
        assert_eq!(min_f32::<true, false, false>(tiny, 1.0).to_bits(), 0);
        assert_eq!(neg_f32::<true>(tiny).to_bits(), 1 << 31);
        assert_eq!(neg_f32::<false>(tiny).to_bits(), 0x8000_0003);
        assert_eq!(abs_f32::<true>(-tiny).to_bits(), 0);
        assert!(slct_f32::<bool, true>(true, false, -tiny));
        assert!(!slct_f32::<bool, false>(true, false, -tiny));
        assert!(!slct_f32::<bool, false>(true, false, f32::NAN));
    }

    #[test]
    fn three_operands_and_sign_copies() {
        assert_eq!(max3_f32::<false, false, true>(1.0, -7.0, f32::NAN), 7.0);
        assert_eq!(min3_f32::<false, false, false>(1.0, -7.0, 2.0), -7.0);
        assert!(min3_f32::<false, true, false>(1.0, f32::NAN, 2.0).is_nan());
        assert_eq!(max3_f64::<false, false, false>(1.0, 9.0, 2.0), 9.0);
        assert_eq!(min3_f64::<false, false, true>(-3.0, 9.0, -2.0), 2.0);
        assert_eq!(copysign_f32(-1.0, 4.0), -4.0);
        assert_eq!(copysign_f64(1.0, -4.0), 4.0);
        assert_eq!(abs_f64::<false>(-4.0), 4.0);
        assert_eq!(neg_f64::<false>(4.0), -4.0);
    }

    #[test]
    fn classes_partition_the_values() {
        for (x, finite, infinite, nan, normal, subnormal) in [
            (0.0f32, true, false, false, true, false),
            (-1.5, true, false, false, true, false),
            (f32::from_bits(1), true, false, false, false, true),
            (f32::NEG_INFINITY, false, true, false, false, false),
            (f32::NAN, false, false, true, false, false),
        ] {
            assert_eq!(testp_f32(Test::Finite, x), finite);
            assert_eq!(testp_f32(Test::Infinite, x), infinite);
            assert_eq!(testp_f32(Test::NotANumber, x), nan);
            assert_eq!(testp_f32(Test::Number, x), !nan);
            assert_eq!(testp_f32(Test::Normal, x), normal);
            assert_eq!(testp_f32(Test::Subnormal, x), subnormal);
            if subnormal {
                continue; // an f32 subnormal is a normal f64
            }
            assert_eq!(testp_f64(Test::Normal, f64::from(x)), normal);
        }
        assert!(testp_f64(Test::Subnormal, f64::from_bits(1)));
    }
}
