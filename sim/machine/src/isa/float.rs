//! Single precision: `add sub mul fma mad div rcp sqrt rsqrt abs neg min max copysign` and the approximations.
//! Rounding, `.ftz` and `.sat` are expanded here by name; the functions are those of `scalar::float`, `order`, `transcend`.

use super::Row;
use super::rows::{one, three, two};
use crate::scalar::{Rm, Rn, Rp, Rz};
use crate::scalar::{float, order, transcend};

macro_rules! rounded {
    ($made:ident, $rows:expr, $mode:ty, $infix:literal) => {
        arithmetic!($made, $rows, $mode, $infix, "", false, false);
        arithmetic!($made, $rows, $mode, $infix, ".ftz", true, false);
        arithmetic!($made, $rows, $mode, $infix, ".sat", false, true);
        arithmetic!(baseline_handlers, $rows, $mode, $infix, ".ftz.sat", true, true);
    };
}

macro_rules! arithmetic {
    ($made:ident, $rows:expr, $mode:ty, $infix:literal, $flags:literal, $ftz:literal, $sat:literal) => {
        two!(@$made, $rows, concat!("add", $infix, $flags, ".f32"), (f32, f32) -> f32, float::add_f32::<$mode, $ftz, $sat>);
        two!(@$made, $rows, concat!("sub", $infix, $flags, ".f32"), (f32, f32) -> f32, float::sub_f32::<$mode, $ftz, $sat>);
        two!(@$made, $rows, concat!("mul", $infix, $flags, ".f32"), (f32, f32) -> f32, float::mul_f32::<$mode, $ftz, $sat>);
    };
}

macro_rules! fused {
    ($rows:expr, $mode:ty, $infix:literal) => {
        fused!($rows, $mode, $infix, "", false, false);
        fused!($rows, $mode, $infix, ".ftz", true, false);
        fused!($rows, $mode, $infix, ".sat", false, true);
        fused!($rows, $mode, $infix, ".ftz.sat", true, true);
    };
    ($rows:expr, $mode:ty, $infix:literal, $flags:literal, $ftz:literal, $sat:literal) => {
        three!($rows, concat!("fma", $infix, $flags, ".f32"), (f32, f32, f32) -> f32, float::fma_f32::<$mode, $ftz, $sat>);
        three!($rows, concat!("mad", $infix, $flags, ".f32"), (f32, f32, f32) -> f32, float::fma_f32::<$mode, $ftz, $sat>);
    };
}

macro_rules! quotients {
    ($made:ident, $rows:expr, $mode:ty, $infix:literal, $flags:literal, $ftz:literal) => {
        two!(@$made, $rows, concat!("div", $infix, $flags, ".f32"), (f32, f32) -> f32, float::div_f32::<$mode, $ftz>);
        one!(@$made, $rows, concat!("rcp", $infix, $flags, ".f32"), (f32) -> f32, float::rcp_f32::<$mode, $ftz>);
        one!(@$made, $rows, concat!("sqrt", $infix, $flags, ".f32"), (f32) -> f32, float::sqrt_f32::<$mode, $ftz>);
    };
}

macro_rules! approximations {
    ($rows:expr, $flags:literal, $ftz:literal) => {
        two!($rows, concat!("div.approx", $flags, ".f32"), (f32, f32) -> f32, float::div_approx_f32::<$ftz>);
        two!($rows, concat!("div.full", $flags, ".f32"), (f32, f32) -> f32, float::div_f32::<Rn, $ftz>);
        one!($rows, concat!("rcp.approx", $flags, ".f32"), (f32) -> f32, float::rcp_f32::<Rn, $ftz>);
        one!($rows, concat!("sqrt.approx", $flags, ".f32"), (f32) -> f32, float::sqrt_f32::<Rn, $ftz>);
        one!($rows, concat!("rsqrt.approx", $flags, ".f32"), (f32) -> f32, float::rsqrt_f32::<$ftz>);
        one!($rows, concat!("ex2.approx", $flags, ".f32"), (f32) -> f32, transcend::ex2_f32::<$ftz>);
        one!($rows, concat!("lg2.approx", $flags, ".f32"), (f32) -> f32, transcend::lg2_f32::<$ftz>);
        one!($rows, concat!("sin.approx", $flags, ".f32"), (f32) -> f32, transcend::sin_f32::<$ftz>);
        one!($rows, concat!("cos.approx", $flags, ".f32"), (f32) -> f32, transcend::cos_f32::<$ftz>);
    };
}

macro_rules! ordering {
    ($made:ident, $rows:expr, $flags:literal, $ftz:literal, $nan:literal, $xorsign:literal) => {
        two!(@$made, $rows, concat!("min", $flags, ".f32"), (f32, f32) -> f32, order::min_f32::<$ftz, $nan, $xorsign>);
        two!(@$made, $rows, concat!("max", $flags, ".f32"), (f32, f32) -> f32, order::max_f32::<$ftz, $nan, $xorsign>);
    };
}

macro_rules! ordering3 {
    ($made:ident, $rows:expr, $flags:literal, $ftz:literal, $nan:literal, $abs:literal) => {
        three!(@$made, $rows, concat!("min", $flags, ".f32.3"), (f32, f32, f32) -> f32, order::min3_f32::<$ftz, $nan, $abs>);
        three!(@$made, $rows, concat!("max", $flags, ".f32.3"), (f32, f32, f32) -> f32, order::max3_f32::<$ftz, $nan, $abs>);
    };
}

pub(super) fn rows(rows: &mut Vec<Row>) {
    rounded!(handlers, rows, Rn, "");
    rounded!(handlers, rows, Rn, ".rn");
    rounded!(baseline_handlers, rows, Rz, ".rz");
    rounded!(baseline_handlers, rows, Rm, ".rm");
    rounded!(baseline_handlers, rows, Rp, ".rp");
    fused!(rows, Rn, ".rn");
    // Of targets before sm_20, which name no rounding: a GPU's driver takes it as fma.rn.ftz (PTX ISA, `mad`).
    three!(rows, "mad.f32", (f32, f32, f32) -> f32, float::fma_f32::<Rn, true, false>);
    three!(rows, "mad.sat.f32", (f32, f32, f32) -> f32, float::fma_f32::<Rn, true, true>);
    fused!(rows, Rz, ".rz");
    fused!(rows, Rm, ".rm");
    fused!(rows, Rp, ".rp");
    old_forms(rows);
    quotients!(handlers, rows, Rn, ".rn", "", false);
    quotients!(handlers, rows, Rn, ".rn", ".ftz", true);
    quotients!(baseline_handlers, rows, Rz, ".rz", "", false);
    quotients!(baseline_handlers, rows, Rz, ".rz", ".ftz", true);
    quotients!(baseline_handlers, rows, Rm, ".rm", "", false);
    quotients!(baseline_handlers, rows, Rm, ".rm", ".ftz", true);
    quotients!(baseline_handlers, rows, Rp, ".rp", "", false);
    quotients!(baseline_handlers, rows, Rp, ".rp", ".ftz", true);
    approximations!(rows, "", false);
    approximations!(rows, ".ftz", true);
    one!(rows, "tanh.approx.f32", (f32) -> f32, transcend::tanh_f32);
    signs(rows);
}

/// Old forms without a rounding mode.
fn old_forms(rows: &mut Vec<Row>) {
    two!(rows, "div.f32", (f32, f32) -> f32, float::div_f32::<Rn, false>);
    one!(rows, "sqrt.f32", (f32) -> f32, float::sqrt_f32::<Rn, false>);
    one!(rows, "rcp.f32", (f32) -> f32, float::rcp_f32::<Rn, false>);
}

fn signs(rows: &mut Vec<Row>) {
    one!(rows, "abs.f32", (f32) -> f32, order::abs_f32::<false>);
    one!(rows, "abs.ftz.f32", (f32) -> f32, order::abs_f32::<true>);
    one!(rows, "neg.f32", (f32) -> f32, order::neg_f32::<false>);
    one!(rows, "neg.ftz.f32", (f32) -> f32, order::neg_f32::<true>);
    // The instruction's first source gives the sign: `copysign d, a, b` is b with the sign of a.
    two!(rows, "copysign.f32", (f32, f32) -> f32, order::copysign_f32);
    ordering!(handlers, rows, "", false, false, false);
    ordering!(handlers, rows, ".ftz", true, false, false);
    ordering!(baseline_handlers, rows, ".NaN", false, true, false);
    ordering!(baseline_handlers, rows, ".ftz.NaN", true, true, false);
    ordering!(baseline_handlers, rows, ".xorsign.abs", false, false, true);
    ordering!(baseline_handlers, rows, ".ftz.xorsign.abs", true, false, true);
    ordering!(baseline_handlers, rows, ".NaN.xorsign.abs", false, true, true);
    ordering!(baseline_handlers, rows, ".ftz.NaN.xorsign.abs", true, true, true);
    ordering3!(baseline_handlers, rows, "", false, false, false);
    ordering3!(baseline_handlers, rows, ".ftz", true, false, false);
    ordering3!(baseline_handlers, rows, ".NaN", false, true, false);
    ordering3!(baseline_handlers, rows, ".ftz.NaN", true, true, false);
    ordering3!(baseline_handlers, rows, ".abs", false, false, true);
    ordering3!(baseline_handlers, rows, ".ftz.abs", true, false, true);
    ordering3!(baseline_handlers, rows, ".NaN.abs", false, true, true);
    ordering3!(baseline_handlers, rows, ".ftz.NaN.abs", true, true, true);
}
