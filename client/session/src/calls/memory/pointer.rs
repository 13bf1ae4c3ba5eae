//! The kind of memory at an address: device memory of which vGPU, pinned host memory, or unknown memory. Addresses come
//! in, answers go out, all from what the process knows; no message is sent.

use floe_abi::{Context, CudaError, CudaResult, DevicePtr, HostPointer, access_flags, memory_type, pointer_attribute};
use floe_surface::{PointerAttribute, PointerCalls};

use crate::client::Client;
use crate::lookup::{DeviceRange, Found, Made};
use crate::memory::host_memory::PinnedRange;
use floe_lock::lock;

/// A number for this memory alone. Allocations have numbers of their own, other memory its address, which the high bit keeps
/// apart from those.
fn buffer_id(memory: &DeviceRange<'_>) -> u64 {
    let own = |made: Made| made.serial << 9 | u64::from(memory.is_managed) << 8 | u64::from(memory.vgpu.ordinal);
    memory.allocation.map_or(1 << 63 | memory.start.0, own)
}

/// The memory as its mark of synchronous operations names it.
fn marked(memory: &DeviceRange<'_>) -> (u64, u64) {
    (memory.start.0, memory.allocation.map_or(0, |made| made.serial))
}

impl Client {
    /// The context that made it, or the primary one.
    fn context_of_memory(&self, memory: &DeviceRange<'_>) -> CudaResult<Context> {
        match memory.allocation {
            Some(made) => Ok(made.context),
            None => Ok(self.device_having(memory.vgpu)?.primary.handle()),
        }
    }

    /// What kernels of the current context may do with device memory.
    fn access_of_current(&self, at: DevicePtr, memory: &DeviceRange<'_>) -> u32 {
        let Ok(context) = self.current() else { return access_flags::READWRITE };
        let here = &context.vgpu;
        if let Some(window) = self.owner(at, None).filter(|window| window.is_programs_own(at)) {
            let mapped = lock(&window.virtual_memory);
            return mapped.mapping_entry(at.0).map_or(access_flags::NONE, |(_, it)| it.access_of(here.ordinal));
        }
        let is_reached = || memory.allocation.is_some() && !memory.is_managed && here.reaches_all_of(memory.vgpu);
        if here.ordinal == memory.vgpu.ordinal || is_reached() { access_flags::READWRITE } else { access_flags::NONE }
    }

    /// The kinds of handles by which memory leaves the process, beside those of 64 bytes.
    fn handle_types_of(&self, memory: &DeviceRange<'_>) -> u64 {
        if memory.is_own_allocation() {
            return self.pool(self.pool_of(memory.start)).map_or(0, |pool| u64::from(pool.handle_types));
        }
        let mapped = lock(&memory.vgpu.virtual_memory);
        let physical = mapped.mapping_entry(memory.start.0).and_then(|(_, it)| mapped.physical.get(&it.physical));
        physical.map_or(0, |physical| u64::from(physical.properties.requested_handle_types))
    }

    fn answer_of_device(
        &self,
        attribute: u32,
        at: DevicePtr,
        memory: &DeviceRange<'_>,
    ) -> CudaResult<PointerAttribute> {
        use PointerAttribute as Is;
        use pointer_attribute as ask;
        let size = || usize::try_from(memory.bytes).map_err(|_| CudaError::INVALID_VALUE);
        Ok(match attribute {
            ask::CONTEXT => Is::Context(self.context_of_memory(memory)?),
            ask::MEMORY_TYPE => Is::MemoryType(memory_type::DEVICE),
            ask::DEVICE_POINTER => Is::DevicePointer(at),
            ask::SYNC_MEMOPS => Is::SyncMemops(self.synchronous.has(marked(memory))),
            ask::BUFFER_ID | ask::MEMORY_BLOCK_ID => Is::BufferId(buffer_id(memory)),
            ask::IS_MANAGED => Is::IsManaged(memory.is_managed),
            ask::HOST_POINTER if memory.is_managed => Is::HostPointer(HostPointer(at.0)),
            ask::DEVICE_ORDINAL => Is::DeviceOrdinal(i32::from(memory.vgpu.ordinal)),
            ask::IS_LEGACY_CUDA_IPC_CAPABLE => Is::IsLegacyIpcCapable(self.is_for_handles(memory)),
            ask::RANGE_START_ADDR => Is::RangeStart(memory.start),
            ask::RANGE_SIZE => Is::RangeSize(size()?),
            ask::MAPPED => Is::Mapped(true),
            ask::ALLOWED_HANDLE_TYPES => Is::AllowedHandleTypes(self.handle_types_of(memory)),
            ask::IS_GPU_DIRECT_RDMA_CAPABLE => Is::IsGpuDirectRdmaCapable(false),
            ask::ACCESS_FLAGS => Is::AccessFlags(self.access_of_current(at, memory)),
            ask::MEMPOOL_HANDLE => Is::MemPool(self.pool_of(memory.start)),
            ask::MAPPING_SIZE => Is::MappingSize(size()?),
            ask::MAPPING_BASE_ADDR => Is::MappingBase(memory.start),
            ask::IS_HW_DECOMPRESS_CAPABLE => Is::IsHardwareDecompressCapable(false),
            // HOST_POINTER among them: device memory that is not managed has none.
            _ => return Err(CudaError::INVALID_VALUE),
        })
    }

    fn answer_of_host(&self, attribute: u32, at: DevicePtr, pinned: &PinnedRange) -> CudaResult<PointerAttribute> {
        use PointerAttribute as Is;
        use pointer_attribute as ask;
        Ok(match attribute {
            ask::CONTEXT => Is::Context(pinned.context),
            ask::MEMORY_TYPE => Is::MemoryType(memory_type::HOST),
            ask::HOST_POINTER => Is::HostPointer(HostPointer(pinned.host_start + (at.0 - pinned.start))),
            ask::SYNC_MEMOPS => Is::SyncMemops(false),
            ask::BUFFER_ID => Is::BufferId(1 << 62 | pinned.host_start),
            ask::IS_MANAGED => Is::IsManaged(false),
            ask::DEVICE_ORDINAL => {
                let context = self.context(pinned.context);
                Is::DeviceOrdinal(context.map_or(0, |context| context.device().0))
            }
            ask::IS_LEGACY_CUDA_IPC_CAPABLE => Is::IsLegacyIpcCapable(false),
            ask::RANGE_START_ADDR => Is::RangeStart(DevicePtr(pinned.host_start)),
            ask::RANGE_SIZE => Is::RangeSize(usize::try_from(pinned.bytes).map_err(|_| CudaError::INVALID_VALUE)?),
            ask::DEVICE_POINTER if self.is_reached(pinned) => {
                Is::DevicePointer(DevicePtr(pinned.device_start + (at.0 - pinned.start)))
            }
            ask::MAPPED => Is::Mapped(self.is_reached(pinned)),
            ask::ALLOWED_HANDLE_TYPES => Is::AllowedHandleTypes(0),
            ask::IS_GPU_DIRECT_RDMA_CAPABLE => Is::IsGpuDirectRdmaCapable(false),
            ask::ACCESS_FLAGS if self.is_reached(pinned) => Is::AccessFlags(access_flags::READWRITE),
            ask::ACCESS_FLAGS => Is::AccessFlags(access_flags::NONE),
            // DEVICE_POINTER among them: no device can reach it until its device pointer is asked for.
            _ => return Err(CudaError::INVALID_VALUE),
        })
    }
}

impl PointerCalls for Client {
    fn pointer_get_attribute(&self, attribute: u32, address: DevicePtr) -> CudaResult<PointerAttribute> {
        match self.lookup_address(address) {
            Some(Found::Device(memory)) => self.answer_of_device(attribute, address, &memory),
            Some(Found::Pinned(pinned)) => self.answer_of_host(attribute, address, &pinned),
            None => Err(CudaError::INVALID_VALUE),
        }
    }

    fn pointer_set_attribute(&self, value: u32, attribute: u32, address: DevicePtr) -> CudaResult<()> {
        let is_known = attribute == pointer_attribute::SYNC_MEMOPS && value <= 1;
        match self.lookup_address(address).filter(|_| is_known) {
            Some(Found::Device(memory)) => self.synchronous.set(marked(&memory), value == 1),
            _ => return Err(CudaError::INVALID_VALUE),
        }
        Ok(())
    }
}
