//! Block barriers: `bar` and `barrier` with sync, arrive and red, 16 of them by number.
//! In goes the arrival of some lanes, out come fragments that wait, or all that waited made ready. Threads are counted, not
//! warps; ended threads count as arrived where the barrier is of the whole block.

use crate::exec::context::{Context, Inst};
use crate::exec::lanes::V32;
use crate::exec::state::{BARRIERS, Barrier, Block, Fragment, Wait};
use crate::fault::FaultKind;
use crate::lower::image::Image;

/// Kinds of the instruction: `aux`.
pub(crate) mod kind {
    pub(crate) const SYNC: u32 = 0;
    pub(crate) const ARRIVE: u32 = 1;
    pub(crate) const POPULATION: u32 = 2;
    pub(crate) const AND: u32 = 3;
    pub(crate) const OR: u32 = 4;
}

/// The lanes of `mask` arrive at the barrier instruction at `pc` (a: number, b: threads or `u32::MAX`, c: predicate XOR
/// `imm`, d: result). A kind of fault when the instruction cannot be.
pub(crate) fn arrive(
    context: &Context,
    image: &Image,
    block: &mut Block,
    warp: usize,
    current: usize,
    (mask, pc): (u32, u32),
) -> Option<FaultKind> {
    let inst = &image.code[pc as usize];
    let from = block.warps[warp].fragments[current];
    let registers = block.warps[warp].frames[from.frame as usize].registers.as_mut_ptr();
    let lane = mask.trailing_zeros() as usize;
    // SAFETY: lowering encoded these operands as 32-bit slots of this frame.
    let read = |operand: u32| unsafe { (*context.operand::<V32>(registers, operand)).0[lane] };
    let number = read(inst.a) as usize;
    let expected = if inst.b == u32::MAX { 0 } else { read(inst.b) };
    if number >= BARRIERS || expected > block.threads.next_multiple_of(32) {
        return Some(FaultKind::IllegalInstruction);
    }
    let barrier = &mut block.barriers[number];
    barrier.arrived += mask.count_ones();
    barrier.expected = expected;
    if inst.aux >= kind::POPULATION {
        // SAFETY: lowering encoded c as a predicate.
        let predicate = unsafe { *context.operand::<u32>(registers, inst.c) } ^ inst.imm as u32;
        barrier.votes += (predicate & mask).count_ones();
    }
    let fragments = &mut block.warps[warp].fragments;
    let rest = from.mask & !mask;
    if inst.aux == kind::ARRIVE {
        fragments[current].pc = pc + 1;
    } else {
        fragments[current] = Fragment { pc, mask, wait: Wait::Barrier(number as u8), ..from };
        if rest != 0 {
            fragments.push(Fragment { pc: pc + 1, mask: rest, ..from });
        }
    }
    complete(image, block, number);
    None
}

/// Threads ended: barriers of the whole block may be complete now.
pub(crate) fn after_exit(_: &Context, image: &Image, block: &mut Block) {
    for number in 0..BARRIERS {
        if block.barriers[number].arrived > 0 {
            complete(image, block, number);
        }
    }
}

/// Releases all that wait at the barrier, if it is complete.
fn complete(image: &Image, block: &mut Block, number: usize) {
    let barrier = block.barriers[number];
    if barrier.expected == 0 {
        if barrier.arrived + block.ended < block.threads {
            return;
        }
    } else if barrier.arrived < barrier.expected && barrier.arrived + missing(block, number) < barrier.expected {
        return;
    }
    block.barriers[number] = Barrier::default();
    for warp in &mut block.warps {
        for index in 0..warp.fragments.len() {
            let fragment = warp.fragments[index];
            if fragment.wait != Wait::Barrier(number as u8) {
                continue;
            }
            let inst = &image.code[fragment.pc as usize];
            if inst.aux >= kind::POPULATION {
                let registers = warp.frames[fragment.frame as usize].registers.as_mut_ptr();
                deliver(inst, barrier, registers, fragment.mask);
            }
            warp.fragments[index].pc += 1;
            warp.fragments[index].wait = Wait::Ready;
        }
    }
}

/// Lanes that ended or never were, of warps with lanes at the barrier: hardware counts whole warps.
fn missing(block: &Block, number: usize) -> u32 {
    let waits = |fragment: &Fragment| fragment.wait == Wait::Barrier(number as u8);
    let warps = block.warps.iter().filter(|warp| warp.fragments.iter().any(waits));
    warps.map(|warp| (!warp.live).count_ones()).sum()
}

/// Writes a reduction's result for the lanes of `mask`.
fn deliver(inst: &Inst, barrier: Barrier, registers: *mut u8, mask: u32) {
    // SAFETY: lowering encoded d as a 32-bit slot for popc and as a predicate for and, or; the registers are of the frame.
    unsafe {
        if inst.aux == kind::POPULATION {
            let target = &mut *registers.add(inst.d as usize).cast::<V32>();
            for lane in 0..32 {
                if mask >> lane & 1 != 0 {
                    target.0[lane] = barrier.votes;
                }
            }
            return;
        }
        let holds = if inst.aux == kind::AND { barrier.votes == barrier.arrived } else { barrier.votes > 0 };
        crate::exec::context::write_predicate(registers, inst.d, if holds { u32::MAX } else { 0 }, mask);
    }
}
