//! The objects that one thread found last in tables. Ids and the stamps of tables come in, objects go out, without a
//! lock and without another reference count. An entry holds while its table has removed nothing: an object that is gone
//! is never found here.

use std::cell::{Ref, RefCell};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A number that nothing has had in this process. Its owner takes another one as soon as it removes something.
pub(crate) fn fresh_stamp() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Objects one thread found last: of those whose ids have the same low bits, the last one.
#[derive(Debug)]
pub(crate) struct Recent<T> {
    /// A power of two.
    most: usize,
    /// None before the first object is found.
    places: RefCell<Vec<Option<Entry<T>>>>,
}

/// An object that was found, and the stamp it was found under.
#[derive(Debug)]
struct Entry<T> {
    id: u64,
    stamp: u64,
    object: Arc<T>,
}

/// An object the calling thread has found.
#[derive(Debug)]
pub(crate) struct Found<T: 'static>(Way<T>);

#[derive(Debug)]
enum Way<T: 'static> {
    /// It is where the thread finds it again.
    Remembered(Ref<'static, Arc<T>>),
    /// It was found while another that was found is in use.
    Shared(Arc<T>),
}

impl<T> Recent<T> {
    /// Remembers so many objects (a power of two) at most.
    pub(crate) const fn new(most: usize) -> Self {
        assert!(most.is_power_of_two(), "the low bits of an id are its place");
        Self { most, places: RefCell::new(Vec::new()) }
    }

    /// The object that was found by this id under this stamp.
    #[inline]
    pub(crate) fn recall(&'static self, id: u64, stamp: u64) -> Option<Found<T>> {
        let recalled = Ref::filter_map(self.places.borrow(), |places| match places.get(self.place(id)) {
            Some(Some(entry)) if entry.id == id && entry.stamp == stamp => Some(&entry.object),
            _ => None,
        });
        match recalled {
            Ok(object) => Some(Found(Way::Remembered(object))),
            Err(_) => None,
        }
    }

    /// An object that was looked for under this stamp, and found. The stamp was read before.
    #[cold]
    pub(crate) fn found(&'static self, id: u64, stamp: u64, object: Arc<T>) -> Found<T> {
        let Ok(mut places) = self.places.try_borrow_mut() else { return Found(Way::Shared(object)) };
        if places.is_empty() {
            places.resize_with(self.most, || None);
        }
        let before = places[self.place(id)].replace(Entry { id, stamp, object: Arc::clone(&object) });
        drop(places);
        // Nothing is borrowed any more when it goes.
        drop(before);
        self.recall(id, stamp).unwrap_or(Found(Way::Shared(object)))
    }

    /// Forgets everything.
    pub(crate) fn clear(&self) {
        let forgotten = self.places.take();
        drop(forgotten);
    }

    #[inline]
    fn place(&self, id: u64) -> usize {
        // The low bits are what counts.
        usize::try_from(id).unwrap_or_default() & (self.most - 1)
    }
}

impl<T> Deref for Found<T> {
    type Target = Arc<T>;

    #[inline]
    fn deref(&self) -> &Arc<T> {
        match &self.0 {
            Way::Remembered(object) => object,
            Way::Shared(object) => object,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recent() -> &'static Recent<u32> {
        Box::leak(Box::new(Recent::new(4)))
    }

    #[test]
    fn what_was_found_is_recalled_under_its_stamp_only() {
        let recent = recent();
        assert!(recent.recall(5, 1).is_none());
        drop(recent.found(5, 1, Arc::new(50)));
        assert_eq!(recent.recall(5, 1).map(|found| **found), Some(50));
        assert_eq!(recent.recall(5, 1).map(|found| **found), Some(50), "and again");
        for (id, stamp) in [(5, 2), (1, 1), (9, 1)] {
            assert!(recent.recall(id, stamp).is_none(), "{id} {stamp}");
        }
    }

    #[test]
    fn a_place_has_what_was_found_last() {
        let recent = recent();
        drop(recent.found(5, 1, Arc::new(50)));
        drop(recent.found(9, 1, Arc::new(90)));
        drop(recent.found(6, 1, Arc::new(60)));
        let values = [5, 6, 9].map(|id| recent.recall(id, 1).map(|found| **found));
        assert_eq!(values, [None, Some(60), Some(90)]);
    }

    #[test]
    fn what_is_in_use_keeps_its_place_and_can_be_used_twice() {
        let recent = recent();
        let (object, other) = (Arc::new(50), Arc::new(90));
        let first = recent.found(5, 1, Arc::clone(&object));
        let second = recent.recall(5, 1).unwrap();
        let third = recent.found(9, 1, Arc::clone(&other));
        assert_eq!([**first, **second, **third], [50, 50, 90]);
        drop((first, second, third));
        assert!(recent.recall(9, 1).is_none() && recent.recall(5, 1).is_some());
        assert_eq!([Arc::strong_count(&object), Arc::strong_count(&other)], [2, 1]);
    }

    #[test]
    fn what_is_forgotten_is_shared_no_more() {
        let recent = recent();
        let object = Arc::new(50);
        drop(recent.found(5, 1, Arc::clone(&object)));
        recent.clear();
        assert_eq!(Arc::strong_count(&object), 1);
        assert!(recent.recall(5, 1).is_none());
    }
}
