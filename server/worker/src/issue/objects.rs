//! The session's objects of one kind, by the client's ids.
//! In: ids from the wire. Out: the objects, or what is wrong with the id.
//! An object whose posted creation failed stays as that failure: using it gives the same error. Each costs what its kind
//! costs of the session's host memory.

pub(crate) mod array;
pub(crate) mod block;
pub(crate) mod compiled;
pub(crate) mod contents;
pub(crate) mod departed;
pub(crate) mod event;
pub(crate) mod graph;
pub(crate) mod library;
pub(crate) mod linked;
pub(crate) mod sharing;
pub(crate) mod signals;
pub(crate) mod stream;

use floe_abi::CudaError;
use rustc_hash::FxHashMap;

use super::fault::{Fault, violation};
use crate::memory::budget::{Budget, cost};

/// More of one kind than any program makes: a client that makes them is broken.
const LIMIT: usize = 4 << 20;

/// Objects of one kind. The hash is a fast one: a client that picks its ids to collide slows nobody down but itself.
#[derive(Debug)]
pub(crate) struct Objects<T> {
    what: &'static str,
    objects: FxHashMap<u64, Result<T, CudaError>>,
    /// Bytes of host memory of each.
    cost: u64,
    budget: Budget,
}

impl<T> Objects<T> {
    /// `what` is the kind's name in errors.
    pub(crate) fn new(what: &'static str, cost: u64, budget: &Budget) -> Self {
        Self { what, objects: FxHashMap::default(), cost, budget: budget.clone() }
    }

    /// The client may use this id for a new object, which there is host memory for.
    pub(crate) fn check_new(&self, id: u64) -> Result<(), Fault> {
        self.check_id(id)?;
        self.budget.take(self.cost)?;
        self.budget.give(self.cost);
        Ok(())
    }

    /// As `check_new` for a posted creation: one that there is no host memory for stays as that failure.
    pub(crate) fn check_posted(&mut self, id: u64) -> Result<(), Fault> {
        match self.check_new(id) {
            Err(Fault::Explained(error, words)) if self.budget.take_for_failure(cost::FAILED).is_ok() => {
                self.objects.insert(id, Err(error));
                Err(Fault::Explained(error, words))
            }
            Err(Fault::Explained(_, words)) => violation(words),
            checked => checked,
        }
    }

    fn check_id(&self, id: u64) -> Result<(), Fault> {
        if id == 0 || self.objects.contains_key(&id) {
            return violation(format!("{} id is taken: {id}", self.what));
        }
        if self.objects.len() >= LIMIT {
            return violation(format!("more objects of kind {} than: {LIMIT}", self.what));
        }
        Ok(())
    }

    /// Binds an id to an object, or to why there is none.
    pub(crate) fn bind(&mut self, id: u64, object: Result<T, CudaError>) {
        self.budget.add(cost_of(self.cost, &object));
        if let Some(before) = self.objects.insert(id, object) {
            self.budget.give(cost_of(self.cost, &before));
        }
    }

    pub(crate) fn get(&self, id: u64) -> Result<&T, Fault> {
        match self.objects.get(&id) {
            Some(Ok(object)) => Ok(object),
            Some(Err(error)) => Err(Fault::Program(*error)),
            None => violation(format!("no {} has the id: {id}", self.what)),
        }
    }

    pub(crate) fn get_mut(&mut self, id: u64) -> Result<&mut T, Fault> {
        match self.objects.get_mut(&id) {
            Some(Ok(object)) => Ok(object),
            Some(Err(error)) => Err(Fault::Program(*error)),
            None => violation(format!("no {} has the id: {id}", self.what)),
        }
    }

    /// Whether there is an object of the id, or why there is none; `None`: nobody has used the id.
    pub(crate) fn state(&self, id: u64) -> Option<Result<(), CudaError>> {
        self.objects.get(&id).map(|object| object.as_ref().map(drop).map_err(|error| *error))
    }

    /// The ids without an object, and why.
    pub(crate) fn failures(&self) -> impl Iterator<Item = (u64, CudaError)> {
        self.objects.iter().filter_map(|(id, object)| Some((*id, object.as_ref().err().copied()?)))
    }

    /// The objects by id, or why there is none.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, Result<&T, CudaError>)> {
        self.objects.iter().map(|(id, object)| (*id, object.as_ref().map_err(|error| *error)))
    }

    /// Takes an object out; `None` when its creation had failed.
    pub(crate) fn remove(&mut self, id: u64) -> Result<Option<T>, Fault> {
        match self.objects.remove(&id) {
            Some(object) => {
                self.budget.give(cost_of(self.cost, &object));
                Ok(object.ok())
            }
            None => violation(format!("no {} has the id: {id}", self.what)),
        }
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.objects.values().filter_map(|object| object.as_ref().ok())
    }

    /// The same, to change them.
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.objects.values_mut().filter_map(|object| object.as_mut().ok())
    }

    /// Those there are, with their ids.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (u64, &T)> {
        self.objects.iter().filter_map(|(id, object)| object.as_ref().ok().map(|object| (*id, object)))
    }

    /// The ids of those there are.
    pub(crate) fn ids(&self) -> Vec<u64> {
        self.objects.iter().filter(|(_, object)| object.is_ok()).map(|(id, _)| *id).collect()
    }

    pub(crate) fn drain(&mut self) -> impl Iterator<Item = T> {
        let (cost, budget) = (self.cost, &self.budget);
        self.objects.drain().filter_map(move |(_, object)| {
            budget.give(cost_of(cost, &object));
            object.ok()
        })
    }

    /// Replaces those that match by the error.
    pub(crate) fn invalidate(&mut self, error: CudaError, matches: impl Fn(&T) -> bool) {
        for object in self.objects.values_mut() {
            if object.as_ref().is_ok_and(&matches) {
                *object = Err(error);
                self.budget.give(self.cost.saturating_sub(cost::FAILED));
            }
        }
    }
}

/// Bytes of host memory of an object, or of why there is none.
fn cost_of<T>(cost: u64, object: &Result<T, CudaError>) -> u64 {
    if object.is_ok() { cost } else { cost::FAILED }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_cost_host_memory_as_long_as_they_are_there() {
        let budget = Budget::new(1000);
        let mut objects = Objects::new("event", 400, &budget);
        objects.bind(1, Ok('a'));
        objects.bind(2, Ok('b'));
        assert!(matches!(objects.check_new(3), Err(Fault::Explained(CudaError::OUT_OF_MEMORY, _))));
        assert!(matches!(objects.check_posted(3), Err(Fault::Explained(CudaError::OUT_OF_MEMORY, _))));
        assert_eq!(objects.get(3), Err(Fault::Program(CudaError::OUT_OF_MEMORY)));
        assert!((4..7).all(|id| matches!(objects.check_posted(id), Err(Fault::Explained(..))) == (id < 6)));
        assert!(
            matches!(objects.check_posted(8), Err(Fault::ProtocolViolation(_))),
            "there is no room for a failure either"
        );
        objects.invalidate(CudaError::INVALID_HANDLE, |object| *object == 'a');
        assert!(objects.remove(2).is_ok() && objects.check_posted(8).is_ok());
        objects.drain().for_each(drop);
        assert_eq!(budget.kept(), 0);
    }

    #[test]
    fn ids_are_checked() {
        let mut objects = Objects::new("stream", 1, &Budget::default());
        assert_eq!(objects.check_new(0), violation("stream id is taken: 0"));
        objects.bind(7, Ok('a'));
        assert_eq!(objects.check_new(7), violation("stream id is taken: 7"));
        assert_eq!(objects.get(7), Ok(&'a'));
        assert_eq!(objects.get(8), violation("no stream has the id: 8"));
        assert_eq!(objects.remove(7), Ok(Some('a')));
        assert_eq!(objects.remove(7), violation("no stream has the id: 7"));
    }

    #[test]
    fn failed_creation_is_remembered_and_not_a_protocol_violation() {
        let mut objects = Objects::<char>::new("event", 1, &Budget::default());
        objects.bind(1, Err(CudaError::OUT_OF_MEMORY));
        assert_eq!(objects.get(1), Err(Fault::Program(CudaError::OUT_OF_MEMORY)));
        assert_eq!(objects.remove(1), Ok(None));
    }
}
