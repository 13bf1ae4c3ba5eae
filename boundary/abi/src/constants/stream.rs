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

/// What is forbidden while capturing.
pub mod capture_mode {
    use cudarc::driver::sys::CUstreamCaptureMode_enum as Raw;
    /// `CU_STREAM_CAPTURE_MODE_GLOBAL`.
    pub const GLOBAL: u32 = Raw::CU_STREAM_CAPTURE_MODE_GLOBAL as u32;
    /// `CU_STREAM_CAPTURE_MODE_THREAD_LOCAL`.
    pub const THREAD_LOCAL: u32 = Raw::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL as u32;
    /// `CU_STREAM_CAPTURE_MODE_RELAXED`.
    pub const RELAXED: u32 = Raw::CU_STREAM_CAPTURE_MODE_RELAXED as u32;
}
