//! `mma`, `wmma.mma` and `movmatrix`: products of matrices that the registers of a warp hold together.
//! Elements are gathered to whole matrices, multiplied, and scattered. Products are exact. Floating-point sums begin with
//! C and take the products in order of k, each rounded once to f32 (f64) with the product; integer sums are exact.

use super::matrix_plan::{ELEMENTS, Element, MatrixFragment, MultiplyPlan, Numbers};
use super::shuffle::wait;
use crate::exec::context::{Context, Inst, Operation, write};
use crate::exec::lanes::{Isa, LANES, Lane, Slot, V32};
use crate::scalar::{Rn, double, float};

/// `mma` and `wmma.mma`; the plan is `aux` of the image's.
pub(crate) struct Multiply;

impl Operation for Multiply {
    #[inline(always)]
    unsafe fn run<I: Isa>(context: &mut Context, inst: &Inst, mask: u32, registers: *mut u8) -> *const Inst {
        if context.live & !mask != 0 {
            return wait(context, inst, mask);
        }
        // SAFETY: lowering encoded the plan's number and its slots; the image outlives the run.
        unsafe {
            let plan = &(&(*context.image).matrices.multiplies)[inst.aux as usize];
            let product = multiply(context, plan, registers);
            if plan.d.element == Element::F64 {
                scatter::<I, u64>(&plan.d, &product, mask, registers);
            } else {
                scatter::<I, u32>(&plan.d, &product, mask, registers);
            }
        }
        inst.next()
    }
}

/// # Safety
/// The plan is one of this image's.
#[inline(never)]
unsafe fn multiply(context: &Context, plan: &MultiplyPlan, registers: *mut u8) -> Numbers {
    // SAFETY: by the caller.
    let [a, b, c] = [&plan.a, &plan.b, &plan.c].map(|fragment| unsafe { gather(context, fragment, registers) });
    let (columns, depth) = (plan.d.columns, plan.a.columns);
    let mut product = [0.0; ELEMENTS];
    for row in 0..plan.d.rows {
        for column in 0..columns {
            let pairs = (0..depth).map(|k| (a[row * depth + k], b[k * columns + column]));
            let at = row * columns + column;
            product[at] = match plan.a.element {
                Element::F64 => pairs.fold(c[at], |sum, (a, b)| double::fma_f64::<Rn>(a, b, sum)),
                Element::S8 | Element::U8 => integer_sum(c[at], pairs, plan.saturates),
                _ => f64::from(
                    pairs.fold(c[at] as f32, |sum, (a, b)| float::fma_f32::<Rn, false, false>(a as f32, b as f32, sum)),
                ),
            };
        }
    }
    product
}

/// The sum of integers: at most 32 products of 16 bits and a number of 32, which a double holds exactly.
fn integer_sum(first: f64, pairs: impl Iterator<Item = (f64, f64)>, saturates: bool) -> f64 {
    let sum = pairs.fold(first, |sum, (a, b)| sum + a * b) as i64;
    let clamped = sum.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32;
    f64::from(if saturates { clamped } else { sum as i32 })
}

/// The bits of a slot for a lane.
///
/// # Safety
/// The slot was encoded for the width.
pub(super) unsafe fn bits(context: &Context, registers: *mut u8, slot: u32, lane: usize, wide: bool) -> u64 {
    // SAFETY: by the caller.
    unsafe {
        if wide {
            return u64::get(&*context.operand::<<u64 as Slot>::Vector>(registers, slot), lane);
        }
        u64::from(u32::get(&*context.operand::<V32>(registers, slot), lane))
    }
}

/// The matrix that the registers hold.
///
/// # Safety
/// The fragment's slots were encoded for its element.
unsafe fn gather(context: &Context, fragment: &MatrixFragment, registers: *mut u8) -> Numbers {
    let element = fragment.element;
    let mut numbers = [0.0; ELEMENTS];
    for (register, slot) in fragment.slots().iter().enumerate() {
        for lane in 0..LANES {
            // SAFETY: by the caller.
            let mut bits = unsafe { bits(context, registers, *slot, lane, element == Element::F64) };
            for part in 0..element.per_register() {
                let (row, column) = fragment.place(lane, register, part);
                numbers[row * fragment.columns + column] = element.decode(bits & element.mask());
                bits = bits.checked_shr(8 * element.bytes() as u32).unwrap_or(0);
            }
        }
    }
    numbers
}

/// Writes the matrix to the registers.
///
/// # Safety
/// The fragment's slots were encoded as destinations of T.
unsafe fn scatter<I: Isa, T: Lane>(fragment: &MatrixFragment, numbers: &Numbers, mask: u32, registers: *mut u8) {
    let element = fragment.element;
    for (register, slot) in fragment.slots().iter().enumerate() {
        let mut value = <T::Slot as Slot>::ZERO;
        for lane in 0..LANES {
            let mut bits = 0;
            for part in 0..element.per_register() {
                let (row, column) = fragment.place(lane, register, part);
                bits |= element.encode(numbers[row * fragment.columns + column]) << (8 * element.bytes() * part);
            }
            T::Slot::set(&mut value, lane, T::Slot::from_u64(bits));
        }
        // SAFETY: by the caller.
        unsafe { write::<I, T>(registers, *slot, &value, mask) };
    }
}

/// `movmatrix`: d = a transposed, 8 x 8 elements of 16 bits.
pub(crate) struct Transpose;

impl Operation for Transpose {
    #[inline(always)]
    unsafe fn run<I: Isa>(context: &mut Context, inst: &Inst, mask: u32, registers: *mut u8) -> *const Inst {
        if context.live & !mask != 0 {
            return wait(context, inst, mask);
        }
        // SAFETY: 32-bit slots were encoded.
        unsafe {
            let rows = rows_of(&context.read::<u32>(registers, inst.a), false);
            write::<I, u32>(registers, inst.d, &register_of(&rows, true), mask);
        }
        inst.next()
    }
}

/// A matrix of 8 x 8 elements of 16 bits.
pub(super) type Square = [[u16; 8]; 8];

/// Row and column of each half of a lane's register.
fn square_place(lane: usize, half: usize, transposed: bool) -> (usize, usize) {
    let (row, column) = (lane / 4, 2 * (lane % 4) + half);
    if transposed { (column, row) } else { (row, column) }
}

/// The matrix that a register holds, or its transpose.
pub(super) fn rows_of(register: &V32, transposed: bool) -> Square {
    let mut rows = Square::default();
    for (lane, word) in register.0.iter().enumerate() {
        for half in 0..2 {
            let (row, column) = square_place(lane, half, transposed);
            rows[row][column] = (word >> (16 * half)) as u16;
        }
    }
    rows
}

/// The register that holds a matrix, or its transpose.
pub(super) fn register_of(rows: &Square, transposed: bool) -> V32 {
    V32(std::array::from_fn(|lane| {
        let half = |half| {
            let (row, column) = square_place(lane, half, transposed);
            u32::from(rows[row][column])
        };
        half(0) | half(1) << 16
    }))
}
