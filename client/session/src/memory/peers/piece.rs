//! A block as it is mapped, named so that any vGPU can find it. It is data: nothing here is sent.

use std::ops::Range;

use super::ticket::Exporter;
use crate::memory::blocks::Whole;

/// One block as it is mapped, or the part of the program's address space that it fills.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) at: u64,
    pub(crate) bytes: u64,
    /// The ordinal of the vGPU that has made or imported it.
    pub(crate) owner: u8,
    /// Its id there.
    pub(crate) block: u64,
    /// Where the owner has it from, if it is another program's.
    pub(crate) origin: Option<(Exporter, u64)>,
}

impl Piece {
    pub(super) fn of(owner: u8, whole: Whole) -> Self {
        Self { at: whole.at, bytes: whole.bytes, owner, block: whole.block, origin: None }
    }

    pub(super) fn range(&self) -> Range<u64> {
        self.at..self.at + self.bytes
    }
}
