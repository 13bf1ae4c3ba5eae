//! The context of a handler: the decoded instruction, the state of its warp, and the way to report an event.
//! A handler executes one instruction for the lanes of a mask and returns the next instruction. If the warp cannot
//! simply continue, it records an [`Event`] and returns [`event_pointer`]. Handlers never touch another warp.

use crate::memory::View;

use super::lanes::{Isa, Lane, Slot};
use super::state::Warp;
use crate::lower::image::Image;
use crate::services::Services;

/// Executes one instruction: context, instruction, lanes, register file of the frame.
pub(crate) type Handler = unsafe fn(&mut Context, &Inst, u32, *mut u8) -> *const Inst;

/// A handler compiled for each level.
#[derive(Clone, Copy)]
pub(crate) struct Handlers(pub(crate) [Handler; 3]);

/// A decoded instruction. One cache line.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
pub(crate) struct Inst {
    /// The loop calls this: the handler, or `guarded` where there is a guard.
    pub(crate) run: Handler,
    /// The handler itself.
    pub(crate) inner: Handler,
    /// Destination slot.
    pub(crate) d: u32,
    /// Sources: byte offsets of slots; with [`CONSTANT`] in the constant pool.
    pub(crate) a: u32,
    pub(crate) b: u32,
    pub(crate) c: u32,
    /// Byte offset of the guard predicate.
    pub(crate) guard: u32,
    /// Handler-specific: second destination, branch target, kind…
    pub(crate) aux: u32,
    /// Handler-specific: address offset, immediate.
    pub(crate) imm: i64,
    /// XORed to the guard: all ones for `@!p`.
    pub(crate) guard_flip: u32,
    /// Handler-specific.
    pub(crate) extra: u32,
    /// Its kind in a run, see `run`.
    pub(crate) fuse: u32,
}

/// Bit of an operand that says it lies in the constant pool.
pub(crate) const CONSTANT: u32 = 1 << 31;

/// A request to the warp's loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    None,
    /// The fragment continues at `next`, after a check of other fragments, the budget and fairness.
    Reschedule {
        next: u32,
    },
    /// Lanes of `taken` continue at `target`, the others at `next`.
    Split {
        taken: u32,
        target: u32,
        next: u32,
    },
    /// An instruction whose lanes go to several places: lane l to `targets[l]`, kept in the context.
    Scatter,
    /// Call through call site `site`; `pc` is the call.
    Call {
        mask: u32,
        site: u32,
        pc: u32,
    },
    /// The lanes of `mask` return from their function.
    Return {
        mask: u32,
        pc: u32,
    },
    /// The lanes of `mask` end.
    Exit {
        mask: u32,
        next: u32,
    },
    /// The lanes wait at a block barrier; `mask` lanes arrive, the instruction is at `pc`.
    Barrier {
        mask: u32,
        pc: u32,
    },
    /// A warp-synchronous instruction whose members have not all arrived; runs again when they have.
    Converge {
        mask: u32,
        pc: u32,
    },
    /// The fragment spins; let others run, then continue at `next`.
    Yield {
        next: u32,
    },
    /// The fragment waits for a time to come; the others of its block run meanwhile.
    Pause {
        next: u32,
    },
    /// The launch ends with this fault.
    Fault {
        lane: u32,
        pc: u32,
        address: u64,
    },
}

/// The state that handlers see besides registers.
pub(crate) struct Context {
    /// The constant pool, biased so that an operand with [`CONSTANT`] set is added as it is.
    pub(crate) constants: *const u8,
    /// First instruction of the image.
    pub(crate) code: *const Inst,
    /// Global memory.
    pub(crate) view: View,
    /// Shared memory of the block.
    pub(crate) shared: *mut u8,
    pub(crate) shared_bytes: u32,
    /// Local memory of the warp: lane l's starts at `l * local_stride`.
    pub(crate) local: *mut u8,
    pub(crate) local_stride: u32,
    /// Kernel parameters.
    pub(crate) parameters: *const u8,
    pub(crate) parameter_bytes: u32,
    /// Instructions this warp may still run before it must look up; counted at taken branches.
    pub(crate) budget: i64,
    /// Initial budget of a warp.
    pub(crate) quantum: i64,
    /// Whether the warp has other fragments that could run.
    pub(crate) divergent: bool,
    /// An atomic or volatile access was made since the last backward branch.
    pub(crate) polled: bool,
    /// Backward branches in a row with such an access.
    pub(crate) spins: u32,
    /// A clock was read since the last backward branch.
    pub(crate) clocked: bool,
    /// Lanes of the warp that have not ended.
    pub(crate) live: u32,
    /// Kind of fault, with `Event::Fault`.
    pub(crate) fault: crate::FaultKind,
    pub(crate) event: Event,
    /// With `Event::Scatter`.
    pub(crate) targets: [u32; 32],
    /// Uniform special registers, see `special`.
    pub(crate) block_index: [u32; 3],
    pub(crate) grid_size: [u32; 3],
    pub(crate) block_size: [u32; 3],
    pub(crate) grid_id: u64,
    pub(crate) dynamic_shared: u32,
    pub(crate) worker: u32,
    pub(crate) warp: *mut Warp,
    /// The frame of the running fragment.
    pub(crate) frame: u32,
    /// Workspace of cooperative grids, see `GRID_WINDOW`.
    pub(crate) workspace: *mut u8,
    pub(crate) image: *const Image,
    pub(crate) services: *const Services,
}

/// Spins before a fragment lets others run.
pub(crate) const SPIN_LIMIT: u32 = 32;

/// The return value of a handler with an event: above every instruction's address.
#[inline(always)]
pub(crate) fn event_pointer() -> *const Inst {
    std::ptr::without_provenance(usize::MAX)
}

impl Context {
    /// Address of an operand.
    #[inline(always)]
    pub(crate) fn operand<T>(&self, registers: *mut u8, operand: u32) -> *const T {
        debug_assert!(self.holds(registers, operand, size_of::<T>()), "operand outside of the frame: {operand:#x}");
        let base = if (operand as i32) < 0 { self.constants } else { registers.cast_const() };
        base.wrapping_add(operand as usize).cast()
    }

    /// Whether an operand of so many bytes lies in the constants, or in the frame whose registers these are.
    fn holds(&self, registers: *mut u8, operand: u32, bytes: usize) -> bool {
        // SAFETY: warp and image outlive the run, and nobody else changes them.
        let (frames, image) = unsafe { (&(*self.warp).frames, &*self.image) };
        let start = (operand & !CONSTANT) as usize;
        if operand & CONSTANT != 0 {
            return start + bytes <= image.constants.len();
        }
        let frame = frames.iter().find(|frame| frame.registers.as_ptr() == registers.cast_const());
        frame.is_some_and(|frame| start + bytes <= frame.registers.len())
    }

    /// A source register.
    ///
    /// # Safety
    /// `operand` was encoded for this image and a value of `T`'s slot kind.
    #[inline(always)]
    pub(crate) unsafe fn read<T: Lane>(&self, registers: *mut u8, operand: u32) -> <T::Slot as Slot>::Vector {
        // SAFETY: operands point to slots of their kind: lowering's promise.
        unsafe { *self.operand::<<T::Slot as Slot>::Vector>(registers, operand) }
    }

    /// A source predicate.
    ///
    /// # Safety
    /// `operand` was encoded as a predicate.
    #[inline(always)]
    pub(crate) unsafe fn predicate(&self, registers: *mut u8, operand: u32) -> u32 {
        // SAFETY: as above.
        unsafe { *self.operand::<u32>(registers, operand) }
    }

    /// Index of an instruction.
    #[inline(always)]
    pub(crate) fn index(&self, inst: &Inst) -> u32 {
        let bytes = (std::ptr::from_ref(inst).addr()) - self.code.addr();
        (bytes / size_of::<Inst>()) as u32
    }

    /// Records an event.
    #[inline(always)]
    pub(crate) fn raise(&mut self, event: Event) -> *const Inst {
        self.event = event;
        event_pointer()
    }

    /// Records a fault of one lane.
    #[cold]
    #[inline(never)]
    pub(crate) fn fail(&mut self, inst: &Inst, kind: crate::FaultKind, lane: u32, address: u64) -> *const Inst {
        self.fault = kind;
        let pc = self.index(inst);
        self.raise(Event::Fault { lane, pc, address })
    }
}

impl Inst {
    /// The instruction after this one.
    #[inline(always)]
    pub(crate) fn next(&self) -> *const Inst {
        std::ptr::from_ref(self).wrapping_add(1)
    }
}

/// Writes a destination register.
///
/// # Safety
/// `slot` was encoded as a destination of `T`'s slot kind.
#[inline(always)]
pub(crate) unsafe fn write<I: Isa, T: Lane>(
    registers: *mut u8,
    slot: u32,
    value: &<T::Slot as Slot>::Vector,
    mask: u32,
) {
    // SAFETY: destinations point to slots of their kind: lowering's promise.
    unsafe { T::Slot::store::<I>(registers.add(slot as usize).cast(), value, mask) };
}

/// Writes a destination predicate.
///
/// # Safety
/// `slot` was encoded as a predicate destination.
#[inline(always)]
pub(crate) unsafe fn write_predicate(registers: *mut u8, slot: u32, value: u32, mask: u32) {
    // SAFETY: as above; predicates are aligned words.
    unsafe {
        let target = registers.add(slot as usize).cast::<u32>();
        *target = (*target & !mask) | (value & mask);
    }
}

/// One instruction for all levels: implemented by every operation, wrapped per level by [`handlers`].
pub(crate) trait Operation {
    /// Executes the instruction for the lanes of `mask`.
    ///
    /// # Safety
    /// The instruction was lowered for this operation; `registers` is the frame's register file; the processor has `I`.
    unsafe fn run<I: Isa>(context: &mut Context, inst: &Inst, mask: u32, registers: *mut u8) -> *const Inst;
}

/// The operation's handlers, one per level.
pub(crate) const fn handlers<O: Operation>() -> Handlers {
    Handlers([at_baseline::<O>, at_avx2::<O>, at_avx512::<O>])
}

/// The operation's baseline handler for every level.
pub(crate) const fn baseline_handlers<O: Operation>() -> Handlers {
    Handlers([at_baseline::<O>; 3])
}

unsafe fn at_baseline<O: Operation>(c: &mut Context, i: &Inst, m: u32, r: *mut u8) -> *const Inst {
    // SAFETY: handed through.
    unsafe { O::run::<super::lanes::Baseline>(c, i, m, r) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt,popcnt,f16c")]
unsafe fn at_avx2<O: Operation>(c: &mut Context, i: &Inst, m: u32, r: *mut u8) -> *const Inst {
    // SAFETY: handed through; lowering picks this level only where the processor has it.
    unsafe { O::run::<super::lanes::Avx2>(c, i, m, r) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx2,fma,bmi1,bmi2,lzcnt,popcnt,f16c")]
unsafe fn at_avx512<O: Operation>(c: &mut Context, i: &Inst, m: u32, r: *mut u8) -> *const Inst {
    // SAFETY: handed through; lowering picks this level only where the processor has it.
    unsafe { O::run::<super::lanes::Avx512>(c, i, m, r) }
}

#[cfg(not(target_arch = "x86_64"))]
use at_baseline as at_avx2;
#[cfg(not(target_arch = "x86_64"))]
use at_baseline as at_avx512;

/// Runs an instruction with a guard: for the lanes of the mask whose predicate says so, if there are any.
///
/// # Safety
/// As for every handler.
pub(crate) unsafe fn guarded(context: &mut Context, inst: &Inst, mask: u32, registers: *mut u8) -> *const Inst {
    // SAFETY: the guard is a predicate slot.
    let predicate = unsafe { *registers.add(inst.guard as usize).cast::<u32>() } ^ inst.guard_flip;
    let mask = mask & predicate;
    if mask == 0 {
        return inst.next();
    }
    // SAFETY: handed through.
    unsafe { (inst.inner)(context, inst, mask, registers) }
}
