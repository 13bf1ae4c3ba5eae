//! Constants about memory: the numbers come from the CUDA headers by way of the bindings crate, the names lose
//! their prefix. Values are plain integers, since what C passes in may be a number nobody has named yet.
//! Nothing here decides whether a value is supported.

/// Kinds of memory that a copy reads or writes.
pub mod memory_type {
    use cudarc::driver::sys::CUmemorytype_enum as Raw;
    /// `CU_MEMORYTYPE_HOST`.
    pub const HOST: u32 = Raw::CU_MEMORYTYPE_HOST as u32;
    /// `CU_MEMORYTYPE_DEVICE`.
    pub const DEVICE: u32 = Raw::CU_MEMORYTYPE_DEVICE as u32;
    /// `CU_MEMORYTYPE_ARRAY`.
    pub const ARRAY: u32 = Raw::CU_MEMORYTYPE_ARRAY as u32;
    /// `CU_MEMORYTYPE_UNIFIED`.
    pub const UNIFIED: u32 = Raw::CU_MEMORYTYPE_UNIFIED as u32;
}

/// Attributes of a pointer.
pub mod pointer_attribute {
    use cudarc::driver::sys::CUpointer_attribute_enum as Raw;
    /// `CU_POINTER_ATTRIBUTE_CONTEXT`.
    pub const CONTEXT: u32 = Raw::CU_POINTER_ATTRIBUTE_CONTEXT as u32;
    /// `CU_POINTER_ATTRIBUTE_MEMORY_TYPE`.
    pub const MEMORY_TYPE: u32 = Raw::CU_POINTER_ATTRIBUTE_MEMORY_TYPE as u32;
    /// `CU_POINTER_ATTRIBUTE_DEVICE_POINTER`.
    pub const DEVICE_POINTER: u32 = Raw::CU_POINTER_ATTRIBUTE_DEVICE_POINTER as u32;
    /// `CU_POINTER_ATTRIBUTE_HOST_POINTER`.
    pub const HOST_POINTER: u32 = Raw::CU_POINTER_ATTRIBUTE_HOST_POINTER as u32;
    /// `CU_POINTER_ATTRIBUTE_P2P_TOKENS`.
    pub const P2P_TOKENS: u32 = Raw::CU_POINTER_ATTRIBUTE_P2P_TOKENS as u32;
    /// `CU_POINTER_ATTRIBUTE_SYNC_MEMOPS`.
    pub const SYNC_MEMOPS: u32 = Raw::CU_POINTER_ATTRIBUTE_SYNC_MEMOPS as u32;
    /// `CU_POINTER_ATTRIBUTE_BUFFER_ID`.
    pub const BUFFER_ID: u32 = Raw::CU_POINTER_ATTRIBUTE_BUFFER_ID as u32;
    /// `CU_POINTER_ATTRIBUTE_IS_MANAGED`.
    pub const IS_MANAGED: u32 = Raw::CU_POINTER_ATTRIBUTE_IS_MANAGED as u32;
    /// `CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL`.
    pub const DEVICE_ORDINAL: u32 = Raw::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL as u32;
    /// `CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE`.
    pub const IS_LEGACY_CUDA_IPC_CAPABLE: u32 = Raw::CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE as u32;
    /// `CU_POINTER_ATTRIBUTE_RANGE_START_ADDR`.
    pub const RANGE_START_ADDR: u32 = Raw::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR as u32;
    /// `CU_POINTER_ATTRIBUTE_RANGE_SIZE`.
    pub const RANGE_SIZE: u32 = Raw::CU_POINTER_ATTRIBUTE_RANGE_SIZE as u32;
    /// `CU_POINTER_ATTRIBUTE_MAPPED`.
    pub const MAPPED: u32 = Raw::CU_POINTER_ATTRIBUTE_MAPPED as u32;
    /// `CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES`.
    pub const ALLOWED_HANDLE_TYPES: u32 = Raw::CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES as u32;
    /// `CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE`.
    pub const IS_GPU_DIRECT_RDMA_CAPABLE: u32 = Raw::CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE as u32;
    /// `CU_POINTER_ATTRIBUTE_ACCESS_FLAGS`.
    pub const ACCESS_FLAGS: u32 = Raw::CU_POINTER_ATTRIBUTE_ACCESS_FLAGS as u32;
    /// `CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE`.
    pub const MEMPOOL_HANDLE: u32 = Raw::CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE as u32;
    /// `CU_POINTER_ATTRIBUTE_MAPPING_SIZE`.
    pub const MAPPING_SIZE: u32 = Raw::CU_POINTER_ATTRIBUTE_MAPPING_SIZE as u32;
    /// `CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR`.
    pub const MAPPING_BASE_ADDR: u32 = Raw::CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR as u32;
    /// `CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID`.
    pub const MEMORY_BLOCK_ID: u32 = Raw::CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID as u32;
    /// `CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE`.
    pub const IS_HW_DECOMPRESS_CAPABLE: u32 = Raw::CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE as u32;
}

/// Whose work may touch managed memory.
pub mod attach_flags {
    use cudarc::driver::sys::CUmemAttach_flags_enum as Raw;
    /// `CU_MEM_ATTACH_GLOBAL`.
    pub const GLOBAL: u32 = Raw::CU_MEM_ATTACH_GLOBAL as u32;
    /// `CU_MEM_ATTACH_HOST`.
    pub const HOST: u32 = Raw::CU_MEM_ATTACH_HOST as u32;
    /// `CU_MEM_ATTACH_SINGLE`.
    pub const SINGLE: u32 = Raw::CU_MEM_ATTACH_SINGLE as u32;
}

/// Advice of `cuMemAdvise`.
pub mod mem_advice {
    use cudarc::driver::sys::CUmem_advise_enum as Raw;
    /// `CU_MEM_ADVISE_SET_READ_MOSTLY`.
    pub const SET_READ_MOSTLY: u32 = Raw::CU_MEM_ADVISE_SET_READ_MOSTLY as u32;
    /// `CU_MEM_ADVISE_UNSET_READ_MOSTLY`.
    pub const UNSET_READ_MOSTLY: u32 = Raw::CU_MEM_ADVISE_UNSET_READ_MOSTLY as u32;
    /// `CU_MEM_ADVISE_SET_PREFERRED_LOCATION`.
    pub const SET_PREFERRED_LOCATION: u32 = Raw::CU_MEM_ADVISE_SET_PREFERRED_LOCATION as u32;
    /// `CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION`.
    pub const UNSET_PREFERRED_LOCATION: u32 = Raw::CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION as u32;
    /// `CU_MEM_ADVISE_SET_ACCESSED_BY`.
    pub const SET_ACCESSED_BY: u32 = Raw::CU_MEM_ADVISE_SET_ACCESSED_BY as u32;
    /// `CU_MEM_ADVISE_UNSET_ACCESSED_BY`.
    pub const UNSET_ACCESSED_BY: u32 = Raw::CU_MEM_ADVISE_UNSET_ACCESSED_BY as u32;
}

/// Attributes of `cuMemRangeGetAttribute`.
pub mod mem_range_attribute {
    use cudarc::driver::sys::CUmem_range_attribute_enum as Raw;
    /// `CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY`.
    pub const READ_MOSTLY: u32 = Raw::CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY as u32;
    /// `CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION`.
    pub const PREFERRED_LOCATION: u32 = Raw::CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION as u32;
    /// `CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY`.
    pub const ACCESSED_BY: u32 = Raw::CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY as u32;
    /// `CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION`.
    pub const LAST_PREFETCH_LOCATION: u32 = Raw::CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION as u32;
    /// `CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE`.
    pub const PREFERRED_LOCATION_TYPE: u32 = Raw::CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE as u32;
    /// `CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID`.
    pub const PREFERRED_LOCATION_ID: u32 = Raw::CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID as u32;
    /// `CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE`.
    pub const LAST_PREFETCH_LOCATION_TYPE: u32 = Raw::CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE as u32;
    /// `CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID`.
    pub const LAST_PREFETCH_LOCATION_ID: u32 = Raw::CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID as u32;
}

/// Kinds of physical memory.
pub mod allocation_type {
    use cudarc::driver::sys::CUmemAllocationType_enum as Raw;
    /// `CU_MEM_ALLOCATION_TYPE_INVALID`.
    pub const INVALID: u32 = Raw::CU_MEM_ALLOCATION_TYPE_INVALID as u32;
    /// `CU_MEM_ALLOCATION_TYPE_PINNED`.
    pub const PINNED: u32 = Raw::CU_MEM_ALLOCATION_TYPE_PINNED as u32;
    /// `CU_MEM_ALLOCATION_TYPE_MANAGED`.
    pub const MANAGED: u32 = Raw::CU_MEM_ALLOCATION_TYPE_MANAGED as u32;
    /// `CU_MEM_ALLOCATION_TYPE_MAX`.
    pub const MAX: u32 = Raw::CU_MEM_ALLOCATION_TYPE_MAX as u32;
}

/// Kinds of places memory lives in.
pub mod location_type {
    use cudarc::driver::sys::CUmemLocationType_enum as Raw;
    /// `CU_MEM_LOCATION_TYPE_INVALID`.
    pub const INVALID: u32 = Raw::CU_MEM_LOCATION_TYPE_INVALID as u32;
    /// `CU_MEM_LOCATION_TYPE_DEVICE`.
    pub const DEVICE: u32 = Raw::CU_MEM_LOCATION_TYPE_DEVICE as u32;
    /// `CU_MEM_LOCATION_TYPE_HOST`.
    pub const HOST: u32 = Raw::CU_MEM_LOCATION_TYPE_HOST as u32;
    /// `CU_MEM_LOCATION_TYPE_HOST_NUMA`.
    pub const HOST_NUMA: u32 = Raw::CU_MEM_LOCATION_TYPE_HOST_NUMA as u32;
    /// `CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT`.
    pub const HOST_NUMA_CURRENT: u32 = Raw::CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT as u32;
    /// `CU_MEM_LOCATION_TYPE_MAX`.
    pub const MAX: u32 = Raw::CU_MEM_LOCATION_TYPE_MAX as u32;
    /// `CU_MEM_LOCATION_TYPE_NONE`.
    pub const NONE: u32 = Raw::CU_MEM_LOCATION_TYPE_NONE as u32;
}

/// Access that a device has to a mapping.
pub mod access_flags {
    use cudarc::driver::sys::CUmemAccess_flags_enum as Raw;
    /// `CU_MEM_ACCESS_FLAGS_PROT_NONE`.
    pub const NONE: u32 = Raw::CU_MEM_ACCESS_FLAGS_PROT_NONE as u32;
    /// `CU_MEM_ACCESS_FLAGS_PROT_READ`.
    pub const READ: u32 = Raw::CU_MEM_ACCESS_FLAGS_PROT_READ as u32;
    /// `CU_MEM_ACCESS_FLAGS_PROT_READWRITE`.
    pub const READWRITE: u32 = Raw::CU_MEM_ACCESS_FLAGS_PROT_READWRITE as u32;
    /// `CU_MEM_ACCESS_FLAGS_PROT_MAX`.
    pub const MAX: u32 = Raw::CU_MEM_ACCESS_FLAGS_PROT_MAX as u32;
}

/// Which granularity is asked.
pub mod granularity {
    use cudarc::driver::sys::CUmemAllocationGranularity_flags_enum as Raw;
    /// `CU_MEM_ALLOC_GRANULARITY_MINIMUM`.
    pub const MINIMUM: u32 = Raw::CU_MEM_ALLOC_GRANULARITY_MINIMUM as u32;
    /// `CU_MEM_ALLOC_GRANULARITY_RECOMMENDED`.
    pub const RECOMMENDED: u32 = Raw::CU_MEM_ALLOC_GRANULARITY_RECOMMENDED as u32;
}

/// Attributes of a memory pool.
pub mod pool_attribute {
    use cudarc::driver::sys::CUmemPool_attribute_enum as Raw;
    /// `CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES`.
    pub const REUSE_FOLLOW_EVENT_DEPENDENCIES: u32 = Raw::CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES as u32;
    /// `CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC`.
    pub const REUSE_ALLOW_OPPORTUNISTIC: u32 = Raw::CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC as u32;
    /// `CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES`.
    pub const REUSE_ALLOW_INTERNAL_DEPENDENCIES: u32 = Raw::CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES as u32;
    /// `CU_MEMPOOL_ATTR_RELEASE_THRESHOLD`.
    pub const RELEASE_THRESHOLD: u32 = Raw::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD as u32;
    /// `CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT`.
    pub const RESERVED_MEM_CURRENT: u32 = Raw::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT as u32;
    /// `CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH`.
    pub const RESERVED_MEM_HIGH: u32 = Raw::CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH as u32;
    /// `CU_MEMPOOL_ATTR_USED_MEM_CURRENT`.
    pub const USED_MEM_CURRENT: u32 = Raw::CU_MEMPOOL_ATTR_USED_MEM_CURRENT as u32;
    /// `CU_MEMPOOL_ATTR_USED_MEM_HIGH`.
    pub const USED_MEM_HIGH: u32 = Raw::CU_MEMPOOL_ATTR_USED_MEM_HIGH as u32;
}

/// Ways of handing an allocation to another process.
pub mod handle_type {
    use cudarc::driver::sys::CUmemAllocationHandleType_enum as Raw;
    /// Not at all.
    pub const NONE: u32 = Raw::CU_MEM_HANDLE_TYPE_NONE.0;
    /// By a file descriptor.
    pub const POSIX_FILE_DESCRIPTOR: u32 = Raw::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR.0;
    /// By a handle of the GPU fabric.
    pub const FABRIC: u32 = Raw::CU_MEM_HANDLE_TYPE_FABRIC.0;
    /// All that there are, those of Windows among them.
    pub const KNOWN: u32 =
        POSIX_FILE_DESCRIPTOR | Raw::CU_MEM_HANDLE_TYPE_WIN32.0 | Raw::CU_MEM_HANDLE_TYPE_WIN32_KMT.0 | FABRIC;
}

/// Flags of `cuIpcOpenMemHandle`.
pub mod ipc_mem_flags {
    use cudarc::driver::sys::CUipcMem_flags_enum as Raw;
    /// `CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS`.
    pub const LAZY_ENABLE_PEER_ACCESS: u32 = Raw::CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS as u32;
}

/// Flags of `cuMemHostAlloc`.
pub mod host_alloc_flags {
    use cudarc::driver::sys;
    /// Usable as pinned memory from every context.
    pub const PORTABLE: u32 = sys::CU_MEMHOSTALLOC_PORTABLE;
    /// Mapped into the device's address space.
    pub const DEVICEMAP: u32 = sys::CU_MEMHOSTALLOC_DEVICEMAP;
    /// Write-combined.
    pub const WRITECOMBINED: u32 = sys::CU_MEMHOSTALLOC_WRITECOMBINED;
}

/// Flags of `cuMemHostRegister`.
pub mod host_register_flags {
    use cudarc::driver::sys;
    /// Usable as pinned memory from every context.
    pub const PORTABLE: u32 = sys::CU_MEMHOSTREGISTER_PORTABLE;
    /// Mapped into the device's address space.
    pub const DEVICEMAP: u32 = sys::CU_MEMHOSTREGISTER_DEVICEMAP;
    /// The range is a device's registers.
    pub const IOMEMORY: u32 = sys::CU_MEMHOSTREGISTER_IOMEMORY;
    /// The device only reads the range.
    pub const READ_ONLY: u32 = sys::CU_MEMHOSTREGISTER_READ_ONLY;
}

/// When a copy of a batch reads its source.
pub mod source_access_order {
    use cudarc::driver::sys::CUmemcpySrcAccessOrder_enum as Raw;
    /// `CU_MEMCPY_SRC_ACCESS_ORDER_STREAM`.
    pub const STREAM: u32 = Raw::CU_MEMCPY_SRC_ACCESS_ORDER_STREAM as u32;
    /// `CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL`.
    pub const DURING_API_CALL: u32 = Raw::CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL as u32;
    /// `CU_MEMCPY_SRC_ACCESS_ORDER_ANY`.
    pub const ANY: u32 = Raw::CU_MEMCPY_SRC_ACCESS_ORDER_ANY as u32;
}

/// Kinds of ends of a box in a batch of copies.
pub mod copy_operand_type {
    use cudarc::driver::sys::CUmemcpy3DOperandType_enum as Raw;
    /// `CU_MEMCPY_OPERAND_TYPE_POINTER`.
    pub const POINTER: u32 = Raw::CU_MEMCPY_OPERAND_TYPE_POINTER as u32;
    /// `CU_MEMCPY_OPERAND_TYPE_ARRAY`.
    pub const ARRAY: u32 = Raw::CU_MEMCPY_OPERAND_TYPE_ARRAY as u32;
}

/// Compression of physical memory.
pub mod compression_type {
    use cudarc::driver::sys::CUmemAllocationCompType_enum as Raw;
    /// `CU_MEM_ALLOCATION_COMP_GENERIC`.
    pub const GENERIC: u8 = Raw::CU_MEM_ALLOCATION_COMP_GENERIC as u8;
}

/// Bits of what physical memory and pools are for.
#[allow(clippy::cast_possible_truncation, reason = "the structs have 16 bits for them")]
pub mod mem_create_usage {
    use cudarc::driver::sys as raw;
    /// `CU_MEM_CREATE_USAGE_TILE_POOL`.
    pub const TILE_POOL: u16 = raw::CU_MEM_CREATE_USAGE_TILE_POOL as u16;
    /// `CU_MEM_CREATE_USAGE_HW_DECOMPRESS`, which pools have, too.
    pub const HW_DECOMPRESS: u16 = raw::CU_MEM_CREATE_USAGE_HW_DECOMPRESS as u16;
    /// `CU_MEM_CREATE_USAGE_GPU_DIRECT_RDMA_OVER_PCIE` of CUDA 13.4, which the bindings do not have.
    pub const GPU_DIRECT_RDMA_OVER_PCIE: u16 = 4;
    /// All of them.
    pub const KNOWN: u16 = TILE_POOL | HW_DECOMPRESS | GPU_DIRECT_RDMA_OVER_PCIE;
}
