//! NVIDIA's management library as C sees it: exported symbols, struct layouts, sizes that are asked for; turned into typed
//! Rust calls. C's calls come in, calls of the traits go out, one per noun of `api/nvml`. It never knows who answers.

mod c_pointers;
pub mod expansion;
mod generated;
mod layout;
mod result;

pub use generated::*;
pub use layout::*;
pub use result::{NvmlError, NvmlResult, NvmlReturn};

/// Methods of every implementation, beside those of the nouns.
pub trait Base {
    /// Whether `nvmlInit` has been called.
    fn is_initialized(&self) -> bool;
    /// Whether this is a device's handle.
    ///
    /// # Errors
    /// INVALID_ARGUMENT where it is none.
    fn check(&self, device: Device) -> NvmlResult<()>;
    /// One number of a device.
    ///
    /// # Errors
    /// NOT_SUPPORTED where its server cannot read it, GPU_IS_LOST where the server does not answer.
    fn reading(&self, device: Device, reading: Reading) -> NvmlResult<u64>;
    /// An exported function that nobody implements was called.
    fn unsupported(&self, name: &'static str);
    /// A call of the program ended in a panic, which is a defect of floe's.
    fn failed(&self, name: &'static str);
}

/// Names that the generated code uses.
mod prelude {
    pub(crate) use crate::c_pointers as c;
    #[allow(unused_imports, reason = "not every noun needs all")]
    pub(crate) use crate::{generated::Reading, layout::*, result::NvmlResult};
    #[allow(unused_imports, reason = "not every noun needs all")]
    pub(crate) use std::ffi::c_char;
}
