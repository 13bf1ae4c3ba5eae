//! Loads and stores: 32 addresses, one type, one space.
//! Contiguous and uniform accesses of a full warp are one check and one vector copy. All others go lane by lane, each
//! with its own check. An access never leaves what is mapped: the first lane that would ends the launch.

use std::marker::PhantomData;

use crate::exec::address::{self, AddressSpace};
use crate::exec::context::{Context, Inst, Operation};
use crate::exec::lanes::{FULL, Isa, LANES, Slot, V32, V64};

/// How memory and registers hold the same value.
pub(crate) trait Transfer {
    /// As memory has it.
    type Raw: Copy;
    /// As the register has it.
    type Slot: Slot;
    /// Bytes in memory.
    const BYTES: usize = size_of::<Self::Raw>();
    fn widen(raw: Self::Raw) -> Self::Slot;
    fn narrow(slot: Self::Slot) -> Self::Raw;
}

macro_rules! transfers {
    ($($(#[$doc:meta])* $name:ident: $raw:ty, $slot:ty, |$value:ident| $widen:expr;)*) => {$(
        $(#[$doc])*
        pub(crate) struct $name;
        impl Transfer for $name {
            type Raw = $raw;
            type Slot = $slot;
            #[inline(always)]
            fn widen($value: $raw) -> $slot { $widen }
            #[inline(always)]
            fn narrow(slot: $slot) -> $raw { slot as $raw }
        }
    )*};
}

transfers! {
    /// Zero-extended byte.
    Byte: u8, u32, |v| u32::from(v);
    /// Byte sign-extended to 16 bits.
    ByteSigned16: i8, u32, |v| u32::from(v as i16 as u16);
    /// Byte sign-extended to 32 bits.
    ByteSigned32: i8, u32, |v| v as u32;
    /// Byte in a 64-bit register.
    ByteWide: u8, u64, |v| u64::from(v);
    /// Signed byte in a 64-bit register.
    ByteSignedWide: i8, u64, |v| v as u64;
    /// Zero-extended 16 bits.
    Half: u16, u32, |v| u32::from(v);
    /// 16 bits sign-extended to 32.
    HalfSigned32: i16, u32, |v| v as u32;
    /// 16 bits in a 64-bit register.
    HalfWide: u16, u64, |v| u64::from(v);
    /// 16 signed bits in a 64-bit register.
    HalfSignedWide: i16, u64, |v| v as u64;
    /// 32 bits.
    Word: u32, u32, |v| v;
    /// 32 bits in a 64-bit register.
    WordWide: u32, u64, |v| u64::from(v);
    /// 32 signed bits in a 64-bit register.
    WordSignedWide: i32, u64, |v| v as u64;
    /// 64 bits.
    Double: u64, u64, |v| v;
}

/// Slots of a vector access's elements: d, b, c, aux.
#[inline(always)]
fn element(inst: &Inst, index: usize) -> u32 {
    match index {
        0 => inst.d,
        1 => inst.b,
        2 => inst.c,
        _ => inst.aux,
    }
}

/// Lanes whose addresses are looked at together. Half a warp: blocks of 16 by 16 threads have a row in each half.
pub(crate) const PART: usize = LANES / 2;

/// How the addresses of half a warp lie.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lie {
    /// One element after the other.
    Row,
    /// All the same.
    Same,
    Other,
}

/// A lane of the warp, by its half. Lanes are few: without a check, which would keep loops over them from being vectors.
#[inline(always)]
fn lane_of(half: usize, lane: usize) -> usize {
    (PART * half).wrapping_add(lane)
}

/// How 16 addresses lie, for elements of `stride` bytes.
#[inline(always)]
fn lie(part: &[u64; PART], stride: u64) -> Lie {
    // Read apart from the others: knowing that lane 0 agrees with itself, the compiler would take the vectors to pieces.
    // SAFETY: references are good to read.
    let (first, second) =
        unsafe { (std::ptr::from_ref(&part[0]).read_volatile(), std::ptr::from_ref(&part[1]).read_volatile()) };
    let step = second.wrapping_sub(first);
    if step != stride && step != 0 {
        return Lie::Other;
    }
    let mut difference = 0;
    for (lane, address) in part.iter().enumerate() {
        difference |= address ^ first.wrapping_add((lane as u64).wrapping_mul(step));
    }
    match difference {
        0 if step == 0 => Lie::Same,
        0 => Lie::Row,
        _ => Lie::Other,
    }
}

/// A half of the addresses.
#[inline(always)]
fn half_of(base: &V64, half: usize) -> &[u64; PART] {
    // SAFETY: a vector holds two parts.
    unsafe { &*base.0.as_ptr().add(PART * half).cast() }
}

/// Addresses of a load or store: 64 bits wide whatever the register is.
pub(crate) trait AddressWidth {
    /// Bits of an address that count when an offset was added.
    const BITS: u64;
    unsafe fn read(context: &Context, registers: *mut u8, operand: u32) -> V64;
}
/// Addresses in a 64-bit register.
pub(crate) struct Wide;
/// Addresses in a 32-bit register (shared memory).
pub(crate) struct Narrow;

impl AddressWidth for Wide {
    const BITS: u64 = u64::MAX;
    #[inline(always)]
    unsafe fn read(context: &Context, registers: *mut u8, operand: u32) -> V64 {
        // SAFETY: lowering encoded a 64-bit slot.
        unsafe { context.read::<u64>(registers, operand) }
    }
}
impl AddressWidth for Narrow {
    const BITS: u64 = 0xffff_ffff;
    #[inline(always)]
    unsafe fn read(context: &Context, registers: *mut u8, operand: u32) -> V64 {
        // SAFETY: lowering encoded a 32-bit slot.
        let narrow = unsafe { context.read::<u32>(registers, operand) };
        let mut wide = V64::ZERO;
        for lane in 0..LANES {
            wide.0[lane] = u64::from(narrow.0[lane]);
        }
        wide
    }
}

/// `ld`: N elements of T from space S; address a + imm; `extra` 1 marks volatile and ordered accesses.
pub(crate) struct Load<S, T, W, const N: usize>(PhantomData<(S, T, W)>);

impl<S: AddressSpace, T: Transfer, W: AddressWidth, const N: usize> Operation for Load<S, T, W, N> {
    #[inline(always)]
    unsafe fn run<I: Isa>(context: &mut Context, inst: &Inst, mask: u32, registers: *mut u8) -> *const Inst {
        if inst.extra != 0 {
            context.polled = true;
        }
        let bytes = (T::BYTES * N) as u64;
        // SAFETY: operands were encoded for this operation; pointers come from the checks of `address`.
        unsafe {
            let base = W::read(context, registers, inst.a);
            let mut values = [<T::Slot as Slot>::ZERO; N];
            for half in 0..2 {
                let lanes = (mask >> (PART * half)) & 0xffff;
                let part = half_of(&base, half);
                if lanes == 0xffff && load_together::<I, S, T, W, N>(context, inst, part, half, &mut values) {
                    continue;
                }
                let mut rest = lanes;
                while rest != 0 {
                    let index = rest.trailing_zeros() as usize;
                    rest &= rest - 1;
                    let lane = PART * half + index;
                    let at = part[index].wrapping_add(inst.imm as u64) & W::BITS;
                    match S::resolve(context, lane as u32, at, bytes) {
                        Ok(source) => {
                            for (index, value) in values.iter_mut().enumerate() {
                                let raw = source.add(index * T::BYTES).cast::<T::Raw>().read_volatile();
                                T::Slot::set(value, lane, T::widen(raw));
                            }
                        }
                        Err(kind) => return context.fail(inst, kind, lane as u32, at),
                    }
                }
            }
            finish::<I, T, N>(inst, &values, mask, registers);
        }
        inst.next()
    }
}

/// Loads half a warp at once, if its addresses lie so.
///
/// # Safety
/// As for the instruction.
#[inline(always)]
unsafe fn load_together<I: Isa, S: AddressSpace, T: Transfer, W: AddressWidth, const N: usize>(
    context: &Context,
    inst: &Inst,
    part: &[u64; PART],
    half: usize,
    values: &mut [<T::Slot as Slot>::Vector; N],
) -> bool {
    let bytes = T::BYTES * N;
    let first = part[0].wrapping_add(inst.imm as u64) & W::BITS;
    let lie = lie(part, bytes as u64);
    if lie == Lie::Other || !first.is_multiple_of(bytes as u64) {
        return false;
    }
    let length = if lie == Lie::Row { PART * bytes } else { bytes };
    let Some(source) = S::span(context, first, length as u64) else {
        return false;
    };
    let lanes = I::lanes() / 2;
    // SAFETY: the span was just found good for that length; lanes lie within the vectors.
    unsafe {
        for (index, value) in values.iter_mut().enumerate() {
            if lie == Lie::Same {
                let raw = T::widen(source.add(index * T::BYTES).cast::<T::Raw>().read_unaligned());
                for lane in 0..lanes {
                    T::Slot::set(value, lane_of(half, lane), raw);
                }
            } else {
                for lane in 0..lanes {
                    let at = source.add(lane.wrapping_mul(bytes).wrapping_add(index * T::BYTES));
                    T::Slot::set(value, lane_of(half, lane), T::widen(at.cast::<T::Raw>().read_unaligned()));
                }
            }
        }
    }
    true
}

/// Writes the loaded elements.
///
/// # Safety
/// Destinations were encoded for T.
#[inline(always)]
unsafe fn finish<I: Isa, T: Transfer, const N: usize>(
    inst: &Inst,
    values: &[<T::Slot as Slot>::Vector; N],
    mask: u32,
    registers: *mut u8,
) {
    for (index, value) in values.iter().enumerate() {
        let slot = element(inst, index);
        // SAFETY: by the caller.
        unsafe { T::Slot::store::<I>(registers.add(slot as usize).cast(), value, mask) };
    }
}

/// `st`: N elements of T to space S; address a + imm; elements d, b, c, aux.
pub(crate) struct Store<S, T, W, const N: usize>(PhantomData<(S, T, W)>);

impl<S: AddressSpace, T: Transfer, W: AddressWidth, const N: usize> Operation for Store<S, T, W, N> {
    #[inline(always)]
    unsafe fn run<I: Isa>(context: &mut Context, inst: &Inst, mask: u32, registers: *mut u8) -> *const Inst {
        context.spins = 0;
        let bytes = (T::BYTES * N) as u64;
        // SAFETY: operands were encoded for this operation; pointers come from the checks of `address`.
        unsafe {
            let base = W::read(context, registers, inst.a);
            for half in 0..2 {
                let lanes = (mask >> (PART * half)) & 0xffff;
                let part = half_of(&base, half);
                if lanes == 0xffff && store_together::<I, S, T, W, N>(context, inst, part, half, registers) {
                    continue;
                }
                let mut rest = lanes;
                while rest != 0 {
                    let index = rest.trailing_zeros() as usize;
                    rest &= rest - 1;
                    let lane = PART * half + index;
                    let at = part[index].wrapping_add(inst.imm as u64) & W::BITS;
                    match S::resolve_target(context, lane as u32, at, bytes) {
                        Ok(target) => {
                            for index in 0..N {
                                let value =
                                    context.operand::<<T::Slot as Slot>::Vector>(registers, element(inst, index));
                                let raw = T::narrow(T::Slot::get(&*value, lane));
                                target.add(index * T::BYTES).cast::<T::Raw>().write_volatile(raw);
                            }
                        }
                        Err(kind) => return context.fail(inst, kind, lane as u32, at),
                    }
                }
            }
        }
        inst.next()
    }
}

/// Stores half a warp at once, if its addresses lie in a row.
///
/// # Safety
/// As for the instruction.
#[inline(always)]
unsafe fn store_together<I: Isa, S: AddressSpace, T: Transfer, W: AddressWidth, const N: usize>(
    context: &Context,
    inst: &Inst,
    part: &[u64; PART],
    half: usize,
    registers: *mut u8,
) -> bool {
    let bytes = T::BYTES * N;
    let first = part[0].wrapping_add(inst.imm as u64) & W::BITS;
    if lie(part, bytes as u64) != Lie::Row || !first.is_multiple_of(bytes as u64) {
        return false;
    }
    let Some(target) = S::span(context, first, (PART * bytes) as u64) else {
        return false;
    };
    let lanes = I::lanes() / 2;
    // SAFETY: the span was just found good for that length; elements were encoded for T.
    unsafe {
        for index in 0..N {
            let value = *context.operand::<<T::Slot as Slot>::Vector>(registers, element(inst, index));
            for lane in 0..lanes {
                let at = target.add(lane.wrapping_mul(bytes).wrapping_add(index * T::BYTES));
                at.cast::<T::Raw>().write_unaligned(T::narrow(T::Slot::get(&value, lane_of(half, lane))));
            }
        }
    }
    true
}

/// `ld.shared.b32` with a 32-bit address: the access tiled kernels live on.
pub(crate) struct LoadSharedWord;

impl Operation for LoadSharedWord {
    #[inline(always)]
    unsafe fn run<I: Isa>(context: &mut Context, inst: &Inst, mask: u32, registers: *mut u8) -> *const Inst {
        if mask == FULL && context.shared_bytes >= 4 && inst.extra == 0 {
            // SAFETY: operands were encoded for this operation; the level's function checks all 32 addresses.
            unsafe {
                let offsets = context.operand::<V32>(registers, inst.a);
                let mut value = V32::ZERO;
                let limit = context.shared_bytes - 4;
                if I::shared_words(context.shared, limit, &*offsets, inst.imm as u32, &mut value) {
                    *registers.add(inst.d as usize).cast::<V32>() = value;
                    return inst.next();
                }
            }
        }
        // SAFETY: handed through.
        unsafe { Load::<address::Shared, Word, Narrow, 1>::run::<I>(context, inst, mask, registers) }
    }
}

/// `st.shared.b32` with a 32-bit address.
pub(crate) struct StoreSharedWord;

impl Operation for StoreSharedWord {
    #[inline(always)]
    unsafe fn run<I: Isa>(context: &mut Context, inst: &Inst, mask: u32, registers: *mut u8) -> *const Inst {
        if mask == FULL && context.shared_bytes >= 4 {
            // SAFETY: operands were encoded for this operation; the last address is checked, the others lie before it.
            unsafe {
                let offsets = &*context.operand::<V32>(registers, inst.a);
                let first = offsets.0[0].wrapping_add(inst.imm as u32);
                let mut difference = 0;
                for lane in 0..I::lanes() {
                    difference |= offsets.0[lane] ^ offsets.0[0].wrapping_add((lane as u32).wrapping_mul(4));
                }
                let end = u64::from(first) + 4 * LANES as u64;
                if difference == 0 && first.is_multiple_of(4) && end <= u64::from(context.shared_bytes) {
                    let value = *context.operand::<[u32; LANES]>(registers, inst.d);
                    context.shared.add(first as usize).cast::<[u32; LANES]>().write_unaligned(value);
                    context.spins = 0;
                    return inst.next();
                }
            }
        }
        // SAFETY: handed through.
        unsafe { Store::<address::Shared, Word, Narrow, 1>::run::<I>(context, inst, mask, registers) }
    }
}

/// `ld.param` of a kernel parameter at a fixed place: the same value for all lanes; the place is `imm`.
pub(crate) struct LoadParameter<T>(PhantomData<T>);

impl<T: Transfer> Operation for LoadParameter<T> {
    #[inline(always)]
    unsafe fn run<I: Isa>(context: &mut Context, inst: &Inst, mask: u32, registers: *mut u8) -> *const Inst {
        // SAFETY: lowering checked the place against the parameters' bytes, `Grid::new` the buffer's length.
        unsafe {
            let raw = context.parameters.add(inst.imm as usize).cast::<T::Raw>().read_unaligned();
            let slot = T::widen(raw);
            let mut value = <T::Slot as Slot>::ZERO;
            for lane in 0..I::lanes() {
                T::Slot::set(&mut value, lane, slot);
            }
            T::Slot::store::<I>(registers.add(inst.d as usize).cast(), &value, mask);
        }
        inst.next()
    }
}

/// `ld.param` of a function's parameter or a call's result: from words of the frame. a: the first word, imm: bit offset.
pub(crate) struct LoadWords<T>(PhantomData<T>);

impl<T: Transfer> Operation for LoadWords<T> {
    #[inline(always)]
    unsafe fn run<I: Isa>(context: &mut Context, inst: &Inst, mask: u32, registers: *mut u8) -> *const Inst {
        let _ = context;
        // SAFETY: lowering reserved the words.
        unsafe {
            let low = *registers.add(inst.a as usize).cast::<V32>();
            let mut value = <T::Slot as Slot>::ZERO;
            for lane in 0..I::lanes() {
                let mut bits = u64::from(low.0[lane]).wrapping_shr(inst.imm as u32);
                if T::BYTES == 8 {
                    bits |= u64::from((*registers.add(inst.a as usize + 128).cast::<V32>()).0[lane]) << 32;
                }
                let raw: T::Raw = std::mem::transmute_copy(&bits); // little-endian: the low bytes
                T::Slot::set(&mut value, lane, T::widen(raw));
            }
            T::Slot::store::<I>(registers.add(inst.d as usize).cast(), &value, mask);
        }
        inst.next()
    }
}

/// `st.param`: to words of the frame. d: the first word, a: the value, imm: bit offset.
pub(crate) struct StoreWords<T>(PhantomData<T>);

impl<T: Transfer> Operation for StoreWords<T> {
    #[inline(always)]
    unsafe fn run<I: Isa>(context: &mut Context, inst: &Inst, mask: u32, registers: *mut u8) -> *const Inst {
        // SAFETY: lowering reserved the words.
        unsafe {
            let source = *context.operand::<<T::Slot as Slot>::Vector>(registers, inst.a);
            let target = registers.add(inst.d as usize).cast::<V32>();
            let mut low = *target;
            let mut high = V32::ZERO;
            let bits = if T::BYTES >= 4 { u32::MAX } else { (1_u32 << (8 * T::BYTES)) - 1 };
            for lane in 0..I::lanes() {
                let value = T::Slot::get(&source, lane).to_u64();
                let kept = low.0[lane] & !bits.wrapping_shl(inst.imm as u32);
                low.0[lane] = kept | (value as u32 & bits).wrapping_shl(inst.imm as u32);
                high.0[lane] = (value >> 32) as u32;
            }
            u32::store::<I>(target, &low, mask);
            if T::BYTES == 8 {
                u32::store::<I>(target.add(1), &high, mask);
            }
        }
        inst.next()
    }
}
