//! Constants about symbol look-up: the numbers come from the CUDA headers by way of the bindings crate, the names lose
//! their prefix. Values are plain integers, since what C passes in may be a number nobody has named yet.
//! Nothing here decides whether a value is supported.

/// Flags of `cuGetProcAddress`.
pub mod lookup_flags {
    use cudarc::driver::sys::CUdriverProcAddress_flags_enum as Raw;
    /// `CU_GET_PROC_ADDRESS_DEFAULT`.
    pub const DEFAULT: u64 = Raw::CU_GET_PROC_ADDRESS_DEFAULT as u64;
    /// `CU_GET_PROC_ADDRESS_LEGACY_STREAM`.
    pub const LEGACY_STREAM: u64 = Raw::CU_GET_PROC_ADDRESS_LEGACY_STREAM as u64;
    /// `CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM`.
    pub const PER_THREAD_DEFAULT_STREAM: u64 = Raw::CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM as u64;
}

/// Results of `cuGetProcAddress_v2`.
pub mod lookup_result {
    use cudarc::driver::sys::CUdriverProcAddressQueryResult_enum as Raw;
    /// `CU_GET_PROC_ADDRESS_SUCCESS`.
    pub const SUCCESS: u32 = Raw::CU_GET_PROC_ADDRESS_SUCCESS as u32;
    /// `CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND`.
    pub const SYMBOL_NOT_FOUND: u32 = Raw::CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND as u32;
    /// `CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT`.
    pub const VERSION_NOT_SUFFICIENT: u32 = Raw::CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT as u32;
}
