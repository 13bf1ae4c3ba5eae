//! Objects of one kind by their ids. Ids and objects come in, shared objects go out. It holds its lock only for the look-up
//! and never while an object is used.

use std::sync::{Arc, PoisonError, RwLock};

use rustc_hash::FxHashMap;

/// Objects by id. The ids are our own and count up, so a hash that strangers could foresee does no harm.
#[derive(Debug)]
pub(crate) struct Table<T> {
    objects: RwLock<FxHashMap<u64, Arc<T>>>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { objects: RwLock::default() }
    }
}

impl<T> Table<T> {
    /// The object of this id.
    pub(crate) fn get(&self, id: u64) -> Option<Arc<T>> {
        self.read().get(&id).cloned()
    }

    /// Keeps an object.
    pub(crate) fn insert(&self, id: u64, object: Arc<T>) {
        self.write().insert(id, object);
    }

    /// Gives an object up.
    pub(crate) fn remove(&self, id: u64) -> Option<Arc<T>> {
        self.write().remove(&id)
    }

    /// Gives up all objects `choose` picks.
    pub(crate) fn remove_if(&self, choose: impl Fn(&T) -> bool) -> Vec<Arc<T>> {
        let mut objects = self.write();
        let ids: Vec<u64> = objects.iter().filter(|(_, object)| choose(object)).map(|(id, _)| *id).collect();
        ids.iter().filter_map(|id| objects.remove(id)).collect()
    }

    /// The first object, in no order, that `choose` picks.
    pub(crate) fn find(&self, choose: impl Fn(&T) -> bool) -> Option<(u64, Arc<T>)> {
        self.read().iter().find(|(_, object)| choose(object)).map(|(id, object)| (*id, Arc::clone(object)))
    }

    /// Whether `ask` says yes to any object.
    pub(crate) fn any(&self, ask: impl Fn(&T) -> bool) -> bool {
        self.read().values().any(|object| ask(object))
    }

    /// Gives all objects up.
    pub(crate) fn clear(&self) {
        self.write().clear();
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, FxHashMap<u64, Arc<T>>> {
        self.objects.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, FxHashMap<u64, Arc<T>>> {
        self.objects.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The lock's content, also after a thread panicked while it held it: every critical section here leaves its data whole.
pub(crate) fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
