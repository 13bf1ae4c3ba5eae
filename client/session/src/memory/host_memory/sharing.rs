//! The access of a worker of this machine to the memory that this process shares with it, block by block. The worker's
//! answers come in, and go out again. It asks nobody.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, RwLock};

/// A worker's access to a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Nothing, and it was asked.
    Refused,
    /// All; copies may name them.
    Mapped,
    /// All; kernels may, too.
    Reached,
}

/// The shared memory that the worker of one vGPU has.
#[derive(Debug, Default)]
pub(crate) struct Sharing {
    /// Whether it takes anything. Asked once.
    pub(super) agreed: OnceLock<bool>,
    pub(super) any: AtomicBool,
    /// Held while a descriptor is passed, until its answer: the worker keeps one at a time.
    pub(super) passing: Mutex<()>,
    /// By first address; empty while the worker is asked.
    pub(super) blocks: RwLock<BTreeMap<u64, Arc<OnceLock<Access>>>>,
}

impl Sharing {
    /// Whether the worker has anything.
    pub(crate) fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// The worker's access to the block that starts here; `None` if it was not asked.
    pub(crate) fn access(&self, start: u64) -> Option<Access> {
        floe_lock::read(&self.blocks).get(&start)?.get().copied()
    }

    /// The worker has none of them any more.
    pub(crate) fn clear(&self) {
        floe_lock::write(&self.blocks).clear();
        self.any.store(false, Ordering::Release);
    }
}
