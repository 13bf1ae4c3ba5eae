//! Memory of graphs, cut from the same blocks as every other allocation; at the server, nodes that allocate or free are
//! empty. Requests come in; memory goes out that the surface's graphs account for.
//! Memory that they return is used again only when all work issued before is over.

use floe_abi::{CudaResult, Device, DevicePtr};
use floe_surface::GraphMemoryCalls;
use floe_surface::graph::Reserved;

use crate::client::Client;
use crate::vgpu::Vgpu;
use floe_lock::lock;

impl Vgpu {
    /// The number of the allocation that starts here: no other has had it.
    pub(crate) fn serial_at(&self, at: DevicePtr) -> Option<u64> {
        lock(self.blocks_at(at)).find(at.0).filter(|found| found.at == at.0).map(|found| found.serial)
    }

    fn holds(&self, memory: &Reserved) -> bool {
        self.serial_at(memory.address) == Some(memory.serial)
    }
}

impl GraphMemoryCalls for Client {
    /// The primary context's, so that it goes with that at the latest.
    fn graph_memory_reserve(&self, device: Device, bytes: u64) -> CudaResult<Reserved> {
        let device = self.device(device)?;
        let vgpu = &device.vgpu;
        vgpu.errors.report()?;
        let address = vgpu.allocate(bytes, device.primary.handle(), None)?;
        let serial = vgpu.serial_at(address).ok_or(floe_abi::CudaError::OUT_OF_MEMORY)?;
        Ok(Reserved { device: device.handle(), address, bytes, serial })
    }

    /// A reset of a vGPU takes its memory along.
    fn graph_memory_holds(&self, memory: &[Reserved]) -> bool {
        let Ok(devices) = self.devices() else { return false };
        memory.iter().all(|memory| {
            let device = usize::try_from(memory.device.0).ok().and_then(|ordinal| devices.get(ordinal));
            device.is_some_and(|device| device.vgpu.holds(memory))
        })
    }

    /// It is in use again when the work issued so far is over.
    fn graph_memory_release(&self, memory: &Reserved) {
        let Ok(device) = self.device(memory.device) else { return };
        let vgpu = &device.vgpu;
        if vgpu.holds(memory) {
            let fence = vgpu.fence_of(memory.address.0);
            lock(&vgpu.blocks).free(memory.address.0, fence, None);
            // A link that has failed is what the next call reports.
            let _ = vgpu.collect();
        }
    }

    fn device_graph_mem_trim(&self, device: Device) -> CudaResult<()> {
        self.device(device)?.vgpu.trim(0)
    }
}

impl Client {
    /// Frees an address where it is an allocation of a graph's that lives; false where it is none of a graph's.
    pub(crate) fn free_of_graph(&self, address: DevicePtr, vgpu: &Vgpu) -> CudaResult<bool> {
        let Some(serial) = vgpu.serial_at(address) else {
            return Ok(false);
        };
        let freed = self.graphs.free(address, serial)?;
        if freed {
            floe_surface::graph::settle(self);
        }
        Ok(freed)
    }
}
