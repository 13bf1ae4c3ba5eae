//! Rounding modes, and the step from an exact value to f32 in each of them.
//! An exact value comes in as an f64 and the sign of what the f64 leaves out; an f32 goes out.
//! Nothing here looks at instruction modifiers other than the rounding mode.

/// A rounding mode of a floating-point result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// To nearest, ties to even (`.rn`, `.rni`).
    Nearest,
    /// Towards zero (`.rz`, `.rzi`).
    Zero,
    /// Towards minus infinity (`.rm`, `.rmi`).
    Down,
    /// Towards plus infinity (`.rp`, `.rpi`).
    Up,
    /// To odd: truncate and set the last bit when anything was cut off. Not a PTX mode: a value rounded to odd with
    /// two bits to spare rounds on to any narrower format as the exact value would.
    Odd,
}

/// A rounding mode as a type, so that it costs nothing at run time.
pub trait Round: Copy + Default + Send + Sync + 'static {
    /// The mode this type stands for.
    const MODE: Mode;
}

macro_rules! modes {
    ($($(#[$doc:meta])* $name:ident = $mode:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $name;
        impl Round for $name {
            const MODE: Mode = Mode::$mode;
        }
    )*};
}

modes! {
    /// `.rn` and `.rni`: to nearest, ties to even.
    Rn = Nearest;
    /// `.rz` and `.rzi`: towards zero.
    Rz = Zero;
    /// `.rm` and `.rmi`: towards minus infinity.
    Rm = Down;
    /// `.rp` and `.rpi`: towards plus infinity.
    Rp = Up;
    /// To odd, for results that are rounded once more.
    Odd = Odd;
}

/// Whether a truncated magnitude must be replaced by the next larger one.
#[inline(always)]
pub(crate) const fn rounds_away(mode: Mode, negative: bool, inexact: bool) -> bool {
    match mode {
        Mode::Down => negative && inexact,
        Mode::Up => !negative && inexact,
        Mode::Nearest | Mode::Zero | Mode::Odd => false,
    }
}

/// Splits `x + y` into the nearest f64 and the exact rest. The rest is NaN when the sum is not finite.
#[inline(always)]
pub(crate) fn two_sum(x: f64, y: f64) -> (f64, f64) {
    let sum = x + y;
    let of_y = sum - x;
    let of_x = sum - of_y;
    (sum, (x - of_x) + (y - of_y))
}

/// Rounds the exact value `high + rest` to f32, `|rest|` being at most half a unit in the last place of `high`.
///
/// Only the sign of `rest` is looked at; a NaN counts as zero. For [`Rn`] the rest must be zero.
/// A NaN `high` gives the canonical NaN; infinities and overflow follow the mode.
#[inline(always)]
pub(crate) fn narrow<R: Round>(high: f64, rest: f64) -> f32 {
    let nearest = high as f32;
    if matches!(R::MODE, Mode::Nearest) {
        return nearest;
    }
    // `nearest` is the exact value or one of its two neighbours in f32. Step back to the truncated magnitude, then out
    // again if the mode asks for it. On bit patterns of magnitudes both steps are +-1.
    let negative = high.is_sign_negative();
    let magnitude = high.abs();
    let back = f64::from(nearest).abs();
    let rest_inward = if negative { rest > 0.0 } else { rest < 0.0 };
    let too_large = (back > magnitude) | ((back == magnitude) & rest_inward);
    let inexact = (back != magnitude) | (rest > 0.0) | (rest < 0.0);
    let truncated = (nearest.to_bits() & 0x7fff_ffff).wrapping_sub(u32::from(too_large));
    let rounded = if matches!(R::MODE, Mode::Odd) {
        truncated | u32::from(inexact)
    } else {
        truncated.wrapping_add(u32::from(rounds_away(R::MODE, negative, inexact)))
    };
    let signed = rounded | (u32::from(negative) << 31);
    f32::from_bits(if high.is_nan() { super::NAN_F32.to_bits() } else { signed })
}

/// The sum of two f64 values that are exact products or promotions of f32, rounded once to f32.
///
/// Both must stay so far inside f64's range that the sum neither overflows nor underflows.
#[inline(always)]
pub(crate) fn sum_to_f32<R: Round>(x: f64, y: f64) -> f32 {
    let (sum, rest) = two_sum(x, y);
    let rounded = narrow::<R>(sum, rest);
    // An exact zero takes a minus sign when rounding down, unless both parts are +0.
    if matches!(R::MODE, Mode::Down) && sum == 0.0 {
        let negative = x.is_sign_negative() | y.is_sign_negative();
        return f32::from_bits(u32::from(negative) << 31);
    }
    rounded
}

/// Rounds to an integral f32 in mode `R`, keeping the sign of zero. NaN and infinities pass.
#[inline(always)]
pub fn integral_f32<R: Round>(x: f32) -> f32 {
    // Adding 2^23 pushes the fraction out of the significand; above it every f32 is integral already.
    const SHIFT: f32 = 8_388_608.0;
    let magnitude = x.abs();
    let nearest = if magnitude < SHIFT { (magnitude + SHIFT) - SHIFT } else { magnitude };
    let truncated = nearest - if nearest > magnitude { 1.0 } else { 0.0 };
    let away = rounds_away(R::MODE, x.is_sign_negative(), truncated < magnitude);
    let rounded = match R::MODE {
        Mode::Nearest => nearest,
        _ => truncated + if away { 1.0 } else { 0.0 },
    };
    rounded.copysign(x)
}

/// Rounds to an integral f64 in mode `R`, keeping the sign of zero. NaN and infinities pass.
#[inline(always)]
pub fn integral_f64<R: Round>(x: f64) -> f64 {
    const SHIFT: f64 = 4_503_599_627_370_496.0;
    let magnitude = x.abs();
    let nearest = if magnitude < SHIFT { (magnitude + SHIFT) - SHIFT } else { magnitude };
    let truncated = nearest - if nearest > magnitude { 1.0 } else { 0.0 };
    let away = rounds_away(R::MODE, x.is_sign_negative(), truncated < magnitude);
    let rounded = match R::MODE {
        Mode::Nearest => nearest,
        _ => truncated + if away { 1.0 } else { 0.0 },
    };
    rounded.copysign(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integral_matches_the_standard_library_on_a_sweep() {
        for step in 0..(1u32 << 20) {
            let x = f32::from_bits(step.wrapping_mul(4096).wrapping_add(step >> 7));
            if x.is_nan() {
                assert!(integral_f32::<Rn>(x).is_nan());
                continue;
            }
            assert_eq!(integral_f32::<Rn>(x).to_bits(), x.round_ties_even().to_bits());
            assert_eq!(integral_f32::<Rz>(x).to_bits(), x.trunc().to_bits());
            assert_eq!(integral_f32::<Rm>(x).to_bits(), x.floor().to_bits(), "{x:e}");
            assert_eq!(integral_f32::<Rp>(x).to_bits(), x.ceil().to_bits(), "{x:e}");
            let wide = f64::from(x) * 1.000_000_123;
            assert_eq!(integral_f64::<Rn>(wide).to_bits(), wide.round_ties_even().to_bits());
            assert_eq!(integral_f64::<Rz>(wide).to_bits(), wide.trunc().to_bits());
            assert_eq!(integral_f64::<Rm>(wide).to_bits(), wide.floor().to_bits());
            assert_eq!(integral_f64::<Rp>(wide).to_bits(), wide.ceil().to_bits());
        }
    }

    #[test]
    fn narrowing_overflows_by_mode() {
        let large = 1e300;
        assert_eq!(narrow::<Rn>(large, 0.0), f32::INFINITY);
        assert_eq!(narrow::<Rz>(large, 0.0), f32::MAX);
        assert_eq!(narrow::<Rm>(large, 0.0), f32::MAX);
        assert_eq!(narrow::<Rp>(large, 0.0), f32::INFINITY);
        assert_eq!(narrow::<Rm>(-large, 0.0), f32::NEG_INFINITY);
        assert_eq!(narrow::<Rp>(-large, 0.0), f32::MIN);
        assert_eq!(narrow::<Rz>(f64::INFINITY, f64::NAN), f32::INFINITY);
    }

    #[test]
    fn narrowing_underflows_by_mode() {
        let tiny = 1e-300;
        assert_eq!(narrow::<Rz>(tiny, 0.0).to_bits(), 0);
        assert_eq!(narrow::<Rp>(tiny, 0.0).to_bits(), 1);
        assert_eq!(narrow::<Rm>(-tiny, 0.0).to_bits(), 0x8000_0001);
        assert_eq!(narrow::<Rp>(-tiny, 0.0).to_bits(), 0x8000_0000);
        assert_eq!(narrow::<Odd>(tiny, 0.0).to_bits(), 1);
    }
}
