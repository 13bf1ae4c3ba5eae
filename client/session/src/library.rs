//! Libraries: images the process holds independent of contexts, loaded into a vGPU when they are first used there. An image
//! comes in; it stays where the program keeps it, or what the devices take of it is kept here, so that another device, or
//! the same one after a reset, can have it later.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ffi::CStr;
use std::sync::{Arc, Mutex, OnceLock};

use floe_abi::{Context, CudaError, CudaResult, DevicePtr, Kernel, Library, Module};
use floe_image::{Limits, Takes};
use floe_surface::{Image, JitOptions, LibraryCalls};

use crate::client::Client;
use crate::handles::{Handle, Kind};
use crate::kernel::{FunctionState, KernelState};
use crate::log::log;
use crate::module::{Loaded, as_pair, name_of};
use crate::session::Session;
use crate::table::lock;

/// One library.
#[derive(Debug)]
pub(crate) struct LibraryState {
    id: u64,
    image: Image<'static>,
    /// By the vGPU's ordinal.
    loaded: Mutex<HashMap<u8, Arc<Loaded>>>,
    /// The vGPU its managed variables are on: each is one for all of the process, so the others have none of its kernels.
    only: OnceLock<u8>,
    kernels: Mutex<HashMap<String, Arc<KernelState>>>,
}

impl LibraryState {
    /// What the program calls it.
    pub(crate) fn handle(&self) -> Library {
        Library(Handle::new(Kind::Library, 0, self.id).value())
    }

    /// The library on a vGPU, loaded there now if it is not yet.
    pub(crate) fn on(&self, session: &Arc<Session>) -> CudaResult<Arc<Loaded>> {
        self.on_with(session, &mut JitOptions::none())
    }

    fn on_with(&self, session: &Arc<Session>, options: &mut JitOptions) -> CudaResult<Arc<Loaded>> {
        let mut loaded = lock(&self.loaded);
        if let Some(loaded) = loaded.get(&session.ordinal).filter(|loaded| loaded.is_valid()) {
            return Ok(Arc::clone(loaded));
        }
        self.check_may_be_on(session)?;
        let fresh = Loaded::load(session, Context::NULL, &self.image, options)?;
        loaded.insert(session.ordinal, Arc::clone(&fresh));
        Ok(fresh)
    }

    /// The same, and on no other from now on.
    fn only_on(&self, session: &Arc<Session>) -> CudaResult<Arc<Loaded>> {
        let only = *self.only.get_or_init(|| session.ordinal);
        let elsewhere = lock(&self.loaded).keys().any(|ordinal| *ordinal != only);
        if elsewhere {
            self.refuse_others(only);
            return Err(CudaError::NOT_SUPPORTED);
        }
        self.on(session)
    }

    fn check_may_be_on(&self, session: &Session) -> CudaResult<()> {
        match self.only.get() {
            Some(only) if *only != session.ordinal => {
                self.refuse_others(*only);
                Err(CudaError::NOT_SUPPORTED)
            }
            _ => Ok(()),
        }
    }

    fn refuse_others(&self, only: u8) {
        log!(
            Warn,
            "a library with managed variables can be used on one vGPU of a process: library {}, device {only}",
            self.id
        );
    }

    /// Its kernel of this name on a vGPU; the library is loaded there with the same question if it is not yet.
    pub(crate) fn function(&self, session: &Arc<Session>, name: &str) -> CudaResult<Arc<FunctionState>> {
        let mut loaded = lock(&self.loaded);
        if let Some(known) = loaded.get(&session.ordinal).filter(|known| known.is_valid()).cloned() {
            drop(loaded);
            return known.function(name);
        }
        self.check_may_be_on(session)?;
        let (fresh, function) = Loaded::load_for(session, &self.image, name)?;
        loaded.insert(session.ordinal, fresh);
        function
    }

    /// Its kernel of this name, made known to the process.
    fn kernel(self: &Arc<Self>, client: &Client, name: &str) -> Arc<KernelState> {
        let mut kernels = lock(&self.kernels);
        if let Some(kernel) = kernels.get(name) {
            return Arc::clone(kernel);
        }
        let kernel = Arc::new(KernelState::new(client.next_id(), self, name));
        client.kernels.insert(kernel.id(), Arc::clone(&kernel));
        kernels.insert(name.to_owned(), Arc::clone(&kernel));
        kernel
    }
}

impl Client {
    fn library(&self, library: Library) -> CudaResult<Arc<LibraryState>> {
        let handle = Handle::of(Kind::Library, library.0).ok_or(CudaError::INVALID_HANDLE)?;
        self.libraries.get(handle.id).ok_or(CudaError::INVALID_HANDLE)
    }

    /// The vGPU a library's names are looked up on: the current context's, else the first, since libraries need no context.
    fn library_session(&self) -> CudaResult<Arc<Session>> {
        match self.current() {
            Ok(context) => Ok(Arc::clone(&context.session)),
            Err(_) => Ok(Arc::clone(&self.devices()?[0].session)),
        }
    }
}

impl Client {
    /// The image in the form it is kept in: what the program preserves as it is, else what any device takes of it.
    fn to_keep(&self, image: Image<'static>) -> CudaResult<Image<'static>> {
        if image.containers.iter().all(|container| matches!(container, Cow::Borrowed(_))) {
            return Ok(image);
        }
        let takes: Vec<Takes> = self.devices()?.iter().map(|device| device.session.takes).collect();
        Ok(image.kept_for(&takes, &Limits::default()).to_image())
    }

    /// Whether an image may stay here until one of its kernels is asked for, as CUDA's lazy loading leaves it: it holds
    /// machine code for the device, so that nothing is compiled and nobody waits for a log.
    fn may_wait(&self, image: &Image<'_>, session: &Session, options: &JitOptions) -> CudaResult<bool> {
        let wishes = options.plain().next().is_some() || options.unsupported().next().is_some();
        let logs = options.info_capacity() > 0 || options.error_capacity() > 0;
        let certain = || image.kept_for(&[session.takes], &Limits::default()).certain;
        Ok(!wishes && !logs && !self.settings()?.eager_loading && certain())
    }
}

impl LibraryCalls for Client {
    fn library_load_data(&self, image: Image<'static>, options: &mut JitOptions) -> CudaResult<Library> {
        let session = self.library_session()?;
        session.errors.report()?;
        let image = self.to_keep(image)?;
        let library = Arc::new(LibraryState {
            id: self.next_id(),
            image,
            loaded: Mutex::default(),
            only: OnceLock::new(),
            kernels: Mutex::default(),
        });
        if !self.may_wait(&library.image, &session, options)? {
            // Loaded now, so that what is wrong with the image is this call's error and the log goes to its buffers.
            library.on_with(&session, options)?;
        }
        self.libraries.insert(library.id, Arc::clone(&library));
        Ok(library.handle())
    }

    fn library_unload(&self, library: Library) -> CudaResult<()> {
        let state = self.library(library)?;
        self.libraries.remove(state.id);
        for kernel in lock(&state.kernels).values() {
            self.kernels.remove(kernel.id());
        }
        let loaded: Vec<_> = lock(&state.loaded).drain().collect();
        for (_, loaded) in loaded {
            loaded.session().modules.remove(loaded.id());
            loaded.unload()?;
        }
        Ok(())
    }

    fn library_get_kernel(&self, library: Library, name: &CStr) -> CudaResult<Kernel> {
        let (state, name) = (self.library(library)?, name_of(name)?);
        if let Some(kernel) = lock(&state.kernels).get(name) {
            return Ok(kernel.handle());
        }
        // Only the server knows whether there is such a kernel.
        state.function(&self.library_session()?, name)?;
        Ok(state.kernel(self, name).handle())
    }

    fn library_get_kernel_count(&self, library: Library) -> CudaResult<u32> {
        let loaded = self.library(library)?.on(&self.library_session()?)?;
        u32::try_from(loaded.names()?.len()).map_err(|_| CudaError::INVALID_VALUE)
    }

    fn library_enumerate_kernels(&self, kernels: &mut [Kernel], library: Library) -> CudaResult<()> {
        let state = self.library(library)?;
        let loaded = state.on(&self.library_session()?)?;
        for (slot, name) in kernels.iter_mut().zip(loaded.names()?) {
            *slot = state.kernel(self, name).handle();
        }
        Ok(())
    }

    fn library_get_module(&self, library: Library) -> CudaResult<Module> {
        let context = self.working()?;
        let loaded = self.library(library)?.on(&context.session)?;
        // Known as a module from now on; unloading the module is unloading its place in the library.
        context.session.modules.insert(loaded.id(), Arc::clone(&loaded));
        Ok(loaded.handle())
    }

    fn library_get_global(&self, library: Library, name: &CStr) -> CudaResult<(DevicePtr, usize)> {
        let context = self.working()?;
        let loaded = self.library(library)?.on(&context.session)?;
        as_pair(self.variable(&loaded, name_of(name)?)?)
    }

    fn library_get_managed(&self, library: Library, name: &CStr) -> CudaResult<(DevicePtr, usize)> {
        let (state, name) = (self.library(library)?, name_of(name)?);
        let loaded = state.only_on(&self.library_session()?)?;
        let found = loaded.global(name)?;
        if !loaded.is_managed(name) {
            return Err(CudaError::NOT_FOUND);
        }
        self.variable(&loaded, name)?;
        as_pair(found)
    }
}
