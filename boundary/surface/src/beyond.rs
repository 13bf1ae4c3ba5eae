//! What an implementation must tell beyond the exported functions: hidden tables and the process's end ask for it. The
//! surface calls these; no program can name them.

use floe_abi::{Context, CudaResult, Device};

/// Questions and news that have no exported function.
pub trait Beyond {
    /// The handle `cuDevicePrimaryCtxRetain` will give for this device. It neither takes a reference nor makes the
    /// context active: the runtime asks at start-up, when nothing may be active yet.
    ///
    /// # Errors
    /// INVALID_DEVICE for a device there is not.
    fn primary_context(&self, device: Device) -> CudaResult<Context>;

    /// The process is ending: send what waits to be sent and say goodbye, without waiting long. Called once, after
    /// which every call of the program is answered DEINITIALIZED without reaching the implementation.
    fn exiting(&self) {}
}
