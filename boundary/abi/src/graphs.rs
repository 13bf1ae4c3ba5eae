//! Structs about graphs, laid out as the C header lays them out: parameters of nodes, edges, and results of
//! instantiation and update. Checked against the bindings when this crate compiles. Addresses in them stay numbers.

use crate::copies::Memcpy3d;
use crate::handles::{Context, DevicePtr, Event, Function, Graph, GraphNode, Kernel, Stream};
use crate::memory::{MemPoolProperties, same_layout};

/// `CUgraphEdgeData`: the part of a node that its dependent waits for.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct GraphEdge {
    /// Which moment of the earlier node; one of [`crate::graph_kernel_port`].
    pub from_port: u8,
    /// Which part of the later node; 0.
    pub to_port: u8,
    /// One of [`crate::graph_dependency_type`].
    pub kind: u8,
    /// Zero.
    pub reserved: [u8; 5],
}

/// `CUDA_KERNEL_NODE_PARAMS` as before CUDA 12.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct KernelNodeParamsV1 {
    /// The kernel.
    pub function: Function,
    /// Blocks per axis.
    pub grid: [u32; 3],
    /// Threads per axis.
    pub block: [u32; 3],
    /// Dynamic shared memory, bytes per block.
    pub shared_bytes: u32,
    /// Address of an array with each parameter's address.
    pub parameters: u64,
    /// Address of the `extra` list.
    pub extra: u64,
}

/// `CUDA_KERNEL_NODE_PARAMS_v2`, which `_v3` equals.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct KernelNodeParams {
    /// The fields of CUDA 11.
    pub first: KernelNodeParamsV1,
    /// The kernel where `function` is NULL.
    pub kernel: Kernel,
    /// The context of a kernel that has none of its own; NULL is the current one.
    pub context: Context,
}

/// `CUDA_MEMSET_NODE_PARAMS`; `_v2` has a context behind it.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct MemsetNodeParams {
    /// The first byte.
    pub at: DevicePtr,
    /// Bytes from row to row; without meaning for one row.
    pub pitch: usize,
    /// Each element's new value.
    pub value: u32,
    /// Bytes of an element: 1, 2 or 4.
    pub element: u32,
    /// Elements of a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
}

/// `CUDA_HOST_NODE_PARAMS`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct HostNodeParams {
    /// Address of the function.
    pub function: u64,
    /// Its argument.
    pub user: u64,
}

/// `CUDA_MEMCPY_NODE_PARAMS`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct MemcpyNodeParams {
    /// Zero.
    pub flags: i32,
    /// Zero.
    pub reserved: i32,
    /// The context that the copy runs in.
    pub context: Context,
    /// The copy.
    pub copy: Memcpy3d,
}

/// `CUDA_CHILD_GRAPH_NODE_PARAMS`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct ChildGraphNodeParams {
    /// The graph.
    pub graph: Graph,
    /// One of [`crate::child_graph_ownership`].
    pub ownership: u32,
}

/// `CUDA_EVENT_RECORD_NODE_PARAMS` and `CUDA_EVENT_WAIT_NODE_PARAMS`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct EventNodeParams {
    /// The event.
    pub event: Event,
}

/// `CUDA_MEM_ALLOC_NODE_PARAMS`: wishes in, the address out.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct MemAllocNodeParams {
    /// Which memory.
    pub pool: MemPoolProperties,
    /// Address of an array of further locations that may reach it.
    pub access: u64,
    /// Their number.
    pub access_count: usize,
    /// Bytes.
    pub bytes: usize,
    /// Its address, chosen by the driver.
    pub address: DevicePtr,
}

/// `CUDA_MEM_FREE_NODE_PARAMS`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct MemFreeNodeParams {
    /// The address an allocation node gave.
    pub address: DevicePtr,
}

/// `CUDA_BATCH_MEM_OP_NODE_PARAMS`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct BatchMemOpNodeParams {
    /// The context that the operations run in.
    pub context: Context,
    /// Their number.
    pub count: u32,
    /// Address of the operations.
    pub operations: u64,
    /// Zero.
    pub flags: u32,
}

/// `CUDA_CONDITIONAL_NODE_PARAMS`: wishes in, the bodies out.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct ConditionalNodeParams {
    /// The handle whose value decides.
    pub handle: u64,
    /// One of [`crate::graph_conditional_type`].
    pub kind: u32,
    /// Number of bodies.
    pub size: u32,
    /// Address of the array of bodies, chosen by the driver.
    pub bodies: u64,
    /// The context that the node runs in.
    pub context: Context,
}

/// `CUgraphNodeParams`: a node of any kind.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GraphNodeParams {
    /// One of [`crate::graph_node_type`].
    pub kind: u32,
    /// Zero.
    pub reserved0: [i32; 3],
    /// The struct of that kind, from the first word on.
    pub words: [u64; 29],
    /// Zero.
    pub reserved2: i64,
}

/// `CUDA_GRAPH_INSTANTIATE_PARAMS`: wishes in, the reason of a refusal out.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct GraphInstantiation {
    /// Bits of [`crate::graph_instantiate_flags`].
    pub flags: u64,
    /// The stream in which the graph is uploaded, when the flags say so.
    pub upload_stream: Stream,
    /// The node that was refused.
    pub error_node: GraphNode,
    /// One of [`crate::graph_instantiate_result`].
    pub result: u32,
}

/// `CUgraphExecUpdateResultInfo`: the result of an update.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct GraphUpdate {
    /// One of [`crate::graph_update_result`].
    pub result: u32,
    /// The node of the new graph that is refused.
    pub error_node: GraphNode,
    /// The node whose dependent it is.
    pub error_from_node: GraphNode,
}

same_layout!(GraphEdge, CUgraphEdgeData_st, { from_port: from_port, to_port: to_port, kind: type_ });
same_layout!(KernelNodeParamsV1, CUDA_KERNEL_NODE_PARAMS_st, {
    function: func, grid: gridDimX, block: blockDimX, shared_bytes: sharedMemBytes, parameters: kernelParams,
    extra: extra,
});
same_layout!(KernelNodeParams, CUDA_KERNEL_NODE_PARAMS_v3_st, { kernel: kern, context: ctx });
same_layout!(MemsetNodeParams, CUDA_MEMSET_NODE_PARAMS_st, {
    at: dst, pitch: pitch, value: value, element: elementSize, width: width, height: height,
});
same_layout!(HostNodeParams, CUDA_HOST_NODE_PARAMS_st, { function: fn_, user: userData });
same_layout!(MemcpyNodeParams, CUDA_MEMCPY_NODE_PARAMS_st, {
    flags: flags, reserved: reserved, context: copyCtx, copy: copyParams,
});
same_layout!(ChildGraphNodeParams, CUDA_CHILD_GRAPH_NODE_PARAMS_st, { graph: graph, ownership: ownership });
same_layout!(EventNodeParams, CUDA_EVENT_RECORD_NODE_PARAMS_st, { event: event });
same_layout!(EventNodeParams, CUDA_EVENT_WAIT_NODE_PARAMS_st, { event: event });
same_layout!(MemAllocNodeParams, CUDA_MEM_ALLOC_NODE_PARAMS_v2_st, {
    pool: poolProps, access: accessDescs, access_count: accessDescCount, bytes: bytesize, address: dptr,
});
same_layout!(MemAllocNodeParams, CUDA_MEM_ALLOC_NODE_PARAMS_v1_st, {
    pool: poolProps, access: accessDescs, access_count: accessDescCount, bytes: bytesize, address: dptr,
});
same_layout!(MemFreeNodeParams, CUDA_MEM_FREE_NODE_PARAMS_st, { address: dptr });
same_layout!(BatchMemOpNodeParams, CUDA_BATCH_MEM_OP_NODE_PARAMS_v1_st, {
    context: ctx, count: count, operations: paramArray, flags: flags,
});
same_layout!(BatchMemOpNodeParams, CUDA_BATCH_MEM_OP_NODE_PARAMS_v2_st, {
    context: ctx, count: count, operations: paramArray, flags: flags,
});
same_layout!(ConditionalNodeParams, CUDA_CONDITIONAL_NODE_PARAMS, {
    handle: handle, kind: type_, size: size, bodies: phGraph_out, context: ctx,
});
same_layout!(GraphNodeParams, CUgraphNodeParams_st, { kind: type_, reserved2: reserved2 });
same_layout!(GraphInstantiation, CUDA_GRAPH_INSTANTIATE_PARAMS_st, {
    flags: flags, upload_stream: hUploadStream, error_node: hErrNode_out, result: result_out,
});
same_layout!(GraphUpdate, CUgraphExecUpdateResultInfo_st, {
    result: result, error_node: errorNode, error_from_node: errorFromNode,
});
