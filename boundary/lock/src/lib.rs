//! Locks of the standard library, taken whether or not a thread has panicked with them. A mutex, read-write lock or
//! condition variable comes in, its guard goes out. Nothing here decides what a panic means: floe's panics end a session or
//! are answered as an error, and what a lock guards is consistent at each of them.
//!
//! Not `parking_lot`: its threads park in one table of the whole process, whose buckets a `fork` copies in whatever state
//! they are in, so that a lock nobody held could hang the child. The client lives in programs that fork. The standard
//! locks have no memory beside their own words. loom's locks have other types: `link/ring` keeps its own functions where it
//! is checked by loom, and code that runs in signal handlers (`boundary/touch`) takes no lock.
#![forbid(unsafe_code)]

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

/// The mutex's guard.
#[inline]
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The lock's guard for reading.
#[inline]
pub fn read<T: ?Sized>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

/// The lock's guard for writing.
#[inline]
pub fn write<T: ?Sized>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until the condition variable is notified; a wake may also come without a reason.
#[inline]
pub fn wait<'a, T>(condition: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condition.wait(guard).unwrap_or_else(PoisonError::into_inner)
}

/// The same, for at most this time.
#[inline]
pub fn wait_timeout<'a, T>(condition: &Condvar, guard: MutexGuard<'a, T>, time: Duration) -> MutexGuard<'a, T> {
    condition.wait_timeout(guard, time).unwrap_or_else(PoisonError::into_inner).0
}

/// What the mutex holds, which nobody shares any more.
#[inline]
pub fn into_inner<T>(mutex: Mutex<T>) -> T {
    mutex.into_inner().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn what_a_panicking_thread_held_is_taken_all_the_same() {
        let both = Arc::new((Mutex::new(1), RwLock::new(2)));
        let other = both.clone();
        let panicked = std::thread::spawn(move || {
            let _guards = (lock(&other.0), write(&other.1));
            panic!("with both");
        });
        assert!(panicked.join().is_err() && both.0.is_poisoned() && both.1.is_poisoned());
        assert_eq!(*lock(&both.0), 1);
        assert_eq!(*read(&both.1), 2);
        assert_eq!(*write(&both.1), 2);
        let woken = wait_timeout(&Condvar::new(), lock(&both.0), Duration::from_millis(1));
        assert_eq!(*woken, 1);
    }
}
