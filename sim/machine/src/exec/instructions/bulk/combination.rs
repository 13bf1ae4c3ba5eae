//! Sums and other combinations of bulk copies: an operator and a type come in, the function of an element comes out. The
//! arithmetic is that of `atom`, but no sum flushes subnormal numbers, as on an H200. Nothing here touches memory.

use crate::scalar::{Bf16, F16, atomic};
use crate::tensor::TensorElement;

/// The combination of an element with what is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    Add,
    Min,
    Max,
    Increment,
    Decrement,
    And,
    Or,
    Xor,
}

impl Operator {
    pub(crate) fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "add" => Self::Add,
            "min" => Self::Min,
            "max" => Self::Max,
            "inc" => Self::Increment,
            "dec" => Self::Decrement,
            "and" => Self::And,
            "or" => Self::Or,
            "xor" => Self::Xor,
            _ => return None,
        })
    }
}

/// The function of an operator and a type: what is there and the element in, what is there then out.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Combination {
    Half(fn(u16, u16) -> u16),
    Word(fn(u32, u32) -> u32),
    Long(fn(u64, u64) -> u64),
}

impl Combination {
    /// That of a type as an instruction names it.
    pub(crate) fn of_type(operator: Operator, kind: &str) -> Option<Self> {
        use Operator::{Add, And, Decrement, Increment, Max, Min, Or, Xor};
        Some(match (operator, kind) {
            (Add, "u32" | "s32") => Self::Word(u32::wrapping_add),
            (Add, "u64") => Self::Long(u64::wrapping_add),
            (Add, "f16") => Self::Half(atomic::add_half::<F16>),
            (Add, "bf16") => Self::Half(atomic::add_half::<Bf16>),
            (Add, "f32") => {
                Self::Word(|old, new| atomic::add_f32::<false>(f32::from_bits(old), f32::from_bits(new)).to_bits())
            }
            (Add, "f64") => Self::Long(|old, new| atomic::add_f64(f64::from_bits(old), f64::from_bits(new)).to_bits()),
            (Min, "u32") => Self::Word(u32::min),
            (Max, "u32") => Self::Word(u32::max),
            (Min, "s32") => Self::Word(|old, new| old.cast_signed().min(new.cast_signed()).cast_unsigned()),
            (Max, "s32") => Self::Word(|old, new| old.cast_signed().max(new.cast_signed()).cast_unsigned()),
            (Min, "u64") => Self::Long(u64::min),
            (Max, "u64") => Self::Long(u64::max),
            (Min, "s64") => Self::Long(|old, new| old.cast_signed().min(new.cast_signed()).cast_unsigned()),
            (Max, "s64") => Self::Long(|old, new| old.cast_signed().max(new.cast_signed()).cast_unsigned()),
            (Min, "f16") => Self::Half(atomic::min_half::<F16>),
            (Max, "f16") => Self::Half(atomic::max_half::<F16>),
            (Min, "bf16") => Self::Half(atomic::min_half::<Bf16>),
            (Max, "bf16") => Self::Half(atomic::max_half::<Bf16>),
            (Increment, "u32") => Self::Word(atomic::inc),
            (Decrement, "u32") => Self::Word(atomic::dec),
            (And, "b32") => Self::Word(atomic::and::<u32>),
            (Or, "b32") => Self::Word(atomic::or::<u32>),
            (Xor, "b32") => Self::Word(atomic::xor::<u32>),
            (And, "b64") => Self::Long(atomic::and::<u64>),
            (Or, "b64") => Self::Long(atomic::or::<u64>),
            (Xor, "b64") => Self::Long(atomic::xor::<u64>),
            _ => return None,
        })
    }

    /// That of a tensor's elements.
    pub(crate) fn of_element(operator: Operator, element: TensorElement) -> Option<Self> {
        let logic = matches!(operator, Operator::And | Operator::Or | Operator::Xor);
        let kind = match element {
            TensorElement::U32 | TensorElement::S32 if logic => "b32",
            TensorElement::U64 | TensorElement::S64 if logic => "b64",
            TensorElement::U32 => "u32",
            TensorElement::S32 => "s32",
            TensorElement::U64 => "u64",
            TensorElement::S64 => "s64",
            TensorElement::F16 => "f16",
            TensorElement::Bf16 => "bf16",
            TensorElement::F32 => "f32",
            // The ISA has no sum of these by maps.
            TensorElement::U8 | TensorElement::U16 | TensorElement::F64 | TensorElement::Tf32 => return None,
        };
        Self::of_type(operator, kind)
    }
}
