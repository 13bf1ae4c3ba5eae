//! The old ways between processes: memory and events by 64 bytes.
//! Calls come in, refusals go out, which the log names.
//! What processes share here they share as physical memory with a descriptor.

use floe_abi::{CudaError, CudaResult, DevicePtr, Event, IpcEventHandle, IpcMemHandle};
use floe_surface::IpcCalls;

use crate::simulator::Simulator;

/// # Errors
/// NOT_SUPPORTED, always.
pub(super) fn refuse<T>(function: &str) -> CudaResult<T> {
    let advice = "export physical memory by a descriptor instead";
    crate::simulator::log::warn(format_args!("{function} is not supported by the CPU device: {advice}"));
    Err(CudaError::NOT_SUPPORTED)
}

impl IpcCalls for Simulator {
    fn ipc_get_mem_handle(&self, _address: DevicePtr) -> CudaResult<IpcMemHandle> {
        refuse("cuIpcGetMemHandle")
    }

    fn ipc_open_mem_handle(&self, _handle: IpcMemHandle, _flags: u32) -> CudaResult<DevicePtr> {
        refuse("cuIpcOpenMemHandle")
    }

    fn ipc_close_mem_handle(&self, _address: DevicePtr) -> CudaResult<()> {
        refuse("cuIpcCloseMemHandle")
    }

    fn ipc_get_event_handle(&self, _event: Event) -> CudaResult<IpcEventHandle> {
        refuse("cuIpcGetEventHandle")
    }

    fn ipc_open_event_handle(&self, _handle: IpcEventHandle) -> CudaResult<Event> {
        refuse("cuIpcOpenEventHandle")
    }
}
