//! Whether anything of a session waits for the peer.
//! In: waits that begin and end, on any thread. Out: their number, for the one thread that polls while there are some, and
//! parks otherwise. A wait costs two additions; only the first one after a quiet time wakes that thread.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// The waits of a session.
#[derive(Debug, Default)]
pub(super) struct Waits {
    open: AtomicUsize,
    /// Who looks sleeps until a wait begins.
    rests: AtomicBool,
    over: Mutex<bool>,
    changed: Condvar,
}

/// A wait, until it is dropped.
#[derive(Debug)]
pub struct Wait<'a>(&'a Waits);

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Waits {
    /// A wait begins.
    pub(super) fn begin(&self) -> Wait<'_> {
        self.open.fetch_add(1, Ordering::SeqCst);
        if self.rests.load(Ordering::SeqCst) {
            self.wake();
        }
        Wait(self)
    }

    /// Has who looks do so again.
    pub(super) fn wake(&self) {
        let over = floe_lock::lock(&self.over);
        self.rests.store(false, Ordering::SeqCst);
        drop(over);
        self.changed.notify_all();
    }

    /// Whether there is one.
    pub(super) fn any(&self) -> bool {
        self.open.load(Ordering::SeqCst) > 0
    }

    /// Nobody looks any more.
    pub(super) fn end(&self) {
        *floe_lock::lock(&self.over) = true;
        self.changed.notify_all();
    }

    /// Lets `time` pass. False: it is over.
    pub(super) fn pass(&self, time: Duration) -> bool {
        let over = floe_lock::lock(&self.over);
        !*self.changed.wait_timeout_while(over, time, |over| !*over).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Sleeps until there is a wait, or somebody says [`Waits::wake`]. False: it is over.
    pub(super) fn rest(&self) -> bool {
        let mut over = floe_lock::lock(&self.over);
        self.rests.store(true, Ordering::SeqCst);
        while !*over && self.rests.load(Ordering::SeqCst) && !self.any() {
            over = floe_lock::wait(&self.changed, over);
        }
        self.rests.store(false, Ordering::SeqCst);
        !*over
    }
}
