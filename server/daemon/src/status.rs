//! The CUDA result numbers the daemon answers with: what a program gets when it is refused before it has a worker.
//! Plain numbers, as they go over the wire; the daemon knows nothing else of CUDA.

pub(crate) const SUCCESS: u32 = 0;
pub(crate) const INVALID_VALUE: u32 = 1;
pub(crate) const DEVICE_UNAVAILABLE: u32 = 46;
pub(crate) const INVALID_DEVICE: u32 = 101;
pub(crate) const NOT_PERMITTED: u32 = 800;
pub(crate) const SYSTEM_NOT_READY: u32 = 802;
pub(crate) const SYSTEM_DRIVER_MISMATCH: u32 = 803;
