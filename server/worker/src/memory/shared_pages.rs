//! Pages of the client's that are mapped here, and how many there are.
//! In: mappings. Out: the same, counted until they are gone.
//! It maps nothing itself and knows no addresses.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The mapped pages, and those that are still being released.
#[derive(Debug, Default)]
pub(crate) struct Held {
    bytes: AtomicU64,
    ranges: AtomicUsize,
}

impl Held {
    /// Bytes that are mapped, and mappings.
    pub(crate) fn now(&self) -> (u64, usize) {
        (self.bytes.load(Ordering::Acquire), self.ranges.load(Ordering::Acquire))
    }
}

/// One mapping; it counts until it is gone.
pub(crate) struct SharedPages<P> {
    // Fields go in this order: first the memory.
    memory: P,
    _share: Share,
}

impl<P> SharedPages<P> {
    /// Counts a mapping of so many bytes.
    pub(crate) fn new(memory: P, held: &Arc<Held>, bytes: u64) -> Self {
        Self { memory, _share: Share::new(held, bytes) }
    }

    /// The mapped pages.
    pub(crate) fn memory(&self) -> &P {
        &self.memory
    }
}

/// A mapping's part of what is held.
struct Share {
    held: Arc<Held>,
    bytes: u64,
}

impl Share {
    fn new(held: &Arc<Held>, bytes: u64) -> Self {
        held.bytes.fetch_add(bytes, Ordering::AcqRel);
        held.ranges.fetch_add(1, Ordering::AcqRel);
        Self { held: Arc::clone(held), bytes }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.held.bytes.fetch_sub(self.bytes, Ordering::AcqRel);
        self.held.ranges.fetch_sub(1, Ordering::AcqRel);
    }
}
