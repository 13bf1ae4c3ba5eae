//! Libraries: images the process holds independent of contexts, loaded into a vGPU when they are first used there. An
//! image comes in. It stays where the program keeps it, or the parts for the devices are kept here. So another device,
//! or the same one after a reset, can have it later.

use std::borrow::Cow;
use std::ffi::CStr;
use std::sync::Arc;

use floe_abi::{CudaError, CudaResult, DevicePtr, Kernel, Library, Module};
use floe_image::{Limits, Takes};
use floe_surface::{Image, JitOptions, LibraryCalls};

use crate::client::Client;
use crate::log::log;
use crate::objects::device::DeviceState;
use crate::objects::kernel::KernelState;
use crate::objects::library::LibraryState;
use crate::objects::module::load::is_plain;
use crate::objects::module::{as_pair, name_of};
use crate::vgpu::Vgpu;
use crate::vgpu::handles::{Handle, Kind};
use floe_lock::lock;

impl Client {
    fn library(&self, library: Library) -> CudaResult<Arc<LibraryState>> {
        let handle = Handle::of(Kind::Library, library.0).ok_or(CudaError::INVALID_HANDLE)?;
        self.libraries.get(handle.id).ok_or(CudaError::INVALID_HANDLE)
    }

    /// The device a library's names are looked up on: the current context's, else the first, since libraries need no context.
    fn library_device(&self) -> CudaResult<&DeviceState> {
        match self.current() {
            Ok(context) => self.device_having(&context.vgpu),
            Err(_) => Ok(&self.devices()?[0]),
        }
    }

    /// A library's kernel of this name, made known to the process.
    fn library_kernel(&self, library: &Arc<LibraryState>, name: &str) -> Arc<KernelState> {
        let mut kernels = lock(&library.kernels);
        if let Some(kernel) = kernels.get(name) {
            return Arc::clone(kernel);
        }
        let kernel = Arc::new(KernelState::new(self.next_id(), library, name));
        self.kernels.insert(kernel.id(), Arc::clone(&kernel));
        kernels.insert(name.to_owned(), Arc::clone(&kernel));
        kernel
    }

    /// The image in the form it is kept in: what the program preserves as it is, else what any device takes of it.
    fn to_keep(&self, image: Image<'static>) -> CudaResult<Image<'static>> {
        if image.containers.iter().all(|container| matches!(container, Cow::Borrowed(_))) {
            return Ok(image);
        }
        let takes: Vec<Takes> = self.devices()?.iter().map(|device| device.vgpu.takes).collect();
        Ok(image.kept_for(&takes, &Limits::default()).to_image())
    }

    /// Whether an image may stay here until the program asks for one of its kernels, as with CUDA's lazy loading. Such
    /// an image holds machine code for the device: nothing is compiled, and nobody waits for a log.
    fn may_wait(&self, image: &Image<'_>, vgpu: &Vgpu, options: &JitOptions) -> CudaResult<bool> {
        let wishes = options.plain().next().is_some() || options.unsupported().next().is_some();
        let logs = options.info_capacity() > 0 || options.error_capacity() > 0;
        let certain = || image.kept_for(&[vgpu.takes], &Limits::default()).certain;
        let why = if self.settings()?.eager_loading {
            "that is the setting"
        } else if wishes || logs {
            "the program names options"
        } else if !certain() {
            "it may need a compiler"
        } else {
            return Ok(true);
        };
        log!(Debug, "a library is loaded at once, not with its first kernel: {} bytes: {why}", image.size());
        Ok(false)
    }
}

impl LibraryCalls for Client {
    fn library_load_data(&self, image: Image<'static>, options: &mut JitOptions) -> CudaResult<Library> {
        let vgpu = &self.library_device()?.vgpu;
        vgpu.errors.report()?;
        let image = self.to_keep(image)?;
        let library = Arc::new(LibraryState::new(self.next_id(), image, options.without_answers(), self.early()));
        if self.may_wait(&library.image, vgpu, options)? {
            library.ask_ahead(vgpu);
        } else {
            if is_plain(options) {
                library.ask_ahead(vgpu);
            }
            // Loaded now, so that what is wrong with the image is this call's error and the log goes to its buffers.
            library.on_with(vgpu, options)?;
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
        self.devices()?.iter().take(1).try_for_each(|device| state.give_up_ahead(&device.vgpu))?;
        let loaded: Vec<_> = lock(&state.loaded).drain().collect();
        for (_, loaded) in loaded {
            let objects = self.objects(loaded.vgpu())?;
            objects.modules.remove(loaded.id());
            self.texture_references.forget(|module| module == loaded.handle());
            loaded.unload(&objects.functions)?;
        }
        Ok(())
    }

    fn library_get_kernel(&self, library: Library, name: &CStr) -> CudaResult<Kernel> {
        let (state, name) = (self.library(library)?, name_of(name)?);
        if let Some(kernel) = lock(&state.kernels).get(name) {
            return Ok(kernel.handle());
        }
        // Only the server knows whether there is such a kernel, unless the image says so (`--far`).
        state.function(self.library_device()?, name)?;
        Ok(self.library_kernel(&state, name).handle())
    }

    fn library_get_kernel_count(&self, library: Library) -> CudaResult<u32> {
        let loaded = self.library(library)?.on(&self.library_device()?.vgpu)?;
        u32::try_from(loaded.names()?.len()).map_err(|_| CudaError::INVALID_VALUE)
    }

    fn library_enumerate_kernels(&self, kernels: &mut [Kernel], library: Library) -> CudaResult<()> {
        let state = self.library(library)?;
        let loaded = state.on(&self.library_device()?.vgpu)?;
        for (slot, name) in kernels.iter_mut().zip(loaded.names()?) {
            *slot = self.library_kernel(&state, name).handle();
        }
        Ok(())
    }

    fn library_get_module(&self, library: Library) -> CudaResult<Module> {
        let context = self.working()?;
        let loaded = self.library(library)?.module(&context.vgpu)?;
        // Known as a module from now on; unloading the module is unloading its place in the library.
        self.objects(&context.vgpu)?.modules.insert(loaded.id(), Arc::clone(&loaded));
        Ok(loaded.handle())
    }

    fn library_get_global(&self, library: Library, name: &CStr) -> CudaResult<(DevicePtr, usize)> {
        let context = self.working()?;
        let name = name_of(name)?;
        let loaded = self.library(library)?.on_for_variable(&context.vgpu, name)?;
        as_pair(self.variable(&loaded, name)?)
    }

    fn library_get_managed(&self, library: Library, name: &CStr) -> CudaResult<(DevicePtr, usize)> {
        let (state, name) = (self.library(library)?, name_of(name)?);
        let loaded = state.only_on(&self.library_device()?.vgpu)?;
        let found = loaded.global(name)?;
        if !loaded.is_managed(name) {
            return Err(CudaError::NOT_FOUND);
        }
        self.variable(&loaded, name)?;
        as_pair(found)
    }
}
