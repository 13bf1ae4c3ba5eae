//! Values that kernels set and that decide which parts of a graph run. The driver API makes one per conditional handle and
//! reads it; a kernel names it by the handle's number, which no other value has or had.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

/// Numbers of handles begin above any address, so that one that is taken for the other is found out.
const FIRST: u64 = 0x002f_0000_0000_0001;
/// The next number: no two contexts of the process have the same.
static NEXT: AtomicU64 = AtomicU64::new(FIRST);

/// One value, alive as long as somebody has it.
#[derive(Debug)]
pub struct Condition {
    handle: u64,
    value: AtomicU32,
}

impl Condition {
    /// The number that kernels name it by.
    pub fn handle(&self) -> u64 {
        self.handle
    }

    /// What it is now.
    pub fn value(&self) -> u32 {
        self.value.load(Ordering::Acquire)
    }

    /// Sets it.
    pub fn set(&self, value: u32) {
        self.value.store(value, Ordering::Release);
    }
}

/// All values that kernels of a context may set.
#[derive(Debug, Default)]
pub struct Conditions {
    by_handle: Mutex<HashMap<u64, Weak<Condition>>>,
}

impl Conditions {
    /// A new value.
    pub fn create(&self, value: u32) -> Arc<Condition> {
        let mut by_handle = floe_lock::lock(&self.by_handle);
        // Twice as many as live, at most.
        if by_handle.len().is_power_of_two() {
            by_handle.retain(|_, condition| condition.strong_count() > 0);
        }
        let handle = NEXT.fetch_add(1, Ordering::Relaxed);
        let condition = Arc::new(Condition { handle, value: AtomicU32::new(value) });
        by_handle.insert(handle, Arc::downgrade(&condition));
        condition
    }

    /// Sets the value of a handle; `false`: there is no such handle.
    pub(crate) fn set(&self, handle: u64, value: u32) -> bool {
        let found = floe_lock::lock(&self.by_handle).get(&handle).and_then(Weak::upgrade);
        if let Some(condition) = &found {
            condition.set(value);
        }
        found.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_set_by_its_number_alone_while_somebody_has_it() {
        let conditions = Conditions::default();
        let made: Vec<_> = (0..40).map(|value| conditions.create(value)).collect();
        assert!(conditions.set(made[3].handle(), 9));
        assert_eq!((made[2].value(), made[3].value(), made[4].value()), (2, 9, 4));
        assert!(!Conditions::default().set(made[3].handle(), 1) && !conditions.set(0, 1));
        let handle = made[0].handle();
        drop(made);
        assert!(!conditions.set(handle, 1));
        assert_ne!(conditions.create(0).handle(), handle);
    }
}
