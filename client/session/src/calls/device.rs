//! Devices as the program sees them: their number, names, attributes, all answered from the snapshots. `cuInit` attaches
//! them; what two can do with each other's memory is asked once; nothing else here sends a message.

use std::sync::atomic::Ordering;

use floe_abi::{CudaError, CudaResult, Device, MemPool, Uuid, p2p_attribute};
use floe_surface::DeviceCalls;

use crate::client::Client;
use crate::objects::device::DeviceState;

impl DeviceCalls for Client {
    fn init(&self, flags: u32) -> CudaResult<()> {
        if flags != 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        self.start()
    }

    fn driver_get_version(&self) -> CudaResult<i32> {
        Ok(floe_abi::DRIVER_VERSION)
    }

    fn device_get(&self, ordinal: i32) -> CudaResult<Device> {
        self.device(Device(ordinal)).map(DeviceState::handle)
    }

    fn device_get_count(&self) -> CudaResult<i32> {
        let count = self.devices()?.len();
        Ok(i32::try_from(count).expect("there are at most 16 windows"))
    }

    fn device_get_name(&self, device: Device) -> CudaResult<String> {
        Ok(self.device(device)?.vgpu.snapshot.name.clone())
    }

    fn device_get_uuid(&self, device: Device) -> CudaResult<Uuid> {
        Ok(self.device(device)?.vgpu.snapshot.uuid)
    }

    fn device_total_mem(&self, device: Device) -> CudaResult<usize> {
        let bytes = self.device(device)?.vgpu.snapshot.memory;
        usize::try_from(bytes).map_err(|_| CudaError::INVALID_VALUE)
    }

    fn device_get_attribute(&self, attribute: u32, device: Device) -> CudaResult<i32> {
        self.device(device)?.vgpu.snapshot.attribute(attribute).ok_or(CudaError::INVALID_VALUE)
    }

    fn device_can_access_peer(&self, device: Device, peer: Device) -> CudaResult<bool> {
        let (device, peer) = (self.device(device)?, self.device(peer)?);
        if device.handle() == peer.handle() {
            return Ok(false);
        }
        Ok(device.vgpu.ability_with(&peer.vgpu)?.access != 0)
    }

    fn device_get_p2p_attribute(&self, attribute: u32, source: Device, destination: Device) -> CudaResult<i32> {
        let (source, destination) = (self.device(source)?, self.device(destination)?);
        if source.handle() == destination.handle() {
            return Err(CudaError::INVALID_DEVICE);
        }
        let ability = source.vgpu.ability_with(&destination.vgpu)?;
        match attribute {
            p2p_attribute::PERFORMANCE_RANK => Ok(ability.rank),
            p2p_attribute::ACCESS_SUPPORTED => Ok(ability.access),
            p2p_attribute::NATIVE_ATOMIC_SUPPORTED => Ok(ability.atomics),
            p2p_attribute::CUDA_ARRAY_ACCESS_SUPPORTED => Ok(ability.arrays),
            // A link with some atomics, but not all, is said to have none.
            p2p_attribute::ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED => Ok(0),
            _ => Err(CudaError::INVALID_VALUE),
        }
    }

    fn device_get_default_mem_pool(&self, device: Device) -> CudaResult<MemPool> {
        Ok(self.device(device)?.default_pool)
    }

    fn device_get_mem_pool(&self, device: Device) -> CudaResult<MemPool> {
        Ok(MemPool(self.device(device)?.current_pool.load(Ordering::Acquire)))
    }

    fn device_set_mem_pool(&self, device: Device, pool: MemPool) -> CudaResult<()> {
        let device = self.device(device)?;
        let state = self.pool(pool)?;
        if state.vgpu.ordinal != device.vgpu.ordinal {
            return Err(CudaError::INVALID_VALUE);
        }
        device.current_pool.store(pool.0, Ordering::Release);
        Ok(())
    }
}
