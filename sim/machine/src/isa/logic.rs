//! Bits: logic, shifts, fields, counts, permutes, dot products of bytes, selection.
//! Each row binds an opcode to functions of `scalar::bits`, `scalar::int` and `scalar::packed`.

use super::Row;
use super::rows::{Shape, Value, four, one, three, two};
use crate::exec::{Handlers, OfPredicates, PredicateLogic, Select, handlers};
use crate::scalar::bits::PermuteMode;
use crate::scalar::{bits, int, order, packed};

macro_rules! of_bits {
    ($rows:expr, $type:ty, $name:literal) => {
        two!($rows, concat!("and.", $name), ($type, $type) -> $type, int::and::<$type>);
        two!($rows, concat!("or.", $name), ($type, $type) -> $type, int::or::<$type>);
        two!($rows, concat!("xor.", $name), ($type, $type) -> $type, int::xor::<$type>);
        one!($rows, concat!("not.", $name), ($type) -> $type, int::not::<$type>);
        one!($rows, concat!("cnot.", $name), ($type) -> $type, int::cnot::<$type>);
        two!($rows, concat!("shl.", $name), ($type, u32) -> $type, int::shl::<$type>);
        two!($rows, concat!("shr.", $name), ($type, u32) -> $type, int::shr::<$type>);
    };
}

macro_rules! right_shifts {
    ($($rows:expr, $type:ty, $name:literal;)*) => {$(
        two!($rows, concat!("shr.", $name), ($type, u32) -> $type, int::shr::<$type>);
    )*};
}

macro_rules! dot_products {
    ($($rows:expr, $types:literal, $a:literal, $b:literal;)*) => {$(
        three!($rows, concat!("dp4a.", $types), (u32, u32, u32) -> u32, packed::dp4a::<$a, $b>);
        three!($rows, concat!("dp2a.lo.", $types), (u32, u32, u32) -> u32, packed::dp2a::<$a, $b, false>);
        three!($rows, concat!("dp2a.hi.", $types), (u32, u32, u32) -> u32, packed::dp2a::<$a, $b, true>);
    )*};
}

macro_rules! slct {
    ($($rows:expr, $type:ty, $name:literal;)*) => {$(
        three!($rows, concat!("slct.", $name, ".s32"), ($type, $type, i32) -> $type, int::slct_s32::<$type>);
        three!($rows, concat!("slct.", $name, ".f32"), ($type, $type, f32) -> $type, order::slct_f32::<$type, false>);
        three!($rows, concat!("slct.ftz.", $name, ".f32"), ($type, $type, f32) -> $type, order::slct_f32::<$type, true>);
    )*};
}

pub(super) fn rows(rows: &mut Vec<Row>) {
    of_bits!(rows, u16, "b16");
    of_bits!(rows, u32, "b32");
    of_bits!(rows, u64, "b64");
    right_shifts! {
        rows, u16, "u16"; rows, i16, "s16"; rows, u32, "u32"; rows, i32, "s32"; rows, u64, "u64"; rows, i64, "s64";
    }
    fields(rows);
    counts(rows);
    permutes(rows);
    dot_products! {
        rows, "u32.u32", false, false; rows, "u32.s32", false, true;
        rows, "s32.u32", true, false; rows, "s32.s32", true, true;
    }
    slct! {
        rows, u16, "b16"; rows, u16, "u16"; rows, u16, "s16";
        rows, u32, "b32"; rows, u32, "u32"; rows, u32, "s32"; rows, u32, "f32";
        rows, u64, "b64"; rows, u64, "u64"; rows, u64, "s64"; rows, u64, "f64";
    }
    predicates(rows);
    selections(rows);
}

fn fields(rows: &mut Vec<Row>) {
    three!(rows, "bfe.u32", (u32, u32, u32) -> u32, bits::bfe_u32);
    three!(rows, "bfe.s32", (i32, u32, u32) -> i32, bits::bfe_s32);
    three!(rows, "bfe.u64", (u64, u32, u32) -> u64, bits::bfe_u64);
    three!(rows, "bfe.s64", (i64, u32, u32) -> i64, bits::bfe_s64);
    four!(rows, "bfi.b32", (u32, u32, u32, u32) -> u32, bits::bfi_b32);
    four!(rows, "bfi.b64", (u64, u64, u32, u32) -> u64, bits::bfi_b64);
    two!(rows, "bmsk.clamp.b32", (u32, u32) -> u32, bits::bmsk_b32::<false>);
    two!(rows, "bmsk.wrap.b32", (u32, u32) -> u32, bits::bmsk_b32::<true>);
    two!(rows, "szext.clamp.s32", (i32, u32) -> i32, bits::szext_s32::<false>);
    two!(rows, "szext.wrap.s32", (i32, u32) -> i32, bits::szext_s32::<true>);
    two!(rows, "szext.clamp.u32", (u32, u32) -> u32, bits::szext_u32::<false>);
    two!(rows, "szext.wrap.u32", (u32, u32) -> u32, bits::szext_u32::<true>);
    three!(rows, "shf.l.clamp.b32", (u32, u32, u32) -> u32, bits::shf_l::<false>);
    three!(rows, "shf.l.wrap.b32", (u32, u32, u32) -> u32, bits::shf_l::<true>);
    three!(rows, "shf.r.clamp.b32", (u32, u32, u32) -> u32, bits::shf_r::<false>);
    three!(rows, "shf.r.wrap.b32", (u32, u32, u32) -> u32, bits::shf_r::<true>);
    four!(rows, "lop3.b32", (u32, u32, u32, u32) -> u32, |a, b, c, table: u32| bits::lop3(a, b, c, table as u8));
}

fn counts(rows: &mut Vec<Row>) {
    one!(rows, "popc.b32", (u32) -> u32, bits::popc_b32);
    one!(rows, "popc.b64", (u64) -> u32, bits::popc_b64);
    one!(rows, "clz.b32", (u32) -> u32, bits::clz_b32);
    one!(rows, "clz.b64", (u64) -> u32, bits::clz_b64);
    one!(rows, "brev.b32", (u32) -> u32, bits::brev_b32);
    one!(rows, "brev.b64", (u64) -> u64, bits::brev_b64);
    one!(rows, "bfind.u32", (u32) -> u32, bits::bfind_u32::<false>);
    one!(rows, "bfind.s32", (i32) -> u32, bits::bfind_s32::<false>);
    one!(rows, "bfind.u64", (u64) -> u32, bits::bfind_u64::<false>);
    one!(rows, "bfind.s64", (i64) -> u32, bits::bfind_s64::<false>);
    one!(rows, "bfind.shiftamt.u32", (u32) -> u32, bits::bfind_u32::<true>);
    one!(rows, "bfind.shiftamt.s32", (i32) -> u32, bits::bfind_s32::<true>);
    one!(rows, "bfind.shiftamt.u64", (u64) -> u32, bits::bfind_u64::<true>);
    one!(rows, "bfind.shiftamt.s64", (i64) -> u32, bits::bfind_s64::<true>);
    three!(rows, "fns.b32", (u32, u32, i32) -> u32, bits::fns_b32);
}

fn permutes(rows: &mut Vec<Row>) {
    three!(rows, "prmt.b32", (u32, u32, u32) -> u32, |a, b, c| bits::prmt(PermuteMode::Index, a, b, c));
    three!(rows, "prmt.b32.f4e", (u32, u32, u32) -> u32, |a, b, c| bits::prmt(PermuteMode::Forward4, a, b, c));
    three!(rows, "prmt.b32.b4e", (u32, u32, u32) -> u32, |a, b, c| bits::prmt(PermuteMode::Backward4, a, b, c));
    three!(rows, "prmt.b32.rc8", (u32, u32, u32) -> u32, |a, b, c| bits::prmt(PermuteMode::Replicate8, a, b, c));
    three!(rows, "prmt.b32.ecl", (u32, u32, u32) -> u32, |a, b, c| bits::prmt(PermuteMode::EdgeLeft, a, b, c));
    three!(rows, "prmt.b32.ecr", (u32, u32, u32) -> u32, |a, b, c| bits::prmt(PermuteMode::EdgeRight, a, b, c));
    three!(rows, "prmt.b32.rc16", (u32, u32, u32) -> u32, |a, b, c| bits::prmt(PermuteMode::Replicate16, a, b, c));
}

struct And;
impl PredicateLogic for And {
    #[inline(always)]
    fn apply(a: u32, b: u32) -> u32 {
        a & b
    }
}
struct Or;
impl PredicateLogic for Or {
    #[inline(always)]
    fn apply(a: u32, b: u32) -> u32 {
        a | b
    }
}
struct Xor;
impl PredicateLogic for Xor {
    #[inline(always)]
    fn apply(a: u32, b: u32) -> u32 {
        a ^ b
    }
}
struct Not;
impl PredicateLogic for Not {
    #[inline(always)]
    fn apply(a: u32, _: u32) -> u32 {
        !a
    }
}

fn predicates(rows: &mut Vec<Row>) {
    const P: Option<Value> = Some(Value::Predicate);
    let mut row = |name, sources, handlers| {
        rows.push(Row { name, shape: Shape::Plain, result: Value::Predicate, sources, handlers });
    };
    row("and.pred", [P, P, None, None], handlers::<OfPredicates<And>>());
    row("or.pred", [P, P, None, None], handlers::<OfPredicates<Or>>());
    row("xor.pred", [P, P, None, None], handlers::<OfPredicates<Xor>>());
    row("not.pred", [P, None, None, None], handlers::<OfPredicates<Not>>());
}

fn selections(rows: &mut Vec<Row>) {
    let mut row = |name, value, handlers: Handlers| {
        let sources = [Some(value), Some(value), Some(Value::Predicate), None];
        rows.push(Row { name, shape: Shape::Select, result: value, sources, handlers });
    };
    let narrow = handlers::<Select<u32>>();
    let wide = handlers::<Select<u64>>();
    for name in ["selp.b16", "selp.u16", "selp.s16", "selp.f16", "selp.bf16"] {
        row(name, Value::Bits16, narrow);
    }
    for name in ["selp.b32", "selp.u32", "selp.s32", "selp.f16x2", "selp.bf16x2"] {
        row(name, Value::Bits32, narrow);
    }
    for name in ["selp.b64", "selp.u64", "selp.s64"] {
        row(name, Value::Bits64, wide);
    }
    row("selp.f32", Value::Float32, narrow);
    row("selp.f64", Value::Float64, wide);
}
