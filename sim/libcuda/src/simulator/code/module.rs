//! Modules: an image loaded into one context, found by its handle.
//! Names come in, functions and addresses of variables go out. A module of a library is a window on the library's
//! program in that context and is not unloaded by itself.

use std::collections::HashMap;
use std::ffi::CStr;
use std::sync::{Arc, Mutex, RwLock};

use floe_abi::{CudaError, CudaResult, DevicePtr, Function, Module, module_loading_mode};
use floe_image::Image;
use floe_surface::{JitOptions, ModuleCalls};

use super::instance;
use super::instance::Instance;
use super::kernel::Source;
use crate::simulator::Simulator;
use crate::simulator::calls::context::ContextState;
use floe_lock::lock;

/// A module.
pub(crate) struct ModuleState {
    pub(crate) instance: Arc<Instance>,
    /// The library it belongs to, if any.
    library: Option<u64>,
    functions: Mutex<HashMap<String, u64>>,
}

/// All modules of the process.
#[derive(Default)]
pub(crate) struct Modules {
    by_handle: RwLock<HashMap<u64, Arc<ModuleState>>>,
}

impl Modules {
    pub(crate) fn get(&self, module: Module) -> CudaResult<Arc<ModuleState>> {
        let modules = floe_lock::read(&self.by_handle);
        modules.get(&module.0).cloned().ok_or(CudaError::INVALID_HANDLE)
    }

    fn insert(&self, handle: u64, module: ModuleState) {
        floe_lock::write(&self.by_handle).insert(handle, Arc::new(module));
    }

    /// Takes out the modules that `leaves` names, with their handles.
    pub(crate) fn remove_where(&self, leaves: impl Fn(u64, &ModuleState) -> bool) -> Vec<(u64, Arc<ModuleState>)> {
        let mut modules = floe_lock::write(&self.by_handle);
        let handles: Vec<u64> =
            modules.iter().filter(|(handle, module)| leaves(**handle, module)).map(|(handle, _)| *handle).collect();
        handles.into_iter().filter_map(|handle| modules.remove(&handle).map(|module| (handle, module))).collect()
    }
}

impl ModuleState {
    pub(crate) fn belongs_to(&self, library: u64) -> bool {
        self.library == Some(library)
    }
}

/// A name from C; names of kernels and variables are ASCII.
pub(crate) fn name_of(name: &CStr) -> CudaResult<&str> {
    name.to_str().map_err(|_| CudaError::NOT_FOUND)
}

/// The address of a variable.
pub(crate) fn variable(instance: &Instance, name: &CStr) -> CudaResult<(DevicePtr, usize)> {
    let (address, bytes) = instance.program.global(name_of(name)?).ok_or(CudaError::NOT_FOUND)?;
    Ok((DevicePtr(address), usize::try_from(bytes).map_err(|_| CudaError::UNKNOWN)?))
}

/// The address of a texture reference.
pub(crate) fn texture_reference(instance: &Instance, name: &CStr) -> CudaResult<u64> {
    let name = name_of(name)?;
    let found = instance.program.texture_references().find(|(known, _)| *known == name);
    found.map(|(_, address)| address).ok_or(CudaError::NOT_FOUND)
}

impl Simulator {
    /// The module that shows a library's program in a context.
    pub(crate) fn module_of_library(&self, library: u64, instance: Arc<Instance>) -> Module {
        let modules = floe_lock::read(&self.modules.by_handle);
        let existing = modules.iter().find(|(_, module)| Arc::ptr_eq(&module.instance, &instance));
        if let Some((handle, _)) = existing {
            return Module(*handle);
        }
        drop(modules);
        let handle = self.handles.next();
        self.modules.insert(handle, ModuleState { instance, library: Some(library), functions: Mutex::default() });
        Module(handle)
    }

    /// Forgets everything that was loaded into a context which is ending and has no work left.
    pub(crate) fn unload_of_context(&self, context: &ContextState) {
        for (handle, module) in self.modules.remove_where(|_, module| module.instance.context == context.serial) {
            self.functions.remove_of_module(handle);
            self.texture_references.forget(|its| its.0 == handle);
            if module.library.is_none() {
                self.discard(&module.instance);
            }
        }
        for instance in self.libraries.take_instances_of(context.serial) {
            self.discard(&instance);
        }
        self.functions.forget_context(context.serial);
    }

    fn function(&self, module: Module, state: &ModuleState, name: &str) -> CudaResult<Function> {
        let mut functions = lock(&state.functions);
        if let Some(handle) = functions.get(name) {
            return Ok(Function(*handle));
        }
        let source = Source::Module { module: module.0, instance: Arc::clone(&state.instance) };
        let handle = self.functions.insert(self.handles.next(), name, source);
        functions.insert(name.to_string(), handle);
        Ok(Function(handle))
    }
}

impl ModuleCalls for Simulator {
    fn module_load_data(&self, image: &Image, options: &mut JitOptions) -> CudaResult<Module> {
        let (context, device) = self.working_device()?;
        let code = instance::read(image, device, options)?;
        let instance = Arc::new(self.instantiate(&context, &code, options)?);
        let handle = self.handles.next();
        self.modules.insert(handle, ModuleState { instance, library: None, functions: Mutex::default() });
        Ok(Module(handle))
    }

    fn module_unload(&self, module: Module) -> CudaResult<()> {
        self.current()?;
        let state = self.modules.get(module)?;
        if state.library.is_some() {
            return Err(CudaError::NOT_PERMITTED);
        }
        self.wait_everything();
        self.modules.remove_where(|handle, _| handle == module.0);
        self.functions.remove_of_module(module.0);
        self.texture_references.forget(|its| its == module);
        self.discard(&state.instance);
        Ok(())
    }

    fn module_get_loading_mode(&self) -> CudaResult<u32> {
        // The runtime asks this to load its libraries at once; kernels are lowered at their first use either way.
        let eager = self.eager_loading;
        Ok(if eager { module_loading_mode::EAGER_LOADING } else { module_loading_mode::LAZY_LOADING })
    }

    fn module_get_function(&self, module: Module, name: &CStr) -> CudaResult<Function> {
        let state = self.modules.get(module)?;
        let name = name_of(name)?;
        self.lowered(&state.instance, name)?;
        self.function(module, &state, name)
    }

    fn module_get_function_count(&self, module: Module) -> CudaResult<u32> {
        let count = self.modules.get(module)?.instance.program.kernel_names().len();
        u32::try_from(count).map_err(|_| CudaError::UNKNOWN)
    }

    fn module_enumerate_functions(&self, functions: &mut [Function], module: Module) -> CudaResult<()> {
        let state = self.modules.get(module)?;
        for (function, name) in functions.iter_mut().zip(state.instance.program.kernel_names()) {
            *function = self.function(module, &state, name)?;
        }
        Ok(())
    }

    fn module_get_global(&self, module: Module, name: &CStr) -> CudaResult<(DevicePtr, usize)> {
        variable(&self.modules.get(module)?.instance, name)
    }
}
