//! The simulator's one way to lock: a mutex comes in, its guard goes out.
//! It never fails: a panic of another holder is ignored.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex whose holder may have panicked: its data change in steps that leave them whole.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
