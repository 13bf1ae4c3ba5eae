//! The device behind a real driver library: NVIDIA's or floe's CPU device.
//! In: the worker's typed requests. Out: calls of the library, in the one context of the session.
//! It decides nothing: every answer is the driver's own.

mod code;
mod costs;
mod facts;
mod generated;
mod graph;
mod hash;
mod kept;
mod log;
mod mapped;
mod numbers;
mod peers;
mod pinned;
mod probe;
mod reach;
mod rows;

use std::ops::Range;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Mutex;

use floe_abi::{
    Array, ArrayShape, Context, CudaError, CudaResult, DevicePtr, Function, Graph, GraphExec, GraphNode, HostPointer,
    Kernel, MemAccess, MemAllocationProperties, MemHandle, MemLocation, MipmappedArray, ResourceDescriptor, Stream,
    StreamMemoryOperation, SurfaceObject, TensorMap, TensorShape, TextureObject, allocation_type, device_attribute,
    location_type, pointer_attribute, resource_type,
};

use crate::choice::{OpenLibraryError, open};
use crate::device::{Device, Mapped, MemoryEnd};
use crate::requests::{
    ClusterQuestion, Code, Conditional, Costs, End, Global, Image, KernelFacts, KernelSetting, LoadFailure, Loading,
    NodeBodies, NodeEdge, NodeWork, PageSize, Pattern, Rows, RowsEnd, TextureReferenceRequest, TextureRequest,
};
use crate::{Driver, HashKey, HostCall, LaunchRequest, LinkInput, LoadOption, UnitHash};
use crate::{room, snapshot::Place};
pub use mapped::MappedMemory;
use numbers::{name_for_c, size, wide};
pub use pinned::PinnedMemory;
pub use probe::probe;

/// One GPU of a driver library, with its primary context.
#[derive(Debug)]
pub struct Gpu {
    driver: &'static Driver,
    device: floe_abi::Device,
    context: Mutex<Context>,
    reach: reach::Reach,
    /// What is made anew with every context.
    own: Mutex<hash::Own>,
    /// Made at the first hash.
    scratch: Mutex<Option<hash::Scratch>>,
    /// Whether its memory can be made for other processes to import.
    shares: bool,
    /// Where a reset keeps the context.
    kept: Option<kept::Kept>,
    place: Place,
}

impl Gpu {
    /// Loads the library, does what is to be done ahead of its first call, and makes the GPU's context, current on this thread.
    ///
    /// # Errors
    /// The library does not load, or the driver's own error.
    pub fn start(library: &str, place: Place, ahead: impl FnOnce()) -> Result<Self, OpenLibraryError> {
        let (driver, _) = open(library)?;
        ahead();
        let failed = |what, error| OpenLibraryError::Driver { what, library: library.to_owned(), error };
        // It stays for the rest of the process anyway: drivers leave threads behind.
        let driver: &'static Driver = Box::leak(Box::new(driver));
        driver.init(0).map_err(|error| failed("cuInit", error))?;
        let device = driver.device_get(place.of_driver()).map_err(|error| failed("cuDeviceGet", error))?;
        let context =
            driver.device_primary_ctx_retain(device).map_err(|error| failed("cuDevicePrimaryCtxRetain", error))?;
        driver.ctx_set_current(context).map_err(|error| failed("cuCtxSetCurrent", error))?;
        // Ahead of everything that has an address of the driver's choice.
        let own = hash::Own::new(driver).map_err(|error| failed("making floe's own stream", error))?;
        let reach = reach::Reach::of(driver, device);
        let shares = peers::shares_memory(driver, device);
        Ok(Self {
            driver,
            device,
            context: Mutex::new(context),
            reach,
            own: Mutex::new(own),
            scratch: Mutex::default(),
            shares,
            kept: None,
            place,
        })
    }

    /// Keeps the context when it is reset: for a process that cannot make another.
    ///
    /// # Errors
    /// The driver's own error.
    pub fn keep_context(&mut self) -> CudaResult<()> {
        kept::Kept::of(self.driver).map(|kept| self.kept = Some(kept))
    }

    /// Whether the library says things of its own on standard output and error, as floe's CPU device does, and not only what
    /// kernels print.
    #[must_use]
    pub fn speaks(&self) -> bool {
        self.driver.is_cpu_device()
    }

    fn context(&self) -> Context {
        *floe_lock::lock(&self.context)
    }

    fn location(&self) -> MemLocation {
        MemLocation { kind: location_type::DEVICE, id: self.device.0 }
    }

    fn properties(&self) -> MemAllocationProperties {
        let kind = allocation_type::PINNED;
        MemAllocationProperties { kind, location: self.location(), ..MemAllocationProperties::default() }
    }
}

impl Device for Gpu {
    type Pinned = PinnedMemory;
    type Mapped = MappedMemory;

    fn enter(&self) -> CudaResult<()> {
        self.driver.ctx_set_current(self.context())
    }

    fn make_context(&self) -> CudaResult<Context> {
        let context = self.driver.ctx_create(0, self.device)?;
        self.driver.ctx_pop_current()?;
        Ok(context)
    }

    fn enter_context(&self, context: Context) -> CudaResult<()> {
        self.driver.ctx_set_current(context)
    }

    fn end_context(&self, context: Context) -> CudaResult<()> {
        self.driver.ctx_destroy(context)
    }

    fn reset(&self) -> CudaResult<()> {
        if let Some(kept) = &self.kept {
            return kept.reset(self.driver);
        }
        // Nothing is hashed until the new context is there.
        let mut scratch = floe_lock::lock(&self.scratch);
        hash::end_scratch(self, scratch.take());
        self.driver.device_primary_ctx_reset(self.device)?;
        let context = self.driver.device_primary_ctx_retain(self.device)?;
        *floe_lock::lock(&self.context) = context;
        self.enter()?;
        *floe_lock::lock(&self.own) = hash::Own::new(self.driver)?;
        Ok(())
    }

    fn costs(&self) -> CudaResult<Costs> {
        costs::costs(self.driver, self.device)
    }

    fn set_limit(&self, limit: i32, value: u64) -> CudaResult<u64> {
        let limit = u32::try_from(limit).map_err(|_| CudaError::UNSUPPORTED_LIMIT)?;
        self.driver.ctx_set_limit(limit, size(value)?)?;
        self.driver.ctx_get_limit(limit).map(wide)
    }

    fn reserve(&self, bytes: u64, wish: DevicePtr) -> CudaResult<DevicePtr> {
        let at = self.driver.mem_address_reserve(size(bytes)?, 0, wish, 0)?;
        self.reach.reserved(at, bytes);
        Ok(at)
    }

    fn free_addresses(&self, at: DevicePtr, bytes: u64) -> CudaResult<()> {
        self.driver.mem_address_free(at, size(bytes)?)?;
        self.reach.freed(at, bytes);
        Ok(())
    }

    fn create_memory(&self, bytes: u64) -> CudaResult<MemHandle> {
        peers::create_memory(self.driver, size(bytes)?, self.properties(), self.shares)
    }

    fn export_memory(&self, memory: MemHandle) -> CudaResult<OwnedFd> {
        if self.shares { self.driver.mem_export(memory) } else { Err(CudaError::NOT_SUPPORTED) }
    }

    fn import_memory(&self, file: BorrowedFd<'_>) -> CudaResult<MemHandle> {
        if self.shares { self.driver.mem_import(file) } else { Err(CudaError::NOT_SUPPORTED) }
    }

    fn retain_memory(&self, at: DevicePtr) -> CudaResult<MemHandle> {
        self.driver.mem_retain_allocation_handle(HostPointer(at.0))
    }

    fn peer_attributes(&self, gpu: i32) -> CudaResult<[i32; 4]> {
        peers::attributes(self.driver, self.device, self.place, gpu)
    }

    fn map(&self, at: DevicePtr, bytes: u64, offset: u64, memory: MemHandle) -> CudaResult<()> {
        self.driver.mem_map(at, size(bytes)?, size(offset)?, memory, 0)
    }

    fn set_access(&self, at: DevicePtr, bytes: u64, access: u32) -> CudaResult<()> {
        self.driver.mem_set_access(at, size(bytes)?, &[MemAccess { location: self.location(), flags: access }])
    }

    fn unmap(&self, at: DevicePtr, bytes: u64) -> CudaResult<()> {
        self.driver.mem_unmap(at, size(bytes)?)
    }

    fn pin(&self, bytes: usize, pages: PageSize) -> CudaResult<PinnedMemory> {
        PinnedMemory::new(self.driver, bytes, pages)
    }

    fn map_host(&self, at: DevicePtr, bytes: usize) -> CudaResult<MappedMemory> {
        MappedMemory::new(self.driver, at, bytes)
    }

    fn share_host(&self, file: BorrowedFd<'_>, offset: u64, at: DevicePtr, bytes: usize) -> CudaResult<MappedMemory> {
        let maps = self.driver.device_get_attribute(device_attribute::CAN_MAP_HOST_MEMORY, self.device)? != 0;
        MappedMemory::shared(self.driver, (file, offset), at, bytes, maps)
    }

    fn share_words(&self, file: BorrowedFd<'_>, at: DevicePtr, bytes: usize) -> CudaResult<MappedMemory> {
        let maps = self.driver.device_get_attribute(device_attribute::CAN_MAP_HOST_MEMORY, self.device)? != 0;
        let memory = MappedMemory::shared(self.driver, (file, 0), at, bytes, maps)?;
        // The streams of a device that maps none wait at the host's address.
        if Mapped::is_reached(&memory) || !maps { Ok(memory) } else { Err(CudaError::NOT_SUPPORTED) }
    }

    fn upload(
        &self,
        to: DevicePtr,
        from: &PinnedMemory,
        offset: usize,
        bytes: usize,
        stream: Stream,
    ) -> CudaResult<()> {
        self.reach.demand(self.driver, to, wide(bytes))?;
        from.upload(to, offset, bytes, stream)
    }

    fn download(
        &self,
        to: &PinnedMemory,
        offset: usize,
        from: DevicePtr,
        bytes: usize,
        stream: Stream,
    ) -> CudaResult<()> {
        self.reach.demand(self.driver, from, wide(bytes))?;
        to.download(offset, from, bytes, stream)
    }

    fn upload_rows(&self, to: Rows, from: &PinnedMemory, offset: usize, stream: Stream) -> CudaResult<()> {
        self.reach.demand_rows(self.driver, to)?;
        from.upload_rows(to, offset, stream)
    }

    fn download_rows(&self, to: &PinnedMemory, offset: usize, from: Rows, stream: Stream) -> CudaResult<()> {
        self.reach.demand_rows(self.driver, from)?;
        to.download_rows(offset, from, stream)
    }

    fn copy(&self, to: MemoryEnd<'_, Self>, from: MemoryEnd<'_, Self>, bytes: u64, stream: Stream) -> CudaResult<()> {
        for end in [&to, &from] {
            if let End::Device(at) = end {
                self.reach.demand(self.driver, *at, bytes)?;
            }
        }
        mapped::copy(self.driver, to, from, size(bytes)?, stream)
    }

    fn copy_rows(
        &self,
        to: RowsEnd<'_, MappedMemory>,
        from: RowsEnd<'_, MappedMemory>,
        [width, height]: [u64; 2],
        stream: Stream,
    ) -> CudaResult<()> {
        for end in [&to, &from] {
            self.reach.demand_end(self.driver, end, [width, height])?;
        }
        mapped::copy_rows(self.driver, to, from, [size(width)?, size(height)?], stream)
    }

    fn own_stream(&self) -> Stream {
        floe_lock::lock(&self.own).stream
    }

    fn hash(&self, at: DevicePtr, bytes: u64, key: HashKey) -> CudaResult<Vec<UnitHash>> {
        hash::hash(self, at, bytes, key)
    }

    fn fill(&self, at: DevicePtr, pattern: Pattern, stream: Stream) -> CudaResult<()> {
        self.reach.demand_pattern(self.driver, at, &pattern)?;
        let Pattern { element, value, width, height, pitch } = pattern;
        let (width, height, pitch) = (size(width)?, size(height)?, size(pitch)?);
        let [first, second, ..] = value.to_le_bytes();
        let half = u16::from_le_bytes([first, second]);
        match (element, height) {
            (1, 1) => self.driver.memset_d8_async(at, first, width, stream),
            (2, 1) => self.driver.memset_d16_async(at, half, width, stream),
            (4, 1) => self.driver.memset_d32_async(at, value, width, stream),
            (1, _) => self.driver.memset_d2d8_async(at, pitch, first, width, height, stream),
            (2, _) => self.driver.memset_d2d16_async(at, pitch, half, width, height, stream),
            (4, _) => self.driver.memset_d2d32_async(at, pitch, value, width, height, stream),
            _ => Err(CudaError::INVALID_VALUE),
        }
    }

    fn create_array(&self, shape: &ArrayShape) -> CudaResult<Array> {
        self.driver.array_create(&shape.descriptor())
    }

    fn create_mipmapped_array(&self, shape: &ArrayShape, levels: u32) -> CudaResult<MipmappedArray> {
        self.driver.mipmapped_array_create(&shape.descriptor(), levels)
    }

    fn create_texture(&self, request: TextureRequest<'_>) -> CudaResult<TextureObject> {
        self.reach.demand_texture(self.driver, &request)?;
        self.driver.tex_object_create(request.resource, request.description, request.view)
    }

    fn create_surface(&self, array: Array) -> CudaResult<SurfaceObject> {
        let kind = resource_type::ARRAY;
        self.driver.surf_object_create(&ResourceDescriptor { kind, place: array.0, ..ResourceDescriptor::default() })
    }

    fn compiles_for(&self) -> Option<[u32; 3]> {
        code::compiles_for(self.driver, self.device)
    }

    fn load(&self, image: Image, loading: &Loading) -> Result<(Code, String), LoadFailure> {
        code::load(self.driver, image, loading)
    }

    fn link(
        &self,
        inputs: &[LinkInput],
        options: &[LoadOption],
        log_bytes: usize,
    ) -> Result<(Vec<u8>, String), LoadFailure> {
        code::link(self.driver, inputs, options, log_bytes)
    }

    fn unload(&self, code: Code) -> CudaResult<()> {
        match code {
            Code::Library(library) => self.driver.library_unload_kept(library),
            Code::Module(module) => self.driver.module_unload(module),
        }
    }

    fn kernel_names(&self, code: Code) -> CudaResult<Vec<String>> {
        match code {
            Code::Library(library) => {
                let count = self.driver.library_get_kernel_count(library)?;
                let mut kernels = vec![Kernel::NULL; size(u64::from(count))?];
                self.driver.library_enumerate_kernels(&mut kernels, library)?;
                kernels.into_iter().map(|kernel| self.driver.kernel_get_name(kernel)).collect()
            }
            Code::Module(module) => {
                let count = self.driver.module_get_function_count(module)?;
                let mut functions = vec![Function::NULL; size(u64::from(count))?];
                self.driver.module_enumerate_functions(&mut functions, module)?;
                functions.into_iter().map(|function| self.driver.func_get_name(function)).collect()
            }
        }
    }

    fn find_kernel(&self, code: Code, name: &str) -> CudaResult<Function> {
        let name = name_for_c(name)?;
        match code {
            Code::Library(library) => self.driver.kernel_get_function(self.driver.library_get_kernel(library, &name)?),
            Code::Module(module) => self.driver.module_get_function(module, &name),
        }
    }

    fn kernel_facts(&self, function: Function) -> CudaResult<KernelFacts> {
        facts::of(self.driver, function)
    }

    fn set_kernel(&self, function: Function, setting: KernelSetting, value: i32) -> CudaResult<()> {
        let unsigned = || u32::try_from(value).map_err(|_| CudaError::INVALID_VALUE);
        match setting {
            KernelSetting::Attribute(number) => {
                let number = u32::try_from(number).map_err(|_| CudaError::INVALID_VALUE)?;
                self.driver.func_set_attribute(function, number, value)
            }
            KernelSetting::CacheConfig => self.driver.func_set_cache_config(function, unsigned()?),
            KernelSetting::SharedMemoryConfig => self.driver.func_set_shared_mem_config(function, unsigned()?),
        }
    }

    fn keep(&self, within: Range<DevicePtr>) -> CudaResult<Box<dyn Send>> {
        let address = |at: DevicePtr| usize::try_from(at.0).unwrap_or(usize::MAX);
        let kept = room::keep(address(within.start)..address(within.end));
        Ok(Box::new(kept.map_err(|_| CudaError::NOT_SUPPORTED)?))
    }

    fn find_global(&self, code: Code, name: &str) -> CudaResult<Global> {
        let name = name_for_c(name)?;
        let (at, bytes) = match code {
            Code::Library(library) => match self.driver.library_get_global(library, &name) {
                // A library's managed variables are asked for by a call of their own.
                Err(CudaError::NOT_FOUND) => self.driver.library_get_managed(library, &name)?,
                found => found?,
            },
            Code::Module(module) => self.driver.module_get_global(module, &name)?,
        };
        // A driver that cannot say has no such variables.
        let is_managed = self.driver.pointer_get_int(pointer_attribute::IS_MANAGED, at).is_ok_and(|is| is != 0);
        Ok(Global { at, bytes: wide(bytes), is_managed })
    }

    fn set_texture_reference(&self, code: Code, name: &str, request: &TextureReferenceRequest<'_>) -> CudaResult<()> {
        if let Some(resource) = request.resource {
            let texture = TextureRequest { resource, description: request.description, view: None };
            self.reach.demand_texture(self.driver, &texture)?;
        }
        let module = match code {
            Code::Library(library) => self.driver.library_get_module(library)?,
            Code::Module(module) => module,
        };
        let reference = self.driver.module_get_tex_ref(module, &name_for_c(name)?)?;
        self.driver.tex_ref_set(reference, request)
    }

    fn launch(&self, request: &LaunchRequest<'_>) -> CudaResult<()> {
        self.driver.launch_kernel(request)
    }

    fn launch_host_function(&self, stream: Stream, body: HostCall) -> CudaResult<()> {
        self.driver.launch_host_func(stream, body)
    }

    fn cluster_occupancy(&self, what: ClusterQuestion, request: &LaunchRequest<'_>) -> CudaResult<i32> {
        match what {
            ClusterQuestion::MostActive => self.driver.occupancy_max_active_clusters(request),
            ClusterQuestion::LargestSize => self.driver.occupancy_max_potential_cluster_size(request),
        }
    }

    fn tensor_map(&self, shape: &TensorShape, address: DevicePtr) -> CudaResult<TensorMap> {
        self.driver.tensor_map_encode(shape, address)
    }

    fn create_graph(&self) -> CudaResult<Graph> {
        self.driver.graph_create()
    }

    fn add_node(&self, graph: Graph, after: &[NodeEdge], work: &NodeWork<'_>) -> CudaResult<GraphNode> {
        self.reach.demand_node(self.driver, work)?;
        graph::add(self.driver, self.context(), graph, after, work)
    }

    fn graph_condition(&self, graph: Graph, value: u32, flags: u32) -> CudaResult<u64> {
        self.driver.graph_condition(graph, self.context(), value, flags)
    }

    fn add_conditional(&self, graph: Graph, after: &[NodeEdge], node: &Conditional) -> CudaResult<NodeBodies> {
        graph::add_conditional(self.driver, self.context(), graph, after, node)
    }

    fn instantiate(&self, graph: Graph, flags: u64) -> CudaResult<GraphExec> {
        self.driver.graph_instantiate(graph, flags)
    }

    fn set_node(&self, exec: GraphExec, node: GraphNode, work: &NodeWork<'_>) -> CudaResult<()> {
        self.reach.demand_node(self.driver, work)?;
        graph::set(self.driver, self.context(), exec, node, work)
    }

    fn memory_operations(&self, stream: Stream, operations: &[StreamMemoryOperation]) -> CudaResult<()> {
        self.reach.demand_words(self.driver, operations)?;
        self.driver.stream_batch_mem_op(stream, operations, 0)
    }
}
