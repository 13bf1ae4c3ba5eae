//! Vectors of 32 lanes: how registers look in memory, and what differs between instruction sets.
//! A 32-bit register is a [`V32`], a 64-bit one a [`V64`]; 8- and 16-bit values are zero-extended in a `V32`. A
//! predicate is one `u32` with a bit per lane. The trait [`Isa`] has the few operations that plain loops do not
//! vectorise well.

/// Lanes of a warp.
pub(crate) const LANES: usize = 32;
/// All lanes.
pub(crate) const FULL: u32 = u32::MAX;

/// The lanes of a mask, lowest first.
pub(crate) fn lanes_of(mut mask: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lane = (mask != 0).then(|| mask.trailing_zeros() as usize)?;
        mask &= mask - 1;
        Some(lane)
    })
}

/// A 32-bit register of a warp.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
pub(crate) struct V32(pub(crate) [u32; LANES]);

/// A 64-bit register of a warp.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
pub(crate) struct V64(pub(crate) [u64; LANES]);

impl V32 {
    pub(crate) const ZERO: Self = Self([0; LANES]);
}

impl V64 {
    pub(crate) const ZERO: Self = Self([0; LANES]);
}

/// A value one lane holds, and the slot it is kept in.
pub(crate) trait Lane: Copy {
    /// `u32` or `u64`: the slot's element.
    type Slot: Slot;
    /// From the slot; higher bits are ignored.
    fn from_slot(slot: Self::Slot) -> Self;
    /// To the slot, zero-extended.
    fn to_slot(self) -> Self::Slot;
}

/// Element of a register slot.
pub(crate) trait Slot: Copy {
    /// The register.
    type Vector: Copy;
    /// All lanes zero.
    const ZERO: Self::Vector;
    /// Bytes of the register.
    const BYTES: usize;
    fn get(vector: &Self::Vector, lane: usize) -> Self;
    fn set(vector: &mut Self::Vector, lane: usize, value: Self);
    /// Writes the lanes of `mask`.
    ///
    /// # Safety
    /// `target` is a register slot of this kind.
    unsafe fn store<I: Isa>(target: *mut Self::Vector, value: &Self::Vector, mask: u32);
    fn to_u64(self) -> u64;
    fn from_u64(value: u64) -> Self;
}

impl Slot for u32 {
    type Vector = V32;
    const ZERO: V32 = V32::ZERO;
    const BYTES: usize = 128;
    #[inline(always)]
    fn get(vector: &V32, lane: usize) -> Self {
        debug_assert!(lane < LANES);
        // SAFETY: callers' loops end at `Isa::lanes()`, which is LANES, or take the lane from a mask of 32 bits.
        unsafe { *vector.0.get_unchecked(lane) }
    }
    #[inline(always)]
    fn set(vector: &mut V32, lane: usize, value: Self) {
        debug_assert!(lane < LANES);
        // SAFETY: as in `get`.
        unsafe { *vector.0.get_unchecked_mut(lane) = value };
    }
    #[inline(always)]
    unsafe fn store<I: Isa>(target: *mut V32, value: &V32, mask: u32) {
        if mask == FULL {
            // SAFETY: a register slot, by the caller.
            unsafe { *target = *value };
        } else {
            // SAFETY: as above; `I` is the level this code was selected for.
            unsafe { I::blend32(target, value, mask) };
        }
    }
    #[inline(always)]
    fn to_u64(self) -> u64 {
        u64::from(self)
    }
    #[inline(always)]
    fn from_u64(value: u64) -> Self {
        value as u32
    }
}

impl Slot for u64 {
    type Vector = V64;
    const ZERO: V64 = V64::ZERO;
    const BYTES: usize = 256;
    #[inline(always)]
    fn get(vector: &V64, lane: usize) -> Self {
        debug_assert!(lane < LANES);
        // SAFETY: callers' loops end at `Isa::lanes()`, which is LANES, or take the lane from a mask of 32 bits.
        unsafe { *vector.0.get_unchecked(lane) }
    }
    #[inline(always)]
    fn set(vector: &mut V64, lane: usize, value: Self) {
        debug_assert!(lane < LANES);
        // SAFETY: as in `get`.
        unsafe { *vector.0.get_unchecked_mut(lane) = value };
    }
    #[inline(always)]
    unsafe fn store<I: Isa>(target: *mut V64, value: &V64, mask: u32) {
        if mask == FULL {
            // SAFETY: a register slot, by the caller.
            unsafe { *target = *value };
        } else {
            // SAFETY: as above; `I` is the level this code was selected for.
            unsafe { I::blend64(target, value, mask) };
        }
    }
    #[inline(always)]
    fn to_u64(self) -> u64 {
        self
    }
    #[inline(always)]
    fn from_u64(value: u64) -> Self {
        value
    }
}

macro_rules! lane {
    ($($type:ty, $slot:ty, |$from:ident| $load:expr, |$to:ident| $store:expr;)*) => {$(
        impl Lane for $type {
            type Slot = $slot;
            #[inline(always)]
            fn from_slot($from: $slot) -> Self { $load }
            #[inline(always)]
            fn to_slot(self) -> $slot { let $to = self; $store }
        }
    )*};
}

lane! {
    u8, u32, |s| s as u8, |v| u32::from(v);
    i8, u32, |s| s as i8, |v| u32::from(v as u8);
    u16, u32, |s| s as u16, |v| u32::from(v);
    i16, u32, |s| s as i16, |v| u32::from(v as u16);
    u32, u32, |s| s, |v| v;
    i32, u32, |s| s as i32, |v| v as u32;
    f32, u32, |s| f32::from_bits(s), |v| v.to_bits();
    u64, u64, |s| s, |v| v;
    i64, u64, |s| s as i64, |v| v as u64;
    f64, u64, |s| f64::from_bits(s), |v| v.to_bits();
}

/// An instruction set that handlers are compiled for.
pub(crate) trait Isa {
    /// Number of lanes, as the bound of loops over them. The baseline hides the number from the compiler: its loops stay
    /// loops, which makes that third of the handlers small and quick to compile.
    #[inline(always)]
    fn lanes() -> usize {
        LANES
    }
    /// Writes the lanes of `mask`.
    ///
    /// # Safety
    /// `target` is a 32-bit register slot; the processor has the level.
    unsafe fn blend32(target: *mut V32, value: &V32, mask: u32);
    /// Writes the lanes of `mask`.
    ///
    /// # Safety
    /// `target` is a 64-bit register slot; the processor has the level.
    unsafe fn blend64(target: *mut V64, value: &V64, mask: u32);
    /// One bit per lane: the lane's highest bit.
    ///
    /// # Safety
    /// The processor has the level.
    unsafe fn signs32(value: &V32) -> u32;
    /// One bit per lane: the lane's highest bit.
    ///
    /// # Safety
    /// The processor has the level.
    unsafe fn signs64(value: &V64) -> u32;
    /// 32 words of shared memory from `offsets + add`, if all of them are multiples of 4 and at most `limit`.
    ///
    /// # Safety
    /// `base` is readable up to `limit + 4`; the processor has the level.
    unsafe fn shared_words(base: *const u8, limit: u32, offsets: &V32, add: u32, target: &mut V32) -> bool;
}

/// Any processor.
pub(crate) struct Baseline;

impl Isa for Baseline {
    #[inline(always)]
    fn lanes() -> usize {
        std::hint::black_box(LANES)
    }
    #[inline(always)]
    unsafe fn blend32(target: *mut V32, value: &V32, mask: u32) {
        // SAFETY: a register slot, by the caller.
        let target = unsafe { &mut *target };
        for lane in 0..LANES {
            let keep = ((mask >> lane) & 1).wrapping_sub(1);
            target.0[lane] = (target.0[lane] & keep) | (value.0[lane] & !keep);
        }
    }
    #[inline(always)]
    unsafe fn blend64(target: *mut V64, value: &V64, mask: u32) {
        // SAFETY: a register slot, by the caller.
        let target = unsafe { &mut *target };
        for lane in 0..LANES {
            let keep = u64::from((mask >> lane) & 1).wrapping_sub(1);
            target.0[lane] = (target.0[lane] & keep) | (value.0[lane] & !keep);
        }
    }
    #[inline(always)]
    unsafe fn signs32(value: &V32) -> u32 {
        let mut bits = 0;
        for lane in 0..LANES {
            bits |= (value.0[lane] >> 31) << lane;
        }
        bits
    }
    #[inline(always)]
    unsafe fn signs64(value: &V64) -> u32 {
        let mut bits = 0;
        for lane in 0..LANES {
            bits |= ((value.0[lane] >> 63) as u32) << lane;
        }
        bits
    }
    #[inline(always)]
    unsafe fn shared_words(base: *const u8, limit: u32, offsets: &V32, add: u32, target: &mut V32) -> bool {
        let mut highest = 0;
        let mut low_bits = 0;
        for lane in 0..LANES {
            let offset = offsets.0[lane].wrapping_add(add);
            highest = highest.max(offset);
            low_bits |= offset;
        }
        if highest > limit || low_bits & 3 != 0 {
            return false;
        }
        for lane in 0..LANES {
            let offset = offsets.0[lane].wrapping_add(add) as usize;
            // SAFETY: at most `limit`, checked above.
            target.0[lane] = unsafe { base.add(offset).cast::<u32>().read_unaligned() };
        }
        true
    }
}

#[cfg(target_arch = "x86_64")]
pub(crate) use x86::{Avx2, Avx512};

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Isa, V32, V64};
    use core::arch::x86_64::*;

    /// AVX2 and FMA.
    pub(crate) struct Avx2;
    /// AVX-512 F, BW, DQ, VL.
    pub(crate) struct Avx512;

    const BITS8: [u32; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
    const BITS4: [u64; 4] = [1, 2, 4, 8];

    impl Isa for Avx2 {
        #[inline(always)]
        unsafe fn blend32(target: *mut V32, value: &V32, mask: u32) {
            // SAFETY: the slot holds 32 words, aligned; the level is the caller's.
            unsafe {
                let bits = _mm256_loadu_si256(BITS8.as_ptr().cast());
                let target = target.cast::<i32>();
                let value = value.0.as_ptr().cast::<__m256i>();
                for part in 0..4 {
                    let piece = _mm256_set1_epi32((mask >> (8 * part)) as i32);
                    let lanes = _mm256_cmpeq_epi32(_mm256_and_si256(piece, bits), bits);
                    _mm256_maskstore_epi32(target.add(8 * part), lanes, _mm256_load_si256(value.add(part)));
                }
            }
        }
        #[inline(always)]
        unsafe fn blend64(target: *mut V64, value: &V64, mask: u32) {
            // SAFETY: the slot holds 32 double words, aligned; the level is the caller's.
            unsafe {
                let bits = _mm256_loadu_si256(BITS4.as_ptr().cast());
                let target = target.cast::<i64>();
                let value = value.0.as_ptr().cast::<__m256i>();
                for part in 0..8 {
                    let piece = _mm256_set1_epi64x(i64::from(mask >> (4 * part)));
                    let lanes = _mm256_cmpeq_epi64(_mm256_and_si256(piece, bits), bits);
                    _mm256_maskstore_epi64(target.add(4 * part), lanes, _mm256_load_si256(value.add(part)));
                }
            }
        }
        #[inline(always)]
        unsafe fn signs32(value: &V32) -> u32 {
            // SAFETY: 32 aligned words; the level is the caller's.
            unsafe {
                let value = value.0.as_ptr().cast::<f32>();
                let mut bits = 0;
                for part in 0..4 {
                    bits |= (_mm256_movemask_ps(_mm256_load_ps(value.add(8 * part))) as u32) << (8 * part);
                }
                bits
            }
        }
        #[inline(always)]
        unsafe fn signs64(value: &V64) -> u32 {
            // SAFETY: 32 aligned double words; the level is the caller's.
            unsafe {
                let value = value.0.as_ptr().cast::<f64>();
                let mut bits = 0;
                for part in 0..8 {
                    bits |= (_mm256_movemask_pd(_mm256_load_pd(value.add(4 * part))) as u32) << (4 * part);
                }
                bits
            }
        }
        #[inline(always)]
        unsafe fn shared_words(base: *const u8, limit: u32, offsets: &V32, add: u32, target: &mut V32) -> bool {
            // SAFETY: every address is checked against `limit` before it is read; 32 words at both vectors.
            unsafe {
                let offsets = offsets.0.as_ptr().cast::<__m256i>();
                let target = target.0.as_mut_ptr().cast::<__m256i>();
                let add = _mm256_set1_epi32(add as i32);
                let top = _mm256_set1_epi32(limit as i32);
                let steps = _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28);
                for part in 0..4 {
                    let at = _mm256_add_epi32(_mm256_load_si256(offsets.add(part)), add);
                    let inside = _mm256_cmpeq_epi32(_mm256_max_epu32(at, top), top);
                    let aligned = _mm256_testz_si256(at, _mm256_set1_epi32(3));
                    if _mm256_movemask_epi8(inside) != -1 || aligned == 0 {
                        return false;
                    }
                    let first = _mm256_cvtsi256_si32(at);
                    let word = base.add(first as u32 as usize);
                    let all_first = _mm256_set1_epi32(first);
                    let row = _mm256_cmpeq_epi32(at, _mm256_add_epi32(all_first, steps));
                    let words = if _mm256_movemask_epi8(row) == -1 {
                        _mm256_loadu_si256(word.cast())
                    } else if _mm256_movemask_epi8(_mm256_cmpeq_epi32(at, all_first)) == -1 {
                        _mm256_set1_epi32(word.cast::<i32>().read_unaligned())
                    } else {
                        // Shared memory is far below 2 GiB, so the signed index of the instruction is no trap.
                        _mm256_i32gather_epi32::<1>(base.cast(), at)
                    };
                    _mm256_store_si256(target.add(part), words);
                }
            }
            true
        }
    }

    impl Isa for Avx512 {
        #[inline(always)]
        unsafe fn blend32(target: *mut V32, value: &V32, mask: u32) {
            // SAFETY: the slot holds 32 words; the level is the caller's.
            unsafe {
                let value = value.0.as_ptr().cast::<i32>();
                let target = target.cast::<i32>();
                _mm512_mask_storeu_epi32(target, mask as u16, _mm512_loadu_si512(value.cast()));
                _mm512_mask_storeu_epi32(target.add(16), (mask >> 16) as u16, _mm512_loadu_si512(value.add(16).cast()));
            }
        }
        #[inline(always)]
        unsafe fn blend64(target: *mut V64, value: &V64, mask: u32) {
            // SAFETY: the slot holds 32 double words; the level is the caller's.
            unsafe {
                let value = value.0.as_ptr().cast::<i64>();
                let target = target.cast::<i64>();
                for part in 0..4 {
                    let lanes = (mask >> (8 * part)) as u8;
                    let piece = _mm512_loadu_si512(value.add(8 * part).cast());
                    _mm512_mask_storeu_epi64(target.add(8 * part), lanes, piece);
                }
            }
        }
        #[inline(always)]
        unsafe fn signs32(value: &V32) -> u32 {
            // SAFETY: 32 words; the level is the caller's.
            unsafe {
                let value = value.0.as_ptr();
                let low = _mm512_movepi32_mask(_mm512_loadu_si512(value.cast()));
                let high = _mm512_movepi32_mask(_mm512_loadu_si512(value.add(16).cast()));
                u32::from(low) | (u32::from(high) << 16)
            }
        }
        #[inline(always)]
        unsafe fn signs64(value: &V64) -> u32 {
            // SAFETY: 32 double words; the level is the caller's.
            unsafe {
                let value = value.0.as_ptr();
                let mut bits = 0;
                for part in 0..4 {
                    let piece = _mm512_movepi64_mask(_mm512_loadu_si512(value.add(8 * part).cast()));
                    bits |= u32::from(piece) << (8 * part);
                }
                bits
            }
        }
        #[inline(always)]
        unsafe fn shared_words(base: *const u8, limit: u32, offsets: &V32, add: u32, target: &mut V32) -> bool {
            // SAFETY: every address is checked against `limit` before it is read; 32 words at both vectors.
            unsafe {
                let offsets = offsets.0.as_ptr();
                let target = target.0.as_mut_ptr();
                let add = _mm512_set1_epi32(add as i32);
                let top = _mm512_set1_epi32(limit as i32);
                let steps = _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60);
                for part in 0..2 {
                    let at = _mm512_add_epi32(_mm512_load_si512(offsets.add(16 * part).cast()), add);
                    let outside = _mm512_cmpgt_epu32_mask(at, top);
                    let misaligned = _mm512_test_epi32_mask(at, _mm512_set1_epi32(3));
                    if outside | misaligned != 0 {
                        return false;
                    }
                    let first = _mm_cvtsi128_si32(_mm512_castsi512_si128(at));
                    let word = base.add(first as u32 as usize);
                    let all_first = _mm512_set1_epi32(first);
                    let words = if _mm512_cmpneq_epi32_mask(at, _mm512_add_epi32(all_first, steps)) == 0 {
                        _mm512_loadu_si512(word.cast())
                    } else if _mm512_cmpneq_epi32_mask(at, all_first) == 0 {
                        _mm512_set1_epi32(word.cast::<i32>().read_unaligned())
                    } else {
                        _mm512_i32gather_epi32::<1>(at, base.cast())
                    };
                    _mm512_store_si512(target.add(16 * part).cast(), words);
                }
            }
            true
        }
    }
}
