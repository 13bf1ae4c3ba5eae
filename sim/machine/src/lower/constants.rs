//! The constant pool of an image: every constant operand as a register of 32 equal lanes.
//! In go values, out come operand encodings; equal constants share a slot. Nothing is ever removed.

use std::collections::HashMap;

use crate::exec::{AlignedBytes, CONSTANT, LANES};

/// Operand of the predicate that is always true.
pub(crate) const TRUE: u32 = CONSTANT;
/// Operand of the predicate that is always false.
pub(crate) const FALSE: u32 = CONSTANT | 4;

/// Most bytes of a pool: a quarter of a million constants of 64 bits.
pub(crate) const CONSTANT_LIMIT: usize = 64 << 20;

/// Bytes before the first constant: the predicates, and room for handlers that look at an operand they do not use.
const HEAD: usize = 256;

/// The pool while an image is made.
pub(crate) struct ConstantPool {
    bytes: Vec<u8>,
    narrow: HashMap<u32, u32>,
    wide: HashMap<u64, u32>,
    vectors: HashMap<[u32; LANES], u32>,
}

impl ConstantPool {
    pub(crate) fn new() -> Self {
        let mut bytes = vec![0; HEAD];
        bytes[..4].copy_from_slice(&u32::MAX.to_le_bytes());
        Self { bytes, narrow: HashMap::new(), wide: HashMap::new(), vectors: HashMap::new() }
    }

    /// A 32-bit constant.
    pub(crate) fn narrow(&mut self, value: u32) -> u32 {
        if let Some(offset) = self.narrow.get(&value) {
            return *offset;
        }
        let operand = self.append(&[value; LANES].map(u32::to_le_bytes).concat());
        self.narrow.insert(value, operand);
        operand
    }

    /// A 64-bit constant.
    pub(crate) fn wide(&mut self, value: u64) -> u32 {
        if let Some(offset) = self.wide.get(&value) {
            return *offset;
        }
        let operand = self.append(&[value; LANES].map(u64::to_le_bytes).concat());
        self.wide.insert(value, operand);
        operand
    }

    /// A 32-bit constant that differs from lane to lane.
    pub(crate) fn vector(&mut self, value: [u32; LANES]) -> u32 {
        if let Some(offset) = self.vectors.get(&value) {
            return *offset;
        }
        let operand = self.append(&value.map(u32::to_le_bytes).concat());
        self.vectors.insert(value, operand);
        operand
    }

    /// A constant of its own that is set later by `patch`.
    pub(crate) fn reserve(&mut self, wide: bool) -> u32 {
        self.append(&vec![0; if wide { 256 } else { 128 }])
    }

    /// Sets a reserved constant.
    pub(crate) fn patch(&mut self, operand: u32, wide: bool, value: u64) {
        let start = (operand & !CONSTANT) as usize;
        let size = if wide { 8 } else { 4 };
        for lane in 0..LANES {
            let at = start + lane * size;
            self.bytes[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
        }
    }

    /// Whether no constant fits any more; those asked for since are the first one, and the kernel is refused.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes.len() >= CONSTANT_LIMIT
    }

    /// Whether an operand is one of the pool.
    #[cfg(debug_assertions)]
    pub(crate) fn holds(&self, operand: u32) -> bool {
        let at = (operand & !CONSTANT) as usize;
        operand & CONSTANT != 0 && (at == 0 || operand == FALSE || (at >= HEAD && at + 128 <= self.bytes.len()))
    }

    fn append(&mut self, bytes: &[u8]) -> u32 {
        if self.is_full() {
            return CONSTANT;
        }
        let operand = CONSTANT | self.bytes.len() as u32;
        self.bytes.extend_from_slice(bytes);
        operand
    }

    /// The pool as it is run.
    pub(crate) fn finish(self) -> AlignedBytes {
        let mut aligned = AlignedBytes::zeroed(self.bytes.len());
        aligned.bytes_mut().copy_from_slice(&self.bytes);
        aligned
    }
}
