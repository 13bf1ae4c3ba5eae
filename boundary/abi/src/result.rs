//! Result codes of the driver API, with the names and sentences that its own functions report. Programs print these, so
//! they are driver 580's to the letter. A code comes in as a number from C or a driver, known or not. It goes out as a
//! typed error, or back as the number. Success is never an error here: it is `Ok`.

use std::num::NonZeroU32;

/// `CUresult` as it crosses the C boundary.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CuResult(pub u32);

/// A `CUresult` that is not success.
#[derive(Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[error("{} ({})", self.name().unwrap_or("an unknown CUDA error"), self.code())]
pub struct CudaError(NonZeroU32);

/// The result of a driver call: a value, or the code that says why not.
pub type CudaResult<T> = Result<T, CudaError>;

impl CuResult {
    /// `CUDA_SUCCESS`.
    pub const SUCCESS: Self = Self(0);

    /// This code as a result.
    pub fn into_result(self) -> CudaResult<()> {
        NonZeroU32::new(self.0).map_or(Ok(()), |code| Err(CudaError(code)))
    }
}

impl From<CudaError> for CuResult {
    fn from(error: CudaError) -> Self {
        Self(error.code())
    }
}

impl From<CudaResult<()>> for CuResult {
    fn from(result: CudaResult<()>) -> Self {
        result.map_or_else(Self::from, |()| Self::SUCCESS)
    }
}

impl std::fmt::Debug for CudaError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl CudaError {
    /// The error with this number, known or not; `None` for 0, which is success.
    pub fn from_code(code: u32) -> Option<Self> {
        NonZeroU32::new(code).map(Self)
    }

    /// The number C sees.
    pub const fn code(self) -> u32 {
        self.0.get()
    }

    /// The enumerator's name, for example `CUDA_ERROR_INVALID_VALUE`; `None` where the number has none.
    pub fn name(self) -> Option<&'static str> {
        error_names(self.code()).map(|(name, _)| name.to_str().expect("names are ASCII"))
    }

    /// Whether the context is beyond use after this error, so that every later call repeats it.
    pub const fn is_sticky(self) -> bool {
        matches!(self.code(), 214 | 220 | 226 | 700 | 702 | 710 | 714..=719 | 721 | 911 | 999)
    }
}

macro_rules! errors {
    ($($name:ident = $full:literal, $text:literal;)*) => {
        impl CudaError {$(
            #[doc = concat!("`", $full, "`: ", $text, ".")]
            pub const $name: Self = Self(NonZeroU32::new(raw::$name).expect("errors are not 0"));
        )*}

        /// Name and sentence of a code, success included; `None` where the number has none. Source of
        /// `cuGetErrorName` and `cuGetErrorString`.
        pub fn error_names(code: u32) -> Option<(&'static std::ffi::CStr, &'static std::ffi::CStr)> {
            const fn text(bytes: &'static [u8]) -> &'static std::ffi::CStr {
                match std::ffi::CStr::from_bytes_with_nul(bytes) {
                    Ok(text) => text,
                    Err(_) => panic!("the table's texts hold no NUL"),
                }
            }
            match code {
                0 => Some((c"CUDA_SUCCESS", c"no error")),
                $(raw::$name => {
                    const NAME: &std::ffi::CStr = text(concat!($full, "\0").as_bytes());
                    const TEXT: &std::ffi::CStr = text(concat!($text, "\0").as_bytes());
                    Some((NAME, TEXT))
                })*
                _ => None,
            }
        }
    };
}

errors! {
    INVALID_VALUE = "CUDA_ERROR_INVALID_VALUE", "invalid argument";
    OUT_OF_MEMORY = "CUDA_ERROR_OUT_OF_MEMORY", "out of memory";
    NOT_INITIALIZED = "CUDA_ERROR_NOT_INITIALIZED", "initialization error";
    DEINITIALIZED = "CUDA_ERROR_DEINITIALIZED", "driver shutting down";
    PROFILER_DISABLED = "CUDA_ERROR_PROFILER_DISABLED", "profiler disabled while using external profiling tool";
    PROFILER_NOT_INITIALIZED = "CUDA_ERROR_PROFILER_NOT_INITIALIZED", "profiler not initialized: call cudaProfilerInitialize()";
    PROFILER_ALREADY_STARTED = "CUDA_ERROR_PROFILER_ALREADY_STARTED", "profiler already started";
    PROFILER_ALREADY_STOPPED = "CUDA_ERROR_PROFILER_ALREADY_STOPPED", "profiler already stopped";
    STUB_LIBRARY = "CUDA_ERROR_STUB_LIBRARY", "CUDA driver is a stub library";
    CALL_REQUIRES_NEWER_DRIVER = "CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER", "API call is not supported in the installed CUDA driver";
    DEVICE_UNAVAILABLE = "CUDA_ERROR_DEVICE_UNAVAILABLE", "CUDA-capable device(s) is/are busy or unavailable";
    NO_DEVICE = "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected";
    INVALID_DEVICE = "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal";
    DEVICE_NOT_LICENSED = "CUDA_ERROR_DEVICE_NOT_LICENSED", "device doesn't have valid Grid license";
    INVALID_IMAGE = "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid";
    INVALID_CONTEXT = "CUDA_ERROR_INVALID_CONTEXT", "invalid device context";
    CONTEXT_ALREADY_CURRENT = "CUDA_ERROR_CONTEXT_ALREADY_CURRENT", "context already current";
    MAP_FAILED = "CUDA_ERROR_MAP_FAILED", "mapping of buffer object failed";
    UNMAP_FAILED = "CUDA_ERROR_UNMAP_FAILED", "unmapping of buffer object failed";
    ARRAY_IS_MAPPED = "CUDA_ERROR_ARRAY_IS_MAPPED", "array is mapped";
    ALREADY_MAPPED = "CUDA_ERROR_ALREADY_MAPPED", "resource already mapped";
    NO_BINARY_FOR_GPU = "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device";
    ALREADY_ACQUIRED = "CUDA_ERROR_ALREADY_ACQUIRED", "resource already acquired";
    NOT_MAPPED = "CUDA_ERROR_NOT_MAPPED", "resource not mapped";
    NOT_MAPPED_AS_ARRAY = "CUDA_ERROR_NOT_MAPPED_AS_ARRAY", "resource not mapped as array";
    NOT_MAPPED_AS_POINTER = "CUDA_ERROR_NOT_MAPPED_AS_POINTER", "resource not mapped as pointer";
    ECC_UNCORRECTABLE = "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error encountered";
    UNSUPPORTED_LIMIT = "CUDA_ERROR_UNSUPPORTED_LIMIT", "limit is not supported on this architecture";
    CONTEXT_ALREADY_IN_USE = "CUDA_ERROR_CONTEXT_ALREADY_IN_USE", "exclusive-thread device already in use by a different thread";
    PEER_ACCESS_UNSUPPORTED = "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", "peer access is not supported between these two devices";
    INVALID_PTX = "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed";
    INVALID_GRAPHICS_CONTEXT = "CUDA_ERROR_INVALID_GRAPHICS_CONTEXT", "invalid OpenGL or DirectX context";
    NVLINK_UNCORRECTABLE = "CUDA_ERROR_NVLINK_UNCORRECTABLE", "uncorrectable NVLink error detected during the execution";
    JIT_COMPILER_NOT_FOUND = "CUDA_ERROR_JIT_COMPILER_NOT_FOUND", "PTX JIT compiler library not found";
    UNSUPPORTED_PTX_VERSION = "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "the provided PTX was compiled with an unsupported toolchain.";
    JIT_COMPILATION_DISABLED = "CUDA_ERROR_JIT_COMPILATION_DISABLED", "PTX JIT compilation was disabled";
    UNSUPPORTED_EXEC_AFFINITY = "CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY", "the provided execution affinity is not supported";
    UNSUPPORTED_DEVSIDE_SYNC = "CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC", "the provided PTX contains unsupported call to cudaDeviceSynchronize";
    CONTAINED = "CUDA_ERROR_CONTAINED", "Invalid access of peer GPU memory over nvlink or a hardware error";
    INVALID_SOURCE = "CUDA_ERROR_INVALID_SOURCE", "device kernel image is invalid";
    FILE_NOT_FOUND = "CUDA_ERROR_FILE_NOT_FOUND", "file not found";
    SHARED_OBJECT_SYMBOL_NOT_FOUND = "CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND", "shared object symbol not found";
    SHARED_OBJECT_INIT_FAILED = "CUDA_ERROR_SHARED_OBJECT_INIT_FAILED", "shared object initialization failed";
    OPERATING_SYSTEM = "CUDA_ERROR_OPERATING_SYSTEM", "OS call failed or operation not supported on this OS";
    INVALID_HANDLE = "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle";
    ILLEGAL_STATE = "CUDA_ERROR_ILLEGAL_STATE", "the operation cannot be performed in the present state";
    LOSSY_QUERY = "CUDA_ERROR_LOSSY_QUERY", "attempted introspection would be semantically lossy";
    NOT_FOUND = "CUDA_ERROR_NOT_FOUND", "named symbol not found";
    NOT_READY = "CUDA_ERROR_NOT_READY", "device not ready";
    ILLEGAL_ADDRESS = "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered";
    LAUNCH_OUT_OF_RESOURCES = "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch";
    LAUNCH_TIMEOUT = "CUDA_ERROR_LAUNCH_TIMEOUT", "the launch timed out and was terminated";
    LAUNCH_INCOMPATIBLE_TEXTURING = "CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING", "launch uses incompatible texturing mode";
    PEER_ACCESS_ALREADY_ENABLED = "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "peer access is already enabled";
    PEER_ACCESS_NOT_ENABLED = "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED", "peer access has not been enabled";
    PRIMARY_CONTEXT_ACTIVE = "CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE", "cannot set while device is active in this process";
    CONTEXT_IS_DESTROYED = "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed";
    ASSERT = "CUDA_ERROR_ASSERT", "device-side assert triggered";
    TOO_MANY_PEERS = "CUDA_ERROR_TOO_MANY_PEERS", "peer mapping resources exhausted";
    HOST_MEMORY_ALREADY_REGISTERED = "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", "part or all of the requested memory range is already mapped";
    HOST_MEMORY_NOT_REGISTERED = "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", "pointer does not correspond to a registered memory region";
    HARDWARE_STACK_ERROR = "CUDA_ERROR_HARDWARE_STACK_ERROR", "hardware stack error";
    ILLEGAL_INSTRUCTION = "CUDA_ERROR_ILLEGAL_INSTRUCTION", "an illegal instruction was encountered";
    MISALIGNED_ADDRESS = "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address";
    INVALID_ADDRESS_SPACE = "CUDA_ERROR_INVALID_ADDRESS_SPACE", "operation not supported on global/shared address space";
    INVALID_PC = "CUDA_ERROR_INVALID_PC", "invalid program counter";
    LAUNCH_FAILED = "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure";
    COOPERATIVE_LAUNCH_TOO_LARGE = "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE", "too many blocks in cooperative launch";
    TENSOR_MEMORY_LEAK = "CUDA_ERROR_TENSOR_MEMORY_LEAK", "tensor memory not completely freed";
    NOT_PERMITTED = "CUDA_ERROR_NOT_PERMITTED", "operation not permitted";
    NOT_SUPPORTED = "CUDA_ERROR_NOT_SUPPORTED", "operation not supported";
    SYSTEM_NOT_READY = "CUDA_ERROR_SYSTEM_NOT_READY", "system not yet initialized";
    SYSTEM_DRIVER_MISMATCH = "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "system has unsupported display driver / cuda driver combination";
    COMPAT_NOT_SUPPORTED_ON_DEVICE = "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE", "forward compatibility was attempted on non supported HW";
    MPS_CONNECTION_FAILED = "CUDA_ERROR_MPS_CONNECTION_FAILED", "MPS client failed to connect to the MPS control daemon or the MPS server";
    MPS_RPC_FAILURE = "CUDA_ERROR_MPS_RPC_FAILURE", "the remote procedural call between the MPS server and the MPS client failed";
    MPS_SERVER_NOT_READY = "CUDA_ERROR_MPS_SERVER_NOT_READY", "MPS server is not ready to accept new MPS client requests";
    MPS_MAX_CLIENTS_REACHED = "CUDA_ERROR_MPS_MAX_CLIENTS_REACHED", "the hardware resources required to create MPS client have been exhausted";
    MPS_MAX_CONNECTIONS_REACHED = "CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED", "the hardware resources required to support device connections have been exhausted";
    MPS_CLIENT_TERMINATED = "CUDA_ERROR_MPS_CLIENT_TERMINATED", "the MPS client has been terminated by the server";
    CDP_NOT_SUPPORTED = "CUDA_ERROR_CDP_NOT_SUPPORTED", "is using CUDA Dynamic Parallelism, but the current configuration, like MPS, does not support it";
    CDP_VERSION_MISMATCH = "CUDA_ERROR_CDP_VERSION_MISMATCH", "unsupported interaction between different versions of CUDA Dynamic Parallelism";
    STREAM_CAPTURE_UNSUPPORTED = "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing";
    STREAM_CAPTURE_INVALIDATED = "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture";
    STREAM_CAPTURE_MERGE = "CUDA_ERROR_STREAM_CAPTURE_MERGE", "operation would result in a merge of separate capture sequences";
    STREAM_CAPTURE_UNMATCHED = "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", "capture was not ended in the same stream as it began";
    STREAM_CAPTURE_UNJOINED = "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "capturing stream has unjoined work";
    STREAM_CAPTURE_ISOLATION = "CUDA_ERROR_STREAM_CAPTURE_ISOLATION", "dependency created on uncaptured work in another stream";
    STREAM_CAPTURE_IMPLICIT = "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT", "operation would make the legacy stream depend on a capturing blocking stream";
    CAPTURED_EVENT = "CUDA_ERROR_CAPTURED_EVENT", "operation not permitted on an event last recorded in a capturing stream";
    STREAM_CAPTURE_WRONG_THREAD = "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD", "attempt to terminate a thread-local capture sequence from another thread";
    TIMEOUT = "CUDA_ERROR_TIMEOUT", "wait operation timed out";
    GRAPH_EXEC_UPDATE_FAILURE = "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE", "the graph update was not performed because it included changes which violated constraints specific to instantiated graph update";
    EXTERNAL_DEVICE = "CUDA_ERROR_EXTERNAL_DEVICE", "an async error has occured in external entity outside of CUDA";
    INVALID_CLUSTER_SIZE = "CUDA_ERROR_INVALID_CLUSTER_SIZE", "a kernel launch error has occurred due to cluster misconfiguration";
    FUNCTION_NOT_LOADED = "CUDA_ERROR_FUNCTION_NOT_LOADED", "the function handle is not loaded when calling an API that requires a loaded function";
    INVALID_RESOURCE_TYPE = "CUDA_ERROR_INVALID_RESOURCE_TYPE", "one or more resources passed in are not valid resource types for the operation";
    INVALID_RESOURCE_CONFIGURATION = "CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION", "one or more resources are insufficient or non-applicable for the operation";
    KEY_ROTATION = "CUDA_ERROR_KEY_ROTATION", "an error happened during the key rotation sequence";
    UNKNOWN = "CUDA_ERROR_UNKNOWN", "unknown error";
}

/// The numbers, from the header.
mod raw {
    use cudarc::driver::sys::cudaError_enum as Raw;
    pub(super) const INVALID_VALUE: u32 = Raw::CUDA_ERROR_INVALID_VALUE as u32;
    pub(super) const OUT_OF_MEMORY: u32 = Raw::CUDA_ERROR_OUT_OF_MEMORY as u32;
    pub(super) const NOT_INITIALIZED: u32 = Raw::CUDA_ERROR_NOT_INITIALIZED as u32;
    pub(super) const DEINITIALIZED: u32 = Raw::CUDA_ERROR_DEINITIALIZED as u32;
    pub(super) const PROFILER_DISABLED: u32 = Raw::CUDA_ERROR_PROFILER_DISABLED as u32;
    pub(super) const PROFILER_NOT_INITIALIZED: u32 = Raw::CUDA_ERROR_PROFILER_NOT_INITIALIZED as u32;
    pub(super) const PROFILER_ALREADY_STARTED: u32 = Raw::CUDA_ERROR_PROFILER_ALREADY_STARTED as u32;
    pub(super) const PROFILER_ALREADY_STOPPED: u32 = Raw::CUDA_ERROR_PROFILER_ALREADY_STOPPED as u32;
    pub(super) const STUB_LIBRARY: u32 = Raw::CUDA_ERROR_STUB_LIBRARY as u32;
    pub(super) const CALL_REQUIRES_NEWER_DRIVER: u32 = Raw::CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER as u32;
    pub(super) const DEVICE_UNAVAILABLE: u32 = Raw::CUDA_ERROR_DEVICE_UNAVAILABLE as u32;
    pub(super) const NO_DEVICE: u32 = Raw::CUDA_ERROR_NO_DEVICE as u32;
    pub(super) const INVALID_DEVICE: u32 = Raw::CUDA_ERROR_INVALID_DEVICE as u32;
    pub(super) const DEVICE_NOT_LICENSED: u32 = Raw::CUDA_ERROR_DEVICE_NOT_LICENSED as u32;
    pub(super) const INVALID_IMAGE: u32 = Raw::CUDA_ERROR_INVALID_IMAGE as u32;
    pub(super) const INVALID_CONTEXT: u32 = Raw::CUDA_ERROR_INVALID_CONTEXT as u32;
    pub(super) const CONTEXT_ALREADY_CURRENT: u32 = Raw::CUDA_ERROR_CONTEXT_ALREADY_CURRENT as u32;
    pub(super) const MAP_FAILED: u32 = Raw::CUDA_ERROR_MAP_FAILED as u32;
    pub(super) const UNMAP_FAILED: u32 = Raw::CUDA_ERROR_UNMAP_FAILED as u32;
    pub(super) const ARRAY_IS_MAPPED: u32 = Raw::CUDA_ERROR_ARRAY_IS_MAPPED as u32;
    pub(super) const ALREADY_MAPPED: u32 = Raw::CUDA_ERROR_ALREADY_MAPPED as u32;
    pub(super) const NO_BINARY_FOR_GPU: u32 = Raw::CUDA_ERROR_NO_BINARY_FOR_GPU as u32;
    pub(super) const ALREADY_ACQUIRED: u32 = Raw::CUDA_ERROR_ALREADY_ACQUIRED as u32;
    pub(super) const NOT_MAPPED: u32 = Raw::CUDA_ERROR_NOT_MAPPED as u32;
    pub(super) const NOT_MAPPED_AS_ARRAY: u32 = Raw::CUDA_ERROR_NOT_MAPPED_AS_ARRAY as u32;
    pub(super) const NOT_MAPPED_AS_POINTER: u32 = Raw::CUDA_ERROR_NOT_MAPPED_AS_POINTER as u32;
    pub(super) const ECC_UNCORRECTABLE: u32 = Raw::CUDA_ERROR_ECC_UNCORRECTABLE as u32;
    pub(super) const UNSUPPORTED_LIMIT: u32 = Raw::CUDA_ERROR_UNSUPPORTED_LIMIT as u32;
    pub(super) const CONTEXT_ALREADY_IN_USE: u32 = Raw::CUDA_ERROR_CONTEXT_ALREADY_IN_USE as u32;
    pub(super) const PEER_ACCESS_UNSUPPORTED: u32 = Raw::CUDA_ERROR_PEER_ACCESS_UNSUPPORTED as u32;
    pub(super) const INVALID_PTX: u32 = Raw::CUDA_ERROR_INVALID_PTX as u32;
    pub(super) const INVALID_GRAPHICS_CONTEXT: u32 = Raw::CUDA_ERROR_INVALID_GRAPHICS_CONTEXT as u32;
    pub(super) const NVLINK_UNCORRECTABLE: u32 = Raw::CUDA_ERROR_NVLINK_UNCORRECTABLE as u32;
    pub(super) const JIT_COMPILER_NOT_FOUND: u32 = Raw::CUDA_ERROR_JIT_COMPILER_NOT_FOUND as u32;
    pub(super) const UNSUPPORTED_PTX_VERSION: u32 = Raw::CUDA_ERROR_UNSUPPORTED_PTX_VERSION as u32;
    pub(super) const JIT_COMPILATION_DISABLED: u32 = Raw::CUDA_ERROR_JIT_COMPILATION_DISABLED as u32;
    pub(super) const UNSUPPORTED_EXEC_AFFINITY: u32 = Raw::CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY as u32;
    pub(super) const UNSUPPORTED_DEVSIDE_SYNC: u32 = Raw::CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC as u32;
    pub(super) const CONTAINED: u32 = Raw::CUDA_ERROR_CONTAINED as u32;
    pub(super) const INVALID_SOURCE: u32 = Raw::CUDA_ERROR_INVALID_SOURCE as u32;
    pub(super) const FILE_NOT_FOUND: u32 = Raw::CUDA_ERROR_FILE_NOT_FOUND as u32;
    pub(super) const SHARED_OBJECT_SYMBOL_NOT_FOUND: u32 = Raw::CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND as u32;
    pub(super) const SHARED_OBJECT_INIT_FAILED: u32 = Raw::CUDA_ERROR_SHARED_OBJECT_INIT_FAILED as u32;
    pub(super) const OPERATING_SYSTEM: u32 = Raw::CUDA_ERROR_OPERATING_SYSTEM as u32;
    pub(super) const INVALID_HANDLE: u32 = Raw::CUDA_ERROR_INVALID_HANDLE as u32;
    pub(super) const ILLEGAL_STATE: u32 = Raw::CUDA_ERROR_ILLEGAL_STATE as u32;
    pub(super) const LOSSY_QUERY: u32 = Raw::CUDA_ERROR_LOSSY_QUERY as u32;
    pub(super) const NOT_FOUND: u32 = Raw::CUDA_ERROR_NOT_FOUND as u32;
    pub(super) const NOT_READY: u32 = Raw::CUDA_ERROR_NOT_READY as u32;
    pub(super) const ILLEGAL_ADDRESS: u32 = Raw::CUDA_ERROR_ILLEGAL_ADDRESS as u32;
    pub(super) const LAUNCH_OUT_OF_RESOURCES: u32 = Raw::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES as u32;
    pub(super) const LAUNCH_TIMEOUT: u32 = Raw::CUDA_ERROR_LAUNCH_TIMEOUT as u32;
    pub(super) const LAUNCH_INCOMPATIBLE_TEXTURING: u32 = Raw::CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING as u32;
    pub(super) const PEER_ACCESS_ALREADY_ENABLED: u32 = Raw::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED as u32;
    pub(super) const PEER_ACCESS_NOT_ENABLED: u32 = Raw::CUDA_ERROR_PEER_ACCESS_NOT_ENABLED as u32;
    pub(super) const PRIMARY_CONTEXT_ACTIVE: u32 = Raw::CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE as u32;
    pub(super) const CONTEXT_IS_DESTROYED: u32 = Raw::CUDA_ERROR_CONTEXT_IS_DESTROYED as u32;
    pub(super) const ASSERT: u32 = Raw::CUDA_ERROR_ASSERT as u32;
    pub(super) const TOO_MANY_PEERS: u32 = Raw::CUDA_ERROR_TOO_MANY_PEERS as u32;
    pub(super) const HOST_MEMORY_ALREADY_REGISTERED: u32 = Raw::CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED as u32;
    pub(super) const HOST_MEMORY_NOT_REGISTERED: u32 = Raw::CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED as u32;
    pub(super) const HARDWARE_STACK_ERROR: u32 = Raw::CUDA_ERROR_HARDWARE_STACK_ERROR as u32;
    pub(super) const ILLEGAL_INSTRUCTION: u32 = Raw::CUDA_ERROR_ILLEGAL_INSTRUCTION as u32;
    pub(super) const MISALIGNED_ADDRESS: u32 = Raw::CUDA_ERROR_MISALIGNED_ADDRESS as u32;
    pub(super) const INVALID_ADDRESS_SPACE: u32 = Raw::CUDA_ERROR_INVALID_ADDRESS_SPACE as u32;
    pub(super) const INVALID_PC: u32 = Raw::CUDA_ERROR_INVALID_PC as u32;
    pub(super) const LAUNCH_FAILED: u32 = Raw::CUDA_ERROR_LAUNCH_FAILED as u32;
    pub(super) const COOPERATIVE_LAUNCH_TOO_LARGE: u32 = Raw::CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE as u32;
    pub(super) const TENSOR_MEMORY_LEAK: u32 = Raw::CUDA_ERROR_TENSOR_MEMORY_LEAK as u32;
    pub(super) const NOT_PERMITTED: u32 = Raw::CUDA_ERROR_NOT_PERMITTED as u32;
    pub(super) const NOT_SUPPORTED: u32 = Raw::CUDA_ERROR_NOT_SUPPORTED as u32;
    pub(super) const SYSTEM_NOT_READY: u32 = Raw::CUDA_ERROR_SYSTEM_NOT_READY as u32;
    pub(super) const SYSTEM_DRIVER_MISMATCH: u32 = Raw::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH as u32;
    pub(super) const COMPAT_NOT_SUPPORTED_ON_DEVICE: u32 = Raw::CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE as u32;
    pub(super) const MPS_CONNECTION_FAILED: u32 = Raw::CUDA_ERROR_MPS_CONNECTION_FAILED as u32;
    pub(super) const MPS_RPC_FAILURE: u32 = Raw::CUDA_ERROR_MPS_RPC_FAILURE as u32;
    pub(super) const MPS_SERVER_NOT_READY: u32 = Raw::CUDA_ERROR_MPS_SERVER_NOT_READY as u32;
    pub(super) const MPS_MAX_CLIENTS_REACHED: u32 = Raw::CUDA_ERROR_MPS_MAX_CLIENTS_REACHED as u32;
    pub(super) const MPS_MAX_CONNECTIONS_REACHED: u32 = Raw::CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED as u32;
    pub(super) const MPS_CLIENT_TERMINATED: u32 = Raw::CUDA_ERROR_MPS_CLIENT_TERMINATED as u32;
    pub(super) const CDP_NOT_SUPPORTED: u32 = Raw::CUDA_ERROR_CDP_NOT_SUPPORTED as u32;
    pub(super) const CDP_VERSION_MISMATCH: u32 = Raw::CUDA_ERROR_CDP_VERSION_MISMATCH as u32;
    pub(super) const STREAM_CAPTURE_UNSUPPORTED: u32 = Raw::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED as u32;
    pub(super) const STREAM_CAPTURE_INVALIDATED: u32 = Raw::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED as u32;
    pub(super) const STREAM_CAPTURE_MERGE: u32 = Raw::CUDA_ERROR_STREAM_CAPTURE_MERGE as u32;
    pub(super) const STREAM_CAPTURE_UNMATCHED: u32 = Raw::CUDA_ERROR_STREAM_CAPTURE_UNMATCHED as u32;
    pub(super) const STREAM_CAPTURE_UNJOINED: u32 = Raw::CUDA_ERROR_STREAM_CAPTURE_UNJOINED as u32;
    pub(super) const STREAM_CAPTURE_ISOLATION: u32 = Raw::CUDA_ERROR_STREAM_CAPTURE_ISOLATION as u32;
    pub(super) const STREAM_CAPTURE_IMPLICIT: u32 = Raw::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT as u32;
    pub(super) const CAPTURED_EVENT: u32 = Raw::CUDA_ERROR_CAPTURED_EVENT as u32;
    pub(super) const STREAM_CAPTURE_WRONG_THREAD: u32 = Raw::CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD as u32;
    pub(super) const TIMEOUT: u32 = Raw::CUDA_ERROR_TIMEOUT as u32;
    pub(super) const GRAPH_EXEC_UPDATE_FAILURE: u32 = Raw::CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE as u32;
    pub(super) const EXTERNAL_DEVICE: u32 = Raw::CUDA_ERROR_EXTERNAL_DEVICE as u32;
    pub(super) const INVALID_CLUSTER_SIZE: u32 = Raw::CUDA_ERROR_INVALID_CLUSTER_SIZE as u32;
    pub(super) const FUNCTION_NOT_LOADED: u32 = Raw::CUDA_ERROR_FUNCTION_NOT_LOADED as u32;
    pub(super) const INVALID_RESOURCE_TYPE: u32 = Raw::CUDA_ERROR_INVALID_RESOURCE_TYPE as u32;
    pub(super) const INVALID_RESOURCE_CONFIGURATION: u32 = Raw::CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION as u32;
    pub(super) const KEY_ROTATION: u32 = Raw::CUDA_ERROR_KEY_ROTATION as u32;
    pub(super) const UNKNOWN: u32 = Raw::CUDA_ERROR_UNKNOWN as u32;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_keep_their_numbers_and_names() {
        assert_eq!(CudaError::INVALID_VALUE.code(), 1);
        assert_eq!(CudaError::NOT_SUPPORTED.name(), Some("CUDA_ERROR_NOT_SUPPORTED"));
        assert_eq!(CudaError::ILLEGAL_ADDRESS.to_string(), "CUDA_ERROR_ILLEGAL_ADDRESS (700)");
    }

    #[test]
    fn unknown_code_stays_itself_and_has_no_name() {
        let error = CudaError::from_code(77_777).expect("not success");
        assert_eq!((error.code(), error.name()), (77_777, None));
        assert_eq!(CuResult(77_777).into_result(), Err(error));
    }

    #[test]
    fn success_is_not_an_error() {
        assert_eq!(CudaError::from_code(0), None);
        assert_eq!(CuResult::SUCCESS.into_result(), Ok(()));
    }
}
