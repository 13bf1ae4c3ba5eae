//! `mbarrier`: barriers that are words of shared memory, with counts of threads and of bytes that are still to come.
//! Addresses and counts come from registers; the word changes, and a state or a predicate goes out. Waiting never blocks
//! here: a test answers at once, and a loop around it lets others run.

use std::marker::PhantomData;

use super::atomic::Word as _;
use crate::exec::address::shared_place;
use crate::exec::context::{Context, Inst, Operation, write, write_predicate};
use crate::exec::lanes::{Isa, V64, lanes_of};
use crate::fault::FaultKind;

/// Bits of a count of arrivals; the ISA's limit is 2^20 - 1.
const COUNT_BITS: u32 = 20;
/// Most arrivals, and most bytes of transactions either way.
const COUNT_LIMIT: u32 = (1 << COUNT_BITS) - 1;

/// What the opaque word means here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Barrier {
    /// Arrivals that the current phase still waits for.
    pending: u32,
    /// Arrivals of the next phase.
    expected: u32,
    /// Bytes that are still to come, negative where they came before they were announced.
    bytes: i32,
    /// Parity of the current phase.
    parity: bool,
}

impl Barrier {
    const PARITY: u32 = 3 * COUNT_BITS + 1;

    fn from_word(word: u64) -> Self {
        let count = |shift: u32| (word >> shift) as u32 & COUNT_LIMIT;
        // One bit more: the count of bytes has a sign.
        let bytes = (word >> (2 * COUNT_BITS) << (63 - COUNT_BITS)).cast_signed() >> (63 - COUNT_BITS);
        let parity = word >> Self::PARITY & 1 != 0;
        Self { pending: count(0), expected: count(COUNT_BITS), bytes: bytes as i32, parity }
    }

    fn to_word(self) -> u64 {
        let bytes = u64::from(self.bytes.cast_unsigned() & (2 * COUNT_LIMIT + 1));
        u64::from(self.pending)
            | u64::from(self.expected) << COUNT_BITS
            | bytes << (2 * COUNT_BITS)
            | u64::from(self.parity) << Self::PARITY
    }

    fn new(count: u32) -> Option<Self> {
        let good = (1..=COUNT_LIMIT).contains(&count);
        good.then_some(Self { pending: count, expected: count, bytes: 0, parity: false })
    }

    /// Announces bytes; a negative number of them has come.
    fn expect(mut self, bytes: i64) -> Option<Self> {
        let sum = i64::from(self.bytes) + bytes;
        self.bytes = i32::try_from(sum).ok().filter(|sum| sum.unsigned_abs() <= COUNT_LIMIT)?;
        Some(self)
    }

    fn arrive(mut self, count: u32) -> Option<Self> {
        self.pending = self.pending.checked_sub(count).filter(|_| count > 0)?;
        Some(self)
    }

    /// Later phases wait for fewer arrivals.
    fn withdraw(mut self, count: u32) -> Option<Self> {
        self.expected = self.expected.checked_sub(count)?;
        Some(self)
    }

    /// Whether nobody and nothing is awaited any more.
    fn is_complete(self) -> bool {
        self.pending == 0 && self.bytes == 0
    }

    /// The next phase, if this one is complete.
    fn settle(self) -> Self {
        if !self.is_complete() {
            return self;
        }
        Self { pending: self.expected, parity: !self.parity, ..self }
    }
}

/// A change of a barrier by its two operands; `None` where the ISA leaves the outcome undefined.
pub(crate) trait Change {
    fn apply(word: u64, first: u32, second: u32) -> Option<u64>;
}

macro_rules! changes {
    ($($(#[$doc:meta])* $name:ident: |$barrier:ident, $first:ident, $second:ident| $value:expr;)*) => {$(
        $(#[$doc])*
        pub(crate) struct $name;
        impl Change for $name {
            fn apply(word: u64, $first: u32, $second: u32) -> Option<u64> {
                let $barrier = Barrier::from_word(word);
                let _ = ($barrier, $first, $second);
                $value.map(Barrier::to_word)
            }
        }
    )*};
}
changes! {
    /// `init`: the first operand is the number of arrivals.
    Initialise: |barrier, count, unused| Barrier::new(count);
    /// `inval`: a barrier that nobody can arrive at.
    Invalidate: |barrier, unused, also_unused| Some(Barrier { pending: 0, expected: 0, bytes: 0, parity: false });
    /// `arrive`: of `count` threads, after announcing bytes.
    Arrive: |barrier, count, bytes| barrier.expect(i64::from(bytes))?.arrive(count).map(Barrier::settle);
    /// `arrive.noComplete`: must not be the last arrival.
    ArriveOnly: |barrier, count, unused| barrier.arrive(count).filter(|barrier| !barrier.is_complete());
    /// `arrive_drop`.
    Withdraw: |barrier, count, bytes| {
        barrier.expect(i64::from(bytes))?.withdraw(count)?.arrive(count).map(Barrier::settle)
    };
    /// `arrive_drop.noComplete`.
    WithdrawOnly: |barrier, count, unused| barrier.withdraw(count)?.arrive(count).filter(|barrier| !barrier.is_complete());
    /// `cp.async.mbarrier.arrive`: one arrival more, which is there at once since the copies are.
    ArriveMore: |barrier, unused, also_unused| Some(barrier).filter(|barrier| barrier.pending > 0);
    /// `expect_tx`: the bytes may have come before, and the last arrival as well.
    Expect: |barrier, bytes, unused| barrier.expect(i64::from(bytes)).map(Barrier::settle);
    /// `complete_tx`.
    Complete: |barrier, bytes, unused| barrier.expect(-i64::from(bytes)).map(Barrier::settle);
}

/// Reports bytes that have come to the barrier at an address of shared memory.
pub(crate) fn complete_bytes(context: &Context, address: u64, bytes: u32) -> Result<(), (FaultKind, u64)> {
    let place = shared_place(context, 0, false, address, 0, 8)?;
    let mut defined = true;
    let change = |old| {
        let new = Complete::apply(old, bytes, 0);
        defined = new.is_some();
        new.unwrap_or(old)
    };
    // SAFETY: the place was just found good for 8 bytes, and aligned to them.
    unsafe { u64::update(place, change) };
    if defined { Ok(()) } else { Err((FaultKind::IllegalInstruction, address)) }
}

/// A change: the state before it to d (`u32::MAX`: none), address a (64 bits) + imm, operands b and c; `extra` is 1 where
/// addresses are generic. An undefined one is an illegal instruction.
pub(crate) struct ChangeBarrier<C>(PhantomData<C>);

impl<C: Change> Operation for ChangeBarrier<C> {
    #[inline(always)]
    unsafe fn run<I: Isa>(context: &mut Context, inst: &Inst, mask: u32, registers: *mut u8) -> *const Inst {
        context.spins = 0;
        // SAFETY: lowering encoded the operands of this form.
        match unsafe { change::<C>(context, inst, mask, registers) } {
            Ok(states) => {
                if inst.d != u32::MAX {
                    // SAFETY: as above.
                    unsafe { write::<I, u64>(registers, inst.d, &states, mask) };
                }
                inst.next()
            }
            Err((lane, kind, address)) => context.fail(inst, kind, lane as u32, address),
        }
    }
}

/// # Safety
/// `a` was encoded as a 64-bit slot, `b` and `c` as 32-bit ones.
#[inline(never)]
unsafe fn change<C: Change>(
    context: &Context,
    inst: &Inst,
    mask: u32,
    registers: *mut u8,
) -> Result<V64, (usize, FaultKind, u64)> {
    // SAFETY: by the caller.
    let (addresses, first, second) = unsafe {
        let addresses = context.read::<u64>(registers, inst.a);
        (addresses, context.read::<u32>(registers, inst.b), context.read::<u32>(registers, inst.c))
    };
    let mut states = V64::ZERO;
    for lane in lanes_of(mask) {
        let place = shared_place(context, lane as u32, inst.extra != 0, addresses.0[lane], inst.imm, 8);
        let place = place.map_err(|(kind, address)| (lane, kind, address))?;
        let mut defined = true;
        let change = |old| {
            let new = C::apply(old, first.0[lane], second.0[lane]);
            defined = new.is_some();
            new.unwrap_or(old)
        };
        // SAFETY: the place was just found good for 8 bytes, and aligned to them.
        states.0[lane] = unsafe { u64::update(place, change) };
        if !defined {
            return Err((lane, FaultKind::IllegalInstruction, addresses.0[lane]));
        }
    }
    Ok(states)
}

/// `test_wait` and `try_wait`: whether the phase of a state (b, 64 bits) or of a parity (b, 32 bits; `aux` is 1) is over,
/// to the predicate d. The address is as in [`ChangeBarrier`].
pub(crate) struct TestBarrier;

impl Operation for TestBarrier {
    #[inline(always)]
    unsafe fn run<I: Isa>(context: &mut Context, inst: &Inst, mask: u32, registers: *mut u8) -> *const Inst {
        context.polled = true;
        // SAFETY: lowering encoded the operands of this form.
        match unsafe { test(context, inst, mask, registers) } {
            Ok(over) => {
                // SAFETY: as above.
                unsafe { write_predicate(registers, inst.d, over, mask) };
                inst.next()
            }
            Err((lane, kind, address)) => context.fail(inst, kind, lane as u32, address),
        }
    }
}

/// # Safety
/// `a` was encoded as a 64-bit slot, `b` as `aux` says.
#[inline(never)]
unsafe fn test(context: &Context, inst: &Inst, mask: u32, registers: *mut u8) -> Result<u32, (usize, FaultKind, u64)> {
    // SAFETY: by the caller.
    let addresses = unsafe { context.read::<u64>(registers, inst.a) };
    let mut over = 0;
    for lane in lanes_of(mask) {
        let place = shared_place(context, lane as u32, inst.extra != 0, addresses.0[lane], inst.imm, 8);
        let place = place.map_err(|(kind, address)| (lane, kind, address))?;
        // SAFETY: the place was just found good for 8 bytes, and aligned to them; `b` by the caller.
        let (now, asked) = unsafe {
            let now = Barrier::from_word(u64::update(place, |old| old)).parity;
            let asked = if inst.aux != 0 {
                context.read::<u32>(registers, inst.b).0[lane] & 1 != 0
            } else {
                Barrier::from_word(context.read::<u64>(registers, inst.b).0[lane]).parity
            };
            (now, asked)
        };
        over |= u32::from(now != asked) << lane;
    }
    Ok(over)
}

/// `pending_count`: the pending arrivals of a state a, to d.
pub(crate) struct PendingCount;

impl Operation for PendingCount {
    #[inline(always)]
    unsafe fn run<I: Isa>(context: &mut Context, inst: &Inst, mask: u32, registers: *mut u8) -> *const Inst {
        // SAFETY: a 64-bit source and a 32-bit destination were encoded.
        unsafe {
            let states = context.read::<u64>(registers, inst.a);
            let counts = states.0.map(|state| Barrier::from_word(state).pending);
            write::<I, u32>(registers, inst.d, &crate::exec::lanes::V32(counts), mask);
        }
        inst.next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_keeps_every_count_at_its_limits() {
        for bytes in [0, 1, -1, COUNT_LIMIT as i32, -(COUNT_LIMIT as i32)] {
            for (pending, expected, parity) in [(0, COUNT_LIMIT, true), (COUNT_LIMIT, 1, false), (7, 9, true)] {
                let barrier = Barrier { pending, expected, bytes, parity };
                assert_eq!(Barrier::from_word(barrier.to_word()), barrier);
            }
        }
    }

    #[test]
    fn a_phase_ends_with_the_last_arrival_and_the_last_byte() {
        let word = Initialise::apply(u64::MAX, 2, 0).expect("a barrier");
        let word = Arrive::apply(word, 1, 64).expect("an arrival");
        let word = Arrive::apply(word, 1, 0).expect("an arrival");
        assert!(!Barrier::from_word(word).parity, "bytes are missing");
        let word = Complete::apply(word, 64, 0).expect("bytes");
        assert_eq!(Barrier::from_word(word), Barrier { pending: 2, expected: 2, bytes: 0, parity: true });
    }

    #[test]
    fn a_phase_ends_with_an_announcement_behind_the_last_byte_and_the_last_arrival() {
        let word = Initialise::apply(u64::MAX, 1, 0).expect("a barrier");
        let word = Complete::apply(word, 64, 0).expect("bytes");
        let word = Arrive::apply(word, 1, 0).expect("an arrival");
        assert!(!Barrier::from_word(word).parity, "an announcement is missing");
        let word = Expect::apply(word, 64, 0).expect("an announcement");
        assert_eq!(Barrier::from_word(word), Barrier { pending: 1, expected: 1, bytes: 0, parity: true });
    }

    #[test]
    fn counts_beyond_their_limits_are_undefined() {
        assert_eq!(Initialise::apply(0, 0, 0), None);
        assert_eq!(Initialise::apply(0, COUNT_LIMIT + 1, 0), None);
        let word = Initialise::apply(0, 1, 0).expect("a barrier");
        assert_eq!(Arrive::apply(word, 2, 0), None);
        assert_eq!(Arrive::apply(word, 0, 0), None);
        assert_eq!(ArriveOnly::apply(word, 1, 0), None);
        assert_eq!(Expect::apply(word, COUNT_LIMIT + 1, 0), None);
        assert_eq!(Complete::apply(word, u32::MAX, 0), None);
        assert_eq!(Arrive::apply(Invalidate::apply(word, 0, 0).expect("a word"), 1, 0), None);
    }
}
