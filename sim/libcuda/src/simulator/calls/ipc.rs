//! The old ways between processes: memory and events by 64 bytes.
//! Calls come in, refusals go out, which the log names.
//! What processes share here they share as physical memory with a descriptor.

use floe_abi::{CudaResult, DevicePtr, Event, IpcEventHandle, IpcMemHandle};
use floe_surface::IpcCalls;

use crate::simulator::Simulator;
use crate::simulator::log::refuse_between_processes;

impl IpcCalls for Simulator {
    fn ipc_get_mem_handle(&self, _address: DevicePtr) -> CudaResult<IpcMemHandle> {
        Err(refuse_between_processes("cuIpcGetMemHandle"))
    }

    fn ipc_open_mem_handle(&self, _handle: IpcMemHandle, _flags: u32) -> CudaResult<DevicePtr> {
        Err(refuse_between_processes("cuIpcOpenMemHandle"))
    }

    fn ipc_close_mem_handle(&self, _address: DevicePtr) -> CudaResult<()> {
        Err(refuse_between_processes("cuIpcCloseMemHandle"))
    }

    fn ipc_get_event_handle(&self, _event: Event) -> CudaResult<IpcEventHandle> {
        Err(refuse_between_processes("cuIpcGetEventHandle"))
    }

    fn ipc_open_event_handle(&self, _handle: IpcEventHandle) -> CudaResult<Event> {
        Err(refuse_between_processes("cuIpcOpenEventHandle"))
    }
}
