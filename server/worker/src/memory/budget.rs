//! Host memory of a session, in one number.
//! In: what is about to be kept for the client. Out: leave to keep it, or OUT_OF_MEMORY with the numbers.
//! Every object costs what it takes of this process and of the driver at most, as measured; the kernel's own limit lies above.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use floe_abi::CudaError;

use crate::issue::fault::Fault;

/// This part of it is kept to remember what could not be made.
const FOR_FAILURES: u64 = 8;

/// Bytes of host memory that the session may have its worker keep.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    limit: u64,
    kept: Arc<AtomicU64>,
}

impl Budget {
    pub(crate) fn new(limit: u64) -> Self {
        Self { limit, kept: Arc::default() }
    }

    /// Takes bytes, where there are as many left.
    pub(crate) fn take(&self, bytes: u64) -> Result<(), Fault> {
        self.take_within(self.limit - self.limit / FOR_FAILURES, bytes)
    }

    /// Takes bytes to remember that something could not be made.
    pub(crate) fn take_for_failure(&self, bytes: u64) -> Result<(), Fault> {
        self.take_within(self.limit, bytes)
    }

    fn take_within(&self, limit: u64, bytes: u64) -> Result<(), Fault> {
        let add = |kept: u64| kept.checked_add(bytes).filter(|all| *all <= limit);
        let Err(kept) = self.kept.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add) else { return Ok(()) };
        let words = format!("{bytes} bytes of host memory beside {kept} would be over the session's: {}", self.limit);
        Err(Fault::Explained(CudaError::OUT_OF_MEMORY, words))
    }

    /// Whether bytes are left.
    pub(crate) fn has(&self, bytes: u64) -> bool {
        let limit = self.limit - self.limit / FOR_FAILURES;
        self.kept.load(Ordering::Relaxed).checked_add(bytes).is_some_and(|all| all <= limit)
    }

    /// As `take`, until what is returned is dropped.
    pub(crate) fn keep(&self, bytes: u64) -> Result<Kept, Fault> {
        self.take(bytes)?;
        Ok(Kept { budget: self.clone(), bytes })
    }

    /// Takes bytes that have been asked for.
    pub(crate) fn add(&self, bytes: u64) {
        self.kept.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Gives bytes back.
    pub(crate) fn give(&self, bytes: u64) {
        let less = |kept: u64| Some(kept.saturating_sub(bytes));
        // It always is a number.
        let _ = self.kept.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// Bytes that are kept.
    #[cfg(test)]
    pub(crate) fn kept(&self) -> u64 {
        self.kept.load(Ordering::Relaxed)
    }
}

impl Default for Budget {
    /// Without a limit.
    fn default() -> Self {
        Self::new(u64::MAX)
    }
}

/// Bytes that were taken, and go back with this.
#[derive(Debug)]
pub(crate) struct Kept {
    budget: Budget,
    bytes: u64,
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.budget.give(self.bytes);
    }
}

/// Bytes of host memory that objects take at most, here and in the driver: what an H100's driver took (docs/facts/device-memory.md),
/// rounded up.
pub(crate) mod cost {
    /// An id whose object could not be made.
    pub(crate) const FAILED: u64 = 64;
    pub(crate) const BLOCK: u64 = 1 << 10;
    pub(crate) const MAPPING: u64 = 256;
    pub(crate) const LIBRARY: u64 = 16 << 10;
    /// The driver keeps a copy of what it is given, and what it made of it.
    pub(crate) const COPIES_OF_LIBRARY: u64 = 2;
    pub(crate) const KERNEL: u64 = 4 << 10;
    pub(crate) const STREAM: u64 = 16 << 10;
    pub(crate) const EVENT: u64 = 1 << 10;
    pub(crate) const GRAPH: u64 = 8 << 10;
    /// A node, without its parameters.
    pub(crate) const NODE: u64 = 2 << 10;
    /// The further bytes of a node in an instantiated graph.
    pub(crate) const INSTANTIATED_NODE: u64 = 6 << 10;
    pub(crate) const ARRAY: u64 = 1 << 10;
    pub(crate) const TEXTURE: u64 = 1 << 10;
    /// A ticket for importers.
    pub(crate) const TICKET: u64 = 256;
    /// A communicator; what NCCL takes for it is bounded by the kernel only.
    pub(crate) const COMM: u64 = 1 << 20;
    /// That another session has imported a block, however often.
    pub(crate) const HOLDER: u64 = 128;
    /// A peer link, without its staging memory.
    pub(crate) const PEER_LINK: u64 = 64 << 10;
    /// A transfer of a peer link, and a bit for each of its chunks.
    pub(crate) const TRANSFER: u64 = 1 << 10;
    /// A context for the copies of links.
    pub(crate) const CONTEXT: u64 = 32 << 20;
    /// An object's recipe, beside its messages.
    pub(crate) const RECIPE: u64 = 192;
    /// A message of a recipe, with short contents.
    pub(crate) const MESSAGE: u64 = 160;
    /// What the driver keeps of registered host memory.
    pub(crate) const REGISTRATION: u64 = 12 << 10;
    /// A page of words, which is registered.
    pub(crate) const SIGNALS: u64 = (4 << 10) + REGISTRATION;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_charge_over_the_limit_is_refused_and_takes_nothing() {
        let budget = Budget::new(100);
        assert!(budget.take(60).is_ok() && budget.has(28) && !budget.has(29));
        assert!(matches!(budget.take(29), Err(Fault::Explained(CudaError::OUT_OF_MEMORY, _))));
        assert!(matches!(budget.take(u64::MAX), Err(Fault::Explained(CudaError::OUT_OF_MEMORY, _))));
        assert_eq!(budget.kept(), 60);
        budget.take_for_failure(40).expect("it is kept for that");
        budget.give(100);
        assert!(budget.take(88).is_ok());
    }
}
