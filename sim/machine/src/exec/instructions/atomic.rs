//! Atomic read-modify-write: `atom` and `red` of 16, 32 and 64 bits on every space, with the host's atomics.
//! Lanes go one after the other in lane order; every scope is the whole system. The arithmetic of an update is in
//! `scalar::atomic`; a float sum is a compare-and-swap loop.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

use crate::exec::address::{AddressSpace, Generic, Global, Shared, SpaceKind, Span};
use crate::exec::context::{Context, Inst, Operation};
use crate::exec::lanes::{Isa, Slot, V64};

/// A word that the host updates atomically.
pub(crate) trait Word: Copy + Eq {
    /// The kind of register slot that holds it.
    type Slot: Slot;
    fn from_slot(slot: Self::Slot) -> Self;
    fn to_slot(self) -> Self::Slot;
    /// Replaces the word by `update` of it and returns what was there.
    ///
    /// # Safety
    /// The pointer is aligned and valid for reads and writes.
    unsafe fn update(pointer: *mut u8, update: impl FnMut(Self) -> Self) -> Self;
}

macro_rules! word {
    ($($type:ty, $atomic:ty, $slot:ty;)*) => {$(
        impl Word for $type {
            type Slot = $slot;
            #[inline(always)]
            fn from_slot(slot: $slot) -> Self { slot as $type }
            #[inline(always)]
            fn to_slot(self) -> $slot { self as $slot }
            #[inline(always)]
            unsafe fn update(pointer: *mut u8, mut update: impl FnMut(Self) -> Self) -> Self {
                // SAFETY: aligned and valid by the caller; device memory is only shared by raw accesses and atomics.
                let word = unsafe { <$atomic>::from_ptr(pointer.cast()) };
                let mut old = word.load(Ordering::Relaxed);
                loop {
                    match word.compare_exchange_weak(old, update(old), Ordering::AcqRel, Ordering::Relaxed) {
                        Ok(old) => return old,
                        Err(seen) => old = seen,
                    }
                }
            }
        }
    )*};
}
word! {
    u16, AtomicU16, u32;
    u32, AtomicU32, u32;
    u64, AtomicU64, u64;
}

/// Updates a word of a span; one that is not of it, or misaligned, stays.
pub(crate) fn update_in<W: Word>(span: &Span<'_>, at: usize, update: impl FnMut(W) -> W) {
    if let Some(place) = span.place(at, size_of::<W>()) {
        // SAFETY: the place is aligned and of the span, whose bytes were found good for reads and writes.
        unsafe { W::update(place, update) };
    }
}

/// The result of an atomic instruction from the old value and its operands (c only for `cas`).
pub(crate) trait Update {
    type Word: Word;
    fn apply(old: Self::Word, b: Self::Word, c: Self::Word) -> Self::Word;
}

/// `atom`, `red`: d (`u32::MAX`: none), address a (64 bits) + imm, operands b and c; `extra` is 1 for `red`.
pub(crate) struct Atomic<S, U>(PhantomData<(S, U)>);

impl<S: AddressSpace, U: Update> Operation for Atomic<S, U> {
    #[inline(always)]
    unsafe fn run<I: Isa>(context: &mut Context, inst: &Inst, mask: u32, registers: *mut u8) -> *const Inst {
        type Vector<U> = <<<U as Update>::Word as Word>::Slot as Slot>::Vector;
        if inst.extra == 0 {
            context.polled = true;
        }
        // SAFETY: operands were encoded with the word's kinds; pointers come from the space's check.
        unsafe {
            let base = &*context.operand::<V64>(registers, inst.a);
            let b = context.operand::<Vector<U>>(registers, inst.b);
            let c = context.operand::<Vector<U>>(registers, inst.c);
            let mut d = <<U::Word as Word>::Slot as Slot>::ZERO;
            let mut rest = mask;
            while rest != 0 {
                let lane = rest.trailing_zeros();
                rest &= rest - 1;
                let index = lane as usize;
                let at = S::sum(base.0[index], inst.imm);
                let pointer = match S::resolve_target(context, lane, at, size_of::<U::Word>() as u64) {
                    Ok(pointer) => pointer,
                    Err(kind) => return context.fail(inst, kind, lane, at),
                };
                let b = U::Word::from_slot(<U::Word as Word>::Slot::get(&*b, index));
                let c = U::Word::from_slot(<U::Word as Word>::Slot::get(&*c, index));
                let old = U::Word::update(
                    pointer,
                    #[inline(always)]
                    |old| U::apply(old, b, c),
                );
                <U::Word as Word>::Slot::set(&mut d, index, old.to_slot());
            }
            if inst.d != u32::MAX {
                <U::Word as Word>::Slot::store::<I>(registers.add(inst.d as usize).cast(), &d, mask);
            }
        }
        inst.next()
    }
}

macro_rules! updates {
    ($rows:ident; $($name:literal, $word:ty, |$old:ident, $b:ident, $c:ident| $value:expr;)*) => {$({
        struct U;
        impl Update for U {
            type Word = $word;
            #[inline(always)]
            fn apply($old: $word, $b: $word, $c: $word) -> $word {
                let _ = ($b, $c);
                $value
            }
        }
        $rows.push(AtomicRow {
            name: $name,
            handlers: [
                crate::exec::context::handlers::<Atomic<Global, U>>(),
                crate::exec::context::handlers::<Atomic<Shared, U>>(),
                crate::exec::context::handlers::<Atomic<Generic, U>>(),
            ],
        });
    })*};
}

/// An atomic operation of a type, as `add.u32`.
pub(crate) struct AtomicRow {
    pub(crate) name: &'static str,
    handlers: [crate::exec::context::Handlers; 3],
}

impl AtomicRow {
    /// Handlers for a space; `None` for those without atomics.
    pub(crate) fn handlers(&self, space: SpaceKind) -> Option<crate::exec::context::Handlers> {
        match space {
            SpaceKind::Global => Some(self.handlers[0]),
            SpaceKind::Shared => Some(self.handlers[1]),
            SpaceKind::Generic => Some(self.handlers[2]),
            SpaceKind::Local | SpaceKind::Parameter => None,
        }
    }
}

/// The row of an operation, such as `add.u32` or `add.noftz.f16x2`.
pub(crate) fn find(name: &str) -> Option<&'static AtomicRow> {
    static ROWS: std::sync::OnceLock<Vec<AtomicRow>> = std::sync::OnceLock::new();
    ROWS.get_or_init(rows).iter().find(|row| row.name == name)
}

fn rows() -> Vec<AtomicRow> {
    use crate::scalar::atomic;
    use crate::scalar::{Bf16, F16};
    let mut rows = Vec::new();
    updates! { rows;
        "and.b32", u32, |old, b, c| old & b;
        "or.b32", u32, |old, b, c| old | b;
        "xor.b32", u32, |old, b, c| old ^ b;
        "and.b64", u64, |old, b, c| old & b;
        "or.b64", u64, |old, b, c| old | b;
        "xor.b64", u64, |old, b, c| old ^ b;
        "exch.b32", u32, |old, b, c| { let _ = old; b };
        "exch.b64", u64, |old, b, c| { let _ = old; b };
        "cas.b16", u16, |old, b, c| atomic::cas(old, b, c);
        "cas.b32", u32, |old, b, c| atomic::cas(old, b, c);
        "cas.b64", u64, |old, b, c| atomic::cas(old, b, c);
        "add.u32", u32, |old, b, c| old.wrapping_add(b);
        "add.s32", u32, |old, b, c| old.wrapping_add(b);
        "add.u64", u64, |old, b, c| old.wrapping_add(b);
        "add.s64", u64, |old, b, c| old.wrapping_add(b);
        "inc.u32", u32, |old, b, c| atomic::inc(old, b);
        "dec.u32", u32, |old, b, c| atomic::dec(old, b);
        "min.u32", u32, |old, b, c| old.min(b);
        "max.u32", u32, |old, b, c| old.max(b);
        "min.s32", u32, |old, b, c| (old as i32).min(b as i32) as u32;
        "max.s32", u32, |old, b, c| (old as i32).max(b as i32) as u32;
        "min.u64", u64, |old, b, c| old.min(b);
        "max.u64", u64, |old, b, c| old.max(b);
        "min.s64", u64, |old, b, c| (old as i64).min(b as i64) as u64;
        "max.s64", u64, |old, b, c| (old as i64).max(b as i64) as u64;
        "add.f32", u32, |old, b, c| atomic::add_f32::<false>(f32::from_bits(old), f32::from_bits(b)).to_bits();
        "add.ftz.f32", u32, |old, b, c| atomic::add_f32::<true>(f32::from_bits(old), f32::from_bits(b)).to_bits();
        "add.f64", u64, |old, b, c| atomic::add_f64(f64::from_bits(old), f64::from_bits(b)).to_bits();
        "add.noftz.f16", u16, |old, b, c| atomic::add_half::<F16>(old, b);
        "add.noftz.bf16", u16, |old, b, c| atomic::add_half::<Bf16>(old, b);
        "add.noftz.f16x2", u32, |old, b, c| atomic::add_half2::<F16>(old, b);
        "add.noftz.bf16x2", u32, |old, b, c| atomic::add_half2::<Bf16>(old, b);
        "min.noftz.f16", u16, |old, b, c| atomic::min_half::<F16>(old, b);
        "max.noftz.f16", u16, |old, b, c| atomic::max_half::<F16>(old, b);
        "min.noftz.bf16", u16, |old, b, c| atomic::min_half::<Bf16>(old, b);
        "max.noftz.bf16", u16, |old, b, c| atomic::max_half::<Bf16>(old, b);
        "min.noftz.f16x2", u32, |old, b, c| atomic::min_half2::<F16>(old, b);
        "max.noftz.f16x2", u32, |old, b, c| atomic::max_half2::<F16>(old, b);
        "min.noftz.bf16x2", u32, |old, b, c| atomic::min_half2::<Bf16>(old, b);
        "max.noftz.bf16x2", u32, |old, b, c| atomic::max_half2::<Bf16>(old, b);
    }
    rows
}
