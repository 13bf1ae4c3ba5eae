//! The CUDA driver API's vocabulary: result codes, attribute numbers, struct layouts, handles. Values arrive here as C
//! passed them and leave as plain integers with names, checked against the CUDA headers when this crate compiles.
//! Nothing here calls a driver, and no type here can be undefined by a value a program chose.
#![forbid(unsafe_code)]

mod arrays;
pub mod constants;
mod contexts;
mod copies;
mod devices;
mod graphs;
mod handles;
mod ipc;
mod launches;
mod memory;
pub mod nccl;
mod result;
mod stream_memory;
mod tensor_maps;
mod textures;

pub use arrays::{Array3dDescriptor, ArrayDescriptor, ArrayShape, element_bytes};
pub use constants::*;
pub use contexts::{CigParam, ContextCreateParams, ExecAffinityParam};
pub use copies::{Memcpy2d, Memcpy3d, Memcpy3dBatchOperation, Memcpy3dOperand, Memcpy3dPeer, MemcpyAttributes};
pub use devices::{DeviceProperties, Uuid};
pub use graphs::{
    BatchMemOpNodeParams, ChildGraphNodeParams, ConditionalNodeParams, EventNodeParams, GraphEdge, GraphInstantiation,
    GraphNodeParams, GraphUpdate, HostNodeParams, KernelNodeParams, KernelNodeParamsV1, MemAllocNodeParams,
    MemFreeNodeParams, MemcpyNodeParams, MemsetNodeParams,
};
pub use handles::*;
pub use ipc::{FabricHandle, IpcEventHandle, IpcMemHandle, PoolPointerData};
pub use launches::{
    LAUNCH_PARAM_BUFFER_POINTER, LAUNCH_PARAM_BUFFER_SIZE, LAUNCH_PARAM_END, LaunchAttribute, LaunchAttributeValue,
    LaunchConfig,
};
pub use memory::{MemAccess, MemAllocationFlags, MemAllocationProperties, MemLocation, MemPoolProperties};
pub use result::{CuResult, CudaError, CudaResult, error_names};
pub use stream_memory::{MOST_STREAM_MEMORY_OPERATIONS, StreamMemoryOperation, WordOperation, WordTest};
pub use tensor_maps::{TENSOR_RANK, TensorForm, TensorMap, TensorShape};
pub use textures::{ResourceDescriptor, ResourceViewDescriptor, TextureDescriptor};

/// The driver version floe implements, as `cuDriverGetVersion` writes it: 1000 × major + 10 × minor.
pub const DRIVER_VERSION: i32 = 13000;
