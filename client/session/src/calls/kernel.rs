//! Kernels and functions: a kernel belongs to a library, a function is a kernel on one vGPU; programs use either where a
//! function is expected. Handles come in; layout and attributes came with the look-up and are answered here. Setting an
//! attribute asks the server, unless it has the value already.

use std::sync::Arc;

use floe_abi::{CudaError, CudaResult, Device, Function, Kernel, Library, Module};
use floe_surface::KernelCalls;

use crate::client::Client;
use crate::objects::context::ContextState;
use crate::objects::function::FunctionState;
use crate::objects::kernel::KernelState;
use crate::objects::thread;
use crate::vgpu::Vgpu;
use crate::vgpu::handles::{Handle, Kind};
use crate::vgpu::recent::Found;

/// CU_FUNCTION_LOADING_STATE_LOADED.
const LOADED: u32 = 1;

impl Client {
    fn kernel(&self, kernel: Kernel) -> CudaResult<Arc<KernelState>> {
        let handle = Handle::of(Kind::Kernel, kernel.0).ok_or(CudaError::INVALID_HANDLE)?;
        self.kernels.get(handle.id).ok_or(CudaError::INVALID_HANDLE)
    }

    /// The function of a handle, which may be a kernel's: then it is the one on the current context's vGPU.
    #[inline]
    pub(crate) fn function(&self, function: Function) -> CudaResult<Found<FunctionState>> {
        match Handle::parse(function.0) {
            Some(handle) if handle.kind == Kind::Kernel => self.current_kernel(handle.id),
            Some(handle) if handle.kind == Kind::Function => self.module_function(handle),
            _ => Err(CudaError::INVALID_HANDLE),
        }
    }

    /// As `function`, with a kernel that belongs to no context looked for on this vGPU.
    pub(crate) fn function_for(&self, function: Function, vgpu: &Arc<Vgpu>) -> CudaResult<Arc<FunctionState>> {
        match Handle::of(Kind::Kernel, function.0) {
            Some(handle) => self.kernels.get(handle.id).ok_or(CudaError::INVALID_HANDLE)?.on(self.device_having(vgpu)?),
            None => self.function(function).map(|function| Arc::clone(&function)),
        }
    }

    /// The function of a module.
    #[inline]
    fn module_function(&self, handle: Handle) -> CudaResult<Found<FunctionState>> {
        let Some(device) = self.device_of(handle) else { return Err(CudaError::INVALID_HANDLE) };
        match device.objects.functions.find_by(&thread::own().recent_functions, handle.id) {
            Some(function) if function.is_valid() => Ok(function),
            _ => Err(CudaError::INVALID_HANDLE),
        }
    }

    /// A library's kernel on the current context's vGPU.
    fn current_kernel(&self, id: u64) -> CudaResult<Found<FunctionState>> {
        let (recent, stamp) = (&thread::own().recent_kernels, self.kernels.stamp());
        let recall = |context: &ContextState| recent.recall(id, stamp).filter(|known| known.serves(&context.vgpu));
        // Without a context that exists the look-up below says which error it is.
        if let Ok(Some(known)) = self.with_current(recall) {
            return Ok(known);
        }
        let kernel = self.kernels.get(id).ok_or(CudaError::INVALID_HANDLE)?;
        let function = kernel.on(self.current_device()?)?;
        Ok(recent.found(id, stamp, function))
    }

    fn kernel_on(&self, kernel: Kernel, device: Device) -> CudaResult<Arc<FunctionState>> {
        self.kernel(kernel)?.on(self.device(device)?)
    }
}

impl KernelCalls for Client {
    fn kernel_get_function(&self, kernel: Kernel) -> CudaResult<Function> {
        let function = self.kernel(kernel)?.on(self.current_device()?)?;
        Ok(function.handle())
    }

    fn kernel_get_library(&self, kernel: Kernel) -> CudaResult<Library> {
        let library = self.kernel(kernel)?.library.upgrade();
        library.map(|library| library.handle()).ok_or(CudaError::INVALID_HANDLE)
    }

    fn kernel_get_attribute(&self, attribute: u32, kernel: Kernel, device: Device) -> CudaResult<i32> {
        self.kernel_on(kernel, device)?.attribute(attribute)
    }

    fn kernel_set_attribute(&self, attribute: u32, value: i32, kernel: Kernel, device: Device) -> CudaResult<()> {
        self.kernel_on(kernel, device)?.set_attribute(attribute, value)
    }

    fn kernel_set_cache_config(&self, kernel: Kernel, config: u32, device: Device) -> CudaResult<()> {
        self.kernel_on(kernel, device)?.configure(1, config)
    }

    fn kernel_get_name(&self, kernel: Kernel) -> CudaResult<String> {
        Ok(self.kernel(kernel)?.name.clone())
    }

    fn kernel_get_param_info(&self, kernel: Kernel, index: usize) -> CudaResult<(usize, usize)> {
        let device = match self.current() {
            Ok(context) => context.device(),
            Err(_) => Device(0),
        };
        self.kernel_on(kernel, device)?.parameter(index)
    }

    fn func_get_attribute(&self, attribute: u32, function: Function) -> CudaResult<i32> {
        self.function(function)?.attribute(attribute)
    }

    fn func_set_attribute(&self, function: Function, attribute: u32, value: i32) -> CudaResult<()> {
        self.function(function)?.set_attribute(attribute, value)
    }

    fn func_set_cache_config(&self, function: Function, config: u32) -> CudaResult<()> {
        self.function(function)?.configure(1, config)
    }

    fn func_set_shared_mem_config(&self, function: Function, config: u32) -> CudaResult<()> {
        self.function(function)?.configure(2, config)
    }

    fn func_get_module(&self, function: Function) -> CudaResult<Module> {
        Ok(self.function(function)?.module)
    }

    fn func_get_name(&self, function: Function) -> CudaResult<String> {
        Ok(self.function(function)?.name.clone())
    }

    fn func_get_param_info(&self, function: Function, index: usize) -> CudaResult<(usize, usize)> {
        // The driver refuses a kernel here, alone among the calls that take functions.
        if Handle::of(Kind::Function, function.0).is_none() {
            return Err(CudaError::INVALID_HANDLE);
        }
        self.function(function)?.parameter(index)
    }

    fn func_is_loaded(&self, function: Function) -> CudaResult<u32> {
        self.function(function).map(|_| LOADED)
    }

    fn func_load(&self, function: Function) -> CudaResult<()> {
        self.function(function).map(drop)
    }
}
