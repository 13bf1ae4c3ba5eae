//! Double precision: `add sub mul fma mad div rcp sqrt rsqrt abs neg min max copysign`.
//! Rounding modes are expanded here by name; the functions are those of `scalar::double` and `scalar::order`.

use super::Row;
use super::rows::{one, three, two};
use crate::scalar::{Rm, Rn, Rp, Rz};
use crate::scalar::{double, order};

macro_rules! sums {
    ($made:ident, $rows:expr, $mode:ty, $infix:literal) => {
        two!(@$made, $rows, concat!("add", $infix, ".f64"), (f64, f64) -> f64, double::add_f64::<$mode>);
        two!(@$made, $rows, concat!("sub", $infix, ".f64"), (f64, f64) -> f64, double::sub_f64::<$mode>);
        two!(@$made, $rows, concat!("mul", $infix, ".f64"), (f64, f64) -> f64, double::mul_f64::<$mode>);
    };
}

macro_rules! others {
    ($made:ident, $rows:expr, $mode:ty, $infix:literal) => {
        three!(@$made, $rows, concat!("fma", $infix, ".f64"), (f64, f64, f64) -> f64, double::fma_f64::<$mode>);
        three!(@$made, $rows, concat!("mad", $infix, ".f64"), (f64, f64, f64) -> f64, double::fma_f64::<$mode>);
        two!(@$made, $rows, concat!("div", $infix, ".f64"), (f64, f64) -> f64, double::div_f64::<$mode>);
        one!(@$made, $rows, concat!("rcp", $infix, ".f64"), (f64) -> f64, double::rcp_f64::<$mode>);
        one!(@$made, $rows, concat!("sqrt", $infix, ".f64"), (f64) -> f64, double::sqrt_f64::<$mode>);
    };
}

pub(super) fn rows(rows: &mut Vec<Row>) {
    sums!(handlers, rows, Rn, "");
    sums!(handlers, rows, Rn, ".rn");
    sums!(baseline_handlers, rows, Rz, ".rz");
    sums!(baseline_handlers, rows, Rm, ".rm");
    sums!(baseline_handlers, rows, Rp, ".rp");
    others!(handlers, rows, Rn, ".rn");
    others!(baseline_handlers, rows, Rz, ".rz");
    others!(baseline_handlers, rows, Rm, ".rm");
    others!(baseline_handlers, rows, Rp, ".rp");
    one!(rows, "rcp.approx.ftz.f64", (f64) -> f64, double::rcp_approx_ftz_f64);
    one!(rows, "rsqrt.approx.ftz.f64", (f64) -> f64, double::rsqrt_approx_ftz_f64);
    one!(rows, "rsqrt.approx.f64", (f64) -> f64, double::rsqrt_f64);
    one!(rows, "abs.f64", (f64) -> f64, order::abs_f64::<false>);
    one!(rows, "neg.f64", (f64) -> f64, order::neg_f64::<false>);
    two!(rows, "min.f64", (f64, f64) -> f64, order::min_f64::<false, false, false>);
    two!(rows, "max.f64", (f64, f64) -> f64, order::max_f64::<false, false, false>);
    two!(rows, "copysign.f64", (f64, f64) -> f64, order::copysign_f64);
}
