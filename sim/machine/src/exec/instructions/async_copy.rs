//! `cp.async`: copies from global to shared memory that a thread waits for later.
//! Addresses and the number of bytes come from registers; the copy is done at once, which is one of the orders that the
//! ISA allows. So there is nothing to wait for, and no state outlives the instruction.

use std::marker::PhantomData;

use crate::exec::address::{AddressSpace as _, Global, Shared};
use crate::exec::context::{Context, Inst, Operation};
use crate::exec::lanes::{Isa, LANES, V32, lanes_of};
use crate::fault::FaultKind;

/// Most bytes of a copy.
const MOST: usize = 16;

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
