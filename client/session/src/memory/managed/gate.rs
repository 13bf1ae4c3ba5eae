//! Whether functions of the program come to streams, and waits of a vGPU's streams for another's. In: these, and messages at which a
//! server's driver waits for all work of a context: loads and unloads. Out: either the former come, or none does while such a
//! message is sent. It waits for no function.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

/// The pause between two looks whether somebody stands outside, and how many there are.
const LOOK_AGAIN: Duration = Duration::from_micros(50);
const LOOKS_OUTSIDE: usize = 1000;

/// Lets what streams may stand at come to streams of any vGPU, or nothing: for what waits for it at a server, a load or an unload.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    closed: RwLock<()>,
    /// Those that want to come.
    outside: AtomicUsize,
}

impl Gate {
    /// A function or a wait comes, until what is returned is dropped.
    pub(crate) fn come_in(&self) -> RwLockReadGuard<'_, ()> {
        self.outside.fetch_add(1, Ordering::SeqCst);
        let open = floe_lock::read(&self.closed);
        self.outside.fetch_sub(1, Ordering::SeqCst);
        open
    }

    /// None comes until what is returned is dropped. Who stood outside goes first: a thread that loads in a loop would have the lock
    /// again before another one wakes.
    pub(crate) fn close(&self) -> RwLockWriteGuard<'_, ()> {
        for _ in 0..LOOKS_OUTSIDE {
            if self.outside.load(Ordering::SeqCst) == 0 {
                break;
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        floe_lock::write(&self.closed)
    }
}
