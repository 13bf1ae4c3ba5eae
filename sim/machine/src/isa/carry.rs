//! Extended-precision arithmetic: `add sub mad` with `.cc`, `addc subc madc`.
//! The carry flag is a hidden predicate of the frame; rows say whether it is read and written.

use super::Row;
use super::rows::carry;
use crate::scalar::carry;

/// The flag after a subtraction as hardware has it: set where nothing was borrowed, since `a - b` is `a + !b + 1` there.
/// Chains of subtractions do not show the difference; `addc` after `subc.cc` does, as in nvcc's division of 128 bits.
#[inline(always)]
fn no_borrow<T>((difference, borrow): (T, bool)) -> (T, bool) {
    (difference, !borrow)
}

macro_rules! of_word {
    ($rows:expr, $word:ty, $name:literal) => {
        carry!($rows, concat!("add.cc.", $name), 2, false, true, ($word, $word, $word) -> $word,
            |a, b, _, _| carry::add_cc::<$word>(a, b));
        carry!($rows, concat!("addc.", $name), 2, true, false, ($word, $word, $word) -> $word,
            |a, b, _, flag| carry::addc::<$word>(a, b, flag));
        carry!($rows, concat!("addc.cc.", $name), 2, true, true, ($word, $word, $word) -> $word,
            |a, b, _, flag| carry::addc::<$word>(a, b, flag));
        carry!($rows, concat!("sub.cc.", $name), 2, false, true, ($word, $word, $word) -> $word,
            |a, b, _, _| no_borrow(carry::sub_cc::<$word>(a, b)));
        carry!($rows, concat!("subc.", $name), 2, true, false, ($word, $word, $word) -> $word,
            |a, b, _, flag: bool| no_borrow(carry::subc::<$word>(a, b, !flag)));
        carry!($rows, concat!("subc.cc.", $name), 2, true, true, ($word, $word, $word) -> $word,
            |a, b, _, flag: bool| no_borrow(carry::subc::<$word>(a, b, !flag)));
        carry!($rows, concat!("mad.lo.cc.", $name), 3, false, true, ($word, $word, $word) -> $word,
            |a, b, c, _| carry::madc_lo::<$word>(a, b, c, false));
        carry!($rows, concat!("madc.lo.", $name), 3, true, false, ($word, $word, $word) -> $word,
            |a, b, c, flag| carry::madc_lo::<$word>(a, b, c, flag));
        carry!($rows, concat!("madc.lo.cc.", $name), 3, true, true, ($word, $word, $word) -> $word,
            |a, b, c, flag| carry::madc_lo::<$word>(a, b, c, flag));
    };
}

macro_rules! high {
    ($rows:expr, $factor:ty, $word:ty, $name:literal, $function:expr) => {
        carry!($rows, concat!("mad.hi.cc.", $name), 3, false, true, ($factor, $factor, $word) -> $word,
            |a, b, c, _| ($function)(a, b, c, false));
        carry!($rows, concat!("madc.hi.", $name), 3, true, false, ($factor, $factor, $word) -> $word,
            |a, b, c, flag| ($function)(a, b, c, flag));
        carry!($rows, concat!("madc.hi.cc.", $name), 3, true, true, ($factor, $factor, $word) -> $word,
            |a, b, c, flag| ($function)(a, b, c, flag));
    };
}

pub(super) fn rows(rows: &mut Vec<Row>) {
    of_word!(rows, u32, "u32");
    of_word!(rows, u32, "s32");
    of_word!(rows, u32, "b32");
    of_word!(rows, u64, "u64");
    of_word!(rows, u64, "s64");
    of_word!(rows, u64, "b64");
    high!(rows, u32, u32, "u32", carry::madc_hi::<u32>);
    high!(rows, u64, u64, "u64", carry::madc_hi::<u64>);
    high!(rows, i32, u32, "s32", carry::madc_hi_s32);
    high!(rows, i64, u64, "s64", carry::madc_hi_s64);
}
