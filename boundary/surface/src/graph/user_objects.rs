//! User objects: objects of the program with a destructor, kept alive by references of the program and of graphs.
//! Counts come in. When the last reference goes, the destructor goes out, and the caller that released it calls the
//! destructor.

use super::handles::{Kind, id, value};
use super::store::Graphs;
use crate::arguments::host::HostFunction;
use floe_abi::{CudaError, CudaResult, Graph, UserObject};
use std::collections::HashMap;

/// A destructor to be called: nothing refers to its object any more.
#[derive(Debug)]
pub struct Destructor(HostFunction);

impl Destructor {
    /// Calls it.
    pub(super) fn call(self) {
        self.0.call();
    }
}

#[derive(Debug, Default)]
pub(super) struct UserObjects {
    objects: HashMap<u64, Object>,
}

#[derive(Debug)]
struct Object {
    destructor: HostFunction,
    references: u64,
}

/// References a graph has, by object.
pub(super) type Held = HashMap<u64, u64>;

impl UserObjects {
    fn retain(&mut self, object: u64, count: u64) -> CudaResult<()> {
        self.objects.get_mut(&object).ok_or(CudaError::INVALID_VALUE)?.references += count;
        Ok(())
    }

    fn release(&mut self, object: u64, count: u64) -> CudaResult<Option<Destructor>> {
        let found = self.objects.get_mut(&object).ok_or(CudaError::INVALID_VALUE)?;
        found.references = found.references.checked_sub(count).ok_or(CudaError::INVALID_VALUE)?;
        if found.references > 0 {
            return Ok(None);
        }
        Ok(self.objects.remove(&object).map(|object| Destructor(object.destructor)))
    }

    /// Another holder has the same references.
    pub(super) fn share(&mut self, held: &Held) {
        for (object, count) in held {
            // A held object is alive.
            let _ = self.retain(*object, *count);
        }
    }

    /// A holder is gone.
    pub(super) fn release_all(&mut self, held: &Held) -> Vec<Destructor> {
        held.iter().filter_map(|(object, count)| self.release(*object, *count).ok().flatten()).collect()
    }
}

impl Graphs {
    /// An object with so many references of the program's.
    ///
    /// # Errors
    /// INVALID_VALUE for no references.
    pub fn create_object(&self, destructor: HostFunction, references: u32) -> CudaResult<UserObject> {
        if references == 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        let mut state = self.lock();
        let id = state.next_id();
        state.objects.objects.insert(id, Object { destructor, references: references.into() });
        Ok(UserObject(value(Kind::UserObject, id)))
    }

    /// More references of the program's.
    ///
    /// # Errors
    /// INVALID_VALUE where there is no such object, or the count is 0 or beyond INT_MAX.
    pub fn retain_object(&self, object: UserObject, count: u32) -> CudaResult<()> {
        let object = counted(object, count)?;
        self.lock().objects.retain(object, count.into())
    }

    /// Fewer references of the program's.
    ///
    /// # Errors
    /// As [`Graphs::retain_object`], and where there are not that many.
    pub fn release_object(&self, object: UserObject, count: u32) -> CudaResult<()> {
        let object = counted(object, count)?;
        let over = self.lock().objects.release(object, count.into())?;
        if let Some(destructor) = over {
            destructor.call();
        }
        Ok(())
    }

    /// A graph holds an object; with `moves` the references are the program's that it gives away.
    ///
    /// # Errors
    /// INVALID_VALUE where graph or object do not exist, or the count is 0 or beyond INT_MAX.
    pub fn hold_object(&self, graph: Graph, object: UserObject, count: u32, moves: bool) -> CudaResult<()> {
        let object = counted(object, count)?;
        let mut state = self.lock();
        state.body(graph)?;
        if !moves {
            state.objects.retain(object, count.into())?;
        } else if !state.objects.objects.contains_key(&object) {
            return Err(CudaError::INVALID_VALUE);
        }
        *state.body_mut(graph)?.held.entry(object).or_insert(0) += u64::from(count);
        Ok(())
    }

    /// A graph lets references go.
    ///
    /// # Errors
    /// INVALID_VALUE where it does not hold that many.
    pub fn let_object_go(&self, graph: Graph, object: UserObject, count: u32) -> CudaResult<()> {
        let object = counted(object, count)?;
        let mut state = self.lock();
        let held = &mut state.body_mut(graph)?.held;
        let left = held.get(&object).and_then(|held| held.checked_sub(count.into()));
        let left = left.ok_or(CudaError::INVALID_VALUE)?;
        if left == 0 {
            held.remove(&object);
        } else {
            held.insert(object, left);
        }
        let over = state.objects.release(object, count.into())?;
        drop(state);
        if let Some(destructor) = over {
            destructor.call();
        }
        Ok(())
    }
}

fn counted(object: UserObject, count: u32) -> CudaResult<u64> {
    // CUDA's bound is INT_MAX.
    if count == 0 || i32::try_from(count).is_err() {
        return Err(CudaError::INVALID_VALUE);
    }
    id(Kind::UserObject, object.0)
}
