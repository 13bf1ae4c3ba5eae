//! The stack of each lane's local memory as programs see it: `alloca`, `stacksave`, `stackrestore`.
//! In go sizes and earlier tops, out come addresses in local memory; the frame gives back what it took when it returns.
//! A lane that asks for more than its stack has ends the launch.

use crate::exec::context::{Context, Inst, Operation, write};
use crate::exec::lanes::{Isa, LANES, V64};
use crate::fault::FaultKind;

/// `alloca`: d the address of a bytes, aligned to `imm`.
pub(crate) struct Allocate;
impl Operation for Allocate {
    #[inline(always)]
    unsafe fn run<I: Isa>(context: &mut Context, inst: &Inst, mask: u32, registers: *mut u8) -> *const Inst {
        // SAFETY: 64-bit slots were encoded; the warp is the running one, the frame one of its.
        unsafe {
            let sizes = context.read::<u64>(registers, inst.a);
            let mut addresses = V64::ZERO;
            for lane in (0..LANES).filter(|lane| mask >> lane & 1 != 0) {
                let warp = &mut *context.warp;
                let top = &mut warp.frames[context.frame as usize].local_top[lane];
                let start = u64::from(*top).next_multiple_of(inst.imm as u64);
                let end = start.saturating_add(sizes.0[lane]);
                if end > u64::from(context.local_stride) {
                    return context.fail(inst, FaultKind::StackOverflow, lane as u32, 0);
                }
                *top = end as u32;
                addresses.0[lane] = start;
            }
            write::<I, u64>(registers, inst.d, &addresses, mask);
        }
        inst.next()
    }
}

/// `stacksave`: d the top of the stack.
pub(crate) struct SaveStack;
impl Operation for SaveStack {
    #[inline(always)]
    unsafe fn run<I: Isa>(context: &mut Context, inst: &Inst, mask: u32, registers: *mut u8) -> *const Inst {
        // SAFETY: as above.
        unsafe {
            let tops = (&(*context.warp).frames)[context.frame as usize].local_top;
            let mut addresses = V64::ZERO;
            for (address, top) in addresses.0.iter_mut().zip(tops) {
                *address = u64::from(top);
            }
            write::<I, u64>(registers, inst.d, &addresses, mask);
        }
        inst.next()
    }
}

/// `stackrestore`: the top of the stack becomes a again, if it is not above what it is now.
pub(crate) struct RestoreStack;
impl Operation for RestoreStack {
    #[inline(always)]
    unsafe fn run<I: Isa>(context: &mut Context, inst: &Inst, mask: u32, registers: *mut u8) -> *const Inst {
        // SAFETY: as above.
        unsafe {
            let saved = context.read::<u64>(registers, inst.a);
            for lane in (0..LANES).filter(|lane| mask >> lane & 1 != 0) {
                let warp = &mut *context.warp;
                let frame = &mut warp.frames[context.frame as usize];
                let (top, base) = (&mut frame.local_top[lane], frame.local_base[lane]);
                *top = saved.0[lane].clamp(u64::from(base), u64::from(*top)) as u32;
            }
        }
        inst.next()
    }
}
