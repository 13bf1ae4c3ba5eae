//! `cp.async`: copies between global and shared memory that a thread waits for later, small ones and bulk copies.
//! Addresses and the number of bytes come from registers; the copy is done at once, which is one of the orders that the
//! ISA allows. So there is nothing to wait for, and no state outlives the instruction.

use std::marker::PhantomData;

use super::bulk::{self, BulkAddress, BulkFault, BulkLane, BulkMove};
use crate::exec::address::{AddressSpace as _, Global, Shared};
use crate::exec::context::{Context, Event, Inst, Operation};
use crate::exec::lanes::{Isa, LANES, V32, V64, lanes_of};
use crate::fault::FaultKind;
use crate::tensor::TENSOR_AXES;

/// Most bytes of a copy.
const MOST: usize = 16;

/// Bytes that a warp's other accesses move with one instruction.
const BYTES_AT_A_TIME: u64 = 128;

/// How many bytes of the source a lane reads; zeros follow them.
pub(crate) trait Read {
    /// # Safety
    /// `c` and `extra` of the instruction were encoded for this form.
    unsafe fn bytes(context: &Context, inst: &Inst, registers: *mut u8) -> V32;
}

/// The whole source.
pub(crate) struct WholeSource;
/// As many as the 32-bit slot `c` says.
pub(crate) struct SourceBytes;
/// None in lanes whose predicate `c`, XOR `extra`, is true.
pub(crate) struct SourceUnless;

impl Read for WholeSource {
    unsafe fn bytes(_: &Context, inst: &Inst, _: *mut u8) -> V32 {
        V32([inst.aux; LANES])
    }
}
impl Read for SourceBytes {
    unsafe fn bytes(context: &Context, inst: &Inst, registers: *mut u8) -> V32 {
        // SAFETY: by the caller.
        V32(unsafe { context.read::<u32>(registers, inst.c) }.0.map(|bytes| bytes.min(inst.aux)))
    }
}
impl Read for SourceUnless {
    unsafe fn bytes(context: &Context, inst: &Inst, registers: *mut u8) -> V32 {
        // SAFETY: by the caller.
        let ignored = unsafe { context.predicate(registers, inst.c) } ^ inst.extra;
        V32(std::array::from_fn(|lane| if ignored >> lane & 1 == 0 { inst.aux } else { 0 }))
    }
}

/// `cp.async`: `aux` bytes to the shared address a, from the global address b (64-bit slots). `imm` holds the offsets to
/// both: the source's in its low half, the target's in its high half.
pub(crate) struct CopyAsync<R>(PhantomData<R>);

impl<R: Read> Operation for CopyAsync<R> {
    #[inline(always)]
    unsafe fn run<I: Isa>(context: &mut Context, inst: &Inst, mask: u32, registers: *mut u8) -> *const Inst {
        context.spins = 0;
        // SAFETY: lowering encoded the operands of this form.
        let copied = unsafe {
            let bytes = R::bytes(context, inst, registers);
            copy(context, inst, mask, registers, &bytes)
        };
        match copied {
            Ok(()) => inst.next(),
            Err((lane, kind, address)) => context.fail(inst, kind, lane as u32, address),
        }
    }
}

/// A bulk copy of each lane; the plan is `aux` of the image's.
pub(crate) struct BulkCopy;

impl Operation for BulkCopy {
    #[inline(always)]
    unsafe fn run<I: Isa>(context: &mut Context, inst: &Inst, mask: u32, registers: *mut u8) -> *const Inst {
        context.spins = 0;
        // SAFETY: lowering encoded the plan's number and its slots.
        match unsafe { copy_bulk(context, inst, mask, registers) } {
            Ok(moved) => {
                // Other blocks and grids have their turn as soon as with copies by single accesses.
                context.budget = context.budget.saturating_sub((moved / BYTES_AT_A_TIME) as i64);
                if context.budget < 0 {
                    // Straight code may be long, and full of these.
                    let next = context.index(inst) + 1;
                    return context.raise(Event::Reschedule { next });
                }
                inst.next()
            }
            Err((lane, (kind, address))) => context.fail(inst, kind, lane as u32, address),
        }
    }
}

/// Copies for each lane of the mask, in order, and says how many bytes were moved.
///
/// # Safety
/// `aux` is the number of a plan of this image, whose addresses are 64-bit slots and all else 32-bit ones.
#[inline(never)]
unsafe fn copy_bulk(context: &Context, inst: &Inst, mask: u32, registers: *mut u8) -> Result<u64, (usize, BulkFault)> {
    // SAFETY: by the caller; the image outlives the run.
    let plan = unsafe { &(&(*context.image).bulk_copies)[inst.aux as usize] };
    // SAFETY: by the caller.
    let (wide, narrow) = unsafe {
        (
            |address: BulkAddress| context.read::<u64>(registers, address.slot),
            |slot: u32| context.read::<u32>(registers, slot),
        )
    };
    let (shared, far, barrier) = (plan.shared.map(wide), wide(plan.far), plan.barrier.map(wide));
    let (bytes, blocks) = (plan.bytes.map(narrow), plan.blocks.map(narrow));
    let axes = plan.tensor.map_or(0, |tensor| tensor.axes);
    let slots = plan.tensor.map_or([0; TENSOR_AXES], |tensor| tensor.coordinates);
    let mut coordinates = [V32::ZERO; TENSOR_AXES];
    for (coordinate, slot) in coordinates.iter_mut().zip(slots).take(axes) {
        *coordinate = narrow(slot);
    }
    let in_shared = |address: Option<BulkAddress>, register: Option<V64>, lane: usize| {
        Some(Shared::sum(register?.0[lane], address?.offset))
    };
    let mut moved = 0;
    let far_is_shared = matches!(plan.moves, BulkMove::Within | BulkMove::ReduceWithin(_));
    for lane in lanes_of(mask) {
        let sum = if far_is_shared { Shared::sum } else { Global::sum };
        let operands = BulkLane {
            shared: in_shared(plan.shared, shared, lane).unwrap_or(0),
            far: sum(far.0[lane], plan.far.offset),
            bytes: bytes.map_or(0, |bytes| bytes.0[lane]),
            coordinates: coordinates.map(|coordinate| coordinate.0[lane].cast_signed()),
            barrier: in_shared(plan.barrier, barrier, lane),
            blocks: blocks.map_or(1, |blocks| blocks.0[lane] & 0xffff),
        };
        moved += u64::from(bulk::copy(context, plan, &operands).map_err(|fault| (lane, fault))?);
    }
    Ok(moved)
}

/// Copies for each lane of the mask, in order.
///
/// # Safety
/// `a` and `b` were encoded as 64-bit slots.
#[inline(never)]
unsafe fn copy(
    context: &Context,
    inst: &Inst,
    mask: u32,
    registers: *mut u8,
    read: &V32,
) -> Result<(), (usize, FaultKind, u64)> {
    // SAFETY: by the caller.
    let (targets, sources) =
        unsafe { (context.read::<u64>(registers, inst.a), context.read::<u64>(registers, inst.b)) };
    for lane in lanes_of(mask) {
        let to = Shared::sum(targets.0[lane], inst.imm >> 32);
        let from = Global::sum(sources.0[lane], i64::from(inst.imm as i32));
        let bytes = u64::from(inst.aux);
        let target = Shared::resolve_target(context, lane as u32, to, bytes).map_err(|kind| (lane, kind, to))?;
        let staged = stage(context, from, bytes, read.0[lane]).map_err(|kind| (lane, kind, from))?;
        for (index, word) in staged.iter().take(bytes as usize / 4).enumerate() {
            // SAFETY: the target was just found good for all bytes, and aligned to them.
            unsafe { target.cast::<u32>().add(index).write_volatile(*word) };
        }
    }
    Ok(())
}

/// The first `read` bytes of the `bytes` bytes at a global address, and zeros. What is not read need not be there.
fn stage(context: &Context, from: u64, bytes: u64, read: u32) -> Result<[u32; MOST / 4], FaultKind> {
    let mut staged = [0; MOST / 4];
    if read == 0 {
        return Ok(staged);
    }
    if !from.is_multiple_of(bytes) {
        return Err(FaultKind::Misaligned);
    }
    let source = Global::span(context, from, u64::from(read)).ok_or(FaultKind::IllegalAddress)?;
    for (index, word) in staged.iter_mut().enumerate() {
        let rest = (read as usize).saturating_sub(4 * index);
        // SAFETY: the span was just found good for so many bytes, and is aligned to 4; others may write them meanwhile.
        unsafe {
            if rest >= 4 {
                *word = source.cast::<u32>().add(index).read_volatile();
                continue;
            }
            for byte in 0..rest {
                *word |= u32::from(source.add(4 * index + byte).read_volatile()) << (8 * byte);
            }
        }
    }
    Ok(staged)
}
