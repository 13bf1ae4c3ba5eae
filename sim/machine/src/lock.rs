//! The crate's one way to lock: a mutex comes in, its guard goes out.
//! It never fails: a panic of another holder is ignored.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex whose holder may have panicked: the data are counters and queues, whole at every step.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
