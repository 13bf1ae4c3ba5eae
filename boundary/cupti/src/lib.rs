//! CUPTI's activity records as C has them, at both ends of floe: the client's `libcupti.so.13` writes them, a worker reads
//! them, the CPU device writes them for its worker. Here are their layouts, the buffers they lie in, and the table of
//! functions between floe's `libcupti.so.13` and its `libcuda.so.1`. It decides nothing, and no function of NVIDIA's is here.

pub mod buffers;
pub mod clock;
pub mod record;
pub mod table;

/// `CUptiResult`.
pub type Code = u32;

/// Results of CUPTI.
pub mod code {
    /// `CUPTI_SUCCESS`.
    pub const SUCCESS: u32 = 0;
    /// `CUPTI_ERROR_INVALID_PARAMETER`.
    pub const INVALID_PARAMETER: u32 = 1;
    /// `CUPTI_ERROR_INVALID_OPERATION`.
    pub const INVALID_OPERATION: u32 = 7;
    /// `CUPTI_ERROR_MAX_LIMIT_REACHED`: a buffer holds no further record.
    pub const MAX_LIMIT_REACHED: u32 = 12;
    /// `CUPTI_ERROR_NOT_COMPATIBLE`.
    pub const NOT_COMPATIBLE: u32 = 14;
    /// `CUPTI_ERROR_NOT_INITIALIZED`.
    pub const NOT_INITIALIZED: u32 = 15;
    /// `CUPTI_ERROR_QUEUE_EMPTY`.
    pub const QUEUE_EMPTY: u32 = 18;
    /// `CUPTI_ERROR_INVALID_KIND`.
    pub const INVALID_KIND: u32 = 21;
    /// `CUPTI_ERROR_NOT_SUPPORTED`.
    pub const NOT_SUPPORTED: u32 = 27;
    /// `CUPTI_ERROR_UNKNOWN`.
    pub const UNKNOWN: u32 = 999;
}

/// `CUpti_ActivityKind`: the kinds of records that floe knows.
pub mod kind {
    /// Copies.
    pub const MEMCPY: u32 = 1;
    /// Fills.
    pub const MEMSET: u32 = 2;
    /// Kernels, one at a time.
    pub const KERNEL: u32 = 3;
    /// Calls of the driver API.
    pub const DRIVER: u32 = 4;
    /// Calls of the runtime API.
    pub const RUNTIME: u32 = 5;
    /// Kernels.
    pub const CONCURRENT_KERNEL: u32 = 10;
    /// Time that the profiler takes by itself.
    pub const OVERHEAD: u32 = 17;
    /// Ids of the program's for calls.
    pub const EXTERNAL_CORRELATION: u32 = 39;
}

/// `CUpti_ActivityMemcpyKind`.
pub mod copy_kind {
    /// Host to device.
    pub const HOST_TO_DEVICE: u8 = 1;
    /// Device to host.
    pub const DEVICE_TO_HOST: u8 = 2;
    /// Within a device.
    pub const DEVICE_TO_DEVICE: u8 = 8;
    /// Within the host.
    pub const HOST_TO_HOST: u8 = 9;
}

/// `CUpti_ActivityMemoryKind`.
pub mod memory_kind {
    /// Host memory that is not pinned.
    pub const PAGEABLE: u8 = 1;
    /// Pinned host memory.
    pub const PINNED: u8 = 2;
    /// Device memory.
    pub const DEVICE: u8 = 3;
}

/// `CUpti_ExternalCorrelationKind`: the first after the last.
pub const EXTERNAL_KINDS: u32 = 6;
/// `CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2`.
pub const CUSTOM_KIND: u32 = 5;
/// `CUPTI_ACTIVITY_FLAG_FLUSH_FORCED`: also buffers with records of work that has not ended.
pub const FLUSH_FORCED: u32 = 1;
/// `CUPTI_API_VERSION` of the records in [`record`]: CUDA 13.0's.
pub const VERSION: u32 = 130_001;
