//! NVML's result numbers. A code comes in, its name and C's text go out. It never makes an error up.

use std::ffi::CStr;

/// The return value of an exported function: 0, or an error's code.
pub type NvmlReturn = u32;

/// The result of a method.
pub type NvmlResult<T> = Result<T, NvmlError>;

/// An NVML error by its code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("NVML error {0}")]
pub struct NvmlError(NvmlReturn);

macro_rules! errors {
    ($($(#[doc = $doc:literal])* $name:ident = $code:literal, $text:literal;)*) => {
        impl NvmlError {
            $($(#[doc = $doc])* pub const $name: Self = Self($code);)*
        }

        /// C's name of a code.
        #[must_use]
        pub(crate) fn text(code: NvmlReturn) -> &'static CStr {
            match code {
                0 => c"Success",
                $($code => $text,)*
                _ => c"Unknown Error",
            }
        }
    };
}

errors! {
    /// No `nvmlInit`.
    UNINITIALIZED = 1, c"Uninitialized";
    /// A missing pointer, or a handle that is none.
    INVALID_ARGUMENT = 2, c"Invalid Argument";
    /// The device, or floe, cannot say.
    NOT_SUPPORTED = 3, c"Not Supported";
    /// May not be asked.
    NO_PERMISSION = 4, c"Insufficient Permissions";
    /// Not given by NVIDIA's library any more.
    ALREADY_INITIALIZED = 5, c"Already Initialized";
    /// No such device, process or sample.
    NOT_FOUND = 6, c"Not Found";
    /// The program's buffer is too small.
    INSUFFICIENT_SIZE = 7, c"Insufficient Size";
    /// A power cable is missing.
    INSUFFICIENT_POWER = 8, c"Insufficient External Power";
    /// There is no device to talk of.
    DRIVER_NOT_LOADED = 9, c"Driver Not Loaded";
    /// The time the program gave is over.
    TIMEOUT = 10, c"Timeout";
    /// The kernel lost an interrupt.
    IRQ_ISSUE = 11, c"Interrupt Request Issue";
    /// A library is missing.
    LIBRARY_NOT_FOUND = 12, c"NVML Shared Library Not Found";
    /// The library lacks a function.
    FUNCTION_NOT_FOUND = 13, c"Function Not Found";
    /// The board's own memory is damaged.
    CORRUPTED_INFOROM = 14, c"Corrupted infoROM";
    /// The device cannot be reached any more.
    GPU_IS_LOST = 15, c"GPU is lost";
    /// The device must be reset.
    RESET_REQUIRED = 16, c"GPU requires reset";
    /// The operating system refused.
    OPERATING_SYSTEM = 17, c"GPU access blocked by the operating system";
    /// Driver and library do not fit.
    LIB_RM_VERSION_MISMATCH = 18, c"Driver/library version mismatch";
    /// Somebody uses it.
    IN_USE = 19, c"In use by another client";
    /// No memory.
    MEMORY = 20, c"Insufficient Memory";
    /// Nothing has been measured.
    NO_DATA = 21, c"No data";
    /// ECC cannot be set on such a vGPU.
    VGPU_ECC_NOT_SUPPORTED = 22, c"vGPU ECC Not Supported";
    /// Something other than memory has run out.
    INSUFFICIENT_RESOURCES = 23, c"Insufficient Resources";
    /// No such frequency.
    FREQ_NOT_SUPPORTED = 24, c"Requested frequency not supported";
    /// A struct of another version.
    ARGUMENT_VERSION_MISMATCH = 25, c"Argument version mismatch";
    /// Gone for good.
    DEPRECATED = 26, c"Deprecated";
    /// Not yet.
    NOT_READY = 27, c"Not ready";
    /// No GPU.
    GPU_NOT_FOUND = 28, c"No GPUs were found";
    /// Not now.
    INVALID_STATE = 29, c"Invalid state";
    /// No such reset.
    RESET_TYPE_NOT_SUPPORTED = 30, c"Reset type not supported";
    /// Anything else.
    UNKNOWN = 999, c"Unknown Error";
}

impl NvmlError {
    /// Its code.
    #[must_use]
    pub fn code(self) -> NvmlReturn {
        self.0
    }
}
