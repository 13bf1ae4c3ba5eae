//! Modules: an image loaded into one vGPU, its functions and globals. Handles and names come in, what they mean goes out.
//! The image is forgotten when it is loaded; names are asked once.

use std::ffi::CStr;
use std::sync::Arc;

use floe_abi::{CudaError, CudaResult, DevicePtr, Function, Module};
use floe_surface::{Image, JitOptions, ModuleCalls};

use crate::client::Client;
use crate::objects::module::posted::kernels_of;
use crate::objects::module::{Loaded, as_pair, name_of};
use crate::vgpu::handles::{Handle, Kind};

/// CU_MODULE_EAGER_LOADING.
const EAGER: u32 = 1;
/// CU_MODULE_LAZY_LOADING.
const LAZY: u32 = 2;

impl Client {
    pub(crate) fn module(&self, module: Module) -> CudaResult<Arc<Loaded>> {
        let handle = Handle::of(Kind::Module, module.0).ok_or(CudaError::INVALID_HANDLE)?;
        self.device_of(handle)
            .and_then(|device| device.objects.modules.get(handle.id))
            .filter(|module| module.is_valid())
            .ok_or(CudaError::INVALID_HANDLE)
    }
}

impl ModuleCalls for Client {
    fn module_load_data(&self, image: &Image, options: &mut JitOptions) -> CudaResult<Module> {
        let context = self.working()?;
        let loaded = Loaded::load(&context.vgpu, context.handle(), image, options, None)?;
        loaded.describe(|| Arc::new(kernels_of(image, &context.vgpu)));
        self.objects(&context.vgpu)?.modules.insert(loaded.id(), Arc::clone(&loaded));
        Ok(loaded.handle())
    }

    fn module_unload(&self, module: Module) -> CudaResult<()> {
        let loaded = self.module(module)?;
        // A library's module goes with its library.
        if loaded.context().is_null() {
            return Err(CudaError::INVALID_VALUE);
        }
        let objects = self.objects(loaded.vgpu())?;
        if objects.modules.remove(loaded.id()).is_none() {
            return Err(CudaError::INVALID_HANDLE);
        }
        self.texture_references.forget(|its| its == module);
        loaded.unload(&objects.functions)
    }

    fn module_get_loading_mode(&self) -> CudaResult<u32> {
        Ok(if self.settings()?.eager_loading { EAGER } else { LAZY })
    }

    fn module_get_function(&self, module: Module, name: &CStr) -> CudaResult<Function> {
        let loaded = self.module(module)?;
        let function = loaded.function(&self.objects(loaded.vgpu())?.functions, name_of(name)?)?;
        Ok(function.handle())
    }

    fn module_get_function_count(&self, module: Module) -> CudaResult<u32> {
        let loaded = self.module(module)?;
        u32::try_from(loaded.names()?.len()).map_err(|_| CudaError::INVALID_VALUE)
    }

    fn module_enumerate_functions(&self, functions: &mut [Function], module: Module) -> CudaResult<()> {
        let loaded = self.module(module)?;
        let names = loaded.names()?;
        let wanted = names.get(..functions.len()).unwrap_or(names);
        for (slot, function) in
            functions.iter_mut().zip(loaded.functions(&self.objects(loaded.vgpu())?.functions, wanted)?)
        {
            *slot = function.handle();
        }
        Ok(())
    }

    fn module_get_global(&self, module: Module, name: &CStr) -> CudaResult<(DevicePtr, usize)> {
        as_pair(self.variable(&*self.module(module)?, name_of(name)?)?)
    }
}
