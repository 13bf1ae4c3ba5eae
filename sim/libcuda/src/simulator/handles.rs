//! Numbers for the objects programs hold. Each is issued once per process, resembles no address and no small number,
//! and encodes nothing of the object. A call that receives one looks it up.

use std::sync::atomic::{AtomicU64, Ordering};

/// The source of all handles.
pub(crate) struct Handles {
    next: AtomicU64,
}

/// Handles are this far apart, so that a program which adds to one does not hit the next.
const STEP: u64 = 0x10;

impl Handles {
    pub(crate) fn new() -> Self {
        // Above CU_STREAM_LEGACY, CU_STREAM_PER_THREAD and everything else with a meaning of its own.
        Self { next: AtomicU64::new(0x10_0000) }
    }

    pub(crate) fn next(&self) -> u64 {
        self.next.fetch_add(STEP, Ordering::Relaxed)
    }
}
