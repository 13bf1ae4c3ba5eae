//! The comparisons of `setp`, `set` and `selp`'s predicates, for integers and floats of every width.
//! Two operands come in, a truth value goes out. The caller turns it into the result of `setp` or `set` (a second
//! predicate, a boolean combination, a mask or 1.0). Nothing here depends on a rounding mode.

use super::Int;
use super::float::flush;

/// A comparison operator. `lo ls hi hs` are `lt le gt ge` of unsigned operands; the operand type already says that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CompareOp {
    /// Equal; false with NaN.
    Eq,
    /// Unequal; false with NaN.
    Ne,
    /// Less.
    Lt,
    /// Less or equal.
    Le,
    /// Greater.
    Gt,
    /// Greater or equal.
    Ge,
    /// Lower (unsigned).
    Lo,
    /// Lower or same (unsigned).
    Ls,
    /// Higher (unsigned).
    Hi,
    /// Higher or same (unsigned).
    Hs,
    /// Equal, or one is NaN.
    Equ,
    /// Unequal, or one is NaN.
    Neu,
    /// Less, or one is NaN.
    Ltu,
    /// Less or equal, or one is NaN.
    Leu,
    /// Greater, or one is NaN.
    Gtu,
    /// Greater or equal, or one is NaN.
    Geu,
    /// Neither is NaN.
    Num,
    /// One is NaN.
    Nan,
}

impl CompareOp {
    /// The operator of a PTX modifier without its dot, such as `"geu"`.
    pub fn from_name(name: &str) -> Option<CompareOp> {
        use CompareOp::*;
        Some(match name {
            "eq" => Eq,
            "ne" => Ne,
            "lt" => Lt,
            "le" => Le,
            "gt" => Gt,
            "ge" => Ge,
            "lo" => Lo,
            "ls" => Ls,
            "hi" => Hi,
            "hs" => Hs,
            "equ" => Equ,
            "neu" => Neu,
            "ltu" => Ltu,
            "leu" => Leu,
            "gtu" => Gtu,
            "geu" => Geu,
            "num" => Num,
            "nan" => Nan,
            _ => return None,
        })
    }

    /// Whether the operator is defined for floats only.
    pub fn needs_float(self) -> bool {
        use CompareOp::*;
        matches!(self, Equ | Neu | Ltu | Leu | Gtu | Geu | Num | Nan)
    }
}

/// A comparison operator as a type, so that it costs nothing at run time.
pub trait Comparison: Copy + Default + Send + Sync + 'static {
    /// The operator this type stands for.
    const OP: CompareOp;
}

macro_rules! comparisons {
    ($($name:ident)*) => {
        /// The operators as types, one per [`CompareOp`].
        pub mod operators {
            $(
                #[doc = concat!("[`super::CompareOp::", stringify!($name), "`] as a type.")]
                #[derive(Clone, Copy, Debug, Default)]
                pub struct $name;
                impl super::Comparison for $name {
                    const OP: super::CompareOp = super::CompareOp::$name;
                }
            )*
        }
    };
}

comparisons!(Eq Ne Lt Le Gt Ge Lo Ls Hi Hs Equ Neu Ltu Leu Gtu Geu Num Nan);

/// Compares integers. `lo ls hi hs` compare the bits as unsigned whatever the type.
///
/// The float-only operators behave as for numbers: `num` is true, `nan` false, `equ` is `eq` and so on.
#[inline(always)]
pub fn compare_int<T: Int>(op: CompareOp, a: T, b: T) -> bool {
    use CompareOp::*;
    match op {
        Eq | Equ => a == b,
        Ne | Neu => a != b,
        Lt | Ltu => a < b,
        Le | Leu => a <= b,
        Gt | Gtu => a > b,
        Ge | Geu => a >= b,
        Lo => a.to_u64() < b.to_u64(),
        Ls => a.to_u64() <= b.to_u64(),
        Hi => a.to_u64() > b.to_u64(),
        Hs => a.to_u64() >= b.to_u64(),
        Num => true,
        Nan => false,
    }
}

/// Compares f32 values, subnormals counting as zero with `FTZ`.
#[inline(always)]
pub fn compare_f32<const FTZ: bool>(op: CompareOp, a: f32, b: f32) -> bool {
    let (a, b) = if FTZ { (flush(a), flush(b)) } else { (a, b) };
    compare_float(op, a, b)
}

/// Compares f64 values.
#[inline(always)]
pub fn compare_f64(op: CompareOp, a: f64, b: f64) -> bool {
    compare_float(op, a, b)
}

#[inline(always)]
fn compare_float<T: PartialOrd>(op: CompareOp, a: T, b: T) -> bool {
    use CompareOp::*;
    // A value that does not equal itself is NaN; every negated ordering is true for NaN.
    #[allow(clippy::eq_op, clippy::neg_cmp_op_on_partial_ord, reason = "comparisons with NaN are the point")]
    match op {
        Eq => a == b,
        Ne => (a < b) | (a > b),
        Lt | Lo => a < b,
        Le | Ls => a <= b,
        Gt | Hi => a > b,
        Ge | Hs => a >= b,
        Equ => !((a < b) | (a > b)),
        Neu => a != b,
        Ltu => !(a >= b),
        Leu => !(a > b),
        Gtu => !(a <= b),
        Geu => !(a < b),
        Num => (a == a) & (b == b),
        Nan => (a != a) | (b != b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 18] = [
        "eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs", "equ", "neu", "ltu", "leu", "gtu", "geu", "num",
        "nan",
    ];

    fn truths(a: f32, b: f32) -> String {
        let chosen = NAMES.into_iter().filter(|name| {
            let op = CompareOp::from_name(name).expect("every name is known");
            let wide = compare_f64(op, f64::from(a), f64::from(b));
            let single = compare_f32::<false>(op, a, b);
            assert_eq!(wide, single);
            single && !["lo", "ls", "hi", "hs"].contains(name)
        });
        chosen.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn floats_in_every_relation() {
        assert_eq!(truths(1.0, 2.0), "ne lt le neu ltu leu num");
        assert_eq!(truths(2.0, 2.0), "eq le ge equ leu geu num");
        assert_eq!(truths(0.0, -0.0), "eq le ge equ leu geu num");
        assert_eq!(truths(3.0, 2.0), "ne gt ge neu gtu geu num");
        assert_eq!(truths(f32::NAN, 2.0), "equ neu ltu leu gtu geu nan");
        assert_eq!(truths(f32::NAN, f32::NAN), "equ neu ltu leu gtu geu nan");
    }

    #[test]
    fn integers_compare_signed_or_not() {
        assert!(compare_int(CompareOp::Lt, -1i32, 0));
        assert!(!compare_int(CompareOp::Lo, -1i32, 0));
        assert!(compare_int(CompareOp::Hi, -1i64, 0));
        assert!(compare_int(CompareOp::Gt, u16::MAX, 0));
        assert!(compare_int(CompareOp::Ls, 4u8, 4));
        assert!(compare_int(CompareOp::Hs, 4u8, 4));
        assert!(compare_int(CompareOp::Ne, 4u64, 5));
    }

    #[test]
    fn subnormals_equal_zero_when_flushed() {
        let tiny = f32::from_bits(1);
        assert!(compare_f32::<true>(CompareOp::Eq, tiny, -tiny));
        assert!(compare_f32::<false>(CompareOp::Gt, tiny, -tiny));
        assert!(CompareOp::Geu.needs_float() && !CompareOp::Hs.needs_float());
        assert!(CompareOp::from_name("").is_none());
        assert_eq!(<operators::Leu as Comparison>::OP, CompareOp::Leu);
    }
}
