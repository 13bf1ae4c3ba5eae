//! Objects of one kind by their ids. Ids and objects come in, shared objects go out. It holds its lock only for the
//! look-up; a caller looks an object up again only after some object was removed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock, RwLockWriteGuard};

use rustc_hash::FxHashMap;

pub(crate) use floe_lock::lock;

use crate::vgpu::recent::{Found, Recent, fresh_stamp};

/// Objects by id. The ids are our own and count up, so a hash that strangers could foresee does no harm.
#[derive(Debug)]
pub(crate) struct Table<T> {
    objects: RwLock<FxHashMap<u64, Arc<T>>>,
    /// Changes whenever an object is removed, and is never that of another table. Changed under the lock.
    stamp: AtomicU64,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { objects: RwLock::default(), stamp: AtomicU64::new(fresh_stamp()) }
    }
}

impl<T> Table<T> {
    /// The object of this id.
    pub(crate) fn get(&self, id: u64) -> Option<Arc<T>> {
        self.read().get(&id).cloned()
    }

    /// As `get`, for objects that are asked for again and again: by what this thread has found before, if that still holds.
    #[inline]
    pub(crate) fn find_by(&self, recent: &'static Recent<T>, id: u64) -> Option<Found<T>> {
        let stamp = self.stamp();
        match recent.recall(id, stamp) {
            Some(found) => Some(found),
            None => self.find_anew(recent, id, stamp),
        }
    }

    #[cold]
    fn find_anew(&self, recent: &'static Recent<T>, id: u64, stamp: u64) -> Option<Found<T>> {
        self.get(id).map(|object| recent.found(id, stamp, object))
    }

    /// The stamp that objects are found under: to be read before the look-up. It differs when an object has been
    /// removed since.
    #[inline]
    pub(crate) fn stamp(&self) -> u64 {
        self.stamp.load(Ordering::Acquire)
    }

    /// Keeps an object.
    pub(crate) fn insert(&self, id: u64, object: Arc<T>) {
        let mut objects = self.write();
        if objects.insert(id, object).is_some() {
            self.gave_up(&objects);
        }
    }

    /// Removes an object.
    pub(crate) fn remove(&self, id: u64) -> Option<Arc<T>> {
        let mut objects = self.write();
        let object = objects.remove(&id)?;
        self.gave_up(&objects);
        Some(object)
    }

    /// Removes all objects that `choose` picks.
    pub(crate) fn remove_if(&self, choose: impl Fn(&T) -> bool) -> Vec<Arc<T>> {
        let mut objects = self.write();
        let ids: Vec<u64> = objects.iter().filter(|(_, object)| choose(object)).map(|(id, _)| *id).collect();
        let chosen = ids.iter().filter_map(|id| objects.remove(id)).collect();
        self.gave_up(&objects);
        chosen
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
        let mut objects = self.write();
        objects.clear();
        self.gave_up(&objects);
    }

    /// Earlier finds of threads do not hold any more. Called with the lock held, so that nobody finds a removed object
    /// under the new stamp.
    fn gave_up(&self, _locked: &RwLockWriteGuard<'_, FxHashMap<u64, Arc<T>>>) {
        self.stamp.store(fresh_stamp(), Ordering::Release);
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, FxHashMap<u64, Arc<T>>> {
        floe_lock::read(&self.objects)
    }

    fn write(&self) -> RwLockWriteGuard<'_, FxHashMap<u64, Arc<T>>> {
        floe_lock::write(&self.objects)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table<u32> {
        let table = Table::default();
        table.insert(1, Arc::new(10));
        table.insert(2, Arc::new(20));
        table
    }

    fn recent() -> &'static Recent<u32> {
        Box::leak(Box::new(Recent::new(8)))
    }

    fn found(table: &Table<u32>, recent: &'static Recent<u32>, ids: [u64; 3]) -> [Option<u32>; 3] {
        ids.map(|id| table.find_by(recent, id).map(|found| **found))
    }

    #[test]
    fn a_removed_object_is_not_recalled() {
        let give_up: [fn(&Table<u32>); 3] = [
            |table| drop(table.remove(1)),
            |table| drop(table.remove_if(|value| *value == 10)),
            |table| {
                table.clear();
                table.insert(2, Arc::new(20));
            },
        ];
        for give_up in give_up {
            let (table, recent) = (table(), recent());
            assert_eq!(found(&table, recent, [1, 2, 3]), [Some(10), Some(20), None]);
            give_up(&table);
            assert_eq!(found(&table, recent, [1, 2, 3]), [None, Some(20), None]);
        }
    }

    #[test]
    fn an_object_in_anothers_place_is_found_instead_of_it() {
        let (table, recent) = (table(), recent());
        assert_eq!(found(&table, recent, [1, 2, 3]), [Some(10), Some(20), None]);
        table.insert(1, Arc::new(11));
        assert_eq!(found(&table, recent, [1, 2, 3]), [Some(11), Some(20), None]);
    }

    #[test]
    fn additions_leave_what_was_found_as_it_is() {
        let (table, recent) = (table(), recent());
        drop(table.find_by(recent, 1));
        let before = table.stamp();
        table.insert(3, Arc::new(30));
        assert!(table.remove(4).is_none());
        assert_eq!(table.stamp(), before);
    }

    #[test]
    fn ids_of_another_table_are_not_mistaken() {
        let (one, other, recent) = (table(), Table::default(), recent());
        other.insert(1, Arc::new(77));
        assert_eq!(found(&one, recent, [1, 2, 3]), [Some(10), Some(20), None]);
        assert_eq!(found(&other, recent, [1, 2, 3]), [Some(77), None, None]);
        assert_eq!(found(&one, recent, [1, 2, 3]), [Some(10), Some(20), None]);
    }

    /// Says that something is gone, also where a test fails: others look until then.
    struct Gone<'a>(&'a std::sync::atomic::AtomicBool);

    impl Drop for Gone<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Release);
        }
    }

    #[test]
    fn no_thread_finds_an_object_that_another_removed() {
        let table = table();
        let gone = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            let is_gone = Gone(&gone);
            let looks = || {
                let recent = recent();
                loop {
                    let known_gone = gone.load(Ordering::Acquire);
                    let found = table.find_by(recent, 1).is_some();
                    assert!(!(known_gone && found));
                    if known_gone {
                        return;
                    }
                }
            };
            let threads = [(); 2].map(|()| scope.spawn(looks));
            for id in 10..2000 {
                table.insert(id, Arc::new(0));
                table.remove(id);
            }
            table.remove(1);
            drop(is_gone);
            for thread in threads {
                thread.join().unwrap();
            }
        });
    }
}
