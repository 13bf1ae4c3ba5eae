//! Blocks that the last start of a program made at its beginning, asked for before this one allocates (`--far`). Sizes come in; a
//! block goes out to the allocation that would have made one of its size, and nobody waits. A first start knows
//! no sizes: its first allocations share one block. What is not wanted soon, or could be
//! wanted by others, goes back to the server.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard};

use super::Plan;
use crate::vgpu::connection::Ticket;
use floe_lock::lock;

/// Allocations that are a program's beginning.
const BEGINNING: u32 = 64;
/// Blocks of a beginning.
pub(crate) const MOST_BLOCKS: usize = 64;
/// Bytes of the block that a first start has for all allocations of its beginning. A later one asks for it, too.
const SHARED: u64 = 128 << 20;
/// It is at most this part of a vGPU's memory: as long as one small allocation is in it, no large one has the rest.
const SHARED_PART: u64 = 64;

/// Blocks that the beginning of a first start asks for on a vGPU of so much memory.
pub(crate) fn of_first_start(memory: u64) -> &'static [u64] {
    if may_be_shared(SHARED, memory) { &[SHARED] } else { &[] }
}

/// Whether allocations of a beginning may share a block of this size on a vGPU of so much memory.
pub(crate) fn may_be_shared(bytes: u64, memory: u64) -> bool {
    bytes == SHARED && bytes <= memory / SHARED_PART
}

/// The blocks of a beginning.
#[derive(Debug, Default)]
pub(crate) struct EarlyBlocks {
    asked: Mutex<Vec<Asked>>,
    /// Sizes of the blocks that this beginning has made.
    made: Mutex<Vec<u64>>,
    allocations: AtomicU32,
    /// Libraries that were asked for and that the program has not brought, by id.
    libraries: Mutex<BTreeSet<u64>>,
}

/// A block that the server was asked to make, and the place that is kept for it.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) plan: Plan,
    pub(crate) id: u64,
    pub(crate) ticket: Ticket,
    /// Whether allocations of any smaller size may share it.
    pub(crate) may_be_shared: bool,
}

impl EarlyBlocks {
    /// Sizes of the blocks that the program made at its beginning.
    pub(crate) fn made(&self) -> Vec<u64> {
        lock(&self.made).clone()
    }

    /// The program has made a block.
    pub(crate) fn note(&self, bytes: u64) {
        let mut made = lock(&self.made);
        if self.allocations.load(Ordering::Relaxed) <= BEGINNING && made.len() < MOST_BLOCKS {
            made.push(bytes);
        }
    }

    /// Bytes that the server has for it, as far as it has answered.
    pub(crate) fn bytes(&self) -> u64 {
        lock(&self.asked).iter().filter(|asked| asked.ticket.is_success()).map(|asked| asked.plan.bytes).sum()
    }

    /// The server was asked for a block.
    pub(crate) fn expect(&self, asked: Asked) {
        lock(&self.asked).push(asked);
    }

    /// One that was asked for, of this size, or else one that allocations share.
    pub(crate) fn take(&self, bytes: u64) -> Option<Asked> {
        let mut asked = lock(&self.asked);
        let exact = asked.iter().position(|asked| asked.plan.bytes == bytes);
        let shared = || asked.iter().position(|asked| asked.may_be_shared && bytes < asked.plan.bytes);
        let at = exact.or_else(shared)?;
        Some(asked.remove(at))
    }

    /// All that were asked for.
    pub(crate) fn take_all(&self) -> Vec<Asked> {
        std::mem::take(&mut *lock(&self.asked))
    }

    /// The libraries that were asked for and not brought. While it is locked, none of them goes back.
    pub(crate) fn libraries(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        lock(&self.libraries)
    }

    /// The program allocates; whether its beginning is over with that.
    pub(crate) fn count_allocation(&self) -> bool {
        let is_beginning = self.allocations.load(Ordering::Relaxed) <= BEGINNING;
        is_beginning && self.allocations.fetch_add(1, Ordering::Relaxed) == BEGINNING
    }
}
