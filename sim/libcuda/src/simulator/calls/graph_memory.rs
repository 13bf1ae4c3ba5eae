//! Memory of graphs on the CPU device, from the heap of every other allocation: nodes that allocate or free run nothing.
//! Wishes come in, memory goes out that the surface's graphs keep accounts of; what they give back is free when everything
//! queued before is done. It waits only where memory is short.

use std::sync::Arc;

use floe_abi::{CudaResult, Device, DevicePtr};
use floe_surface::GraphMemoryCalls;
use floe_surface::graph::{Reserved, settle};

use crate::simulator::Simulator;
use crate::simulator::memory::device_memory::Owner;

impl GraphMemoryCalls for Simulator {
    /// The primary context's, so that it goes with that at the latest.
    fn graph_memory_reserve(&self, device: Device, bytes: u64) -> CudaResult<Reserved> {
        let state = self.device(device)?;
        let owner = Owner { context: state.primary_handle, pool: None, leaving: false, is_managed: false };
        let made = state.memory.allocate(bytes, owner).or_else(|_| {
            // Frees that are still queued may be enough.
            self.wait_everything();
            state.memory.allocate(bytes, owner)
        })?;
        Ok(Reserved { device, address: DevicePtr(made.address), bytes, serial: made.id })
    }

    /// A context's end takes its memory along.
    fn graph_memory_holds(&self, memory: &[Reserved]) -> bool {
        memory.iter().all(|memory| self.serial_at(memory.address) == Some(memory.serial))
    }

    /// It is free when the work queued so far is done.
    fn graph_memory_release(&self, memory: &Reserved) {
        let Ok(device) = self.device(memory.device) else { return };
        if self.serial_at(memory.address) != Some(memory.serial) || device.memory.start_free(memory.address.0).is_none()
        {
            return;
        }
        let (heap, address, id) = (Arc::clone(&device.memory), memory.address.0, memory.serial);
        // The bytes stay mapped: unmapping is for when nothing runs.
        self.executor.post_last(move || {
            heap.free_same(address, id);
        });
    }

    fn device_graph_mem_trim(&self, device: Device) -> CudaResult<()> {
        let device = self.device(device)?;
        self.wait_everything();
        device.memory.give_back(true);
        Ok(())
    }
}

impl Simulator {
    /// Frees an address where it is an allocation of a graph's that lives; false where it is none of a graph's.
    pub(crate) fn free_of_graph(&self, address: DevicePtr) -> CudaResult<bool> {
        let Some(serial) = self.serial_at(address) else {
            return Ok(false);
        };
        let freed = self.graphs.free(address, serial)?;
        if freed {
            settle(self);
        }
        Ok(freed)
    }

    /// The number of the allocation that starts here: no other has had it.
    fn serial_at(&self, address: DevicePtr) -> Option<u64> {
        let (found, _) = self.device_of_allocation(address.0)?.memory.find(address.0)?;
        (found.address == address.0).then_some(found.id)
    }
}
