//! The numbers that a program is made of.
//! In: a seed. Out: the same numbers on every machine. It never asks a clock or the system.

/// A SplitMix64 generator.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// One of `0..bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).expect("a usize has at most 64 bits");
        usize::try_from(self.number() % bound).expect("it is below a usize")
    }

    /// One of `low..=high`.
    pub(crate) fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low + 1)
    }

    /// The low half of a number.
    pub(crate) fn word(&mut self) -> u32 {
        (self.number() & u64::from(u32::MAX)).try_into().expect("it has 32 bits")
    }

    /// True once in `times`.
    pub(crate) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// One of them; `None` when there are none.
    pub(crate) fn choose<T: Clone>(&mut self, from: &[T]) -> Option<T> {
        (!from.is_empty()).then(|| from[self.below(from.len())].clone())
    }

    /// So many bytes.
    pub(crate) fn bytes(seed: u64, count: usize) -> Vec<u8> {
        let mut random = Self::new(seed);
        let mut bytes = Vec::with_capacity(count + 8);
        while bytes.len() < count {
            bytes.extend(random.number().to_le_bytes());
        }
        bytes.truncate(count);
        bytes
    }
}
