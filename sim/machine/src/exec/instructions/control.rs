//! Control transfer: branches, calls, returns, ends, traps, and the instructions that only wait.
//! A branch whose lanes agree is a jump; all else becomes an event that `warp` turns into fragments and frames.
//! Budget and fairness are looked at here, at backward branches: straight code always ends at one. Bulk copies look at the
//! budget as well, since each may take as long as many loops.

use crate::exec::context::{Context, Event, Inst, Operation, SPIN_LIMIT};
use crate::exec::lanes::{FULL, Isa};
use crate::fault::FaultKind;

/// Goes to `target`, counting and watching for spins when that is backwards.
#[inline(always)]
fn jump(context: &mut Context, inst: &Inst, target: u32) -> *const Inst {
    // SAFETY: lowering checked the target against the code's length.
    let to = unsafe { context.code.add(target as usize) };
    if to.addr() <= std::ptr::from_ref(inst).addr() {
        context.budget = context.budget.wrapping_sub(inst.imm);
        let clocked = std::mem::take(&mut context.clocked);
        if context.polled {
            context.polled = false;
            context.spins += 1;
            if context.spins >= SPIN_LIMIT {
                context.spins = 0;
                return context.raise(Event::Yield { next: target });
            }
        } else if clocked {
            // A loop that looks at a clock waits for it, and nobody else: other blocks need not begin.
            return context.raise(Event::Pause { next: target });
        }
        if context.budget < 0 {
            return context.raise(Event::Reschedule { next: target });
        }
    }
    to
}

/// `bra`: to `aux`; `imm` is the length of the loop a backward branch closes.
pub(crate) struct Branch;
impl Operation for Branch {
    #[inline(always)]
    unsafe fn run<I: Isa>(context: &mut Context, inst: &Inst, _: u32, _: *mut u8) -> *const Inst {
        jump(context, inst, inst.aux)
    }
}

/// `@p bra`: reads its guard itself, because lanes that do not branch continue.
pub(crate) struct BranchIf;
impl Operation for BranchIf {
    #[inline(always)]
    unsafe fn run<I: Isa>(context: &mut Context, inst: &Inst, mask: u32, registers: *mut u8) -> *const Inst {
        // SAFETY: the guard is a predicate slot.
        let predicate = unsafe { *registers.add(inst.guard as usize).cast::<u32>() } ^ inst.guard_flip;
        let taken = mask & predicate;
        if taken == 0 {
            return inst.next();
        }
        if taken == mask {
            return jump(context, inst, inst.aux);
        }
        let next = context.index(inst) + 1;
        context.budget = context.budget.wrapping_sub(inst.imm);
        context.raise(Event::Split { taken, target: inst.aux, next })
    }
}

/// `brx.idx`: index in a, list `aux` of the image.
pub(crate) struct BranchIndexed;
impl Operation for BranchIndexed {
    #[inline(always)]
    unsafe fn run<I: Isa>(context: &mut Context, inst: &Inst, mask: u32, registers: *mut u8) -> *const Inst {
        // SAFETY: lowering encoded a 32-bit slot and a list of the image, which outlives the run.
        let (index, list) = unsafe {
            let image = &*context.image;
            (context.read::<u32>(registers, inst.a), &image.branch_lists[inst.aux as usize])
        };
        context.budget = context.budget.wrapping_sub(1);
        let next = context.index(inst) + 1;
        let mut rest = mask;
        context.targets = [next; 32];
        while rest != 0 {
            let lane = rest.trailing_zeros();
            rest &= rest - 1;
            let chosen = index.0[lane as usize];
            let Some(target) = list.get(chosen as usize) else {
                return context.fail(inst, FaultKind::InvalidProgramCounter, lane, u64::from(chosen));
            };
            context.targets[lane as usize] = *target;
        }
        context.raise(Event::Scatter)
    }
}

/// `call`: site `aux`.
pub(crate) struct Call;
impl Operation for Call {
    #[inline(always)]
    unsafe fn run<I: Isa>(context: &mut Context, inst: &Inst, mask: u32, _: *mut u8) -> *const Inst {
        context.budget = context.budget.wrapping_sub(8);
        let pc = context.index(inst);
        context.raise(Event::Call { mask, site: inst.aux, pc })
    }
}

/// `ret`.
pub(crate) struct Return;
impl Operation for Return {
    #[inline(always)]
    unsafe fn run<I: Isa>(context: &mut Context, inst: &Inst, mask: u32, _: *mut u8) -> *const Inst {
        let pc = context.index(inst);
        context.raise(Event::Return { mask, pc })
    }
}

/// `exit`, and `ret` of a kernel.
pub(crate) struct Exit;
impl Operation for Exit {
    #[inline(always)]
    unsafe fn run<I: Isa>(context: &mut Context, inst: &Inst, mask: u32, _: *mut u8) -> *const Inst {
        let next = context.index(inst) + 1;
        context.raise(Event::Exit { mask, next })
    }
}

/// `trap`, `brkpt`, and the end of a body that does not return: the fault is `aux`.
pub(crate) struct Trap;
impl Operation for Trap {
    #[inline(always)]
    unsafe fn run<I: Isa>(context: &mut Context, inst: &Inst, mask: u32, _: *mut u8) -> *const Inst {
        let kind = if inst.aux == 0 { FaultKind::Trap } else { FaultKind::IllegalInstruction };
        context.fail(inst, kind, mask.trailing_zeros(), 0)
    }
}

/// Instructions without effect here: `prefetch`, `pragma` and the like.
pub(crate) struct Nothing;
impl Operation for Nothing {
    #[inline(always)]
    unsafe fn run<I: Isa>(_: &mut Context, inst: &Inst, _: u32, _: *mut u8) -> *const Inst {
        inst.next()
    }
}

/// `membar`, `fence`: orders all accesses of this worker against those of others.
pub(crate) struct Fence;
impl Operation for Fence {
    #[inline(always)]
    unsafe fn run<I: Isa>(_: &mut Context, inst: &Inst, _: u32, _: *mut u8) -> *const Inst {
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        inst.next()
    }
}

/// `nanosleep`: lets others run; nobody sleeps.
pub(crate) struct Sleep;
impl Operation for Sleep {
    #[inline(always)]
    unsafe fn run<I: Isa>(context: &mut Context, inst: &Inst, mask: u32, _: *mut u8) -> *const Inst {
        let next = context.index(inst) + 1;
        context.budget = context.budget.wrapping_sub(1);
        if mask == FULL && !context.divergent {
            return context.raise(Event::Yield { next });
        }
        // In divergent code the guard may have masked lanes off that must not be delayed. Continue: the loop around a
        // sleep counts as a spin.
        context.polled = true;
        context.spins = SPIN_LIMIT;
        inst.next()
    }
}

/// `bar` and `barrier`: what arrives and how is in the instruction; see `barrier`.
pub(crate) struct BlockBarrier;
impl Operation for BlockBarrier {
    #[inline(always)]
    unsafe fn run<I: Isa>(context: &mut Context, inst: &Inst, mask: u32, _: *mut u8) -> *const Inst {
        let pc = context.index(inst);
        context.raise(Event::Barrier { mask, pc })
    }
}
