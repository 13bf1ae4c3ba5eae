//! Libraries: an image for all contexts, loaded into each when it is first needed there.
//! The CUDA runtime uses libraries for every program. Names come in, kernels and variables of the current context go
//! out.
//! A kernel of a library is the same handle in every context.

use std::collections::HashMap;
use std::ffi::CStr;
use std::sync::{Arc, Mutex, RwLock};

use floe_abi::{CudaError, CudaResult, Device, DevicePtr, Kernel, Library, Module};
use floe_image::Image;
use floe_surface::{ContextCalls, JitOptions, LibraryCalls};

use super::instance;
use super::instance::{Code, Instance};
use super::kernel::Source;
use super::module::{name_of, variable};
use crate::simulator::Simulator;
use crate::simulator::calls::context::ContextState;
use floe_lock::lock;

/// A library.
pub(crate) struct LibraryState {
    code: Code,
    /// By the context's serial.
    instances: Mutex<HashMap<u64, Arc<Instance>>>,
    kernels: Mutex<HashMap<String, u64>>,
}

/// All libraries of the process.
#[derive(Default)]
pub(crate) struct Libraries {
    by_handle: RwLock<HashMap<u64, Arc<LibraryState>>>,
}

impl Libraries {
    pub(crate) fn get(&self, library: Library) -> CudaResult<Arc<LibraryState>> {
        let libraries = floe_lock::read(&self.by_handle);
        libraries.get(&library.0).cloned().ok_or(CudaError::INVALID_HANDLE)
    }

    /// Takes what was loaded into a context out of all libraries.
    pub(crate) fn take_instances_of(&self, context: u64) -> Vec<Arc<Instance>> {
        let libraries = floe_lock::read(&self.by_handle);
        libraries.values().filter_map(|library| lock(&library.instances).remove(&context)).collect()
    }
}

impl LibraryState {
    /// The library's program in `context`, loaded there if it is not yet.
    ///
    /// # Errors
    /// Those of loading.
    pub(crate) fn instance(&self, simulator: &Simulator, context: &ContextState) -> CudaResult<Arc<Instance>> {
        self.load(simulator, context, &mut JitOptions::none())
    }

    fn load(
        &self,
        simulator: &Simulator,
        context: &ContextState,
        options: &mut JitOptions,
    ) -> CudaResult<Arc<Instance>> {
        let mut instances = lock(&self.instances);
        if let Some(instance) = instances.get(&context.serial) {
            return Ok(Arc::clone(instance));
        }
        // A managed variable is one for the process, and each context's program has variables of its own.
        if instances.values().any(|other| !other.program.managed().is_empty()) {
            let message = "a library with managed variables can be used in one context of a process";
            return Err(instance::refuse(options, CudaError::NOT_SUPPORTED, message));
        }
        let instance = Arc::new(simulator.instantiate(context, &self.code, options)?);
        instances.insert(context.serial, Arc::clone(&instance));
        Ok(instance)
    }

    /// The library's program in any context: for what is the same in all of them.
    pub(crate) fn any_instance(&self, simulator: &Simulator) -> CudaResult<Arc<Instance>> {
        if let Some(instance) = lock(&self.instances).values().next() {
            return Ok(Arc::clone(instance));
        }
        self.instance(simulator, &*simulator.current()?)
    }
}

impl Simulator {
    /// The context of a library's managed variables: the one that has them, else the current one, else the first
    /// device's primary one, which is then retained. The runtime asks for them before it has made a context.
    fn instance_of_managed(&self, library: &LibraryState) -> CudaResult<Arc<Instance>> {
        let known = lock(&library.instances).values().next().cloned();
        if let Some(known) = known.filter(|known| !known.program.managed().is_empty()) {
            return Ok(known);
        }
        match self.current() {
            Err(CudaError::INVALID_CONTEXT) => {
                let primary = self.device_primary_ctx_retain(Device(0))?;
                let context = self.contexts.get(primary.0).ok_or(CudaError::INVALID_CONTEXT)?;
                library.instance(self, &context)
            }
            current => library.instance(self, &*current?),
        }
    }

    fn kernel_of_library(&self, library: Library, state: &LibraryState, name: &str) -> Kernel {
        let mut kernels = lock(&state.kernels);
        if let Some(handle) = kernels.get(name) {
            return Kernel(*handle);
        }
        let handle = self.functions.insert(self.handles.next(), name, Source::Library(library.0));
        kernels.insert(name.to_string(), handle);
        Kernel(handle)
    }
}

impl LibraryCalls for Simulator {
    fn library_load_data(&self, image: Image<'static>, options: &mut JitOptions) -> CudaResult<Library> {
        let context = self.current().ok();
        let place = context.as_ref().map_or(0, |context| context.device);
        let device = self.devices.get(place).ok_or(CudaError::NO_DEVICE)?;
        let code = instance::read(&image, device, options)?;
        let state = LibraryState { code, instances: Mutex::default(), kernels: Mutex::default() };
        // With a context at hand what is wrong shows now, where the program can read why.
        if let Some(context) = context {
            state.load(self, &context, options)?;
        }
        let handle = self.handles.next();
        let mut libraries = floe_lock::write(&self.libraries.by_handle);
        libraries.insert(handle, Arc::new(state));
        Ok(Library(handle))
    }

    fn library_unload(&self, library: Library) -> CudaResult<()> {
        let state = self.libraries.get(library)?;
        self.wait_everything();
        floe_lock::write(&self.libraries.by_handle).remove(&library.0);
        for (handle, _) in self.modules.remove_where(|_, module| module.belongs_to(library.0)) {
            self.functions.remove_of_module(handle);
            self.texture_references.forget(|module| module.0 == handle);
        }
        self.functions.remove_of_library(library.0);
        for instance in lock(&state.instances).values() {
            self.discard(instance);
        }
        Ok(())
    }

    fn library_get_kernel(&self, library: Library, name: &CStr) -> CudaResult<Kernel> {
        let state = self.libraries.get(library)?;
        let name = name_of(name)?;
        if !state.code.names.iter().any(|known| known == name) {
            return Err(CudaError::NOT_FOUND);
        }
        // Whether it can run shows when it is used: a kernel that cannot must not keep others from being found.
        Ok(self.kernel_of_library(library, &state, name))
    }

    fn library_get_kernel_count(&self, library: Library) -> CudaResult<u32> {
        u32::try_from(self.libraries.get(library)?.code.names.len()).map_err(|_| CudaError::UNKNOWN)
    }

    fn library_enumerate_kernels(&self, kernels: &mut [Kernel], library: Library) -> CudaResult<()> {
        let state = self.libraries.get(library)?;
        for (kernel, name) in kernels.iter_mut().zip(&state.code.names) {
            *kernel = self.kernel_of_library(library, &state, name);
        }
        Ok(())
    }

    fn library_get_module(&self, library: Library) -> CudaResult<Module> {
        let context = self.working()?;
        let instance = self.libraries.get(library)?.instance(self, &context)?;
        Ok(self.module_of_library(library.0, instance))
    }

    fn library_get_global(&self, library: Library, name: &CStr) -> CudaResult<(DevicePtr, usize)> {
        let context = self.working()?;
        variable(&*self.libraries.get(library)?.instance(self, &context)?, name)
    }

    fn library_get_managed(&self, library: Library, name: &CStr) -> CudaResult<(DevicePtr, usize)> {
        self.demand_identity("a __managed__ variable")?;
        let (at, bytes) = variable(&*self.instance_of_managed(&*self.libraries.get(library)?)?, name)?;
        if self.variable_at(at.0).is_some_and(|(_, _, is_managed)| is_managed) {
            Ok((at, bytes))
        } else {
            Err(CudaError::NOT_FOUND)
        }
    }
}
