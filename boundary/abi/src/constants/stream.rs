//! Constants about streams: the numbers come from the CUDA headers by way of the bindings crate, the names lose
//! their prefix. Values are plain integers, since what C passes in may be a number nobody has named yet.
//! Nothing here decides whether a value is supported.

/// Flags of a stream.
pub mod stream_flags {
    use cudarc::driver::sys::CUstream_flags_enum as Raw;
    /// `CU_STREAM_DEFAULT`.
    pub const DEFAULT: u32 = Raw::CU_STREAM_DEFAULT as u32;
    /// `CU_STREAM_NON_BLOCKING`.
    pub const NON_BLOCKING: u32 = Raw::CU_STREAM_NON_BLOCKING as u32;
}

/// Whether a stream is being captured.
pub mod capture_status {
    use cudarc::driver::sys::CUstreamCaptureStatus_enum as Raw;
    /// `CU_STREAM_CAPTURE_STATUS_NONE`.
    pub const NONE: u32 = Raw::CU_STREAM_CAPTURE_STATUS_NONE as u32;
    /// `CU_STREAM_CAPTURE_STATUS_ACTIVE`.
    pub const ACTIVE: u32 = Raw::CU_STREAM_CAPTURE_STATUS_ACTIVE as u32;
    /// `CU_STREAM_CAPTURE_STATUS_INVALIDATED`.
    pub const INVALIDATED: u32 = Raw::CU_STREAM_CAPTURE_STATUS_INVALIDATED as u32;
}

/// Capture modes: which calls are forbidden while capturing.
pub mod capture_mode {
    use cudarc::driver::sys::CUstreamCaptureMode_enum as Raw;
    /// `CU_STREAM_CAPTURE_MODE_GLOBAL`.
    pub const GLOBAL: u32 = Raw::CU_STREAM_CAPTURE_MODE_GLOBAL as u32;
    /// `CU_STREAM_CAPTURE_MODE_THREAD_LOCAL`.
    pub const THREAD_LOCAL: u32 = Raw::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL as u32;
    /// `CU_STREAM_CAPTURE_MODE_RELAXED`.
    pub const RELAXED: u32 = Raw::CU_STREAM_CAPTURE_MODE_RELAXED as u32;
}

/// Kinds of operations in a batch.
pub mod stream_memory_operation {
    use cudarc::driver::sys::CUstreamBatchMemOpType_enum as Raw;
    /// `CU_STREAM_MEM_OP_WAIT_VALUE_32`.
    pub const WAIT_VALUE_32: u32 = Raw::CU_STREAM_MEM_OP_WAIT_VALUE_32 as u32;
    /// `CU_STREAM_MEM_OP_WRITE_VALUE_32`.
    pub const WRITE_VALUE_32: u32 = Raw::CU_STREAM_MEM_OP_WRITE_VALUE_32 as u32;
    /// `CU_STREAM_MEM_OP_WAIT_VALUE_64`.
    pub const WAIT_VALUE_64: u32 = Raw::CU_STREAM_MEM_OP_WAIT_VALUE_64 as u32;
    /// `CU_STREAM_MEM_OP_WRITE_VALUE_64`.
    pub const WRITE_VALUE_64: u32 = Raw::CU_STREAM_MEM_OP_WRITE_VALUE_64 as u32;
    /// `CU_STREAM_MEM_OP_BARRIER`.
    pub const BARRIER: u32 = Raw::CU_STREAM_MEM_OP_BARRIER as u32;
    /// `CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES`.
    pub const FLUSH_REMOTE_WRITES: u32 = Raw::CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES as u32;
}

/// How a wait compares: one of the first four, with or without the last.
pub mod stream_wait_value {
    use cudarc::driver::sys::CUstreamWaitValue_flags_enum as Raw;
    /// `CU_STREAM_WAIT_VALUE_GEQ`.
    pub const GEQ: u32 = Raw::CU_STREAM_WAIT_VALUE_GEQ as u32;
    /// `CU_STREAM_WAIT_VALUE_EQ`.
    pub const EQ: u32 = Raw::CU_STREAM_WAIT_VALUE_EQ as u32;
    /// `CU_STREAM_WAIT_VALUE_AND`.
    pub const AND: u32 = Raw::CU_STREAM_WAIT_VALUE_AND as u32;
    /// `CU_STREAM_WAIT_VALUE_NOR`.
    pub const NOR: u32 = Raw::CU_STREAM_WAIT_VALUE_NOR as u32;
    /// `CU_STREAM_WAIT_VALUE_FLUSH`.
    pub const FLUSH: u32 = Raw::CU_STREAM_WAIT_VALUE_FLUSH as u32;
}

/// Flags of a write of a word.
pub mod stream_write_value {
    use cudarc::driver::sys::CUstreamWriteValue_flags_enum as Raw;
    /// `CU_STREAM_WRITE_VALUE_DEFAULT`.
    pub const DEFAULT: u32 = Raw::CU_STREAM_WRITE_VALUE_DEFAULT as u32;
}

/// Scopes of a barrier.
pub mod stream_memory_barrier {
    use cudarc::driver::sys::CUstreamMemoryBarrier_flags_enum as Raw;
    /// `CU_STREAM_MEMORY_BARRIER_TYPE_SYS`.
    pub const SYS: u32 = Raw::CU_STREAM_MEMORY_BARRIER_TYPE_SYS as u32;
    /// `CU_STREAM_MEMORY_BARRIER_TYPE_GPU`.
    pub const GPU: u32 = Raw::CU_STREAM_MEMORY_BARRIER_TYPE_GPU as u32;
}
