//! The device as a worker needs it, in traits: the CUDA driver API, with foreign memory kept behind safe calls.
//! In: typed requests. Out: handles, bytes in pinned memory, CUDA results.
//! It never hands out a pointer; the implementation over a real library is `gpu`, the worker's tests have one in memory.

use std::ops::Range;
use std::os::fd::{BorrowedFd, OwnedFd};

use floe_abi::{
    Array, ArrayShape, Context, CudaResult, DevicePtr, Function, Graph, GraphExec, GraphNode, MemHandle,
    MipmappedArray, Stream, StreamMemoryOperation, SurfaceObject, TensorMap, TensorShape, TextureObject,
};

use crate::requests::{
    ClusterQuestion, Code, Conditional, Costs, End, Global, Image, KernelFacts, KernelSetting, LoadFailure, Loading,
    NodeBodies, NodeEdge, NodeWork, PageSize, Pattern, Rows, RowsEnd, TextureReferenceRequest, TextureRequest,
};
use crate::{HashKey, HostCall, LaunchRequest, LinkInput, LoadOption, PlainCalls, UnitHash};

/// Bytes of a page of host memory.
pub const PAGE: usize = 4096;

/// Host memory the device reads and writes by itself. It checks ranges. The transfer buffers keep others from a range
/// while the device uses it: they give it out again only after its completion event.
pub trait Pinned: Send + Sync {
    /// Its size.
    fn bytes(&self) -> usize;
    /// The context is about to go: the memory stays, but is the device's no more.
    fn unpin(&self);
    /// There is a new context, which may reach the memory again. One that cannot is only slower.
    fn pin_again(&self);
    /// Copies `bytes` in at `offset`.
    fn write(&self, offset: usize, bytes: &[u8]);
    /// Calls `write` once with the bytes at `offset`, where they lie. A socket may get the pages, and has them until
    /// the range is used again. The caller has the range; no copy into it is under way.
    fn lend(&self, offset: usize, bytes: usize, write: &mut dyn FnMut(&[u8]));
    /// Calls `fill` once with the place at `offset`. The caller has the range; no copy from it is under way.
    fn fill(&self, offset: usize, bytes: usize, fill: &mut dyn FnMut(&mut [u8]));
}

/// Host memory that kernels read and write whenever they like. Ranges are checked, bytes are copied.
pub trait Mapped: Send + Sync {
    /// Its size.
    fn bytes(&self) -> usize;
    /// Copies `bytes` in at `offset`. Only for zeros of this process's own.
    fn write(&self, offset: usize, bytes: &[u8]);
    /// Copies what lies at `offset` out. Only for the same.
    fn read(&self, offset: usize, bytes: &mut [u8]);
    /// Whether kernels reach it, at its own address.
    fn is_reached(&self) -> bool;
    /// Raises the aligned word of 64 bits at `offset` to `value`, unless it is higher. Other processes may have the word.
    fn raise(&self, offset: usize, value: u64);
    /// Adds to the aligned word of 64 bits at `offset`, as `raise` does, and returns the sum.
    fn add(&self, offset: usize, value: u64) -> u64;
}

/// One GPU with one context, as the worker drives it. Calls the worker makes as they are come from the table, as
/// [`PlainCalls`]; here are those that name memory, convert or put several calls together. Every method gives the
/// driver's own error.
#[allow(clippy::missing_errors_doc, reason = "every method gives the driver's own error")]
pub trait Device: PlainCalls + Send + Sync + 'static {
    /// Its pinned memory.
    type Pinned: Pinned + 'static;
    /// Its host memory at chosen addresses.
    type Mapped: Mapped + 'static;

    /// Makes the context current on the calling thread.
    fn enter(&self) -> CudaResult<()>;
    /// Makes a further context on the GPU, current on no thread. Nothing on its streams stands behind work of the first one's.
    fn make_context(&self) -> CudaResult<Context>;
    /// Makes a further context current on the calling thread.
    fn enter_context(&self, context: Context) -> CudaResult<()>;
    /// Ends a further context with all that is in it.
    fn end_context(&self, context: Context) -> CudaResult<()>;
    /// Gives the context up and makes a new one.
    fn reset(&self) -> CudaResult<()>;
    /// The memory that its driver takes by itself.
    fn costs(&self) -> CudaResult<Costs>;
    /// Sets a limit and returns the value in force.
    fn set_limit(&self, limit: i32, value: u64) -> CudaResult<u64>;

    /// Reserves device addresses; the result may lie elsewhere than wished.
    fn reserve(&self, bytes: u64, wish: DevicePtr) -> CudaResult<DevicePtr>;
    /// Gives reserved addresses back, where nothing is mapped any more.
    fn free_addresses(&self, at: DevicePtr, bytes: u64) -> CudaResult<()>;
    /// Creates physical memory.
    fn create_memory(&self, bytes: u64) -> CudaResult<MemHandle>;
    /// A descriptor by which another process on this machine imports physical memory.
    fn export_memory(&self, memory: MemHandle) -> CudaResult<OwnedFd>;
    /// Physical memory that another process has exported.
    fn import_memory(&self, file: BorrowedFd<'_>) -> CudaResult<MemHandle>;
    /// The physical memory that an address is mapped to, to be released once more: of what was released while it was mapped.
    fn retain_memory(&self, at: DevicePtr) -> CudaResult<MemHandle>;
    /// What this GPU can do with memory of the GPU with this index: the values of `CUdevice_P2PAttribute` 1 to 4. Of
    /// itself: 0, 1, 1, 1.
    fn peer_attributes(&self, gpu: i32) -> CudaResult<[i32; 4]>;
    /// Maps physical memory into reserved addresses, without access.
    fn map(&self, at: DevicePtr, bytes: u64, offset: u64, memory: MemHandle) -> CudaResult<()>;
    /// Gives or takes the device's access.
    fn set_access(&self, at: DevicePtr, bytes: u64, access: u32) -> CudaResult<()>;
    /// Unmaps whole mappings.
    fn unmap(&self, at: DevicePtr, bytes: u64) -> CudaResult<()>;

    /// Allocates pinned host memory, in pages of this size where the system has them to give.
    fn pin(&self, bytes: usize, pages: PageSize) -> CudaResult<Self::Pinned>;
    /// Maps zeros at an address of this process that the device reaches at the same address. NOT_SUPPORTED where the
    /// address is taken.
    fn map_host(&self, at: DevicePtr, bytes: usize) -> CudaResult<Self::Mapped>;
    /// Maps pages of a file in memory at an address of this process, for copies and, where the device can, for kernels.
    /// The caller does not `read` or `write` them: the file may shrink. NOT_SUPPORTED where the address is taken.
    fn share_host(&self, file: BorrowedFd<'_>, offset: u64, at: DevicePtr, bytes: usize) -> CudaResult<Self::Mapped>;
    /// Maps a file in memory at an address of this process where streams wait for its words. NOT_SUPPORTED where the address
    /// is taken, or a device that maps host memory has another for it.
    fn share_words(&self, file: BorrowedFd<'_>, at: DevicePtr, bytes: usize) -> CudaResult<Self::Mapped>;
    /// Copies a range of pinned memory to the device, in stream order.
    fn upload(&self, to: DevicePtr, from: &Self::Pinned, offset: usize, bytes: usize, stream: Stream)
    -> CudaResult<()>;
    /// Copies device memory to a range of pinned memory, in stream order.
    fn download(
        &self,
        to: &Self::Pinned,
        offset: usize,
        from: DevicePtr,
        bytes: usize,
        stream: Stream,
    ) -> CudaResult<()>;
    /// Copies rows that lie without gaps in pinned memory to the device.
    fn upload_rows(&self, to: Rows, from: &Self::Pinned, offset: usize, stream: Stream) -> CudaResult<()>;
    /// Copies rows of the device to pinned memory, without gaps.
    fn download_rows(&self, to: &Self::Pinned, offset: usize, from: Rows, stream: Stream) -> CudaResult<()>;
    /// Copies by the device. Shared memory stays mapped until the work has completed.
    fn copy(&self, to: MemoryEnd<'_, Self>, from: MemoryEnd<'_, Self>, bytes: u64, stream: Stream) -> CudaResult<()>;
    /// Copies rows of `extent`, their width and number, by the device. As `copy`.
    fn copy_rows(
        &self,
        to: RowsEnd<'_, Self::Mapped>,
        from: RowsEnd<'_, Self::Mapped>,
        extent: [u64; 2],
        stream: Stream,
    ) -> CudaResult<()>;
    /// The stream of what the worker does by itself. It is in order with no other.
    fn own_stream(&self) -> Stream;
    /// Hashes a range of device memory, and waits for it. Its bytes are a multiple of [`crate::HASH_UNIT`].
    fn hash(&self, at: DevicePtr, bytes: u64, key: HashKey) -> CudaResult<Vec<UnitHash>>;
    /// Sets device memory.
    fn fill(&self, at: DevicePtr, pattern: Pattern, stream: Stream) -> CudaResult<()>;

    /// Creates an array of a shape that can be.
    fn create_array(&self, shape: &ArrayShape) -> CudaResult<Array>;
    /// Creates a mipmapped array of a shape and a number of levels that can be.
    fn create_mipmapped_array(&self, shape: &ArrayShape, levels: u32) -> CudaResult<MipmappedArray>;
    /// Creates a texture; the number is what kernels are given.
    fn create_texture(&self, request: TextureRequest<'_>) -> CudaResult<TextureObject>;
    /// Creates a surface of an array; the number is what kernels are given.
    fn create_surface(&self, array: Array) -> CudaResult<SurfaceObject>;

    /// The compute capability, 9 and 0 of 9.0, for which a compiler behind `link` makes machine code of PTX that is worth
    /// keeping, and the version of its driver, 13000 of 13.0. `None`: there is no such compiler.
    fn compiles_for(&self) -> Option<[u32; 3]> {
        None
    }
    /// Loads code, at once or when it is needed; on success the text is the compiler's information log.
    fn load(&self, image: Image, loading: &Loading) -> Result<(Code, String), LoadFailure>;
    /// Links inputs to one image, with the linker's information log.
    fn link(
        &self,
        inputs: &[LinkInput],
        options: &[LoadOption],
        log_bytes: usize,
    ) -> Result<(Vec<u8>, String), LoadFailure>;
    /// Unloads it.
    fn unload(&self, code: Code) -> CudaResult<()>;
    /// The names of its kernels.
    fn kernel_names(&self, code: Code) -> CudaResult<Vec<String>>;
    /// A kernel by name: the function it is in this context.
    fn find_kernel(&self, code: Code, name: &str) -> CudaResult<Function>;
    /// The facts of a kernel.
    fn kernel_facts(&self, function: Function) -> CudaResult<KernelFacts>;
    /// Changes a setting of a kernel.
    fn set_kernel(&self, function: Function, setting: KernelSetting, value: i32) -> CudaResult<()>;
    /// A global variable.
    fn find_global(&self, code: Code, name: &str) -> CudaResult<Global>;
    /// Tells a texture reference what kernels read by it from now on.
    fn set_texture_reference(&self, code: Code, name: &str, request: &TextureReferenceRequest<'_>) -> CudaResult<()>;
    /// Until the result is dropped, the driver finds no room at these addresses for what it places itself, as variables of
    /// modules are. NOT_SUPPORTED where this process does not know its own addresses.
    fn keep(&self, within: Range<DevicePtr>) -> CudaResult<Box<dyn Send>>;

    /// Launches a kernel with its packed parameter block and attributes.
    fn launch(&self, request: &LaunchRequest<'_>) -> CudaResult<()>;
    /// Has the driver call `body` when the stream gets there; the stream waits until it returns.
    fn launch_host_function(&self, stream: Stream, body: HostCall) -> CudaResult<()>;

    /// Clusters of a launch that are on the device at once, or the blocks of the largest cluster.
    fn cluster_occupancy(&self, what: ClusterQuestion, request: &LaunchRequest<'_>) -> CudaResult<i32>;
    /// The map by which kernels access a tensor.
    fn tensor_map(&self, shape: &TensorShape, address: DevicePtr) -> CudaResult<TensorMap>;

    /// A graph without nodes.
    fn create_graph(&self) -> CudaResult<Graph>;
    /// Adds a node behind others of the graph.
    fn add_node(&self, graph: Graph, after: &[NodeEdge], work: &NodeWork<'_>) -> CudaResult<GraphNode>;
    /// A handle whose value decides for a conditional node of a graph; `flags` as the driver has them.
    fn graph_condition(&self, graph: Graph, value: u32, flags: u32) -> CudaResult<u64>;
    /// Adds a conditional node, whose bodies are graphs without nodes.
    fn add_conditional(&self, graph: Graph, after: &[NodeEdge], node: &Conditional) -> CudaResult<NodeBodies>;
    /// Makes a graph ready to be launched; the graph is kept as long as that.
    fn instantiate(&self, graph: Graph, flags: u64) -> CudaResult<GraphExec>;
    /// Changes what a node does, from the next launch on.
    fn set_node(&self, exec: GraphExec, node: GraphNode, work: &NodeWork<'_>) -> CudaResult<()>;

    /// Writes words of memory and waits for them, in stream order.
    fn memory_operations(&self, stream: Stream, operations: &[StreamMemoryOperation]) -> CudaResult<()>;
}

/// One end of a copy a device does by itself.
pub type MemoryEnd<'a, D> = End<'a, <D as Device>::Mapped>;
