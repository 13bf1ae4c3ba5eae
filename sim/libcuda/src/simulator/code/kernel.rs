//! Kernels and functions: handles come in, what the machine knows of the kernel behind them goes out.
//! A library's kernel and a module's function share one set of numbers, since programs pass either for the other.
//! Registers are an estimate; it never makes a block too large that the kernel itself allows.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, RwLock};

use floe_abi::{
    CudaError, CudaResult, Device, Function, Kernel, Library, Module, cluster_scheduling, function_attribute as ask,
    function_cache, function_loading_state, shared_config,
};
use floe_machine::{Kernel as MachineKernel, LoadError};
use floe_surface::KernelCalls;

use super::instance;
use super::instance::Instance;
use crate::simulator::Simulator;
use crate::simulator::calls::context::ContextState;
use crate::simulator::device::limits;
use crate::simulator::device::occupancy_rule::Need;
use floe_lock::lock;

/// The origin of a function.
pub(crate) enum Source {
    /// A kernel of a library.
    Library(u64),
    /// A function of a module, with the module's program.
    Module { module: u64, instance: Arc<Instance> },
}

/// A program's settings of a function on a device.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wishes {
    /// `MAX_DYNAMIC_SHARED_SIZE_BYTES`, once set.
    dynamic_shared: Option<u32>,
    carveout: Option<i32>,
}

/// A kernel's or function's handle and what belongs to it.
pub(crate) struct FunctionState {
    pub(crate) name: String,
    pub(crate) source: Source,
    /// By device.
    wishes: Mutex<HashMap<usize, Wishes>>,
    /// By the context's serial, once it was used there.
    lowered: Mutex<HashMap<u64, Arc<MachineKernel>>>,
}

/// All functions and kernels programs hold.
#[derive(Default)]
pub(crate) struct Functions {
    by_handle: RwLock<HashMap<u64, Arc<FunctionState>>>,
}

impl Functions {
    pub(crate) fn get(&self, handle: u64) -> CudaResult<Arc<FunctionState>> {
        let functions = floe_lock::read(&self.by_handle);
        functions.get(&handle).cloned().ok_or(CudaError::INVALID_HANDLE)
    }

    pub(crate) fn insert(&self, handle: u64, name: &str, source: Source) -> u64 {
        let state =
            FunctionState { name: name.to_string(), source, wishes: Mutex::default(), lowered: Mutex::default() };
        floe_lock::write(&self.by_handle).insert(handle, Arc::new(state));
        handle
    }

    fn keep_where(&self, stays: impl Fn(&FunctionState) -> bool) {
        floe_lock::write(&self.by_handle).retain(|_, function| stays(function));
    }

    pub(crate) fn remove_of_module(&self, gone: u64) {
        self.keep_where(|function| !matches!(function.source, Source::Module { module, .. } if module == gone));
    }

    pub(crate) fn remove_of_library(&self, gone: u64) {
        self.keep_where(|function| !matches!(function.source, Source::Library(library) if library == gone));
    }

    /// Lets go of what was lowered for a context that ends.
    pub(crate) fn forget_context(&self, serial: u64) {
        let functions = floe_lock::read(&self.by_handle);
        for function in functions.values() {
            lock(&function.lowered).remove(&serial);
        }
    }
}

impl FunctionState {
    fn wishes(&self, device: usize) -> Wishes {
        lock(&self.wishes).get(&device).copied().unwrap_or_default()
    }

    fn wish(&self, device: usize, change: impl FnOnce(&mut Wishes)) {
        change(lock(&self.wishes).entry(device).or_default());
    }

    /// Most dynamic shared memory a launch on `device` may ask for, bytes.
    pub(crate) fn dynamic_shared_limit(&self, device: usize, kernel: &MachineKernel) -> u32 {
        let unasked = limits::SHARED_PER_BLOCK.saturating_sub(kernel.static_shared);
        self.wishes(device).dynamic_shared.unwrap_or(unasked)
    }
}

impl FunctionState {
    /// Percent of a multiprocessor's shared memory the kernel prefers, if it does.
    pub(crate) fn carveout(&self, device: usize) -> Option<u32> {
        self.wishes(device).carveout.and_then(|percent| u32::try_from(percent).ok())
    }
}

/// Registers per thread as programs see them. The machine has no limit of its own, so the estimate never makes a block
/// impossible that the kernel's own bounds allow.
pub(crate) fn registers(kernel: &MachineKernel) -> u32 {
    let threads = most_threads(kernel).next_multiple_of(limits::WARP_SIZE * limits::SCHEDULERS);
    let unit = limits::REGISTER_UNIT_PER_WARP / limits::WARP_SIZE;
    let most = limits::REGISTERS / threads / unit * unit;
    kernel.registers.min(most).min(limits::MAX_REGISTERS_PER_THREAD)
}

/// Most threads of a block.
pub(crate) fn most_threads(kernel: &MachineKernel) -> u32 {
    kernel.max_threads.clamp(1, limits::MAX_THREADS_PER_BLOCK)
}

/// The inputs of the occupancy rule.
pub(crate) fn need(kernel: &MachineKernel) -> Need {
    Need { registers: registers(kernel), shared_static: kernel.static_shared }
}

impl Simulator {
    /// A kernel by name, ready to run.
    ///
    /// # Errors
    /// NOT_FOUND; NOT_SUPPORTED for a kernel with an unknown instruction; INVALID_PTX for one whose text is wrong. The
    /// reason is on standard error.
    pub(crate) fn lowered(&self, instance: &Instance, name: &str) -> CudaResult<Arc<MachineKernel>> {
        instance.program.kernel(name).map_err(|error| {
            if !matches!(error, LoadError::NoKernel { .. }) {
                crate::simulator::log::warn_once(format_args!("kernel {name} cannot run on the CPU device: {error}"));
            }
            instance::code(&error)
        })
    }

    /// The function that a function or kernel handle means in a context.
    ///
    /// # Errors
    /// INVALID_HANDLE, and those of `lowered`.
    pub(crate) fn resolve(
        &self,
        handle: u64,
        context: &ContextState,
    ) -> CudaResult<(Arc<FunctionState>, Arc<MachineKernel>)> {
        let state = self.functions.get(handle)?;
        if let Some(kernel) = lock(&state.lowered).get(&context.serial) {
            return Ok((Arc::clone(&state), Arc::clone(kernel)));
        }
        let kernel = match &state.source {
            Source::Module { instance, .. } => self.lowered(instance, &state.name)?,
            Source::Library(library) => {
                let instance = self.libraries.get(Library(*library))?.instance(self, context)?;
                self.lowered(&instance, &state.name)?
            }
        };
        lock(&state.lowered).insert(context.serial, Arc::clone(&kernel));
        Ok((state, kernel))
    }

    /// The kernel behind a handle wherever it is loaded: for what is the same in all contexts.
    fn described(&self, handle: u64) -> CudaResult<(Arc<FunctionState>, Arc<MachineKernel>)> {
        let state = self.functions.get(handle)?;
        if let Some(kernel) = lock(&state.lowered).values().next() {
            return Ok((Arc::clone(&state), Arc::clone(kernel)));
        }
        let kernel = match &state.source {
            Source::Module { instance, .. } => self.lowered(instance, &state.name)?,
            Source::Library(library) => {
                let instance = self.libraries.get(Library(*library))?.any_instance(self)?;
                self.lowered(&instance, &state.name)?
            }
        };
        Ok((state, kernel))
    }

    fn attribute(&self, attribute: u32, handle: u64, device: usize) -> CudaResult<i32> {
        let (state, kernel) = self.described(handle)?;
        let binary = self.devices.get(device).ok_or(CudaError::INVALID_DEVICE)?.identity.binary_version();
        let value = match attribute {
            ask::MAX_THREADS_PER_BLOCK => most_threads(&kernel),
            ask::SHARED_SIZE_BYTES => kernel.static_shared,
            ask::CONST_SIZE_BYTES => kernel.constant_bytes,
            ask::LOCAL_SIZE_BYTES => kernel.local_bytes,
            ask::NUM_REGS => registers(&kernel),
            ask::PTX_VERSION => kernel.target,
            ask::BINARY_VERSION => binary,
            ask::MAX_DYNAMIC_SHARED_SIZE_BYTES => state.dynamic_shared_limit(device, &kernel),
            ask::PREFERRED_SHARED_MEMORY_CARVEOUT => return Ok(state.wishes(device).carveout.unwrap_or(-1)),
            ask::CACHE_MODE_CA
            | ask::CLUSTER_SIZE_MUST_BE_SET
            | ask::REQUIRED_CLUSTER_WIDTH
            | ask::REQUIRED_CLUSTER_HEIGHT
            | ask::REQUIRED_CLUSTER_DEPTH
            | ask::NON_PORTABLE_CLUSTER_SIZE_ALLOWED
            | ask::CLUSTER_SCHEDULING_POLICY_PREFERENCE => 0,
            _ => return Err(CudaError::INVALID_VALUE),
        };
        i32::try_from(value).map_err(|_| CudaError::UNKNOWN)
    }

    fn set_attribute(&self, attribute: u32, value: i32, handle: u64, device: usize) -> CudaResult<()> {
        let (state, kernel) = self.described(handle)?;
        match attribute {
            ask::MAX_DYNAMIC_SHARED_SIZE_BYTES => {
                let bytes = u32::try_from(value).map_err(|_| CudaError::INVALID_VALUE)?;
                if bytes > limits::SHARED_PER_BLOCK_OPT_IN.saturating_sub(kernel.static_shared) {
                    return Err(CudaError::INVALID_VALUE);
                }
                state.wish(device, |wishes| wishes.dynamic_shared = Some(bytes));
                Ok(())
            }
            ask::PREFERRED_SHARED_MEMORY_CARVEOUT if (-1..=100).contains(&value) => {
                state.wish(device, |wishes| wishes.carveout = Some(value));
                Ok(())
            }
            // A permission; there is nothing to make use of it.
            ask::NON_PORTABLE_CLUSTER_SIZE_ALLOWED if matches!(value, 0 | 1) => Ok(()),
            ask::CLUSTER_SCHEDULING_POLICY_PREFERENCE if value == 0 => Ok(()),
            ask::CLUSTER_SCHEDULING_POLICY_PREFERENCE
                if u32::try_from(value).map_or(true, |policy| policy > cluster_scheduling::LOAD_BALANCING) =>
            {
                Err(CudaError::INVALID_VALUE)
            }
            ask::CLUSTER_SCHEDULING_POLICY_PREFERENCE
            | ask::REQUIRED_CLUSTER_WIDTH
            | ask::REQUIRED_CLUSTER_HEIGHT
            | ask::REQUIRED_CLUSTER_DEPTH => self.need_clusters(device),
            _ => Err(CudaError::INVALID_VALUE),
        }
    }

    fn parameter(&self, handle: u64, index: usize) -> CudaResult<(usize, usize)> {
        let (_, kernel) = self.described(handle)?;
        let parameter = kernel.parameters.get(index).ok_or(CudaError::INVALID_VALUE)?;
        let number = |number: u32| usize::try_from(number).map_err(|_| CudaError::UNKNOWN);
        Ok((number(parameter.offset)?, number(parameter.size)?))
    }

    fn place(&self, device: Device) -> CudaResult<usize> {
        self.device(device).map(|device| device.place)
    }

    fn library_kernel(&self, kernel: Kernel) -> CudaResult<Library> {
        match &self.functions.get(kernel.0)?.source {
            Source::Library(library) => Ok(Library(*library)),
            Source::Module { .. } => Err(CudaError::INVALID_HANDLE),
        }
    }
}

impl KernelCalls for Simulator {
    fn kernel_get_function(&self, kernel: Kernel) -> CudaResult<Function> {
        self.library_kernel(kernel)?;
        let context = self.working()?;
        self.resolve(kernel.0, &context)?;
        Ok(kernel.as_function())
    }

    fn kernel_get_library(&self, kernel: Kernel) -> CudaResult<Library> {
        self.library_kernel(kernel)
    }

    fn kernel_get_attribute(&self, attribute: u32, kernel: Kernel, device: Device) -> CudaResult<i32> {
        self.attribute(attribute, kernel.0, self.place(device)?)
    }

    fn kernel_set_attribute(&self, attribute: u32, value: i32, kernel: Kernel, device: Device) -> CudaResult<()> {
        self.set_attribute(attribute, value, kernel.0, self.place(device)?)
    }

    fn kernel_set_cache_config(&self, kernel: Kernel, config: u32, device: Device) -> CudaResult<()> {
        self.place(device)?;
        self.func_set_cache_config(kernel.as_function(), config)
    }

    fn kernel_get_name(&self, kernel: Kernel) -> CudaResult<String> {
        self.functions.get(kernel.0).map(|state| state.name.clone())
    }

    fn kernel_get_param_info(&self, kernel: Kernel, index: usize) -> CudaResult<(usize, usize)> {
        self.parameter(kernel.0, index)
    }

    fn func_get_attribute(&self, attribute: u32, function: Function) -> CudaResult<i32> {
        self.attribute(attribute, function.0, self.current()?.device)
    }

    fn func_set_attribute(&self, function: Function, attribute: u32, value: i32) -> CudaResult<()> {
        self.set_attribute(attribute, value, function.0, self.current()?.device)
    }

    fn func_set_cache_config(&self, function: Function, config: u32) -> CudaResult<()> {
        self.functions.get(function.0)?;
        // A hint about a cache that there is not.
        if config > function_cache::PREFER_EQUAL { Err(CudaError::INVALID_VALUE) } else { Ok(()) }
    }

    fn func_set_shared_mem_config(&self, function: Function, config: u32) -> CudaResult<()> {
        self.functions.get(function.0)?;
        if config > shared_config::EIGHT_BYTE_BANK_SIZE { Err(CudaError::INVALID_VALUE) } else { Ok(()) }
    }

    fn func_get_module(&self, function: Function) -> CudaResult<Module> {
        match &self.functions.get(function.0)?.source {
            Source::Module { module, .. } => Ok(Module(*module)),
            Source::Library(library) => {
                let instance = self.libraries.get(Library(*library))?.instance(self, &*self.working()?)?;
                Ok(self.module_of_library(*library, instance))
            }
        }
    }

    fn func_get_name(&self, function: Function) -> CudaResult<String> {
        self.functions.get(function.0).map(|state| state.name.clone())
    }

    fn func_get_param_info(&self, function: Function, index: usize) -> CudaResult<(usize, usize)> {
        self.parameter(function.0, index)
    }

    fn func_is_loaded(&self, function: Function) -> CudaResult<u32> {
        let state = self.functions.get(function.0)?;
        let loaded = !lock(&state.lowered).is_empty();
        Ok(if loaded { function_loading_state::LOADED } else { function_loading_state::UNLOADED })
    }

    fn func_load(&self, function: Function) -> CudaResult<()> {
        let context = self.working()?;
        self.resolve(function.0, &context).map(|_| ())
    }
}
