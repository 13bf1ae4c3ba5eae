//! Moves: registers, special registers, packing and unpacking, address conversion.
//! Values go from slot to slot, or from the context to a slot. Nothing here computes beyond shifting bits into place.

use std::marker::PhantomData;
use std::time::Instant;

use crate::exec::address::{AddressSpace as _, Shared};
use crate::exec::context::{Context, Inst, Operation, write, write_predicate};
use crate::exec::lanes::{Isa, Lane, Slot, V32, V64};

/// d = a
pub(crate) struct Move<T>(PhantomData<T>);
impl<T: Lane> Operation for Move<T> {
    #[inline(always)]
    unsafe fn run<I: Isa>(context: &mut Context, inst: &Inst, mask: u32, registers: *mut u8) -> *const Inst {
        // SAFETY: operands were encoded with this kind.
        unsafe {
            let a = context.read::<T>(registers, inst.a);
            write::<I, T>(registers, inst.d, &a, mask);
        }
        inst.next()
    }
}

/// d = a, predicates.
pub(crate) struct MovePredicate;
impl Operation for MovePredicate {
    #[inline(always)]
    unsafe fn run<I: Isa>(context: &mut Context, inst: &Inst, mask: u32, registers: *mut u8) -> *const Inst {
        // SAFETY: operands were encoded as predicates.
        unsafe {
            let a = context.predicate(registers, inst.a);
            write_predicate(registers, inst.d, a, mask);
        }
        inst.next()
    }
}

/// d = imm bits of the 64-bit slot a from bit `imm` on, as 32 bits masked by `extra`.
pub(crate) struct ExtractWide;
impl Operation for ExtractWide {
    #[inline(always)]
    unsafe fn run<I: Isa>(context: &mut Context, inst: &Inst, mask: u32, registers: *mut u8) -> *const Inst {
        // SAFETY: a 64-bit source and a 32-bit destination were encoded.
        unsafe {
            let a = context.read::<u64>(registers, inst.a);
            let mut d = V32::ZERO;
            for lane in 0..I::lanes() {
                d.0[lane] = a.0[lane].wrapping_shr(inst.imm as u32) as u32 & inst.extra;
            }
            write::<I, u32>(registers, inst.d, &d, mask);
        }
        inst.next()
    }
}

/// As [`ExtractWide`] from a 32-bit slot.
pub(crate) struct Extract;
impl Operation for Extract {
    #[inline(always)]
    unsafe fn run<I: Isa>(context: &mut Context, inst: &Inst, mask: u32, registers: *mut u8) -> *const Inst {
        // SAFETY: 32-bit slots were encoded.
        unsafe {
            let a = context.read::<u32>(registers, inst.a);
            let mut d = V32::ZERO;
            for lane in 0..I::lanes() {
                d.0[lane] = a.0[lane].wrapping_shr(inst.imm as u32) & inst.extra;
            }
            write::<I, u32>(registers, inst.d, &d, mask);
        }
        inst.next()
    }
}

/// d (64 bits) = a | b << 32
pub(crate) struct Pair;
impl Operation for Pair {
    #[inline(always)]
    unsafe fn run<I: Isa>(context: &mut Context, inst: &Inst, mask: u32, registers: *mut u8) -> *const Inst {
        // SAFETY: 32-bit sources and a 64-bit destination were encoded.
        unsafe {
            let a = context.read::<u32>(registers, inst.a);
            let b = context.read::<u32>(registers, inst.b);
            let mut d = V64::ZERO;
            for lane in 0..I::lanes() {
                d.0[lane] = u64::from(a.0[lane]) | (u64::from(b.0[lane]) << 32);
            }
            write::<I, u64>(registers, inst.d, &d, mask);
        }
        inst.next()
    }
}

/// d (32 bits) = a | b << imm, both of at most `imm` bits.
pub(crate) struct Join;
impl Operation for Join {
    #[inline(always)]
    unsafe fn run<I: Isa>(context: &mut Context, inst: &Inst, mask: u32, registers: *mut u8) -> *const Inst {
        // SAFETY: 32-bit slots were encoded.
        unsafe {
            let a = context.read::<u32>(registers, inst.a);
            let b = context.read::<u32>(registers, inst.b);
            let low = (1_u32 << inst.imm) - 1;
            let mut d = V32::ZERO;
            for lane in 0..I::lanes() {
                d.0[lane] = (a.0[lane] & low) | (b.0[lane] & low).wrapping_shl(inst.imm as u32);
            }
            write::<I, u32>(registers, inst.d, &d, mask);
        }
        inst.next()
    }
}

/// Sign-extends the low `imm` bits of a 32-bit slot into a slot of T.
pub(crate) struct Extend<T>(PhantomData<T>);
impl<T: Lane> Operation for Extend<T> {
    #[inline(always)]
    unsafe fn run<I: Isa>(context: &mut Context, inst: &Inst, mask: u32, registers: *mut u8) -> *const Inst {
        // SAFETY: a 32-bit source and a destination of T were encoded.
        unsafe {
            let a = context.read::<u32>(registers, inst.a);
            let shift = 32 - inst.imm as u32;
            let mut d = <T::Slot as Slot>::ZERO;
            for lane in 0..I::lanes() {
                let value = i64::from((a.0[lane].wrapping_shl(shift) as i32).wrapping_shr(shift));
                T::Slot::set(&mut d, lane, T::Slot::from_u64(value as u64));
            }
            write::<I, T>(registers, inst.d, &d, mask);
        }
        inst.next()
    }
}

/// Zero-extends a 32-bit slot to 64 bits.
pub(crate) struct Widen;
impl Operation for Widen {
    #[inline(always)]
    unsafe fn run<I: Isa>(context: &mut Context, inst: &Inst, mask: u32, registers: *mut u8) -> *const Inst {
        // SAFETY: a 32-bit source and a 64-bit destination were encoded.
        unsafe {
            let a = context.read::<u32>(registers, inst.a);
            let mut d = V64::ZERO;
            for lane in 0..I::lanes() {
                d.0[lane] = u64::from(a.0[lane]);
            }
            write::<I, u64>(registers, inst.d, &d, mask);
        }
        inst.next()
    }
}

/// Low 32 bits of a 64-bit address; one that does not fit becomes the highest, which no space has.
pub(crate) struct NarrowAddress;
impl Operation for NarrowAddress {
    #[inline(always)]
    unsafe fn run<I: Isa>(context: &mut Context, inst: &Inst, mask: u32, registers: *mut u8) -> *const Inst {
        // SAFETY: a 64-bit source and a 32-bit destination were encoded.
        unsafe {
            let a = context.read::<u64>(registers, inst.a);
            let mut d = V32::ZERO;
            for lane in 0..I::lanes() {
                d.0[lane] = Shared::sum(a.0[lane], inst.imm).min(u64::from(u32::MAX)) as u32;
            }
            write::<I, u32>(registers, inst.d, &d, mask);
        }
        inst.next()
    }
}

/// `cvta.to`: low 32 bits of a generic address in window `imm`, in 64 bits; another window's address becomes one that
/// faults.
pub(crate) struct LeaveWindow;
impl Operation for LeaveWindow {
    #[inline(always)]
    unsafe fn run<I: Isa>(context: &mut Context, inst: &Inst, mask: u32, registers: *mut u8) -> *const Inst {
        // SAFETY: 64-bit slots were encoded.
        unsafe {
            let a = context.read::<u64>(registers, inst.a);
            let mut d = V64::ZERO;
            for lane in 0..I::lanes() {
                d.0[lane] = a.0[lane].wrapping_sub(inst.imm as u64);
            }
            write::<I, u64>(registers, inst.d, &d, mask);
        }
        inst.next()
    }
}

/// `isspacep`: whether a lies in the window `imm`; `extra` 1 asks for "in no window", which is global.
pub(crate) struct InWindow;
impl Operation for InWindow {
    #[inline(always)]
    unsafe fn run<I: Isa>(context: &mut Context, inst: &Inst, mask: u32, registers: *mut u8) -> *const Inst {
        use crate::lower::image::{LOCAL_WINDOW, PARAMETER_WINDOW, SHARED_WINDOW};
        // SAFETY: a 64-bit source and a predicate were encoded.
        unsafe {
            let a = context.read::<u64>(registers, inst.a);
            let mut bits = 0;
            for lane in 0..I::lanes() {
                let window = a.0[lane] & !0xffff_ffff;
                let inside = if inst.extra == 1 {
                    !matches!(window, SHARED_WINDOW | LOCAL_WINDOW | PARAMETER_WINDOW)
                } else {
                    window == inst.imm as u64
                };
                bits |= u32::from(inside).wrapping_shl(lane as u32);
            }
            write_predicate(registers, inst.d, bits, mask);
        }
        inst.next()
    }
}

/// Special registers that are the same for all lanes, or come from the warp: `imm` of [`ReadSpecial`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i64)]
pub(crate) enum Special {
    ThreadX,
    ThreadY,
    ThreadZ,
    BlockX,
    BlockY,
    BlockZ,
    BlockSizeX,
    BlockSizeY,
    BlockSizeZ,
    GridSizeX,
    GridSizeY,
    GridSizeZ,
    WarpId,
    WarpCount,
    Multiprocessor,
    Multiprocessors,
    GridId,
    Clock,
    ClockHigh,
    Clock64,
    GlobalTimer,
    GlobalTimerLow,
    GlobalTimerHigh,
    DynamicShared,
    TotalShared,
    WorkspaceLow,
    WorkspaceHigh,
}

/// Reads a special register into a slot of T.
pub(crate) struct ReadSpecial<T>(PhantomData<T>);
impl<T: Lane> Operation for ReadSpecial<T> {
    #[inline(always)]
    unsafe fn run<I: Isa>(context: &mut Context, inst: &Inst, mask: u32, registers: *mut u8) -> *const Inst {
        // SAFETY: lowering encoded a destination of T and one of the numbers of `Special`; the warp is the running one.
        unsafe {
            let mut d = <T::Slot as Slot>::ZERO;
            if inst.imm <= Special::ThreadZ as i64 {
                let lanes = &(*context.warp).thread_index[inst.imm as usize];
                for (lane, index) in lanes.iter().enumerate() {
                    T::Slot::set(&mut d, lane, T::Slot::from_u64(u64::from(*index)));
                }
            } else {
                context.clocked |= (Special::Clock as i64..=Special::GlobalTimerHigh as i64).contains(&inst.imm);
                let value = T::Slot::from_u64(uniform(context, inst.imm));
                for lane in 0..I::lanes() {
                    T::Slot::set(&mut d, lane, value);
                }
            }
            write::<I, T>(registers, inst.d, &d, mask);
        }
        inst.next()
    }
}

/// The special registers that a warp reads at once, in the order of their numbers in programs.
const SPECIALS: [Special; 27] = [
    Special::ThreadX,
    Special::ThreadY,
    Special::ThreadZ,
    Special::BlockX,
    Special::BlockY,
    Special::BlockZ,
    Special::BlockSizeX,
    Special::BlockSizeY,
    Special::BlockSizeZ,
    Special::GridSizeX,
    Special::GridSizeY,
    Special::GridSizeZ,
    Special::WarpId,
    Special::WarpCount,
    Special::Multiprocessor,
    Special::Multiprocessors,
    Special::GridId,
    Special::Clock,
    Special::ClockHigh,
    Special::Clock64,
    Special::GlobalTimer,
    Special::GlobalTimerLow,
    Special::GlobalTimerHigh,
    Special::DynamicShared,
    Special::TotalShared,
    Special::WorkspaceLow,
    Special::WorkspaceHigh,
];

#[inline(never)]
fn uniform(context: &Context, which: i64) -> u64 {
    use crate::lower::image::GRID_WINDOW;
    let Some(special) = SPECIALS.get(which as usize) else {
        return 0;
    };
    // SAFETY: warp and services outlive the run.
    let (warp, services) = unsafe { (&*context.warp, &*context.services) };
    let workspace = if context.workspace.is_null() { 0 } else { GRID_WINDOW };
    let threads = context.block_size.iter().product::<u32>();
    match special {
        Special::ThreadX | Special::ThreadY | Special::ThreadZ => 0, // read per lane
        Special::BlockX => u64::from(context.block_index[0]),
        Special::BlockY => u64::from(context.block_index[1]),
        Special::BlockZ => u64::from(context.block_index[2]),
        Special::BlockSizeX => u64::from(context.block_size[0]),
        Special::BlockSizeY => u64::from(context.block_size[1]),
        Special::BlockSizeZ => u64::from(context.block_size[2]),
        Special::GridSizeX => u64::from(context.grid_size[0]),
        Special::GridSizeY => u64::from(context.grid_size[1]),
        Special::GridSizeZ => u64::from(context.grid_size[2]),
        Special::WarpId => u64::from(warp.index),
        Special::WarpCount => u64::from(threads.div_ceil(32)),
        Special::Multiprocessor => u64::from(context.worker % services.multiprocessors.max(1)),
        Special::Multiprocessors => u64::from(services.multiprocessors),
        Special::GridId => context.grid_id,
        Special::Clock | Special::Clock64 => nanoseconds(),
        Special::ClockHigh => nanoseconds() >> 32,
        Special::GlobalTimer => wall_nanoseconds(),
        Special::GlobalTimerLow => wall_nanoseconds() & 0xffff_ffff,
        Special::GlobalTimerHigh => wall_nanoseconds() >> 32,
        Special::DynamicShared => u64::from(context.dynamic_shared),
        Special::TotalShared => u64::from(context.shared_bytes),
        Special::WorkspaceLow => workspace & 0xffff_ffff,
        Special::WorkspaceHigh => workspace >> 32,
    }
}

/// The clock of the device runs at 1 GHz: nanoseconds since the process first asked.
fn nanoseconds() -> u64 {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

fn wall_nanoseconds() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as u64)
}
