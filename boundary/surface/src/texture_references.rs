//! Texture references of modules, by name: what a program says of each is kept here, for both of our libraries. Changes come in
//! one by one; whenever one changes what kernels read, the whole state goes to the implementation. What nobody reads is
//! told to nobody. The defaults are those of an H200's driver.

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::sync::Mutex;

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
    state: TextureReferenceState,
}

/// The texture references of the process.
#[derive(Debug, Default)]
pub struct TextureReferences {
    kept: Mutex<References>,
}

#[derive(Debug, Default)]
struct References {
    last: u64,
    by_number: HashMap<u64, Kept>,
}

impl References {
    fn add(&mut self, reader: Option<(Module, CString)>) -> TextureReference {
        self.last += 1;
        self.by_number.insert(self.last, Kept { reader, state: TextureReferenceState::default() });
        TextureReference(self.last)
    }

    fn get(&self, reference: TextureReference) -> CudaResult<&Kept> {
        self.by_number.get(&reference.0).ok_or(CudaError::INVALID_VALUE)
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
        let mut kept = lock(&self.kept);
        let is_it = |its: &Kept| its.reader.as_ref().is_some_and(|(its, known)| *its == module && **known == *name);
        if let Some((number, _)) = kept.by_number.iter().find(|(_, its)| is_it(its)) {
            return Ok(TextureReference(*number));
        }
        check()?;
        Ok(kept.add(Some((module, name.to_owned()))))
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
        lock(&self.kept).get(reference).map(|kept| kept.state)
    }

    /// Changes what is said of a reference, unless `bind` refuses; it is told where a module reads something, or did.
    pub(crate) fn change(
        &self,
        reference: TextureReference,
        change: impl FnOnce(&mut TextureReferenceState) -> CudaResult<()>,
        bind: impl FnOnce(Module, &CStr, &TextureReferenceState) -> CudaResult<()>,
    ) -> CudaResult<()> {
        // Held meanwhile, so that of two threads' changes the last is the one that kernels read.
        let mut kept = lock(&self.kept);
        let known = kept.get(reference)?;
        let mut state = known.state;
        change(&mut state)?;
        state.settle();
        if let Some((module, name)) = &known.reader
            && (state.resource.is_some() || known.state.resource.is_some())
        {
            bind(*module, name, &state)?;
        }
        if let Some(known) = kept.by_number.get_mut(&reference.0) {
            known.state = state;
        }
        Ok(())
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
            references.change(reference, change, bind)
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
}
