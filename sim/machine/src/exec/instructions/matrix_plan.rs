//! Operands of matrix instructions: which lane's register holds which element, and the numbers behind its bits.
//! Lowering fills the plans in; `matrix` and `matrix_memory` execute them. Plain data; no plan checks its slots.

use crate::exec::lanes::LANES;
use crate::scalar::{Bf16, F16, HalfFormat, Rn};

/// Most elements of a fragment's matrix, 32 x 16.
pub(crate) const ELEMENTS: usize = 512;

/// Most registers of a fragment.
pub(crate) const REGISTERS: usize = 8;

/// A matrix by its elements, row after row. All types but those of 64 bits of integers fit in a double.
pub(crate) type Numbers = [f64; ELEMENTS];

/// The type of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Element {
    F16,
    Bf16,
    /// In 32 bits, of which the low 13 do not count.
    Tf32,
    F32,
    F64,
    S8,
    U8,
    S32,
}

impl Element {
    pub(crate) fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "f16" => Self::F16,
            "bf16" => Self::Bf16,
            "tf32" => Self::Tf32,
            "f32" => Self::F32,
            "f64" => Self::F64,
            "s8" => Self::S8,
            "u8" => Self::U8,
            "s32" => Self::S32,
            _ => return None,
        })
    }

    /// Bytes in memory.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::S8 | Self::U8 => 1,
            Self::F16 | Self::Bf16 => 2,
            Self::Tf32 | Self::F32 | Self::S32 => 4,
            Self::F64 => 8,
        }
    }

    /// Elements in a register.
    pub(crate) fn per_register(self) -> usize {
        if self == Self::F64 { 1 } else { 4 / self.bytes() }
    }

    /// Its bits, as they lie in memory.
    pub(crate) fn mask(self) -> u64 {
        u64::MAX >> (64 - 8 * self.bytes())
    }

    /// The number that bits mean; exact.
    pub(crate) fn decode(self, bits: u64) -> f64 {
        match self {
            Self::F16 => f64::from(F16::to_f32(bits as u16)),
            Self::Bf16 => f64::from(Bf16::to_f32(bits as u16)),
            Self::Tf32 => f64::from(f32::from_bits(bits as u32 & !0x1fff)),
            Self::F32 => f64::from(f32::from_bits(bits as u32)),
            Self::F64 => f64::from_bits(bits),
            Self::S8 => f64::from(bits as u8 as i8),
            Self::U8 => f64::from(bits as u8),
            Self::S32 => f64::from(bits as u32 as i32),
        }
    }

    /// The bits of a result, which is an f32, an f64 or an integer of 32 bits; f16 rounds it to the nearest.
    pub(crate) fn encode(self, number: f64) -> u64 {
        match self {
            Self::F16 => u64::from(F16::from_f32::<Rn>(number as f32)),
            Self::Bf16 => u64::from(Bf16::from_f32::<Rn>(number as f32)),
            Self::Tf32 | Self::F32 if number.is_nan() => u64::from(crate::scalar::NAN_F32.to_bits()),
            Self::Tf32 | Self::F32 => u64::from((number as f32).to_bits()),
            Self::F64 => number.to_bits(),
            Self::S8 | Self::U8 | Self::S32 => u64::from(number as i32 as u32) & self.mask(),
        }
    }
}

/// The part that a matrix has in `D = A * B + C`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    A,
    B,
    /// C and D.
    Sum,
}

/// A matrix that the registers of a warp hold together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MatrixFragment {
    pub(crate) role: Role,
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) element: Element,
    /// Whether elements lie as the ISA says for `mma`; where they lie for `wmma` is the device's own affair.
    pub(crate) documented: bool,
    /// As many count as there are registers in a lane.
    pub(crate) slots: [u32; REGISTERS],
    pub(crate) count: usize,
}

impl MatrixFragment {
    /// A fragment without slots. Every lane has `count` registers: of f16 factors, `wmma` has eight whatever the shape.
    pub(crate) fn new(role: Role, [rows, columns]: [usize; 2], element: Element, documented: bool) -> Self {
        let needed = rows * columns / (LANES * element.per_register());
        let count = if !documented && role != Role::Sum && element == Element::F16 { REGISTERS } else { needed };
        Self { role, rows, columns, element, documented, slots: [0; REGISTERS], count }
    }

    /// The slots of a lane.
    pub(crate) fn slots(&self) -> &[u32] {
        &self.slots[..self.count]
    }

    /// Row and column of the element at `part` of a lane's register.
    pub(crate) fn place(&self, lane: usize, register: usize, part: usize) -> (usize, usize) {
        let per_register = self.element.per_register();
        let index = register * per_register + part;
        if !self.documented {
            // Row after row, as often as it fits; a matrix of fewer elements is held several times.
            let element = (lane * self.count * per_register + index) % (self.rows * self.columns);
            return (element / self.columns, element % self.columns);
        }
        // Groups of four lanes: a group has a row of A and D and a column of B, its lanes lie side by side in the other.
        let (group, member) = (lane / 4, lane % 4);
        match self.role {
            Role::A => (
                group + 8 * (register % (self.rows / 8)),
                (register / (self.rows / 8) * 4 + member) * per_register + part,
            ),
            Role::B => ((register * 4 + member) * per_register + part, group),
            Role::Sum => (group + 8 * (index / 2), 2 * member + index % 2),
        }
    }
}

/// `mma` and `wmma.mma`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MultiplyPlan {
    pub(crate) a: MatrixFragment,
    pub(crate) b: MatrixFragment,
    pub(crate) c: MatrixFragment,
    pub(crate) d: MatrixFragment,
    /// Whether integers stop at the ends of 32 bits rather than wrap.
    pub(crate) saturates: bool,
}

/// The memory that a fragment is moved from or to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MatrixMemory {
    Global,
    Shared,
    Generic,
}

/// `wmma.load` and `wmma.store`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FragmentPlan {
    pub(crate) fragment: MatrixFragment,
    pub(crate) memory: MatrixMemory,
    /// Slot of the 64-bit address, and what is added to it.
    pub(crate) address: u32,
    pub(crate) offset: i64,
    /// Slot of the elements from one row (column) to the next; none where they lie side by side.
    pub(crate) stride: Option<u32>,
    /// Whether columns, not rows, are contiguous in memory.
    pub(crate) by_columns: bool,
}

/// `ldmatrix` and `stmatrix`: matrices of 8 x 8 elements of 16 bits, one for each register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowsPlan {
    /// As many count as there are matrices.
    pub(crate) slots: [u32; 4],
    pub(crate) count: usize,
    pub(crate) transposed: bool,
    /// Whether addresses are generic.
    pub(crate) generic: bool,
    /// Slot of the 64-bit addresses of rows, and what is added to them.
    pub(crate) address: u32,
    pub(crate) offset: i64,
}

/// All plans of an image.
#[derive(Default)]
pub(crate) struct MatrixPlans {
    pub(crate) multiplies: Vec<MultiplyPlan>,
    pub(crate) fragments: Vec<FragmentPlan>,
    pub(crate) rows: Vec<RowsPlan>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every element is held by as many places as there are, evenly.
    fn held_evenly(fragment: &MatrixFragment) -> bool {
        let mut held = vec![0; fragment.rows * fragment.columns];
        for lane in 0..32 {
            for register in 0..fragment.count {
                for part in 0..fragment.element.per_register() {
                    let (row, column) = fragment.place(lane, register, part);
                    assert!(row < fragment.rows && column < fragment.columns, "{fragment:?}: {row}, {column}");
                    held[row * fragment.columns + column] += 1;
                }
            }
        }
        held.iter().all(|count| *count == held[0] && *count > 0)
    }

    #[test]
    fn every_element_of_a_fragment_is_held() {
        let of_mma = [
            ([16, 8, 8], Element::F16),
            ([16, 8, 16], Element::Bf16),
            ([16, 8, 4], Element::Tf32),
            ([16, 8, 8], Element::Tf32),
            ([8, 8, 16], Element::S8),
            ([16, 8, 16], Element::U8),
            ([16, 8, 32], Element::S8),
            ([8, 8, 4], Element::F64),
            ([16, 8, 16], Element::F64),
        ];
        let of_wmma = [
            ([16, 16, 16], Element::F16),
            ([32, 8, 16], Element::F16),
            ([8, 32, 16], Element::Bf16),
            ([16, 16, 8], Element::Tf32),
            ([32, 8, 16], Element::S8),
            ([8, 8, 4], Element::F64),
        ];
        for (shapes, documented) in [(&of_mma[..], true), (&of_wmma[..], false)] {
            for ([m, n, k], element) in shapes {
                let sum = if *element == Element::F64 { Element::F64 } else { Element::F32 };
                assert!(held_evenly(&MatrixFragment::new(Role::A, [*m, *k], *element, documented)));
                assert!(held_evenly(&MatrixFragment::new(Role::B, [*k, *n], *element, documented)));
                assert!(held_evenly(&MatrixFragment::new(Role::Sum, [*m, *n], sum, documented)));
            }
        }
    }
}
