//! Constants about graphs: the numbers come from the CUDA headers by way of the bindings crate, the names lose
//! their prefix. Values are plain integers, since what C passes in may be a number nobody has named yet.
//! Nothing here decides whether a value is supported.

/// Types of nodes.
pub mod graph_node_type {
    use cudarc::driver::sys::CUgraphNodeType_enum as Raw;
    /// `CU_GRAPH_NODE_TYPE_KERNEL`.
    pub const KERNEL: u32 = Raw::CU_GRAPH_NODE_TYPE_KERNEL as u32;
    /// `CU_GRAPH_NODE_TYPE_MEMCPY`.
    pub const MEMCPY: u32 = Raw::CU_GRAPH_NODE_TYPE_MEMCPY as u32;
    /// `CU_GRAPH_NODE_TYPE_MEMSET`.
    pub const MEMSET: u32 = Raw::CU_GRAPH_NODE_TYPE_MEMSET as u32;
    /// `CU_GRAPH_NODE_TYPE_HOST`.
    pub const HOST: u32 = Raw::CU_GRAPH_NODE_TYPE_HOST as u32;
    /// `CU_GRAPH_NODE_TYPE_GRAPH`.
    pub const GRAPH: u32 = Raw::CU_GRAPH_NODE_TYPE_GRAPH as u32;
    /// `CU_GRAPH_NODE_TYPE_EMPTY`.
    pub const EMPTY: u32 = Raw::CU_GRAPH_NODE_TYPE_EMPTY as u32;
    /// `CU_GRAPH_NODE_TYPE_WAIT_EVENT`.
    pub const WAIT_EVENT: u32 = Raw::CU_GRAPH_NODE_TYPE_WAIT_EVENT as u32;
    /// `CU_GRAPH_NODE_TYPE_EVENT_RECORD`.
    pub const EVENT_RECORD: u32 = Raw::CU_GRAPH_NODE_TYPE_EVENT_RECORD as u32;
    /// `CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL`.
    pub const EXT_SEMAS_SIGNAL: u32 = Raw::CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL as u32;
    /// `CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT`.
    pub const EXT_SEMAS_WAIT: u32 = Raw::CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT as u32;
    /// `CU_GRAPH_NODE_TYPE_MEM_ALLOC`.
    pub const MEM_ALLOC: u32 = Raw::CU_GRAPH_NODE_TYPE_MEM_ALLOC as u32;
    /// `CU_GRAPH_NODE_TYPE_MEM_FREE`.
    pub const MEM_FREE: u32 = Raw::CU_GRAPH_NODE_TYPE_MEM_FREE as u32;
    /// `CU_GRAPH_NODE_TYPE_BATCH_MEM_OP`.
    pub const BATCH_MEM_OP: u32 = Raw::CU_GRAPH_NODE_TYPE_BATCH_MEM_OP as u32;
    /// `CU_GRAPH_NODE_TYPE_CONDITIONAL`.
    pub const CONDITIONAL: u32 = Raw::CU_GRAPH_NODE_TYPE_CONDITIONAL as u32;
}

/// Why an update of an instantiated graph was refused.
pub mod graph_update_result {
    use cudarc::driver::sys::CUgraphExecUpdateResult_enum as Raw;
    /// `CU_GRAPH_EXEC_UPDATE_SUCCESS`.
    pub const SUCCESS: u32 = Raw::CU_GRAPH_EXEC_UPDATE_SUCCESS as u32;
    /// `CU_GRAPH_EXEC_UPDATE_ERROR`.
    pub const ERROR: u32 = Raw::CU_GRAPH_EXEC_UPDATE_ERROR as u32;
    /// `CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED`.
    pub const ERROR_TOPOLOGY_CHANGED: u32 = Raw::CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED as u32;
    /// `CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED`.
    pub const ERROR_NODE_TYPE_CHANGED: u32 = Raw::CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED as u32;
    /// `CU_GRAPH_EXEC_UPDATE_ERROR_FUNCTION_CHANGED`.
    pub const ERROR_FUNCTION_CHANGED: u32 = Raw::CU_GRAPH_EXEC_UPDATE_ERROR_FUNCTION_CHANGED as u32;
    /// `CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED`.
    pub const ERROR_PARAMETERS_CHANGED: u32 = Raw::CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED as u32;
    /// `CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED`.
    pub const ERROR_NOT_SUPPORTED: u32 = Raw::CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED as u32;
}

/// Why a graph was not instantiated.
pub mod graph_instantiate_result {
    use cudarc::driver::sys::CUgraphInstantiateResult_enum as Raw;
    /// `CUDA_GRAPH_INSTANTIATE_SUCCESS`.
    pub const SUCCESS: u32 = Raw::CUDA_GRAPH_INSTANTIATE_SUCCESS as u32;
    /// `CUDA_GRAPH_INSTANTIATE_ERROR`.
    pub const ERROR: u32 = Raw::CUDA_GRAPH_INSTANTIATE_ERROR as u32;
    /// `CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE`.
    pub const INVALID_STRUCTURE: u32 = Raw::CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE as u32;
    /// `CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED`.
    pub const NODE_OPERATION_NOT_SUPPORTED: u32 = Raw::CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED as u32;
    /// `CUDA_GRAPH_INSTANTIATE_MULTIPLE_CTXS_NOT_SUPPORTED`.
    pub const MULTIPLE_CTXS_NOT_SUPPORTED: u32 = Raw::CUDA_GRAPH_INSTANTIATE_MULTIPLE_CTXS_NOT_SUPPORTED as u32;
    /// `CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED`.
    pub const CONDITIONAL_HANDLE_UNUSED: u32 = Raw::CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED as u32;
}

/// What a conditional node does with its bodies.
pub mod graph_conditional_type {
    use cudarc::driver::sys::CUgraphConditionalNodeType_enum as Raw;
    /// `CU_GRAPH_COND_TYPE_IF`.
    pub const IF: u32 = Raw::CU_GRAPH_COND_TYPE_IF as u32;
    /// `CU_GRAPH_COND_TYPE_WHILE`.
    pub const WHILE: u32 = Raw::CU_GRAPH_COND_TYPE_WHILE as u32;
    /// `CU_GRAPH_COND_TYPE_SWITCH`.
    pub const SWITCH: u32 = Raw::CU_GRAPH_COND_TYPE_SWITCH as u32;
}

/// Flags of a conditional handle.
pub mod graph_conditional_flags {
    /// `CU_GRAPH_COND_ASSIGN_DEFAULT`: each launch begins with the default value.
    pub const ASSIGN_DEFAULT: u32 = 1;
}

/// Flags of an instantiated graph.
pub mod graph_instantiate_flags {
    use cudarc::driver::sys::CUgraphInstantiate_flags_enum as Raw;
    /// `CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH`.
    pub const AUTO_FREE_ON_LAUNCH: u32 = Raw::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH.0;
    /// `CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD`.
    pub const UPLOAD: u32 = Raw::CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD.0;
    /// `CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH`.
    pub const DEVICE_LAUNCH: u32 = Raw::CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH.0;
    /// `CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY`.
    pub const USE_NODE_PRIORITY: u32 = Raw::CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY.0;
}

/// Types of dependencies: which part of the earlier node the later one waits for.
pub mod graph_dependency_type {
    use cudarc::driver::sys::CUgraphDependencyType_enum as Raw;
    /// `CU_GRAPH_DEPENDENCY_TYPE_DEFAULT`.
    pub const DEFAULT: u32 = Raw::CU_GRAPH_DEPENDENCY_TYPE_DEFAULT as u32;
    /// `CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC`.
    pub const PROGRAMMATIC: u32 = Raw::CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC as u32;
}

/// Whether a child graph is copied or moved into its node.
pub mod child_graph_ownership {
    use cudarc::driver::sys::CUgraphChildGraphNodeOwnership_enum as Raw;
    /// `CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE`.
    pub const CLONE: u32 = Raw::CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE as u32;
    /// `CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE`.
    pub const MOVE: u32 = Raw::CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE as u32;
}

/// Flags of a drawing of a graph.
pub mod graph_debug_flags {
    use cudarc::driver::sys::CUgraphDebugDot_flags_enum as Raw;
    /// `CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE`.
    pub const VERBOSE: u32 = Raw::CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE as u32;
    /// `CU_GRAPH_DEBUG_DOT_FLAGS_RUNTIME_TYPES`.
    pub const RUNTIME_TYPES: u32 = Raw::CU_GRAPH_DEBUG_DOT_FLAGS_RUNTIME_TYPES as u32;
    /// `CU_GRAPH_DEBUG_DOT_FLAGS_KERNEL_NODE_PARAMS`.
    pub const KERNEL_NODE_PARAMS: u32 = Raw::CU_GRAPH_DEBUG_DOT_FLAGS_KERNEL_NODE_PARAMS as u32;
    /// `CU_GRAPH_DEBUG_DOT_FLAGS_MEMCPY_NODE_PARAMS`.
    pub const MEMCPY_NODE_PARAMS: u32 = Raw::CU_GRAPH_DEBUG_DOT_FLAGS_MEMCPY_NODE_PARAMS as u32;
    /// `CU_GRAPH_DEBUG_DOT_FLAGS_MEMSET_NODE_PARAMS`.
    pub const MEMSET_NODE_PARAMS: u32 = Raw::CU_GRAPH_DEBUG_DOT_FLAGS_MEMSET_NODE_PARAMS as u32;
    /// `CU_GRAPH_DEBUG_DOT_FLAGS_HOST_NODE_PARAMS`.
    pub const HOST_NODE_PARAMS: u32 = Raw::CU_GRAPH_DEBUG_DOT_FLAGS_HOST_NODE_PARAMS as u32;
    /// `CU_GRAPH_DEBUG_DOT_FLAGS_EVENT_NODE_PARAMS`.
    pub const EVENT_NODE_PARAMS: u32 = Raw::CU_GRAPH_DEBUG_DOT_FLAGS_EVENT_NODE_PARAMS as u32;
    /// `CU_GRAPH_DEBUG_DOT_FLAGS_KERNEL_NODE_ATTRIBUTES`.
    pub const KERNEL_NODE_ATTRIBUTES: u32 = Raw::CU_GRAPH_DEBUG_DOT_FLAGS_KERNEL_NODE_ATTRIBUTES as u32;
    /// `CU_GRAPH_DEBUG_DOT_FLAGS_HANDLES`.
    pub const HANDLES: u32 = Raw::CU_GRAPH_DEBUG_DOT_FLAGS_HANDLES as u32;
    /// `CU_GRAPH_DEBUG_DOT_FLAGS_CONDITIONAL_NODE_PARAMS`.
    pub const CONDITIONAL_NODE_PARAMS: u32 = Raw::CU_GRAPH_DEBUG_DOT_FLAGS_CONDITIONAL_NODE_PARAMS as u32;
    /// All that there are: CONDITIONAL_NODE_PARAMS is the last.
    pub const KNOWN: u32 = 2 * CONDITIONAL_NODE_PARAMS - 1;
}

/// How the dependencies of a capturing stream change.
pub mod capture_dependencies {
    use cudarc::driver::sys::CUstreamUpdateCaptureDependencies_flags_enum as Raw;
    /// `CU_STREAM_ADD_CAPTURE_DEPENDENCIES`.
    pub const ADD_CAPTURE_DEPENDENCIES: u32 = Raw::CU_STREAM_ADD_CAPTURE_DEPENDENCIES as u32;
    /// `CU_STREAM_SET_CAPTURE_DEPENDENCIES`.
    pub const SET_CAPTURE_DEPENDENCIES: u32 = Raw::CU_STREAM_SET_CAPTURE_DEPENDENCIES as u32;
}

/// The ports of a kernel node that a programmatic dependency may start from.
pub mod graph_kernel_port {
    /// `CU_GRAPH_KERNEL_NODE_PORT_DEFAULT`: the kernel's end.
    pub const DEFAULT: u8 = 0;
    /// `CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC`: all blocks have let dependents go or ended.
    pub const PROGRAMMATIC: u8 = 1;
    /// `CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER`: all blocks have begun.
    pub const LAUNCH_ORDER: u8 = 2;
}

/// Flags of references to user objects.
pub mod user_object_flags {
    /// `CU_USER_OBJECT_NO_DESTRUCTOR_SYNC`: the destructor may run at any time; the program must say so.
    pub const NO_DESTRUCTOR_SYNC: u32 = 1;
    /// `CU_GRAPH_USER_OBJECT_MOVE`: the graph takes over references of the caller.
    pub const MOVE: u32 = 1;
}

/// Attributes of a device's memory for graphs.
pub mod graph_memory_attribute {
    use cudarc::driver::sys::CUgraphMem_attribute_enum as Raw;
    /// `CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT`.
    pub const USED_MEM_CURRENT: u32 = Raw::CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT as u32;
    /// `CU_GRAPH_MEM_ATTR_USED_MEM_HIGH`.
    pub const USED_MEM_HIGH: u32 = Raw::CU_GRAPH_MEM_ATTR_USED_MEM_HIGH as u32;
    /// `CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT`.
    pub const RESERVED_MEM_CURRENT: u32 = Raw::CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT as u32;
    /// `CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH`.
    pub const RESERVED_MEM_HIGH: u32 = Raw::CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH as u32;
}
