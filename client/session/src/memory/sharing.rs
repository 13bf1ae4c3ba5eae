//! What a worker of this machine has of the memory this process shares with it, block by block. Answers come in, and go out again
//! without asking. It asks nobody.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, RwLock};

/// What a worker has of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pages {
    /// Nothing, and it was asked.
    Refused,
    /// All; copies may name them.
    Mapped,
    /// All; kernels may, too.
    Reached,
}

/// What the worker of one vGPU has.
#[derive(Debug, Default)]
pub(crate) struct Sharing {
    /// Whether it takes anything. Asked once.
    pub(super) agreed: OnceLock<bool>,
    pub(super) any: AtomicBool,
    /// By first address; empty while the worker is asked.
    pub(super) blocks: RwLock<BTreeMap<u64, Arc<OnceLock<Pages>>>>,
}

impl Sharing {
    /// Whether the worker has anything.
    pub(crate) fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// What the worker has of the block that starts here, as far as it was asked.
    pub(crate) fn pages(&self, start: u64) -> Option<Pages> {
        floe_lock::read(&self.blocks).get(&start)?.get().copied()
    }

    /// The worker has none of them any more.
    pub(crate) fn clear(&self) {
        floe_lock::write(&self.blocks).clear();
        self.any.store(false, Ordering::Release);
    }
}
