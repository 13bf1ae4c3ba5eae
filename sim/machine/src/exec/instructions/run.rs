//! Runs of shared-memory loads and fused multiply-adds, executed by one handler: the inner loop of every tiled kernel.
//! Lowering plans such runs. The handler classifies the 32 addresses of each address register, checks all accesses, and
//! executes the run without returning to the warp's loop. All other cases are left to the instructions' own handlers,
//! so results and faults are the same.

use super::memory::{Lie, LoadSharedWord, PART};
use super::run_plan::{ADDRESSES, Offsets, fuse};
use crate::exec::context::{Context, Inst, Operation};
use crate::exec::lanes::{FULL, Isa, LANES, V32};
use crate::scalar::{Rn, float};

/// How the addresses of both halves of a warp lie, as one number for the inner loop.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LanePattern {
    Rows,
    Sames,
    Mixed,
}

/// An address register as it lies in shared memory.
#[derive(Clone, Copy)]
struct Known {
    pattern: LanePattern,
    lies: [Lie; 2],
    /// Address of the first lane of each half.
    first: [*const u8; 2],
    offsets: *const V32,
}

impl Known {
    const NOTHING: Self = Self {
        pattern: LanePattern::Mixed,
        lies: [Lie::Other; 2],
        first: [std::ptr::null(); 2],
        offsets: std::ptr::null(),
    };

    /// Looks at the addresses; `None` unless all accesses of the plan are inside shared memory and aligned.
    ///
    /// # Safety
    /// `offsets` is a 32-bit slot.
    #[inline(always)]
    unsafe fn look(context: &Context, offsets: *const V32, plan: &Offsets) -> Option<Self> {
        // SAFETY: by the caller; a vector holds two parts.
        let all = unsafe { &*offsets };
        let (mut lowest, mut highest, mut low_bits) = (u32::MAX, 0, plan.bits);
        for offset in &all.0 {
            lowest = lowest.min(*offset);
            highest = highest.max(*offset);
            low_bits |= offset;
        }
        let inside = i64::from(lowest) + plan.least >= 0
            && i64::from(highest) + plan.most + 4 <= i64::from(context.shared_bytes);
        if !inside || low_bits & 3 != 0 {
            return None;
        }
        let mut known = Self { offsets, ..Self::NOTHING };
        for half in 0..2 {
            // SAFETY: as above. The first is read apart from the others: knowing that lane 0 agrees with itself, the
            // compiler would take the vectors to pieces.
            let (part, first) = unsafe {
                let part = all.0.as_ptr().add(PART * half);
                (&*part.cast::<[u32; PART]>(), part.read_volatile())
            };
            let (mut from_row, mut from_same) = (0, 0);
            for (lane, offset) in part.iter().enumerate() {
                from_row |= offset ^ first.wrapping_add(4 * lane as u32);
                from_same |= offset ^ first;
            }
            known.first[half] = context.shared.wrapping_add(first as usize);
            known.lies[half] = match (from_row, from_same) {
                (0, _) => Lie::Row,
                (_, 0) => Lie::Same,
                _ => Lie::Other,
            };
        }
        known.pattern = match known.lies {
            [Lie::Row, Lie::Row] => LanePattern::Rows,
            [Lie::Same, Lie::Same] => LanePattern::Sames,
            _ => LanePattern::Mixed,
        };
        Some(known)
    }

    /// The words at the addresses plus `add`, which the plan covers.
    ///
    /// # Safety
    /// The look found the plan's accesses good; `target` is a 32-bit slot.
    #[inline(always)]
    unsafe fn load(&self, context: &Context, add: usize, target: *mut [u32; PART]) {
        // SAFETY: all accesses were found inside shared memory.
        unsafe {
            match self.pattern {
                LanePattern::Rows => {
                    *target = self.first[0].wrapping_add(add).cast::<[u32; PART]>().read_unaligned();
                    *target.add(1) = self.first[1].wrapping_add(add).cast::<[u32; PART]>().read_unaligned();
                }
                LanePattern::Sames => {
                    *target = [self.first[0].wrapping_add(add).cast::<u32>().read_unaligned(); PART];
                    *target.add(1) = [self.first[1].wrapping_add(add).cast::<u32>().read_unaligned(); PART];
                }
                LanePattern::Mixed => self.load_mixed(context, add, target),
            }
        }
    }

    /// As `load`, each half by itself.
    ///
    /// # Safety
    /// As `load`.
    #[inline(never)]
    unsafe fn load_mixed(&self, context: &Context, add: usize, target: *mut [u32; PART]) {
        // SAFETY: all accesses were found inside shared memory.
        unsafe {
            for half in 0..2 {
                let word = self.first[half].wrapping_add(add);
                let target = target.add(half);
                match self.lies[half] {
                    Lie::Row => *target = word.cast::<[u32; PART]>().read_unaligned(),
                    Lie::Same => *target = [word.cast::<u32>().read_unaligned(); PART],
                    Lie::Other => {
                        let base = context.shared.wrapping_add(add);
                        for lane in 0..PART {
                            let offset = (*self.offsets).0[PART * half + lane] as usize;
                            (*target)[lane] = base.wrapping_add(offset).cast::<u32>().read_unaligned();
                        }
                    }
                }
            }
        }
    }
}

/// A planned run, this instruction first; the plan is `aux` of the image's.
pub(crate) struct SharedRun;

impl Operation for SharedRun {
    #[inline(always)]
    unsafe fn run<I: Isa>(context: &mut Context, inst: &Inst, mask: u32, registers: *mut u8) -> *const Inst {
        // SAFETY: lowering encoded the plan's number; the image outlives the run.
        let plan = unsafe { &(&(*context.image).runs)[inst.aux as usize] };
        let mut known = [Known::NOTHING; ADDRESSES];
        let mut good = mask == FULL;
        for (known, offsets) in known.iter_mut().zip(&plan.addresses) {
            // SAFETY: lowering encoded a 32-bit slot.
            let look = unsafe { Known::look(context, context.operand(registers, offsets.slot), offsets) };
            match look {
                Some(look) => *known = look,
                None => good = false,
            }
        }
        if !good {
            // SAFETY: handed through.
            return unsafe { LoadSharedWord::run::<I>(context, inst, mask, registers) };
        }
        let context = &*context;
        let mut at = std::ptr::from_ref(inst);
        let end = at.wrapping_add(plan.length);
        // The last sum stays at hand: the next multiply-add mostly continues it.
        let (mut sum, mut sum_slot) = (V32::ZERO, u32::MAX);
        // SAFETY: lowering planned this many instructions, encoded for these operations, with `b` below `ADDRESSES`.
        unsafe {
            while at < end {
                let inst = &*at;
                let target = registers.add(inst.d as usize);
                if inst.fuse == fuse::SHARED_LOAD {
                    if inst.d == sum_slot {
                        sum_slot = u32::MAX;
                    }
                    known[inst.b as usize & (ADDRESSES - 1)].load(context, inst.imm as usize, target.cast());
                } else {
                    if inst.c != sum_slot {
                        sum = *context.operand::<V32>(registers, inst.c);
                    }
                    let a = &*context.operand::<V32>(registers, inst.a);
                    let b = &*context.operand::<V32>(registers, inst.b);
                    sum = multiply_add(a, b, &sum);
                    sum_slot = inst.d;
                    *target.cast::<V32>() = sum;
                }
                at = at.add(1);
            }
        }
        end
    }
}

/// `fma.rn.f32` for all lanes.
#[inline(always)]
fn multiply_add(a: &V32, b: &V32, c: &V32) -> V32 {
    let mut sum = V32::ZERO;
    let mut not_numbers = 0;
    for lane in 0..LANES {
        let value = f32::from_bits(a.0[lane]).mul_add(f32::from_bits(b.0[lane]), f32::from_bits(c.0[lane]));
        sum.0[lane] = value.to_bits();
        not_numbers |= u32::from(value.is_nan());
    }
    // The device's NaN is not the host's; making it so is kept off the way of sums that are numbers.
    if not_numbers != 0 { with_nan(a, b, c) } else { sum }
}

#[cold]
#[inline(never)]
fn with_nan(a: &V32, b: &V32, c: &V32) -> V32 {
    let mut sum = V32::ZERO;
    for lane in 0..LANES {
        let [a, b, c] = [a.0[lane], b.0[lane], c.0[lane]].map(f32::from_bits);
        sum.0[lane] = float::fma_f32::<Rn, false, false>(a, b, c).to_bits();
    }
    sum
}
