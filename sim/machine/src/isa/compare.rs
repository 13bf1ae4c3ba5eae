//! Comparisons: `setp`, `set`, `testp` of integers and f32, f64 (16-bit floats are in `half`).
//! A comparison of two lanes becomes a predicate; the boolean combinations of `setp` and `set` are expanded here by name.

use super::Row;
use super::rows::{Shape, Typed, Value, two};
use crate::exec::{Comparison2, Handlers, SetPredicate, TestPredicate, combine, handlers};
use crate::scalar::compare::{Comparison, compare_f32, compare_f64, compare_int, operators};
use crate::scalar::order;

/// Adds `setp.OP.TYPE` and its forms with a third, predicate operand.
pub(super) fn push_setp(rows: &mut Vec<Row>, op: &str, suffix: &str, value: Value, handlers: Handlers) {
    let forms = [
        (String::new(), combine::NONE),
        (".and".to_owned(), combine::AND),
        (".or".to_owned(), combine::OR),
        (".xor".to_owned(), combine::XOR),
    ];
    for (form, how) in forms {
        let third = (how != combine::NONE).then_some(Value::Predicate);
        rows.push(Row {
            name: format!("setp.{op}{form}.{suffix}").leak(), // the table is made once and lives as long as the process
            shape: Shape::SetPredicate(how),
            result: Value::Predicate,
            sources: [Some(value), Some(value), third, None],
            handlers,
        });
    }
}

macro_rules! comparison {
    ($rows:expr, $op:ident, $name:literal, $type:ty, $suffix:literal, $function:expr) => {{
        struct F;
        impl Comparison2 for F {
            type A = $type;
            type B = $type;
            #[inline(always)]
            fn apply(a: $type, b: $type) -> bool {
                ($function)(<operators::$op as Comparison>::OP, a, b)
            }
        }
        push_setp($rows, $name, $suffix, <$type as Typed>::VALUE, handlers::<SetPredicate<F>>());
    }};
}

macro_rules! set_forms {
    ($rows:expr, $op:ident, $name:literal, $type:ty, $suffix:literal, $infix:literal, $function:expr) => {
        two!(@baseline_handlers, $rows, concat!("set.", $name, $infix, ".u32.", $suffix), ($type, $type) -> u32,
            |a, b| u32::from(($function)(<operators::$op as Comparison>::OP, a, b)).wrapping_neg());
        two!(@baseline_handlers, $rows, concat!("set.", $name, $infix, ".s32.", $suffix), ($type, $type) -> u32,
            |a, b| u32::from(($function)(<operators::$op as Comparison>::OP, a, b)).wrapping_neg());
        two!(@baseline_handlers, $rows, concat!("set.", $name, $infix, ".f32.", $suffix), ($type, $type) -> f32,
            |a, b| if ($function)(<operators::$op as Comparison>::OP, a, b) { 1.0 } else { 0.0 });
    };
}

macro_rules! integers {
    ($rows:expr, $type:ty, $suffix:literal, [$($op:ident $name:literal),*]) => {$(
        comparison!($rows, $op, $name, $type, $suffix, compare_int::<$type>);
    )*};
}

macro_rules! integer_sets {
    ($rows:expr, $type:ty, $suffix:literal, [$($op:ident $name:literal),*]) => {$(
        set_forms!($rows, $op, $name, $type, $suffix, "", compare_int::<$type>);
    )*};
}

macro_rules! floats {
    ($rows:expr, [$($op:ident $name:literal),*]) => {$(
        comparison!($rows, $op, $name, f32, "f32", compare_f32::<false>);
        comparison!($rows, $op, $name, f32, "ftz.f32", compare_f32::<true>);
        comparison!($rows, $op, $name, f64, "f64", compare_f64);
        set_forms!($rows, $op, $name, f32, "f32", "", compare_f32::<false>);
        set_forms!($rows, $op, $name, f32, "f32", ".ftz", compare_f32::<true>);
        set_forms!($rows, $op, $name, f64, "f64", "", compare_f64);
    )*};
}

pub(super) fn rows(rows: &mut Vec<Row>) {
    integers!(rows, u16, "b16", [Eq "eq", Ne "ne"]);
    integers!(rows, u32, "b32", [Eq "eq", Ne "ne"]);
    integers!(rows, u64, "b64", [Eq "eq", Ne "ne"]);
    integers!(rows, u16, "u16", [Eq "eq", Ne "ne", Lt "lt", Le "le", Gt "gt", Ge "ge", Lo "lo", Ls "ls", Hi "hi", Hs "hs"]);
    integers!(rows, u32, "u32", [Eq "eq", Ne "ne", Lt "lt", Le "le", Gt "gt", Ge "ge", Lo "lo", Ls "ls", Hi "hi", Hs "hs"]);
    integers!(rows, u64, "u64", [Eq "eq", Ne "ne", Lt "lt", Le "le", Gt "gt", Ge "ge", Lo "lo", Ls "ls", Hi "hi", Hs "hs"]);
    integers!(rows, i16, "s16", [Eq "eq", Ne "ne", Lt "lt", Le "le", Gt "gt", Ge "ge"]);
    integers!(rows, i32, "s32", [Eq "eq", Ne "ne", Lt "lt", Le "le", Gt "gt", Ge "ge"]);
    integers!(rows, i64, "s64", [Eq "eq", Ne "ne", Lt "lt", Le "le", Gt "gt", Ge "ge"]);
    integer_sets!(rows, u32, "b32", [Eq "eq", Ne "ne"]);
    integer_sets!(rows, u32, "u32", [Eq "eq", Ne "ne", Lt "lt", Le "le", Gt "gt", Ge "ge"]);
    integer_sets!(rows, i32, "s32", [Eq "eq", Ne "ne", Lt "lt", Le "le", Gt "gt", Ge "ge"]);
    floats!(rows, [
        Eq "eq", Ne "ne", Lt "lt", Le "le", Gt "gt", Ge "ge", Equ "equ", Neu "neu", Ltu "ltu", Leu "leu", Gtu "gtu",
        Geu "geu", Num "num", Nan "nan"
    ]);
    tests(rows);
}

macro_rules! test {
    ($rows:expr, $test:ident, $name:literal) => {
        test!($rows, $test, concat!("testp.", $name, ".f32"), f32, order::testp_f32);
        test!($rows, $test, concat!("testp.", $name, ".f64"), f64, order::testp_f64);
    };
    ($rows:expr, $test:ident, $name:expr, $type:ty, $function:path) => {{
        struct F;
        impl crate::exec::Function1 for F {
            type A = $type;
            type D = u32;
            #[inline(always)]
            fn apply(a: $type) -> u32 {
                u32::from($function(order::Test::$test, a))
            }
        }
        $rows.push(Row {
            name: $name,
            shape: Shape::Plain,
            result: Value::Predicate,
            sources: [Some(<$type as Typed>::VALUE), None, None, None],
            handlers: handlers::<TestPredicate<F>>(),
        });
    }};
}

fn tests(rows: &mut Vec<Row>) {
    test!(rows, Finite, "finite");
    test!(rows, Infinite, "infinite");
    test!(rows, Number, "number");
    test!(rows, NotANumber, "notanumber");
    test!(rows, Normal, "normal");
    test!(rows, Subnormal, "subnormal");
}
