//! Hashes that show whether two pieces of memory differ, the same on a GPU and here.
//! In: bytes, a key that nobody knows who chose the bytes. Out: 128 bits for each unit.
//! It compares nothing, and is no hash for names: who knows the key finds bytes that agree.
//!
//! A unit's 32-bit words are the coefficients of a polynomial, which is evaluated at two secret points modulo 2^61 - 1. Two
//! units that differ agree at a random point with a chance below 16,384 / 2^61, so at both with one below 2^-93.

use floe_abi::{CudaError, CudaResult};

/// Bytes of a unit.
pub const HASH_UNIT: u64 = 64 << 10;
/// 2^61 - 1.
const MODULUS: u64 = (1 << 61) - 1;
/// Bytes of a word.
const WORD: usize = 4;

/// The two points at which polynomials are evaluated.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct HashKey([u64; 2]);

impl std::fmt::Debug for HashKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HashKey(..)")
    }
}

/// The hash of a unit: the values at both points, as bytes, so that a list of hashes is what is sent of it.
pub type UnitHash = [u8; UNIT_HASH_BYTES];
/// Bytes of a hash.
pub const UNIT_HASH_BYTES: usize = 16;

impl HashKey {
    /// From random bits.
    #[must_use]
    pub fn of(random: [u64; 2]) -> Self {
        // Neither 0 nor 1: a polynomial says little there.
        Self(random.map(|bits| 2 + bits % (MODULUS - 2)))
    }

    /// Points that were carried over; `None`: nobody's.
    #[must_use]
    pub fn of_points(points: [u64; 2]) -> Option<Self> {
        points.iter().all(|point| (2..MODULUS).contains(point)).then_some(Self(points))
    }

    /// The points, for who has them carried over.
    #[must_use]
    pub fn points(self) -> [u64; 2] {
        self.0
    }

    /// The powers of both points that the kernel works with, as it takes them.
    fn powers(self) -> Vec<u8> {
        let all = self.0.into_iter().flat_map(|point| POWERS.map(|exponent| power(point, exponent)));
        all.flat_map(u64::to_le_bytes).collect()
    }

    /// The hash of a unit, or of what a range has behind its last whole one. Only whole words count.
    #[must_use]
    pub fn hash(self, unit: &[u8]) -> UnitHash {
        let powers = self.0.map(|point| std::array::from_fn(|index| power(point, (TOGETHER - index) as u64)));
        let (together, rest) = unit.as_chunks::<{ TOGETHER * WORD }>();
        let mut sums = [0; 2];
        for words in together {
            sums = [after(sums[0], words, &powers[0]), after(sums[1], words, &powers[1])];
        }
        for word in rest.as_chunks::<WORD>().0 {
            let word = u64::from(u32::from_le_bytes(*word));
            sums = [times(sums[0] + word, self.0[0]), times(sums[1] + word, self.0[1])];
        }
        let mut hash = [0; UNIT_HASH_BYTES];
        hash[..8].copy_from_slice(&sums[0].to_le_bytes());
        hash[8..].copy_from_slice(&sums[1].to_le_bytes());
        hash
    }

    /// The hashes of bytes, unit by unit.
    pub fn hashes(self, bytes: &[u8]) -> impl Iterator<Item = UnitHash> {
        const UNIT: usize = 64 << 10;
        bytes.chunks(UNIT).map(move |unit| self.hash(unit))
    }
}

/// The exponents of `HashKey::powers`, in the order that the kernel has: of seven of the eight words that a thread reads at
/// a time, of its sum so far, and of what joins threads.
const POWERS: [u64; 13] = [131, 130, 129, 128, 3, 2, 1, 256, 4, 8, 16, 32, 64];

/// Words that are evaluated together: one reduction serves all, and their products wait for no other.
const TOGETHER: usize = 8;

/// The sum after some more words, by the powers of the point from that of their number down to the first.
fn after(sum: u64, words: &[u8; TOGETHER * WORD], powers: &[u64; TOGETHER]) -> u64 {
    let mut products = u128::from(sum) * u128::from(powers[0]);
    for (word, power) in words.as_chunks::<WORD>().0.iter().zip(powers) {
        products += u128::from(u32::from_le_bytes(*word)) * u128::from(*power);
    }
    reduced(products)
}

/// A product modulo 2^61 - 1, of a factor below 2^62 and a reduced one.
fn times(one: u64, other: u64) -> u64 {
    reduced(u128::from(one) * u128::from(other))
}

/// A sum below 2^123, modulo 2^61 - 1.
fn reduced(sum: u128) -> u64 {
    #[allow(clippy::cast_possible_truncation, reason = "both parts are below 2^62")]
    let (low, high) = ((sum as u64) & MODULUS, (sum >> 61) as u64);
    let sum = low + high;
    let once = (sum & MODULUS) + (sum >> 61);
    if once >= MODULUS { once - MODULUS } else { once }
}

fn power(point: u64, exponent: u64) -> u64 {
    (0..exponent).fold(1, |product, _| times(product, point))
}

/// The text of the kernel that hashes units.
pub const HASH_KERNEL: &str = include_str!("gpu/hash/hash.ptx");
/// Units of a block of threads: one for each warp.
const BLOCK_UNITS: u64 = 8;

/// Grid, block and parameters by which the kernel hashes `units` units at `at` and writes their hashes to `hashes`.
///
/// # Errors
/// INVALID_VALUE for more than a grid has.
pub fn hash_grid(at: u64, units: u64, hashes: u64, key: HashKey) -> CudaResult<([u32; 3], [u32; 3], Vec<u8>)> {
    let blocks = i32::try_from(units.div_ceil(BLOCK_UNITS)).map_err(|_| CudaError::INVALID_VALUE)?;
    let mut parameters = [at, units, hashes].map(u64::to_le_bytes).concat();
    parameters.extend(key.powers());
    Ok(([blocks.unsigned_abs(), 1, 1], [32 * 8, 1, 1], parameters))
}

/// The number of whole units; INVALID_VALUE where the range is none.
pub(crate) fn whole_units(bytes: u64) -> CudaResult<u64> {
    if bytes.is_multiple_of(HASH_UNIT) { Ok(bytes / HASH_UNIT) } else { Err(CudaError::INVALID_VALUE) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;

    fn words(hash: UnitHash) -> [u64; 2] {
        let both = u128::from_le_bytes(hash);
        [both, both >> 64].map(|bits| u64::try_from(bits & u128::from(u64::MAX)).unwrap())
    }

    #[test]
    fn golden_values_are_those_of_the_kernel() {
        let key = HashKey::of([0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210]);
        for (seed, golden) in GOLDEN {
            assert_eq!(words(key.hash(&unit(seed))), golden, "{seed:#x}");
        }
    }

    include!("hash/golden.rs");

    #[test]
    fn one_bit_anywhere_and_two_words_exchanged_show() {
        let key = HashKey::of([3, 5]);
        let mut bytes = unit(1);
        let before = key.hash(&bytes);
        for at in [0, 1, 4095, 65_535] {
            bytes[at] ^= 0x10;
            assert_ne!(key.hash(&bytes), before, "{at}");
            bytes[at] ^= 0x10;
        }
        bytes.swap(4, 8);
        assert_ne!(key.hash(&bytes), before);
        bytes.swap(4, 8);
        assert_eq!(key.hash(&bytes), before);
    }

    #[test]
    fn words_at_the_edges_of_the_field_are_told_apart() {
        let key = HashKey::of([u64::MAX, 0]);
        let [ones, zeros] = [[0xff; 65_536], [0; 65_536]].map(|bytes| key.hash(&bytes));
        assert_ne!(ones, zeros);
        assert_eq!(words(zeros), [0, 0]);
        assert!(words(ones).iter().all(|half| *half < MODULUS));
    }
}
