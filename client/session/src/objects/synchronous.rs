//! Memory whose synchronous copies and fills the program waits for, because it said so: other processes or devices look at
//! the memory as soon as the call returns. Marks by allocation come in, and whether calls wait goes out. Nothing here
//! waits.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use floe_lock::lock;

/// The marked memory of a process.
#[derive(Debug, Default)]
pub(crate) struct Synchronous {
    /// First address, and the number of the allocation there; 0 where it is none.
    marked: Mutex<BTreeSet<(u64, u64)>>,
    /// Whether there is any: calls look at nothing else.
    any: AtomicBool,
}

impl Synchronous {
    /// Marks memory or takes its mark.
    pub(crate) fn set(&self, memory: (u64, u64), wanted: bool) {
        let mut marked = lock(&self.marked);
        if wanted {
            marked.insert(memory);
        } else {
            marked.remove(&memory);
        }
        self.any.store(!marked.is_empty(), Ordering::Release);
    }

    /// Whether this memory is marked.
    pub(crate) fn has(&self, memory: (u64, u64)) -> bool {
        self.any() && lock(&self.marked).contains(&memory)
    }

    /// Whether any memory is marked. Then every synchronous call waits: more than was asked for, and never less.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// The memory that started here is gone.
    pub(crate) fn forget(&self, start: u64) {
        if !self.any() {
            return;
        }
        let mut marked = lock(&self.marked);
        marked.retain(|(at, _)| *at != start);
        self.any.store(!marked.is_empty(), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_wait_as_long_as_any_memory_is_marked() {
        let memory = Synchronous::default();
        assert!(!memory.any() && !memory.has((512, 1)));
        memory.set((512, 1), true);
        memory.set((1024, 2), true);
        assert!(memory.has((512, 1)) && !memory.has((512, 2)), "a mark is of one allocation");
        memory.set((1024, 2), false);
        memory.forget(1024);
        assert!(memory.any());
        memory.forget(512);
        assert!(!memory.any() && !memory.has((512, 1)));
    }
}
