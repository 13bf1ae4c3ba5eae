//! Kernels and functions: a kernel belongs to a library, a function is a kernel on one vGPU; programs use either where a
//! function is expected. Handles come in; layout and attributes came with the look-up and are answered here. Setting an
//! attribute asks the server, unless it has the value already.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};

use floe_abi::{
    CudaError, CudaResult, Device, Function, Kernel, Library, Module, device_attribute, function_attribute,
};
use floe_surface::{KernelCalls, KernelLayout, ParameterLayout};
use floe_wire::{Attribute, Call, FindKernelReply, KernelId, SetKernelAttribute};

use crate::client::Client;
use crate::context::ContextState;
use crate::handles::{Handle, Kind};
use crate::library::LibraryState;
use crate::limits::KernelLimits;
use crate::module::Loaded;
use crate::recent::Found;
use crate::session::Session;
use crate::table::lock;
use crate::thread;

/// CU_FUNCTION_LOADING_STATE_LOADED.
const LOADED: u32 = 1;
/// Threads of a block where a kernel's own limit is not known.
const MOST_THREADS: u32 = 1024;
/// In `FunctionState::cluster`: the launch must say which clusters it has.
const MUST_SAY: u64 = 1 << 63;
/// In `FunctionState::cluster`: one axis.
const AXIS: u64 = (1 << 20) - 1;
/// Dynamic shared memory in bytes a kernel may use that asked for no more.
const DEFAULT_SHARED: u32 = 48 << 10;

/// Values of the attributes that are set without waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Settings([i32; 3]);

/// A kernel of a library, on any vGPU.
#[derive(Debug)]
pub(crate) struct KernelState {
    id: u64,
    name: String,
    library: Weak<LibraryState>,
    /// By the vGPU's ordinal.
    functions: RwLock<Vec<Option<Arc<FunctionState>>>>,
}

impl KernelState {
    pub(crate) fn new(id: u64, library: &Arc<LibraryState>, name: &str) -> Self {
        Self { id, name: name.to_owned(), library: Arc::downgrade(library), functions: RwLock::default() }
    }

    /// Its id in the process.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// What the program calls it.
    pub(crate) fn handle(&self) -> Kernel {
        Kernel(Handle::new(Kind::Kernel, 0, self.id).value())
    }

    /// The kernel on a vGPU; its library is loaded there if it is not yet.
    pub(crate) fn on(&self, session: &Arc<Session>) -> CudaResult<Arc<FunctionState>> {
        let index = usize::from(session.ordinal);
        let known = {
            let functions = self.functions.read().unwrap_or_else(PoisonError::into_inner);
            functions.get(index).cloned().flatten()
        };
        if let Some(function) = known.filter(|function| function.is_valid()) {
            return Ok(function);
        }
        let library = self.library.upgrade().ok_or(CudaError::INVALID_HANDLE)?;
        let function = library.function(session, &self.name)?;
        let mut functions = self.functions.write().unwrap_or_else(PoisonError::into_inner);
        if functions.len() <= index {
            functions.resize(index + 1, None);
        }
        functions[index] = Some(Arc::clone(&function));
        function.kernel.store(self.id, Ordering::Release);
        Ok(function)
    }
}

/// Where a kernel's parameters lie, as its look-up was answered.
fn layout(found: &FindKernelReply) -> KernelLayout {
    let places = found.parameters.iter();
    let layout = |offset: u32, size: u32| ParameterLayout { offset: offset as usize, size: size as usize };
    KernelLayout::new(places.map(|parameter| layout(parameter.offset, parameter.bytes)).collect())
}

/// A kernel on one vGPU.
#[derive(Debug)]
pub(crate) struct FunctionState {
    pub(crate) session: Arc<Session>,
    id: u64,
    name: String,
    module: Module,
    /// The kernel of a library it is; 0 where it is none.
    kernel: AtomicU64,
    epoch: u64,
    layout: KernelLayout,
    attributes: RwLock<HashMap<u32, i32>>,
    /// Cache and shared memory configuration last sent, by `SetKernelAttribute.what`.
    configured: Mutex<HashMap<u32, i32>>,
    // The launch checks these; an attribute set by the program changes them.
    threads: AtomicU32,
    static_shared: AtomicU32,
    dynamic_shared: AtomicU32,
    /// Clusters it was compiled for: blocks per axis, 20 bits each; the top bit where a launch must say.
    cluster: AtomicU64,
}

impl FunctionState {
    /// The function a look-up found.
    pub(crate) fn new(loaded: &Loaded, id: u64, name: &str, found: &FindKernelReply) -> Self {
        let function = Self {
            session: Arc::clone(loaded.session()),
            id,
            name: name.to_owned(),
            module: loaded.handle(),
            kernel: AtomicU64::new(0),
            epoch: loaded.session().epoch(),
            layout: layout(found),
            attributes: RwLock::default(),
            configured: Mutex::default(),
            threads: AtomicU32::new(MOST_THREADS),
            static_shared: AtomicU32::new(0),
            dynamic_shared: AtomicU32::new(DEFAULT_SHARED),
            cluster: AtomicU64::new(0),
        };
        function.learn(&found.attributes);
        function
    }

    /// Its id on the wire.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// The kernel of a library that it is, as the program calls it; NULL for a module's.
    pub(crate) fn kernel(&self) -> Kernel {
        match self.kernel.load(Ordering::Acquire) {
            0 => Kernel::NULL,
            id => Kernel(Handle::new(Kind::Kernel, 0, id).value()),
        }
    }

    /// What the program calls it.
    pub(crate) fn handle(&self) -> Function {
        Function(Handle::new(Kind::Function, self.session.ordinal, self.id).value())
    }

    /// Whether the server still has it.
    pub(crate) fn is_valid(&self) -> bool {
        self.epoch == self.session.epoch()
    }

    /// Whether it is this vGPU's, and the server still has it.
    fn serves(&self, session: &Arc<Session>) -> bool {
        Arc::ptr_eq(&self.session, session) && self.is_valid()
    }

    /// Where its parameters lie.
    pub(crate) fn layout(&self) -> &KernelLayout {
        &self.layout
    }

    /// What a launch may ask of it.
    pub(crate) fn limits(&self) -> KernelLimits {
        KernelLimits {
            threads: self.threads.load(Ordering::Relaxed),
            static_shared: self.static_shared.load(Ordering::Relaxed),
            dynamic_shared: self.dynamic_shared.load(Ordering::Relaxed),
        }
    }

    /// Blocks per axis of the clusters its launches have where they do not say; zeros where they must.
    pub(crate) fn cluster(&self) -> Option<[u32; 3]> {
        let packed = self.cluster.load(Ordering::Relaxed);
        // A launch without clusters passes here too: it costs one load.
        match packed {
            0 => None,
            MUST_SAY => Some([0; 3]),
            packed => Some([0, 20, 40].map(|shift| u32::try_from(packed >> shift & AXIS).unwrap_or(0).max(1))),
        }
    }

    /// What the attributes say about clusters.
    fn compiled_cluster(known: &HashMap<u32, i32>) -> u64 {
        use function_attribute as a;
        let size = |number: u32| known.get(&number).and_then(|size| u64::try_from(*size).ok()).unwrap_or(0) & AXIS;
        let (width, height, depth) =
            (size(a::REQUIRED_CLUSTER_WIDTH), size(a::REQUIRED_CLUSTER_HEIGHT), size(a::REQUIRED_CLUSTER_DEPTH));
        match (width, size(a::CLUSTER_SIZE_MUST_BE_SET)) {
            (0, 0) => 0,
            (0, _) => MUST_SAY,
            _ => width | height << 20 | depth << 40,
        }
    }

    fn attribute(&self, number: u32) -> CudaResult<i32> {
        self.attributes
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&number)
            .copied()
            .ok_or(CudaError::INVALID_VALUE)
    }

    fn learn(&self, attributes: &[Attribute]) {
        use function_attribute as a;
        let mut known = self.attributes.write().unwrap_or_else(PoisonError::into_inner);
        for attribute in attributes {
            let Ok(number) = u32::try_from(attribute.number) else {
                continue;
            };
            known.insert(number, attribute.value);
            let limit = match number {
                a::MAX_THREADS_PER_BLOCK => &self.threads,
                a::SHARED_SIZE_BYTES => &self.static_shared,
                a::MAX_DYNAMIC_SHARED_SIZE_BYTES => &self.dynamic_shared,
                _ => continue,
            };
            if let Ok(value) = u32::try_from(attribute.value) {
                limit.store(value, Ordering::Relaxed);
            }
        }
        self.cluster.store(Self::compiled_cluster(&known), Ordering::Relaxed);
    }

    fn set(&self, what: u32, number: u32, value: i32) -> CudaResult<()> {
        let message = SetKernelAttribute {
            kernel: KernelId(self.id),
            what,
            number: i32::try_from(number).map_err(|_| CudaError::INVALID_VALUE)?,
            value,
        };
        let answer = self.session.call(&message)?;
        let reply = self.session.connection.read(SetKernelAttribute::decode_reply(&answer.body))?;
        self.learn(&reply.attributes);
        // Occupancy may depend on it.
        lock(&self.session.occupancy).clear();
        Ok(())
    }

    /// Whether every device takes this value, so that nobody need wait for its word: libraries set some attributes before
    /// each launch.
    fn is_certain(&self, number: u32, value: i32) -> bool {
        use function_attribute as a;
        match number {
            a::MAX_DYNAMIC_SHARED_SIZE_BYTES => {
                let most = self.session.snapshot.attribute(device_attribute::MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
                let fixed = i32::try_from(self.static_shared.load(Ordering::Relaxed)).unwrap_or(i32::MAX);
                value >= 0 && most.is_some_and(|most| value <= most.saturating_sub(fixed))
            }
            a::PREFERRED_SHARED_MEMORY_CARVEOUT => (-1..=100).contains(&value),
            a::NON_PORTABLE_CLUSTER_SIZE_ALLOWED => matches!(value, 0 | 1),
            _ => false,
        }
    }

    /// What the program set of what occupancy depends on.
    pub(crate) fn settings(&self) -> Settings {
        use function_attribute as a;
        let known = self.attributes.read().unwrap_or_else(PoisonError::into_inner);
        let value = |number: u32| known.get(&number).copied().unwrap_or_default();
        Settings([
            value(a::MAX_DYNAMIC_SHARED_SIZE_BYTES),
            value(a::PREFERRED_SHARED_MEMORY_CARVEOUT),
            value(a::NON_PORTABLE_CLUSTER_SIZE_ALLOWED),
        ])
    }

    fn set_attribute(&self, number: u32, value: i32) -> CudaResult<()> {
        self.session.errors.report()?;
        if self.attribute(number) == Ok(value) {
            return Ok(());
        }
        let Some(attribute) = i32::try_from(number).ok().filter(|_| self.is_certain(number, value)) else {
            return self.set(0, number, value);
        };
        let message = SetKernelAttribute { kernel: KernelId(self.id), what: 0, number: attribute, value };
        self.session.connection.call_unwatched(&message)?;
        self.learn(&[Attribute { number: attribute, value }]);
        Ok(())
    }

    fn configure(&self, what: u32, config: u32) -> CudaResult<()> {
        self.session.errors.report()?;
        let value = i32::try_from(config).map_err(|_| CudaError::INVALID_VALUE)?;
        if lock(&self.configured).get(&what) == Some(&value) {
            return Ok(());
        }
        self.set(what, 0, value)?;
        lock(&self.configured).insert(what, value);
        Ok(())
    }

    fn parameter(&self, index: usize) -> CudaResult<(usize, usize)> {
        let parameter = self.layout.parameters().get(index).ok_or(CudaError::INVALID_VALUE)?;
        Ok((parameter.offset, parameter.size))
    }
}

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
    pub(crate) fn function_for(&self, function: Function, session: &Arc<Session>) -> CudaResult<Arc<FunctionState>> {
        match Handle::of(Kind::Kernel, function.0) {
            Some(handle) => self.kernels.get(handle.id).ok_or(CudaError::INVALID_HANDLE)?.on(session),
            None => self.function(function).map(|function| Arc::clone(&function)),
        }
    }

    /// The function of a module.
    #[inline]
    fn module_function(&self, handle: Handle) -> CudaResult<Found<FunctionState>> {
        let Some(session) = self.session(handle) else { return Err(CudaError::INVALID_HANDLE) };
        match session.functions.find_by(&thread::own().recent_functions, handle.id) {
            Some(function) if function.is_valid() => Ok(function),
            _ => Err(CudaError::INVALID_HANDLE),
        }
    }

    /// A library's kernel on the current context's vGPU.
    fn current_kernel(&self, id: u64) -> CudaResult<Found<FunctionState>> {
        let (recent, stamp) = (&thread::own().recent_kernels, self.kernels.stamp());
        let recall = |context: &ContextState| recent.recall(id, stamp).filter(|known| known.serves(&context.session));
        // Without a context that exists the look-up below says which error it is.
        if let Ok(Some(known)) = self.with_current(recall) {
            return Ok(known);
        }
        let kernel = self.kernels.get(id).ok_or(CudaError::INVALID_HANDLE)?;
        let function = kernel.on(&self.current()?.session)?;
        Ok(recent.found(id, stamp, function))
    }

    fn kernel_on(&self, kernel: Kernel, device: Device) -> CudaResult<Arc<FunctionState>> {
        self.kernel(kernel)?.on(&self.device(device)?.session)
    }
}

impl KernelCalls for Client {
    fn kernel_get_function(&self, kernel: Kernel) -> CudaResult<Function> {
        let function = self.kernel(kernel)?.on(&self.current()?.session)?;
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
