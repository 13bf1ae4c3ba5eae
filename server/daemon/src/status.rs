//! The daemon's CUDA result numbers, for programs that are refused before they have a worker.
//! They are plain numbers, as on the wire. The daemon knows nothing else of CUDA.

pub(crate) const SUCCESS: u32 = 0;
pub(crate) const INVALID_VALUE: u32 = 1;
pub(crate) const OUT_OF_MEMORY: u32 = 2;
pub(crate) const DEVICE_UNAVAILABLE: u32 = 46;
pub(crate) const INVALID_DEVICE: u32 = 101;
pub(crate) const INVALID_HANDLE: u32 = 400;
pub(crate) const NOT_READY: u32 = 600;
pub(crate) const NOT_PERMITTED: u32 = 800;
pub(crate) const NOT_SUPPORTED: u32 = 801;
pub(crate) const SYSTEM_NOT_READY: u32 = 802;
pub(crate) const SYSTEM_DRIVER_MISMATCH: u32 = 803;
