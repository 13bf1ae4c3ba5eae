//! Constants about contexts: the numbers come from the CUDA headers by way of the bindings crate, the names lose
//! their prefix. Values are plain integers, since what C passes in may be a number nobody has named yet.
//! Nothing here decides whether a value is supported.

/// Flags of a context.
pub mod context_flags {
    use cudarc::driver::sys::CUctx_flags_enum as Raw;
    /// `CU_CTX_SCHED_AUTO`.
    pub const SCHED_AUTO: u32 = Raw::CU_CTX_SCHED_AUTO as u32;
    /// `CU_CTX_SCHED_SPIN`.
    pub const SCHED_SPIN: u32 = Raw::CU_CTX_SCHED_SPIN as u32;
    /// `CU_CTX_SCHED_YIELD`.
    pub const SCHED_YIELD: u32 = Raw::CU_CTX_SCHED_YIELD as u32;
    /// `CU_CTX_SCHED_BLOCKING_SYNC`.
    pub const SCHED_BLOCKING_SYNC: u32 = Raw::CU_CTX_SCHED_BLOCKING_SYNC as u32;
    /// `CU_CTX_SCHED_MASK`.
    pub const SCHED_MASK: u32 = Raw::CU_CTX_SCHED_MASK as u32;
    /// `CU_CTX_MAP_HOST`.
    pub const MAP_HOST: u32 = Raw::CU_CTX_MAP_HOST as u32;
    /// `CU_CTX_LMEM_RESIZE_TO_MAX`.
    pub const LMEM_RESIZE_TO_MAX: u32 = Raw::CU_CTX_LMEM_RESIZE_TO_MAX as u32;
    /// `CU_CTX_COREDUMP_ENABLE`.
    pub const COREDUMP_ENABLE: u32 = Raw::CU_CTX_COREDUMP_ENABLE as u32;
    /// `CU_CTX_USER_COREDUMP_ENABLE`.
    pub const USER_COREDUMP_ENABLE: u32 = Raw::CU_CTX_USER_COREDUMP_ENABLE as u32;
    /// `CU_CTX_SYNC_MEMOPS`.
    pub const SYNC_MEMOPS: u32 = Raw::CU_CTX_SYNC_MEMOPS as u32;
    /// `CU_CTX_FLAGS_MASK`.
    pub const FLAGS_MASK: u32 = Raw::CU_CTX_FLAGS_MASK as u32;
    /// `CU_CTX_BLOCKING_SYNC`.
    pub const BLOCKING_SYNC: u32 = Raw::CU_CTX_BLOCKING_SYNC as u32;
}

/// Limits of a context.
pub mod limit {
    use cudarc::driver::sys::CUlimit_enum as Raw;
    /// `CU_LIMIT_STACK_SIZE`.
    pub const STACK_SIZE: u32 = Raw::CU_LIMIT_STACK_SIZE as u32;
    /// `CU_LIMIT_PRINTF_FIFO_SIZE`.
    pub const PRINTF_FIFO_SIZE: u32 = Raw::CU_LIMIT_PRINTF_FIFO_SIZE as u32;
    /// `CU_LIMIT_MALLOC_HEAP_SIZE`.
    pub const MALLOC_HEAP_SIZE: u32 = Raw::CU_LIMIT_MALLOC_HEAP_SIZE as u32;
    /// `CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH`.
    pub const DEV_RUNTIME_SYNC_DEPTH: u32 = Raw::CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH as u32;
    /// `CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT`.
    pub const DEV_RUNTIME_PENDING_LAUNCH_COUNT: u32 = Raw::CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT as u32;
    /// `CU_LIMIT_MAX_L2_FETCH_GRANULARITY`.
    pub const MAX_L2_FETCH_GRANULARITY: u32 = Raw::CU_LIMIT_MAX_L2_FETCH_GRANULARITY as u32;
    /// `CU_LIMIT_PERSISTING_L2_CACHE_SIZE`.
    pub const PERSISTING_L2_CACHE_SIZE: u32 = Raw::CU_LIMIT_PERSISTING_L2_CACHE_SIZE as u32;
    /// `CU_LIMIT_SHMEM_SIZE`.
    pub const SHMEM_SIZE: u32 = Raw::CU_LIMIT_SHMEM_SIZE as u32;
    /// `CU_LIMIT_CIG_ENABLED`.
    pub const CIG_ENABLED: u32 = Raw::CU_LIMIT_CIG_ENABLED as u32;
    /// `CU_LIMIT_CIG_SHMEM_FALLBACK_ENABLED`.
    pub const CIG_SHMEM_FALLBACK_ENABLED: u32 = Raw::CU_LIMIT_CIG_SHMEM_FALLBACK_ENABLED as u32;
    /// `CU_LIMIT_MAX`.
    pub const MAX: u32 = Raw::CU_LIMIT_MAX as u32;
}

/// Split of the L1 cache a function prefers.
pub mod function_cache {
    use cudarc::driver::sys::CUfunc_cache_enum as Raw;
    /// `CU_FUNC_CACHE_PREFER_NONE`.
    pub const PREFER_NONE: u32 = Raw::CU_FUNC_CACHE_PREFER_NONE as u32;
    /// `CU_FUNC_CACHE_PREFER_SHARED`.
    pub const PREFER_SHARED: u32 = Raw::CU_FUNC_CACHE_PREFER_SHARED as u32;
    /// `CU_FUNC_CACHE_PREFER_L1`.
    pub const PREFER_L1: u32 = Raw::CU_FUNC_CACHE_PREFER_L1 as u32;
    /// `CU_FUNC_CACHE_PREFER_EQUAL`.
    pub const PREFER_EQUAL: u32 = Raw::CU_FUNC_CACHE_PREFER_EQUAL as u32;
}

/// Width of a shared memory bank.
pub mod shared_config {
    use cudarc::driver::sys::CUsharedconfig_enum as Raw;
    /// `CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE`.
    pub const DEFAULT_BANK_SIZE: u32 = Raw::CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE as u32;
    /// `CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE`.
    pub const FOUR_BYTE_BANK_SIZE: u32 = Raw::CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE as u32;
    /// `CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE`.
    pub const EIGHT_BYTE_BANK_SIZE: u32 = Raw::CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE as u32;
}

/// Kinds of graphics work that a context shares the GPU with.
pub mod cig_data {
    use cudarc::driver::sys::CUcigDataType_enum as Raw;
    /// `CIG_DATA_TYPE_D3D12_COMMAND_QUEUE`.
    pub const D3D12_COMMAND_QUEUE: u32 = Raw::CIG_DATA_TYPE_D3D12_COMMAND_QUEUE as u32;
    /// `CIG_DATA_TYPE_NV_BLOB`.
    pub const NV_BLOB: u32 = Raw::CIG_DATA_TYPE_NV_BLOB as u32;
}
