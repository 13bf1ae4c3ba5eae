//! Instructions between the lanes of a warp: shuffles, votes, matches, reductions, election.
//! A `.sync` form runs only when every live lane of its member mask has arrived. Otherwise it raises an event and is
//! run again later. Nothing here looks at another warp.

use std::marker::PhantomData;

use crate::exec::context::{Context, Event, Inst, Operation, write_predicate};
use crate::exec::lanes::{FULL, Isa, LANES, Lane, Slot, V32};

/// Whether the lanes of the member mask (slot `operand`, `u32::MAX` for the forms without one) that live are all here.
///
/// # Safety
/// The operand was encoded as a 32-bit slot.
#[inline(always)]
unsafe fn converged(context: &Context, registers: *mut u8, operand: u32, mask: u32) -> bool {
    if mask == FULL || operand == u32::MAX || context.live & !mask == 0 {
        return true;
    }
    // SAFETY: by the caller.
    let members = unsafe { &*context.operand::<V32>(registers, operand) };
    let mut needed = 0;
    for lane in 0..LANES {
        if mask >> lane & 1 != 0 {
            needed |= members.0[lane];
        }
    }
    needed & context.live & !mask == 0
}

/// Member mask of a lane: the operand's, or all lanes that run.
///
/// # Safety
/// As [`converged`].
#[inline(always)]
unsafe fn members(context: &Context, registers: *mut u8, operand: u32, mask: u32) -> V32 {
    if operand == u32::MAX {
        return V32([mask; LANES]);
    }
    // SAFETY: by the caller.
    let mut members = unsafe { *context.operand::<V32>(registers, operand) };
    for lane in 0..LANES {
        members.0[lane] &= mask;
    }
    members
}

pub(super) fn wait(context: &mut Context, inst: &Inst, mask: u32) -> *const Inst {
    let pc = context.index(inst);
    context.raise(Event::Converge { mask, pc })
}

/// How a shuffle picks its source lane.
pub(crate) trait ShuffleMode {
    /// (source lane, whether it is in range) from lane, amount, lowest lane of the segment, bound.
    fn source(lane: u32, amount: u32, low: u32, bound: u32, segment: u32) -> (u32, bool);
}
/// `.up`
pub(crate) struct Up;
/// `.down`
pub(crate) struct Down;
/// `.bfly`
pub(crate) struct Butterfly;
/// `.idx`
pub(crate) struct Indexed;

impl ShuffleMode for Up {
    #[inline(always)]
    fn source(lane: u32, amount: u32, _: u32, bound: u32, _: u32) -> (u32, bool) {
        let source = lane.wrapping_sub(amount);
        (source, source as i32 >= bound as i32)
    }
}
impl ShuffleMode for Down {
    #[inline(always)]
    fn source(lane: u32, amount: u32, _: u32, bound: u32, _: u32) -> (u32, bool) {
        (lane.wrapping_add(amount), lane.wrapping_add(amount) <= bound)
    }
}
impl ShuffleMode for Butterfly {
    #[inline(always)]
    fn source(lane: u32, amount: u32, _: u32, bound: u32, _: u32) -> (u32, bool) {
        (lane ^ amount, lane ^ amount <= bound)
    }
}
impl ShuffleMode for Indexed {
    #[inline(always)]
    fn source(_: u32, amount: u32, low: u32, bound: u32, segment: u32) -> (u32, bool) {
        let source = low | (amount & !segment);
        (source, source <= bound)
    }
}

/// `shfl`: d|p(`extra`), a, b, c, members (`aux`).
pub(crate) struct Shuffle<M>(PhantomData<M>);
impl<M: ShuffleMode> Operation for Shuffle<M> {
    #[inline(always)]
    unsafe fn run<I: Isa>(context: &mut Context, inst: &Inst, mask: u32, registers: *mut u8) -> *const Inst {
        // SAFETY: operands were encoded as 32-bit slots and a predicate.
        unsafe {
            if !converged(context, registers, inst.aux, mask) {
                return wait(context, inst, mask);
            }
            let a = context.read::<u32>(registers, inst.a);
            let b = context.read::<u32>(registers, inst.b);
            let c = context.read::<u32>(registers, inst.c);
            let mut d = V32::ZERO;
            let mut valid = V32::ZERO;
            for lane in 0..I::lanes() {
                let segment = (c.0[lane] >> 8) & 31;
                let low = lane as u32 & segment;
                let bound = low | (c.0[lane] & 31 & !segment);
                let (source, inside) = M::source(lane as u32, b.0[lane] & 31, low, bound, segment);
                d.0[lane] = a.0[if inside { source as usize & 31 } else { lane }];
                valid.0[lane] = u32::from(inside).wrapping_neg();
            }
            u32::store::<I>(registers.add(inst.d as usize).cast(), &d, mask);
            if inst.extra != u32::MAX {
                write_predicate(registers, inst.extra, I::signs32(&valid), mask);
            }
        }
        inst.next()
    }
}

/// A vote: (members, members that say yes) → the answer.
pub(crate) trait Vote {
    fn answer(members: u32, ayes: u32) -> bool;
}
/// `.all`
pub(crate) struct All;
/// `.any`
pub(crate) struct Any;
/// `.uni`
pub(crate) struct Uniform;

impl Vote for All {
    #[inline(always)]
    fn answer(members: u32, ayes: u32) -> bool {
        ayes == members
    }
}
impl Vote for Any {
    #[inline(always)]
    fn answer(_: u32, ayes: u32) -> bool {
        ayes != 0
    }
}
impl Vote for Uniform {
    #[inline(always)]
    fn answer(members: u32, ayes: u32) -> bool {
        ayes == 0 || ayes == members
    }
}

/// `vote.{all,any,uni}`: d a predicate, a a predicate XOR `imm`, members `aux`.
pub(crate) struct VotePredicate<V>(PhantomData<V>);
impl<V: Vote> Operation for VotePredicate<V> {
    #[inline(always)]
    unsafe fn run<I: Isa>(context: &mut Context, inst: &Inst, mask: u32, registers: *mut u8) -> *const Inst {
        // SAFETY: operands were encoded as predicates and a 32-bit slot.
        unsafe {
            if !converged(context, registers, inst.aux, mask) {
                return wait(context, inst, mask);
            }
            let ayes = context.predicate(registers, inst.a) ^ inst.imm as u32;
            let members = members(context, registers, inst.aux, mask);
            let mut bits = 0;
            for lane in 0..I::lanes() {
                bits |= u32::from(V::answer(members.0[lane], ayes & members.0[lane])).wrapping_shl(lane as u32);
            }
            write_predicate(registers, inst.d, bits, mask);
        }
        inst.next()
    }
}

/// `vote.ballot`: d 32 bits, a a predicate XOR `imm`, members `aux`.
pub(crate) struct Ballot;
impl Operation for Ballot {
    #[inline(always)]
    unsafe fn run<I: Isa>(context: &mut Context, inst: &Inst, mask: u32, registers: *mut u8) -> *const Inst {
        // SAFETY: operands were encoded as a predicate and 32-bit slots.
        unsafe {
            if !converged(context, registers, inst.aux, mask) {
                return wait(context, inst, mask);
            }
            let ayes = context.predicate(registers, inst.a) ^ inst.imm as u32;
            let mut d = members(context, registers, inst.aux, mask);
            for lane in 0..I::lanes() {
                d.0[lane] &= ayes;
            }
            u32::store::<I>(registers.add(inst.d as usize).cast(), &d, mask);
        }
        inst.next()
    }
}

/// `activemask`: d.
pub(crate) struct ActiveMask;
impl Operation for ActiveMask {
    #[inline(always)]
    unsafe fn run<I: Isa>(_: &mut Context, inst: &Inst, mask: u32, registers: *mut u8) -> *const Inst {
        // SAFETY: a 32-bit destination was encoded.
        unsafe { u32::store::<I>(registers.add(inst.d as usize).cast(), &V32([mask; LANES]), mask) };
        inst.next()
    }
}

/// `match.any`: d 32 bits, a of T, members `aux`.
pub(crate) struct MatchAny<T>(PhantomData<T>);
impl<T: Lane> Operation for MatchAny<T> {
    #[inline(always)]
    unsafe fn run<I: Isa>(context: &mut Context, inst: &Inst, mask: u32, registers: *mut u8) -> *const Inst {
        // SAFETY: operands were encoded with these kinds.
        unsafe {
            if !converged(context, registers, inst.aux, mask) {
                return wait(context, inst, mask);
            }
            let a = context.read::<T>(registers, inst.a);
            let members = members(context, registers, inst.aux, mask);
            let mut d = V32::ZERO;
            for lane in 0..I::lanes() {
                let mine = T::Slot::get(&a, lane).to_u64();
                for other in 0..I::lanes() {
                    d.0[lane] |= u32::from(T::Slot::get(&a, other).to_u64() == mine).wrapping_shl(other as u32);
                }
                d.0[lane] &= members.0[lane];
            }
            u32::store::<I>(registers.add(inst.d as usize).cast(), &d, mask);
        }
        inst.next()
    }
}

/// `match.all`: d|p(`extra`), a of T, members `aux`.
pub(crate) struct MatchAll<T>(PhantomData<T>);
impl<T: Lane> Operation for MatchAll<T> {
    #[inline(always)]
    unsafe fn run<I: Isa>(context: &mut Context, inst: &Inst, mask: u32, registers: *mut u8) -> *const Inst {
        // SAFETY: operands were encoded with these kinds.
        unsafe {
            if !converged(context, registers, inst.aux, mask) {
                return wait(context, inst, mask);
            }
            let a = context.read::<T>(registers, inst.a);
            let members = members(context, registers, inst.aux, mask);
            let mut d = V32::ZERO;
            let mut bits = 0;
            for lane in 0..I::lanes() {
                let mine = T::Slot::get(&a, lane).to_u64();
                let same = (0..I::lanes())
                    .filter(|other| members.0[lane] >> other & 1 != 0)
                    .all(|other| T::Slot::get(&a, other).to_u64() == mine);
                d.0[lane] = if same { members.0[lane] } else { 0 };
                bits |= u32::from(same).wrapping_shl(lane as u32);
            }
            u32::store::<I>(registers.add(inst.d as usize).cast(), &d, mask);
            if inst.extra != u32::MAX {
                write_predicate(registers, inst.extra, bits, mask);
            }
        }
        inst.next()
    }
}

/// The operation of a reduction.
pub(crate) trait Reduce {
    fn join(a: u32, b: u32) -> u32;
}

/// `redux.sync`: d, a, members `aux`.
pub(crate) struct Reduction<R>(PhantomData<R>);
impl<R: Reduce> Operation for Reduction<R> {
    #[inline(always)]
    unsafe fn run<I: Isa>(context: &mut Context, inst: &Inst, mask: u32, registers: *mut u8) -> *const Inst {
        // SAFETY: operands were encoded as 32-bit slots.
        unsafe {
            if !converged(context, registers, inst.aux, mask) {
                return wait(context, inst, mask);
            }
            let a = context.read::<u32>(registers, inst.a);
            let members = members(context, registers, inst.aux, mask);
            let mut d = V32::ZERO;
            for lane in 0..I::lanes() {
                let mut rest = members.0[lane];
                if rest == 0 {
                    continue;
                }
                // Lanes of one group share the result: take it from the group's first lane where that is done.
                let first = rest.trailing_zeros() as usize;
                if first < lane && members.0[first] == rest {
                    d.0[lane] = d.0[first];
                    continue;
                }
                let mut value = a.0[first];
                rest &= rest - 1;
                while rest != 0 {
                    value = R::join(value, a.0[rest.trailing_zeros() as usize]);
                    rest &= rest - 1;
                }
                d.0[lane] = value;
            }
            u32::store::<I>(registers.add(inst.d as usize).cast(), &d, mask);
        }
        inst.next()
    }
}

macro_rules! reductions {
    ($($name:ident: |$a:ident, $b:ident| $value:expr;)*) => {$(
        pub(crate) struct $name;
        impl Reduce for $name {
            #[inline(always)]
            fn join($a: u32, $b: u32) -> u32 { $value }
        }
    )*};
}
reductions! {
    ReduceAdd: |a, b| a.wrapping_add(b);
    ReduceAnd: |a, b| a & b;
    ReduceOr: |a, b| a | b;
    ReduceXor: |a, b| a ^ b;
    ReduceMinUnsigned: |a, b| a.min(b);
    ReduceMaxUnsigned: |a, b| a.max(b);
    ReduceMinSigned: |a, b| (a as i32).min(b as i32) as u32;
    ReduceMaxSigned: |a, b| (a as i32).max(b as i32) as u32;
}

/// `elect.sync`: d|p(`extra`), members `aux`; d `u32::MAX` where not wanted.
pub(crate) struct Elect;
impl Operation for Elect {
    #[inline(always)]
    unsafe fn run<I: Isa>(context: &mut Context, inst: &Inst, mask: u32, registers: *mut u8) -> *const Inst {
        // SAFETY: operands were encoded as 32-bit slots and a predicate.
        unsafe {
            if !converged(context, registers, inst.aux, mask) {
                return wait(context, inst, mask);
            }
            let members = members(context, registers, inst.aux, mask);
            let mut leaders = V32::ZERO;
            let mut bits = 0;
            for lane in 0..I::lanes() {
                leaders.0[lane] = members.0[lane].trailing_zeros();
                bits |= u32::from(leaders.0[lane] == lane as u32).wrapping_shl(lane as u32);
            }
            if inst.d != u32::MAX {
                u32::store::<I>(registers.add(inst.d as usize).cast(), &leaders, mask);
            }
            write_predicate(registers, inst.extra, bits, mask);
        }
        inst.next()
    }
}

/// `bar.warp.sync`: members `aux`.
pub(crate) struct WarpBarrier;
impl Operation for WarpBarrier {
    #[inline(always)]
    unsafe fn run<I: Isa>(context: &mut Context, inst: &Inst, mask: u32, registers: *mut u8) -> *const Inst {
        // SAFETY: the members were encoded as a 32-bit slot.
        if unsafe { converged(context, registers, inst.aux, mask) } {
            return inst.next();
        }
        wait(context, inst, mask)
    }
}
