//! `ldmatrix`, `stmatrix`, `wmma.load` and `wmma.store`: matrices between memory and the registers of a warp.
//! Addresses come from registers, and each row or element is an access of its own with the checks of all others. All
//! elements are there before the first register is written.

use super::matrix::{Square, bits, register_of, rows_of};
use super::matrix_plan::{Element, FragmentPlan, MatrixMemory, REGISTERS, RowsPlan};
use super::shuffle::wait;
use crate::exec::address::{AddressSpace, Generic, Global, Shared, shared_place};
use crate::exec::context::{Context, Inst, Operation, write};
use crate::exec::lanes::{Isa, Lane, Slot, V32, lanes_of};
use crate::fault::FaultKind;

/// A fault: its lane, kind and address.
type LaneFault = (usize, FaultKind, u64);

/// What comes after an access of many lanes: the next instruction, or the end of the launch.
#[inline(always)]
fn after(context: &mut Context, inst: &Inst, done: Result<(), LaneFault>) -> *const Inst {
    match done {
        Ok(()) => inst.next(),
        Err((lane, kind, address)) => context.fail(inst, kind, lane as u32, address),
    }
}

/// Bytes of a row of `ldmatrix`.
const ROW: u64 = 16;

/// `ldmatrix`; the plan is `aux` of the image's.
pub(crate) struct LoadRows;

impl Operation for LoadRows {
    #[inline(always)]
    unsafe fn run<I: Isa>(context: &mut Context, inst: &Inst, mask: u32, registers: *mut u8) -> *const Inst {
        if context.live & !mask != 0 {
            return wait(context, inst, mask);
        }
        // SAFETY: lowering encoded the plan's number and its slots; the image outlives the run.
        unsafe {
            let plan = &(&(*context.image).matrices.rows)[inst.aux as usize];
            let loaded = load_rows(context, plan, mask, registers).map(|values| {
                for (slot, value) in plan.slots.iter().zip(&values).take(plan.count) {
                    write::<I, u32>(registers, *slot, value, mask);
                }
            });
            after(context, inst, loaded)
        }
    }
}

/// Calls `act` for each row that a lane of the mask has the address of: matrix, row, and a pointer good for the row.
///
/// # Safety
/// The plan is one of this image's.
unsafe fn each_row(
    context: &Context,
    plan: &RowsPlan,
    mask: u32,
    registers: *mut u8,
    mut act: impl FnMut(usize, usize, *mut [u16; 8]),
) -> Result<(), LaneFault> {
    // SAFETY: lowering encoded a 64-bit slot.
    let addresses = unsafe { context.read::<u64>(registers, plan.address) };
    let wanted = u32::MAX >> (32 - 8 * plan.count);
    for lane in lanes_of(mask & wanted) {
        let row = shared_place(context, lane as u32, plan.generic, addresses.0[lane], plan.offset, ROW);
        let row = row.map_err(|(kind, address)| (lane, kind, address))?;
        act(lane / 8, lane % 8, row.cast());
    }
    Ok(())
}

/// # Safety
/// The plan is one of this image's.
#[inline(never)]
unsafe fn load_rows(context: &Context, plan: &RowsPlan, mask: u32, registers: *mut u8) -> Result<[V32; 4], LaneFault> {
    let mut matrices = [Square::default(); 4];
    // SAFETY: the plan by the caller; each pointer is good for a row, and aligned to it.
    unsafe {
        each_row(context, plan, mask, registers, |matrix, row, from| matrices[matrix][row] = from.read_volatile())?;
    }
    Ok(matrices.map(|matrix| register_of(&matrix, plan.transposed)))
}

/// `stmatrix`; the plan is `aux` of the image's.
pub(crate) struct StoreRows;

impl Operation for StoreRows {
    #[inline(always)]
    unsafe fn run<I: Isa>(context: &mut Context, inst: &Inst, mask: u32, registers: *mut u8) -> *const Inst {
        if context.live & !mask != 0 {
            return wait(context, inst, mask);
        }
        context.spins = 0;
        // SAFETY: lowering encoded the plan's number and its slots; the image outlives the run.
        unsafe {
            let plan = &(&(*context.image).matrices.rows)[inst.aux as usize];
            let stored = store_rows(context, plan, mask, registers);
            after(context, inst, stored)
        }
    }
}

/// # Safety
/// The plan is one of this image's.
#[inline(never)]
unsafe fn store_rows(context: &Context, plan: &RowsPlan, mask: u32, registers: *mut u8) -> Result<(), LaneFault> {
    let mut matrices = [Square::default(); 4];
    // SAFETY: lowering encoded 32-bit slots; each pointer is good for a row, and aligned to it.
    unsafe {
        for (matrix, slot) in matrices.iter_mut().zip(&plan.slots).take(plan.count) {
            *matrix = rows_of(&context.read::<u32>(registers, *slot), plan.transposed);
        }
        each_row(context, plan, mask, registers, |matrix, row, to| to.write_volatile(matrices[matrix][row]))
    }
}

/// `wmma.load` into registers of T; the plan is `aux` of the image's.
pub(crate) struct LoadFragment<T>(std::marker::PhantomData<T>);

impl<T: Lane> Operation for LoadFragment<T> {
    #[inline(always)]
    unsafe fn run<I: Isa>(context: &mut Context, inst: &Inst, mask: u32, registers: *mut u8) -> *const Inst {
        if context.live & !mask != 0 {
            return wait(context, inst, mask);
        }
        // SAFETY: lowering encoded the plan's number, its slots and their width; the image outlives the run.
        unsafe {
            let plan = &(&(*context.image).matrices.fragments)[inst.aux as usize];
            let loaded = load_fragment::<T>(context, plan, mask, registers).map(|values| {
                for (slot, value) in plan.fragment.slots().iter().zip(&values) {
                    write::<I, T>(registers, *slot, value, mask);
                }
            });
            after(context, inst, loaded)
        }
    }
}

/// Calls `act` for each element of each lane of the mask: lane, register, part, and a pointer good for the element.
///
/// # Safety
/// The plan is one of this image's.
unsafe fn each_element(
    context: &Context,
    plan: &FragmentPlan,
    stores: bool,
    mask: u32,
    registers: *mut u8,
    mut act: impl FnMut(usize, usize, usize, *mut u8),
) -> Result<(), LaneFault> {
    let fragment = &plan.fragment;
    let bytes = fragment.element.bytes() as u64;
    for lane in lanes_of(mask) {
        // SAFETY: lowering encoded a 64-bit slot, and a 32-bit one for the stride.
        let (address, stride) = unsafe {
            let side_by_side = if plan.by_columns { fragment.rows } else { fragment.columns } as u64;
            let stride = plan.stride.map(|slot| bits(context, registers, slot, lane, false));
            (bits(context, registers, plan.address, lane, true), stride.unwrap_or(side_by_side))
        };
        for register in 0..fragment.count {
            for part in 0..fragment.element.per_register() {
                let (row, column) = fragment.place(lane, register, part);
                let (line, at) = if plan.by_columns { (column, row) } else { (row, column) };
                // No overflow: a stride has 32 bits, all others are small.
                let distance = (line as u64 * stride + at as u64) * bytes;
                let offset = plan.offset.wrapping_add(distance.cast_signed());
                let place = element_place(context, lane, plan.memory, stores, address, offset, bytes);
                act(lane, register, part, place.map_err(|(kind, address)| (lane, kind, address))?);
            }
        }
    }
    Ok(())
}

/// A pointer that is good for an element.
fn element_place(
    context: &Context,
    lane: usize,
    memory: MatrixMemory,
    stores: bool,
    register: u64,
    offset: i64,
    bytes: u64,
) -> Result<*mut u8, (FaultKind, u64)> {
    fn within<S: AddressSpace>(
        context: &Context,
        lane: u32,
        stores: bool,
        at: u64,
        bytes: u64,
    ) -> Result<*mut u8, (FaultKind, u64)> {
        let place = if stores { S::resolve_target } else { S::resolve }(context, lane, at, bytes);
        place.map_err(|kind| (kind, at))
    }
    let lane = lane as u32;
    match memory {
        MatrixMemory::Global => within::<Global>(context, lane, stores, Global::sum(register, offset), bytes),
        MatrixMemory::Shared => within::<Shared>(context, lane, stores, Shared::sum(register, offset), bytes),
        MatrixMemory::Generic => within::<Generic>(context, lane, stores, Generic::sum(register, offset), bytes),
    }
}

/// # Safety
/// The plan is one of this image's, of registers of T.
#[inline(never)]
unsafe fn load_fragment<T: Lane>(
    context: &Context,
    plan: &FragmentPlan,
    mask: u32,
    registers: *mut u8,
) -> Result<[<T::Slot as Slot>::Vector; REGISTERS], LaneFault> {
    let element = plan.fragment.element;
    let mut values = [<T::Slot as Slot>::ZERO; REGISTERS];
    let load = |lane: usize, register: usize, part: usize, from: *mut u8| {
        // SAFETY: the pointer is good for the element, and aligned to it.
        let bits = unsafe {
            match element.bytes() {
                1 => u64::from(from.read_volatile()),
                2 => u64::from(from.cast::<u16>().read_volatile()),
                4 => u64::from(from.cast::<u32>().read_volatile()),
                _ => from.cast::<u64>().read_volatile(),
            }
        };
        let value = &mut values[register];
        let held = T::Slot::get(value, lane).to_u64() | bits << (8 * element.bytes() * part);
        T::Slot::set(value, lane, T::Slot::from_u64(held));
    };
    // SAFETY: by the caller.
    unsafe { each_element(context, plan, false, mask, registers, load) }?;
    Ok(values)
}

/// `wmma.store`; the plan is `aux` of the image's.
pub(crate) struct StoreFragment;

impl Operation for StoreFragment {
    #[inline(always)]
    unsafe fn run<I: Isa>(context: &mut Context, inst: &Inst, mask: u32, registers: *mut u8) -> *const Inst {
        if context.live & !mask != 0 {
            return wait(context, inst, mask);
        }
        context.spins = 0;
        // SAFETY: lowering encoded the plan's number and its slots; the image outlives the run.
        unsafe {
            let plan = &(&(*context.image).matrices.fragments)[inst.aux as usize];
            let stored = store_fragment(context, plan, mask, registers);
            after(context, inst, stored)
        }
    }
}

/// # Safety
/// The plan is one of this image's.
#[inline(never)]
unsafe fn store_fragment(
    context: &Context,
    plan: &FragmentPlan,
    mask: u32,
    registers: *mut u8,
) -> Result<(), LaneFault> {
    let element = plan.fragment.element;
    let store = |lane: usize, register: usize, part: usize, to: *mut u8| {
        // SAFETY: lowering encoded the slots for the element; the pointer is good for it, and aligned to it.
        unsafe {
            let slot = plan.fragment.slots[register];
            let bits = bits(context, registers, slot, lane, element == Element::F64);
            let bits = bits >> (8 * element.bytes() * part);
            match element.bytes() {
                1 => to.write_volatile(bits as u8),
                2 => to.cast::<u16>().write_volatile(bits as u16),
                4 => to.cast::<u32>().write_volatile(bits as u32),
                _ => to.cast::<u64>().write_volatile(bits),
            }
        }
    };
    // SAFETY: by the caller.
    unsafe { each_element(context, plan, true, mask, registers, store) }
}
