//! The session's objects of one kind, by the client's ids.
//! In: ids from the wire. Out: the objects, or what is wrong with the id.
//! An object whose posted creation failed stays as that failure: using it gives the same error.

use floe_abi::CudaError;
use rustc_hash::FxHashMap;

use crate::fault::{Fault, broken};

/// More of one kind than any program makes: a client that makes them is broken.
const LIMIT: usize = 4 << 20;

/// Objects of one kind. The hash is a fast one: a client that picks its ids to collide slows nobody down but itself.
#[derive(Debug)]
pub(crate) struct Objects<T> {
    what: &'static str,
    objects: FxHashMap<u64, Result<T, CudaError>>,
}

impl<T> Objects<T> {
    /// `what` is the kind's name in errors.
    pub(crate) fn new(what: &'static str) -> Self {
        Self { what, objects: FxHashMap::default() }
    }

    /// The client may use this id for a new object.
    pub(crate) fn check_new(&self, id: u64) -> Result<(), Fault> {
        if id == 0 || self.objects.contains_key(&id) {
            return broken(format!("{} id is taken: {id}", self.what));
        }
        if self.objects.len() >= LIMIT {
            return broken(format!("more objects of kind {} than: {LIMIT}", self.what));
        }
        Ok(())
    }

    /// Binds an id to an object, or to why there is none.
    pub(crate) fn bind(&mut self, id: u64, object: Result<T, CudaError>) {
        self.objects.insert(id, object);
    }

    pub(crate) fn get(&self, id: u64) -> Result<&T, Fault> {
        match self.objects.get(&id) {
            Some(Ok(object)) => Ok(object),
            Some(Err(error)) => Err(Fault::Program(*error)),
            None => broken(format!("no {} has the id: {id}", self.what)),
        }
    }

    pub(crate) fn get_mut(&mut self, id: u64) -> Result<&mut T, Fault> {
        match self.objects.get_mut(&id) {
            Some(Ok(object)) => Ok(object),
            Some(Err(error)) => Err(Fault::Program(*error)),
            None => broken(format!("no {} has the id: {id}", self.what)),
        }
    }

    /// Takes an object out; `None` when its creation had failed.
    pub(crate) fn remove(&mut self, id: u64) -> Result<Option<T>, Fault> {
        match self.objects.remove(&id) {
            Some(object) => Ok(object.ok()),
            None => broken(format!("no {} has the id: {id}", self.what)),
        }
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.objects.values().filter_map(|object| object.as_ref().ok())
    }

    pub(crate) fn drain(&mut self) -> impl Iterator<Item = T> {
        self.objects.drain().filter_map(|(_, object)| object.ok())
    }

    /// Replaces those that match by the error.
    pub(crate) fn invalidate(&mut self, error: CudaError, matches: impl Fn(&T) -> bool) {
        for object in self.objects.values_mut() {
            if object.as_ref().is_ok_and(&matches) {
                *object = Err(error);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_checked() {
        let mut objects = Objects::new("stream");
        assert_eq!(objects.check_new(0), broken("stream id is taken: 0"));
        objects.bind(7, Ok('a'));
        assert_eq!(objects.check_new(7), broken("stream id is taken: 7"));
        assert_eq!(objects.get(7), Ok(&'a'));
        assert_eq!(objects.get(8), broken("no stream has the id: 8"));
        assert_eq!(objects.remove(7), Ok(Some('a')));
        assert_eq!(objects.remove(7), broken("no stream has the id: 7"));
    }

    #[test]
    fn failed_creation_is_remembered_and_not_a_broken_contract() {
        let mut objects = Objects::<char>::new("event");
        objects.bind(1, Err(CudaError::OUT_OF_MEMORY));
        assert_eq!(objects.get(1), Err(Fault::Program(CudaError::OUT_OF_MEMORY)));
        assert_eq!(objects.remove(1), Ok(None));
    }
}
