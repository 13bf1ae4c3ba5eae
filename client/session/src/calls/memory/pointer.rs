//! What an address is: device memory of which vGPU, pinned host memory, or nothing known. Addresses come in, answers go out,
//! all from what the process knows; no message is sent.

use floe_abi::{Context, CudaError, CudaResult, DevicePtr, HostPointer, access_flags, memory_type, pointer_attribute};
use floe_surface::{PointerAttribute, PointerCalls};

use crate::client::Client;
use crate::log::log_once;
use crate::memory::host_memory::PinnedRange;
use crate::vgpu::table::lock;

/// Device memory that holds an address.
struct DeviceMemory {
    context: Context,
    ordinal: u8,
    start: u64,
    bytes: u64,
    /// A number for this allocation alone.
    number: u64,
    is_managed: bool,
}

impl Client {
    fn device_memory_at(&self, at: DevicePtr) -> Option<DeviceMemory> {
        let vgpu = self.owner(at, None)?;
        let ordinal = vgpu.ordinal;
        let is_managed = vgpu.managed.has(at.0);
        if let Some(found) = lock(vgpu.blocks_at(at.0)).find(at.0) {
            return Some(DeviceMemory {
                context: Context(found.owner),
                ordinal,
                start: found.at,
                bytes: found.bytes,
                number: found.serial << 9 | u64::from(is_managed) << 8 | u64::from(ordinal),
                is_managed,
            });
        }
        let range = lock(&vgpu.virtual_memory).mapping(at.0).or_else(|| vgpu.global_at(at.0))?;
        let primary = self.devices().ok()?.get(usize::from(ordinal))?.primary.handle();
        Some(DeviceMemory {
            context: primary,
            ordinal,
            start: range.start,
            bytes: range.end - range.start,
            // Addresses are unique among these; the high bit keeps them apart from the allocations' numbers.
            number: 1 << 63 | range.start,
            is_managed,
        })
    }

    fn of_device(&self, attribute: u32, at: DevicePtr, memory: &DeviceMemory) -> CudaResult<PointerAttribute> {
        use PointerAttribute as Is;
        use pointer_attribute as ask;
        let size = || usize::try_from(memory.bytes).map_err(|_| CudaError::INVALID_VALUE);
        Ok(match attribute {
            ask::CONTEXT => Is::Context(memory.context),
            ask::MEMORY_TYPE => Is::MemoryType(memory_type::DEVICE),
            ask::DEVICE_POINTER => Is::DevicePointer(at),
            ask::SYNC_MEMOPS => Is::SyncMemops(false),
            ask::BUFFER_ID | ask::MEMORY_BLOCK_ID => Is::BufferId(memory.number),
            ask::IS_MANAGED => Is::IsManaged(memory.is_managed),
            ask::HOST_POINTER if memory.is_managed => Is::HostPointer(HostPointer(at.0)),
            ask::DEVICE_ORDINAL => Is::DeviceOrdinal(i32::from(memory.ordinal)),
            ask::IS_LEGACY_CUDA_IPC_CAPABLE => Is::IsLegacyIpcCapable(false),
            ask::RANGE_START_ADDR => Is::RangeStart(DevicePtr(memory.start)),
            ask::RANGE_SIZE => Is::RangeSize(size()?),
            ask::MAPPED => Is::Mapped(true),
            ask::ALLOWED_HANDLE_TYPES => Is::AllowedHandleTypes(0),
            ask::IS_GPU_DIRECT_RDMA_CAPABLE => Is::IsGpuDirectRdmaCapable(false),
            ask::ACCESS_FLAGS => Is::AccessFlags(access_flags::READWRITE),
            ask::MEMPOOL_HANDLE => Is::MemPool(self.pool_of(memory.start)),
            ask::MAPPING_SIZE => Is::MappingSize(size()?),
            ask::MAPPING_BASE_ADDR => Is::MappingBase(DevicePtr(memory.start)),
            ask::IS_HW_DECOMPRESS_CAPABLE => Is::IsHardwareDecompressCapable(false),
            // HOST_POINTER among them: device memory that is not managed has none.
            _ => return Err(CudaError::INVALID_VALUE),
        })
    }

    fn of_host(&self, attribute: u32, at: DevicePtr, pinned: &PinnedRange) -> CudaResult<PointerAttribute> {
        use PointerAttribute as Is;
        use pointer_attribute as ask;
        Ok(match attribute {
            ask::CONTEXT => Is::Context(pinned.context),
            ask::MEMORY_TYPE => Is::MemoryType(memory_type::HOST),
            ask::HOST_POINTER => Is::HostPointer(HostPointer(at.0)),
            ask::SYNC_MEMOPS => Is::SyncMemops(false),
            ask::BUFFER_ID => Is::BufferId(1 << 62 | pinned.start),
            ask::IS_MANAGED => Is::IsManaged(false),
            ask::DEVICE_ORDINAL => {
                let context = self.context(pinned.context);
                Is::DeviceOrdinal(context.map_or(0, |context| context.device().0))
            }
            ask::IS_LEGACY_CUDA_IPC_CAPABLE => Is::IsLegacyIpcCapable(false),
            ask::RANGE_START_ADDR => Is::RangeStart(DevicePtr(pinned.start)),
            ask::RANGE_SIZE => Is::RangeSize(usize::try_from(pinned.bytes).map_err(|_| CudaError::INVALID_VALUE)?),
            ask::DEVICE_POINTER if self.is_reached(at.0) => Is::DevicePointer(at),
            ask::MAPPED => Is::Mapped(self.is_reached(at.0)),
            ask::ALLOWED_HANDLE_TYPES => Is::AllowedHandleTypes(0),
            ask::IS_GPU_DIRECT_RDMA_CAPABLE => Is::IsGpuDirectRdmaCapable(false),
            ask::ACCESS_FLAGS if self.is_reached(at.0) => Is::AccessFlags(access_flags::READWRITE),
            ask::ACCESS_FLAGS => Is::AccessFlags(access_flags::NONE),
            // DEVICE_POINTER among them: no device can reach it until its device pointer is asked for.
            _ => return Err(CudaError::INVALID_VALUE),
        })
    }
}

impl PointerCalls for Client {
    fn pointer_get_attribute(&self, attribute: u32, address: DevicePtr) -> CudaResult<PointerAttribute> {
        if let Some(memory) = self.device_memory_at(address) {
            return self.of_device(attribute, address, &memory);
        }
        match self.host_memory.find(address.0) {
            Some(pinned) => self.of_host(attribute, address, &pinned),
            None => Err(CudaError::INVALID_VALUE),
        }
    }

    fn pointer_set_attribute(&self, value: u32, attribute: u32, address: DevicePtr) -> CudaResult<()> {
        if attribute != pointer_attribute::SYNC_MEMOPS || value > 1 || self.device_memory_at(address).is_none() {
            return Err(CudaError::INVALID_VALUE);
        }
        if value == 1 {
            // It exists for devices that read memory behind CUDA's back, of which there are none across a network.
            log_once!(Info, "cuPointerSetAttribute: SYNC_MEMOPS is without effect");
        }
        Ok(())
    }
}
