//! Texture references of modules, by name: what a program says of each is kept here, for both of our libraries. Changes come in
//! one by one; whenever one changes what kernels read, the whole state goes to the implementation. What nobody reads is
//! told to nobody. The defaults are those of an H200's driver.

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::sync::{Arc, Mutex};

use floe_abi::{
    CudaError, CudaResult, Module, ResourceDescriptor, TextureDescriptor, TextureReference, address_mode, array_format,
    resource_type,
};
use floe_lock::lock;

/// All that a program has said of a reference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TextureReferenceState {
    /// What is read; reads are 0 without.
    pub resource: Option<ResourceDescriptor>,
    /// The format of elements, `CUarray_format`. Of arrays it is the array's own that counts.
    pub format: u32,
    /// Channels of an element: 1, 2 or 4.
    pub channels: u32,
    /// How it is read.
    pub description: TextureDescriptor,
}

impl Default for TextureReferenceState {
    fn default() -> Self {
        let description = TextureDescriptor { address_modes: [address_mode::CLAMP; 3], ..TextureDescriptor::default() };
        Self { resource: None, format: array_format::FLOAT, channels: 1, description }
    }
}

impl TextureReferenceState {
    /// Memory is read in the format that was said last.
    fn settle(&mut self) {
        if let Some(resource) = &mut self.resource
            && [resource_type::LINEAR, resource_type::PITCH2D].contains(&resource.kind)
        {
            (resource.format, resource.channels) = (self.format, self.channels);
        }
    }

    /// The handle or address that is read, where it is one of these kinds.
    pub(crate) fn place(&self, kinds: &[u32]) -> CudaResult<u64> {
        let found = self.resource.filter(|resource| kinds.contains(&resource.kind));
        found.map(|resource| resource.place).ok_or(CudaError::INVALID_VALUE)
    }
}

/// A reference: the module that reads it, if one does, and what was said.
#[derive(Debug)]
struct Kept {
    reader: Option<(Module, CString)>,
    /// Held while a change is told, so that of two threads' changes the last is the one that kernels read.
    state: Mutex<TextureReferenceState>,
}

/// The texture references of the process.
#[derive(Debug, Default)]
pub struct TextureReferences {
    kept: Mutex<References>,
    /// Held while it is found out whether a module has a reference, which begins it anew.
    finding: Mutex<()>,
}

#[derive(Debug, Default)]
struct References {
    last: u64,
    by_number: HashMap<u64, Arc<Kept>>,
}

impl Kept {
    /// Tells what kernels read, where a module reads it.
    fn bind(&self, state: &TextureReferenceState, bind: &impl Bind) -> CudaResult<()> {
        self.reader.as_ref().map_or(Ok(()), |(module, name)| bind(*module, name, state))
    }

    /// What is said after a change to `new` was refused: `Err`, and all is as before, where that can be. What was read may be gone,
    /// or have no room for elements of a new format. Then kernels read nothing until something is bound.
    fn fall_back(
        &self,
        (known, new): (&mut TextureReferenceState, &TextureReferenceState),
        changes: Changes,
        error: CudaError,
        bind: &impl Bind,
    ) -> CudaResult<()> {
        let is_of_format = changes == Changes::Word && new.description == known.description;
        if !is_of_format && self.bind(known, bind).is_ok() {
            return Err(error);
        }
        let words = if changes == Changes::Word { *new } else { *known };
        *known = TextureReferenceState { resource: None, ..words };
        self.bind(known, bind)?;
        if changes == Changes::Word { Ok(()) } else { Err(error) }
    }
}

/// What a change is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Changes {
    /// What is read.
    Resource,
    /// How it is read.
    Word,
}

/// Tells an implementation what kernels of a module read by the reference of a name.
pub trait Bind: Fn(Module, &CStr, &TextureReferenceState) -> CudaResult<()> {}

impl<F: Fn(Module, &CStr, &TextureReferenceState) -> CudaResult<()>> Bind for F {}

impl References {
    fn add(&mut self, reader: Option<(Module, CString)>) -> TextureReference {
        self.last += 1;
        self.by_number.insert(self.last, Arc::new(Kept { reader, state: Mutex::default() }));
        TextureReference(self.last)
    }

    fn get(&self, reference: TextureReference) -> CudaResult<&Arc<Kept>> {
        self.by_number.get(&reference.0).ok_or(CudaError::INVALID_VALUE)
    }

    fn of_module(&self, module: Module, name: &CStr) -> Option<TextureReference> {
        let is_it = |its: &Kept| its.reader.as_ref().is_some_and(|(its, known)| *its == module && **known == *name);
        let found = self.by_number.iter().find(|(_, its)| is_it(its));
        found.map(|(number, _)| TextureReference(*number))
    }
}

impl TextureReferences {
    /// The reference of a module's name: the same at each question. `check` says whether there is one, and is asked once.
    ///
    /// # Errors
    /// What `check` says.
    pub fn of_module(
        &self,
        module: Module,
        name: &CStr,
        check: impl FnOnce() -> CudaResult<()>,
    ) -> CudaResult<TextureReference> {
        let known = || lock(&self.kept).of_module(module, name);
        if let Some(known) = known() {
            return Ok(known);
        }
        let _finding = lock(&self.finding);
        if let Some(known) = known() {
            return Ok(known);
        }
        check()?;
        Ok(lock(&self.kept).add(Some((module, name.to_owned()))))
    }

    /// One that no module reads.
    pub(crate) fn make(&self) -> TextureReference {
        lock(&self.kept).add(None)
    }

    /// The program will not name it any more. A module's stays: the module reads it.
    pub(crate) fn end(&self, reference: TextureReference) -> CudaResult<()> {
        let mut kept = lock(&self.kept);
        if kept.get(reference)?.reader.is_none() {
            kept.by_number.remove(&reference.0);
        }
        Ok(())
    }

    /// The references of modules that are gone end with them.
    pub fn forget(&self, is_gone: impl Fn(Module) -> bool) {
        let reads = |kept: &Kept| kept.reader.as_ref().is_none_or(|(module, _)| !is_gone(*module));
        lock(&self.kept).by_number.retain(|_, kept| reads(kept));
    }

    pub(crate) fn state(&self, reference: TextureReference) -> CudaResult<TextureReferenceState> {
        let kept = Arc::clone(lock(&self.kept).get(reference)?);
        let state = *lock(&kept.state);
        Ok(state)
    }

    /// Changes what is said of a reference, unless `bind` refuses; it is told where a module reads something, or did.
    pub(crate) fn change(
        &self,
        reference: TextureReference,
        changes: Changes,
        change: impl FnOnce(&mut TextureReferenceState) -> CudaResult<()>,
        bind: impl Bind,
    ) -> CudaResult<()> {
        let kept = Arc::clone(lock(&self.kept).get(reference)?);
        let mut known = lock(&kept.state);
        let mut state = *known;
        change(&mut state)?;
        state.settle();
        if (state.resource.is_some() || known.resource.is_some())
            && let Err(error) = kept.bind(&state, &bind)
        {
            return kept.fall_back((&mut *known, &state), changes, error, &bind);
        }
        *known = state;
        Ok(())
    }

    /// What these descriptors name is about to go: kernels read nothing there any more.
    pub fn let_go(&self, goes: impl Fn(&ResourceDescriptor) -> bool, bind: impl Bind) {
        let all: Vec<_> = lock(&self.kept).by_number.values().cloned().collect();
        for kept in all {
            let mut state = lock(&kept.state);
            if state.resource.as_ref().is_some_and(&goes) {
                state.resource = None;
                // An implementation that fails in this runs no kernels either.
                let _ = kept.bind(&state, &bind);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    fn linear(place: u64) -> ResourceDescriptor {
        ResourceDescriptor { kind: resource_type::LINEAR, place, ..ResourceDescriptor::default() }
    }

    #[test]
    fn a_name_has_one_reference_until_its_module_ends() {
        let references = TextureReferences::default();
        let get = |module, exists| {
            let check = || if exists { Ok(()) } else { Err(CudaError::NOT_FOUND) };
            references.of_module(Module(module), c"tex", check)
        };
        assert_eq!(get(7, false), Err(CudaError::NOT_FOUND));
        let first = get(7, true);
        assert_eq!(get(7, false), first, "asked once");
        assert_ne!(get(8, true), first);
        assert_eq!(references.end(first.unwrap_or_default()), Ok(()));
        assert_eq!(get(7, false), first, "the module reads it still");
        references.forget(|module| module == Module(7));
        assert_eq!(references.state(first.unwrap_or_default()), Err(CudaError::INVALID_VALUE));
        assert_eq!(get(7, false), Err(CudaError::NOT_FOUND));
        assert!(get(8, false).is_ok());
    }

    #[test]
    fn what_kernels_read_is_told_as_a_whole_and_what_none_reads_is_not() {
        let references = TextureReferences::default();
        let reference = references.of_module(Module(1), c"tex", || Ok(())).unwrap_or_default();
        let told = RefCell::new(Vec::new());
        let change = |what: &dyn Fn(&mut TextureReferenceState)| {
            let change = |state: &mut TextureReferenceState| {
                what(state);
                Ok(())
            };
            let bind = |_: Module, _: &CStr, state: &TextureReferenceState| {
                told.borrow_mut().push(*state);
                if state.description.filter_mode > 1 { Err(CudaError::INVALID_VALUE) } else { Ok(()) }
            };
            references.change(reference, Changes::Word, change, bind)
        };
        assert_eq!(change(&|state| state.format = 1), Ok(()));
        assert_eq!(told.borrow().len(), 0);
        assert_eq!(change(&|state| state.resource = Some(linear(512))), Ok(()));
        assert_eq!(change(&|state| state.channels = 4), Ok(()));
        let formats: Vec<_> =
            told.borrow().iter().filter_map(|it| it.resource.map(|it| (it.format, it.channels))).collect();
        assert_eq!(formats, [(1, 1), (1, 4)], "memory is read in the format that was said last");
        assert_eq!(change(&|state| state.description.filter_mode = 9), Err(CudaError::INVALID_VALUE));
        assert_eq!(references.state(reference).map(|state| state.description.filter_mode), Ok(0), "as before");
        assert_eq!(change(&|state| state.resource = None), Ok(()));
        assert_eq!(told.borrow().last().map(|state| state.resource), Some(None), "it is read no more");
        let before = told.borrow().len();
        assert_eq!(change(&|state| state.format = 2), Ok(()));
        assert_eq!(told.borrow().len(), before);
    }

    /// An implementation where these places are gone, and rows have room for one channel.
    fn bound(gone: &[u64], told: &RefCell<Option<TextureReferenceState>>) -> impl Bind {
        move |_: Module, _: &CStr, state: &TextureReferenceState| {
            let is_good = |read: &ResourceDescriptor| !gone.contains(&read.place) && read.channels == 1;
            if state.resource.as_ref().is_some_and(|read| !is_good(read)) || state.description.filter_mode > 1 {
                return Err(CudaError::INVALID_HANDLE);
            }
            *told.borrow_mut() = Some(*state);
            Ok(())
        }
    }

    #[test]
    fn what_is_gone_is_read_no_more_and_something_else_can_be_bound() {
        let (references, told) = (TextureReferences::default(), RefCell::new(None));
        let reference = references.of_module(Module(1), c"tex", || Ok(())).unwrap_or_default();
        let change = |gone: &[u64], what: &dyn Fn(&mut TextureReferenceState)| {
            let change = |state: &mut TextureReferenceState| {
                what(state);
                Ok(())
            };
            references.change(reference, Changes::Word, change, bound(gone, &told))
        };
        let read = |gone: &[u64], at: u64| {
            let change = |state: &mut TextureReferenceState| {
                state.resource = Some(linear(at));
                Ok(())
            };
            references.change(reference, Changes::Resource, change, bound(gone, &told))
        };
        let place = || told.borrow().and_then(|state| state.resource).map(|read| read.place);
        assert_eq!(read(&[], 512), Ok(()));
        assert_eq!(change(&[512], &|state| state.description.flags = 2), Ok(()), "a word is only kept");
        assert_eq!(place(), None);
        assert_eq!(read(&[512], 1024), Ok(()));
        assert_eq!((place(), told.borrow().map(|state| state.description.flags)), (Some(1024), Some(2)));
        assert_eq!(read(&[1024], 1024), Err(CudaError::INVALID_HANDLE));
        assert_eq!(place(), None);
        assert_eq!(read(&[], 2048), Ok(()));
        assert_eq!(change(&[], &|state| state.description.filter_mode = 7), Err(CudaError::INVALID_HANDLE));
        assert_eq!(place(), Some(2048), "what was refused changes nothing");
        references.let_go(|read| read.place == 4096, bound(&[], &told));
        assert_eq!(place(), Some(2048));
        references.let_go(|read| read.place == 2048, bound(&[], &told));
        assert_eq!(place(), None);
    }

    #[test]
    fn a_format_that_the_rows_have_no_room_for_is_kept_for_other_rows() {
        let (references, told) = (TextureReferences::default(), RefCell::new(None));
        let reference = references.of_module(Module(1), c"tex", || Ok(())).unwrap_or_default();
        let bind = |state: &mut TextureReferenceState| {
            state.resource = Some(linear(512));
            Ok(())
        };
        assert_eq!(references.change(reference, Changes::Resource, bind, bound(&[], &told)), Ok(()));
        let widen = |state: &mut TextureReferenceState| {
            state.channels = 4;
            Ok(())
        };
        assert_eq!(references.change(reference, Changes::Word, widen, bound(&[], &told)), Ok(()));
        assert_eq!(told.borrow().map(|state| (state.resource, state.channels)), Some((None, 4)));
    }
}
