//! Shapes of arithmetic instructions: a function of one lane becomes an instruction of 32.
//! In goes a [`Function1`]… or a comparison as a type, out comes an [`Operation`] whose loops the compiler vectorises per
//! level. Lanes outside the mask are computed too and thrown away: the functions have no effects.

use std::marker::PhantomData;

use crate::exec::context::{Context, Inst, Operation, write, write_predicate};
use crate::exec::lanes::{Isa, Lane, Slot};

/// d = f(a)
pub(crate) trait Function1 {
    type A: Lane;
    type D: Lane;
    fn apply(a: Self::A) -> Self::D;
}

/// d = f(a, b)
pub(crate) trait Function2 {
    type A: Lane;
    type B: Lane;
    type D: Lane;
    fn apply(a: Self::A, b: Self::B) -> Self::D;
}

/// d = f(a, b, c)
pub(crate) trait Function3 {
    type A: Lane;
    type B: Lane;
    type C: Lane;
    type D: Lane;
    fn apply(a: Self::A, b: Self::B, c: Self::C) -> Self::D;
}

/// d = f(a, b, c, e)
pub(crate) trait Function4 {
    type A: Lane;
    type B: Lane;
    type C: Lane;
    type E: Lane;
    type D: Lane;
    fn apply(a: Self::A, b: Self::B, c: Self::C, e: Self::E) -> Self::D;
}

/// p = f(a, b)
pub(crate) trait Comparison2 {
    type A: Lane;
    type B: Lane;
    fn apply(a: Self::A, b: Self::B) -> bool;
}

/// (d, carry) = f(a, b, c, carry)
pub(crate) trait Carry3 {
    type A: Lane;
    type B: Lane;
    type C: Lane;
    type D: Lane;
    fn apply(a: Self::A, b: Self::B, c: Self::C, carry: bool) -> (Self::D, bool);
}

type Vector<T> = <<T as Lane>::Slot as Slot>::Vector;

#[inline(always)]
fn get<T: Lane>(vector: &Vector<T>, lane: usize) -> T {
    T::from_slot(T::Slot::get(vector, lane))
}

#[inline(always)]
fn set<T: Lane>(vector: &mut Vector<T>, lane: usize, value: T) {
    T::Slot::set(vector, lane, value.to_slot());
}

/// One source.
pub(crate) struct One<F>(PhantomData<F>);
impl<F: Function1> Operation for One<F> {
    #[inline(always)]
    unsafe fn run<I: Isa>(context: &mut Context, inst: &Inst, mask: u32, registers: *mut u8) -> *const Inst {
        // SAFETY: operands were encoded with this row's kinds.
        unsafe {
            let a = context.read::<F::A>(registers, inst.a);
            let mut d = <F::D as Lane>::Slot::ZERO;
            for lane in 0..I::lanes() {
                set::<F::D>(&mut d, lane, F::apply(get::<F::A>(&a, lane)));
            }
            write::<I, F::D>(registers, inst.d, &d, mask);
        }
        inst.next()
    }
}

/// Two sources.
pub(crate) struct Two<F>(PhantomData<F>);
impl<F: Function2> Operation for Two<F> {
    #[inline(always)]
    unsafe fn run<I: Isa>(context: &mut Context, inst: &Inst, mask: u32, registers: *mut u8) -> *const Inst {
        // SAFETY: operands were encoded with this row's kinds.
        unsafe {
            let a = context.read::<F::A>(registers, inst.a);
            let b = context.read::<F::B>(registers, inst.b);
            let mut d = <F::D as Lane>::Slot::ZERO;
            for lane in 0..I::lanes() {
                set::<F::D>(&mut d, lane, F::apply(get::<F::A>(&a, lane), get::<F::B>(&b, lane)));
            }
            write::<I, F::D>(registers, inst.d, &d, mask);
        }
        inst.next()
    }
}

/// Three sources.
pub(crate) struct Three<F>(PhantomData<F>);
impl<F: Function3> Operation for Three<F> {
    #[inline(always)]
    unsafe fn run<I: Isa>(context: &mut Context, inst: &Inst, mask: u32, registers: *mut u8) -> *const Inst {
        // SAFETY: operands were encoded with this row's kinds.
        unsafe {
            let a = context.read::<F::A>(registers, inst.a);
            let b = context.read::<F::B>(registers, inst.b);
            let c = context.read::<F::C>(registers, inst.c);
            let mut d = <F::D as Lane>::Slot::ZERO;
            for lane in 0..I::lanes() {
                let value = F::apply(get::<F::A>(&a, lane), get::<F::B>(&b, lane), get::<F::C>(&c, lane));
                set::<F::D>(&mut d, lane, value);
            }
            write::<I, F::D>(registers, inst.d, &d, mask);
        }
        inst.next()
    }
}

/// Four sources; the fourth stands in `aux`.
pub(crate) struct Four<F>(PhantomData<F>);
impl<F: Function4> Operation for Four<F> {
    #[inline(always)]
    unsafe fn run<I: Isa>(context: &mut Context, inst: &Inst, mask: u32, registers: *mut u8) -> *const Inst {
        // SAFETY: operands were encoded with this row's kinds.
        unsafe {
            let a = context.read::<F::A>(registers, inst.a);
            let b = context.read::<F::B>(registers, inst.b);
            let c = context.read::<F::C>(registers, inst.c);
            let e = context.read::<F::E>(registers, inst.aux);
            let mut d = <F::D as Lane>::Slot::ZERO;
            for lane in 0..I::lanes() {
                let value = F::apply(
                    get::<F::A>(&a, lane),
                    get::<F::B>(&b, lane),
                    get::<F::C>(&c, lane),
                    get::<F::E>(&e, lane),
                );
                set::<F::D>(&mut d, lane, value);
            }
            write::<I, F::D>(registers, inst.d, &d, mask);
        }
        inst.next()
    }
}

/// How a comparison's result is combined with predicate `c`: `aux` of a [`SetPredicate`].
pub(crate) mod combine {
    /// p = r
    pub(crate) const NONE: u32 = 0;
    /// p = r & c
    pub(crate) const AND: u32 = 1;
    /// p = r | c
    pub(crate) const OR: u32 = 2;
    /// p = r ^ c
    pub(crate) const XOR: u32 = 3;
}

/// `setp`: p (`d`) and q (`extra`) from a comparison of a and b, combined with c as `aux` says; `imm` is XORed to c.
pub(crate) struct SetPredicate<F>(PhantomData<F>);
impl<F: Comparison2> Operation for SetPredicate<F> {
    #[inline(always)]
    unsafe fn run<I: Isa>(context: &mut Context, inst: &Inst, mask: u32, registers: *mut u8) -> *const Inst {
        // SAFETY: operands were encoded with this row's kinds.
        unsafe {
            let bits = compare::<I, F>(context, inst, registers);
            if inst.aux == combine::NONE {
                write_predicate(registers, inst.d, bits, mask);
                if inst.extra != u32::MAX {
                    write_predicate(registers, inst.extra, !bits, mask);
                }
                return inst.next();
            }
            let c = context.predicate(registers, inst.c) ^ inst.imm as u32;
            let (p, q) = match inst.aux {
                combine::AND => (bits & c, !bits & c),
                combine::OR => (bits | c, !bits | c),
                _ => (bits ^ c, !bits ^ c),
            };
            write_predicate(registers, inst.d, p, mask);
            if inst.extra != u32::MAX {
                write_predicate(registers, inst.extra, q, mask);
            }
        }
        inst.next()
    }
}

/// Compares a and b: one bit per lane.
///
/// # Safety
/// Operands were encoded with the comparison's kinds.
#[inline(always)]
pub(crate) unsafe fn compare<I: Isa, F: Comparison2>(context: &Context, inst: &Inst, registers: *mut u8) -> u32 {
    // SAFETY: by the caller; `I` is the level of the handler.
    unsafe {
        let a = context.read::<F::A>(registers, inst.a);
        let b = context.read::<F::B>(registers, inst.b);
        if <F::A as Lane>::Slot::BYTES == 256 {
            let mut wide = <u64 as Slot>::ZERO;
            for lane in 0..I::lanes() {
                let holds = F::apply(get::<F::A>(&a, lane), get::<F::B>(&b, lane));
                wide.0[lane] = u64::from(holds).wrapping_neg();
            }
            I::signs64(&wide)
        } else {
            let mut narrow = <u32 as Slot>::ZERO;
            for lane in 0..I::lanes() {
                let holds = F::apply(get::<F::A>(&a, lane), get::<F::B>(&b, lane));
                narrow.0[lane] = u32::from(holds).wrapping_neg();
            }
            I::signs32(&narrow)
        }
    }
}

/// `testp` and the like: a predicate of one source.
pub(crate) struct TestPredicate<F>(PhantomData<F>);
impl<F: Function1<D = u32>> Operation for TestPredicate<F> {
    #[inline(always)]
    unsafe fn run<I: Isa>(context: &mut Context, inst: &Inst, mask: u32, registers: *mut u8) -> *const Inst {
        // SAFETY: operands were encoded with this row's kinds.
        unsafe {
            let a = context.read::<F::A>(registers, inst.a);
            let mut d = <u32 as Slot>::ZERO;
            for lane in 0..I::lanes() {
                d.0[lane] = F::apply(get::<F::A>(&a, lane)).wrapping_neg();
            }
            write_predicate(registers, inst.d, I::signs32(&d), mask);
        }
        inst.next()
    }
}

/// `selp`: d = c ? a : b, c a predicate; `imm` is XORed to it.
pub(crate) struct Select<T>(PhantomData<T>);
impl<T: Lane> Operation for Select<T> {
    #[inline(always)]
    unsafe fn run<I: Isa>(context: &mut Context, inst: &Inst, mask: u32, registers: *mut u8) -> *const Inst {
        // SAFETY: operands were encoded with this row's kinds.
        unsafe {
            let a = context.read::<T>(registers, inst.a);
            let mut d = context.read::<T>(registers, inst.b);
            let c = context.predicate(registers, inst.c) ^ inst.imm as u32;
            T::Slot::store::<I>(&raw mut d, &a, c);
            write::<I, T>(registers, inst.d, &d, mask);
        }
        inst.next()
    }
}

/// Arithmetic with the carry flag, a predicate: read from `extra`, written to `aux`; each `u32::MAX` where not wanted.
pub(crate) struct WithCarry<F>(PhantomData<F>);
impl<F: Carry3> Operation for WithCarry<F> {
    #[inline(always)]
    unsafe fn run<I: Isa>(context: &mut Context, inst: &Inst, mask: u32, registers: *mut u8) -> *const Inst {
        // SAFETY: operands were encoded with this row's kinds.
        unsafe {
            let a = context.read::<F::A>(registers, inst.a);
            let b = context.read::<F::B>(registers, inst.b);
            let c = context.read::<F::C>(registers, inst.c);
            let carry_in = if inst.extra == u32::MAX { 0 } else { context.predicate(registers, inst.extra) };
            let mut d = <F::D as Lane>::Slot::ZERO;
            let mut carry_out = 0_u32;
            for lane in 0..I::lanes() {
                let (value, carry) = F::apply(
                    get::<F::A>(&a, lane),
                    get::<F::B>(&b, lane),
                    get::<F::C>(&c, lane),
                    carry_in.wrapping_shr(lane as u32) & 1 != 0,
                );
                set::<F::D>(&mut d, lane, value);
                carry_out |= u32::from(carry).wrapping_shl(lane as u32);
            }
            write::<I, F::D>(registers, inst.d, &d, mask);
            if inst.aux != u32::MAX {
                write_predicate(registers, inst.aux, carry_out, mask);
            }
        }
        inst.next()
    }
}

/// Logic of predicates.
pub(crate) trait PredicateLogic {
    fn apply(a: u32, b: u32) -> u32;
}

/// `and.pred` and the like; immediates come as constant predicates.
pub(crate) struct OfPredicates<F>(PhantomData<F>);
impl<F: PredicateLogic> Operation for OfPredicates<F> {
    #[inline(always)]
    unsafe fn run<I: Isa>(context: &mut Context, inst: &Inst, mask: u32, registers: *mut u8) -> *const Inst {
        // SAFETY: operands were encoded as predicates.
        unsafe {
            let a = context.predicate(registers, inst.a);
            let b = context.predicate(registers, inst.b);
            write_predicate(registers, inst.d, F::apply(a, b), mask);
        }
        inst.next()
    }
}
