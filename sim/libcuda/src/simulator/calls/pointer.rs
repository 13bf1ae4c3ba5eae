//! Queries about an address: its owner, the start of its allocation, whether it is pinned.
//! An address comes in, one typed answer goes out. Unknown addresses are INVALID_VALUE here; the surface knows the
//! milder rules of the plural form. It never reads what the address points to.

use std::sync::atomic::Ordering;

use floe_abi::{
    Context, CudaError, CudaResult, DevicePtr, HostPointer, MemPool, access_flags, handle_type, memory_type,
    pointer_attribute as ask,
};
use floe_surface::{PointerAttribute, PointerCalls};

use crate::simulator::Simulator;
use crate::simulator::addresses::WINDOWS;
use crate::simulator::memory::host_memory::Pinned;
use floe_lock::lock;

/// Memory on a device, as the attributes need it.
struct OnDevice {
    base: u64,
    bytes: u64,
    context: u64,
    device: usize,
    pool: u64,
    id: u64,
    accessible: bool,
    is_managed: bool,
    handle_types: u32,
}

impl Simulator {
    fn on_device(&self, address: u64) -> Option<OnDevice> {
        if WINDOWS.contains(&address) {
            return self.mapped_at(address);
        }
        if let Some(device) = self.device_of_allocation(address) {
            let (found, owner) = device.memory.find(address)?;
            return Some(OnDevice {
                base: found.address,
                bytes: found.size,
                context: owner.context,
                device: device.place,
                pool: owner.pool.unwrap_or(0),
                id: found.id,
                accessible: true,
                is_managed: owner.is_managed,
                handle_types: handle_type::NONE,
            });
        }
        let (device, found, is_managed) = self.variable_at(address)?;
        Some(OnDevice {
            base: found.address,
            bytes: found.size,
            context: device.primary_handle,
            device: device.place,
            pool: 0,
            id: found.address,
            accessible: true,
            is_managed,
            handle_types: handle_type::NONE,
        })
    }

    fn mapped_at(&self, address: u64) -> Option<OnDevice> {
        let range = lock(&self.virtual_memory).mapped_range_at(address)?;
        let primary = self.devices.get(range.device)?.primary_handle;
        Some(OnDevice {
            base: range.address,
            bytes: range.length,
            context: primary,
            device: range.device,
            pool: 0,
            id: range.handle,
            accessible: range.accessible,
            is_managed: false,
            handle_types: range.handle_types,
        })
    }
}

fn of_device(attribute: u32, address: u64, found: &OnDevice) -> CudaResult<PointerAttribute> {
    let bytes = usize::try_from(found.bytes).map_err(|_| CudaError::UNKNOWN)?;
    Ok(match attribute {
        ask::CONTEXT => PointerAttribute::Context(Context(found.context)),
        ask::MEMORY_TYPE => PointerAttribute::MemoryType(memory_type::DEVICE),
        ask::DEVICE_POINTER => PointerAttribute::DevicePointer(DevicePtr(address)),
        // An H200 gives the same answer: synchronous copies wait for their bytes.
        ask::SYNC_MEMOPS => PointerAttribute::SyncMemops(true),
        ask::BUFFER_ID => PointerAttribute::BufferId(found.id),
        ask::IS_MANAGED => PointerAttribute::IsManaged(found.is_managed),
        ask::HOST_POINTER if found.is_managed => PointerAttribute::HostPointer(HostPointer(address)),
        ask::DEVICE_ORDINAL => PointerAttribute::DeviceOrdinal(i32::try_from(found.device).unwrap_or(-2)),
        ask::IS_LEGACY_CUDA_IPC_CAPABLE => PointerAttribute::IsLegacyIpcCapable(false),
        ask::RANGE_START_ADDR => PointerAttribute::RangeStart(DevicePtr(found.base)),
        ask::RANGE_SIZE => PointerAttribute::RangeSize(bytes),
        ask::MAPPED => PointerAttribute::Mapped(true),
        ask::ALLOWED_HANDLE_TYPES => PointerAttribute::AllowedHandleTypes(found.handle_types.into()),
        ask::IS_GPU_DIRECT_RDMA_CAPABLE => PointerAttribute::IsGpuDirectRdmaCapable(false),
        ask::ACCESS_FLAGS => {
            PointerAttribute::AccessFlags(if found.accessible { access_flags::READWRITE } else { access_flags::NONE })
        }
        ask::MEMPOOL_HANDLE => PointerAttribute::MemPool(MemPool(found.pool)),
        ask::MAPPING_SIZE => PointerAttribute::MappingSize(bytes),
        ask::MAPPING_BASE_ADDR => PointerAttribute::MappingBase(DevicePtr(found.base)),
        ask::MEMORY_BLOCK_ID => PointerAttribute::MemoryBlockId(found.id),
        ask::IS_HW_DECOMPRESS_CAPABLE => PointerAttribute::IsHardwareDecompressCapable(false),
        // HOST_POINTER: device memory that is not managed has no address on the host. P2P_TOKENS: no such tokens here.
        _ => return Err(CudaError::INVALID_VALUE),
    })
}

fn of_host(attribute: u32, address: u64, found: &Pinned, device: usize) -> CudaResult<PointerAttribute> {
    Ok(match attribute {
        ask::CONTEXT => PointerAttribute::Context(Context(found.context)),
        ask::MEMORY_TYPE => PointerAttribute::MemoryType(memory_type::HOST),
        ask::HOST_POINTER => PointerAttribute::HostPointer(HostPointer(address)),
        ask::SYNC_MEMOPS => PointerAttribute::SyncMemops(false),
        ask::BUFFER_ID | ask::MEMORY_BLOCK_ID => PointerAttribute::BufferId(found.id),
        ask::IS_MANAGED => PointerAttribute::IsManaged(false),
        ask::DEVICE_ORDINAL => PointerAttribute::DeviceOrdinal(i32::try_from(device).unwrap_or(-2)),
        ask::IS_LEGACY_CUDA_IPC_CAPABLE => PointerAttribute::IsLegacyIpcCapable(false),
        ask::RANGE_START_ADDR => PointerAttribute::RangeStart(DevicePtr(found.range.pointer().0)),
        ask::RANGE_SIZE => PointerAttribute::RangeSize(found.range.len()),
        ask::MAPPED => PointerAttribute::Mapped(found.is_reached),
        ask::DEVICE_POINTER if found.is_reached => PointerAttribute::DevicePointer(DevicePtr(address)),
        ask::ALLOWED_HANDLE_TYPES => PointerAttribute::AllowedHandleTypes(0),
        ask::IS_GPU_DIRECT_RDMA_CAPABLE => PointerAttribute::IsGpuDirectRdmaCapable(false),
        ask::ACCESS_FLAGS if found.is_reached => PointerAttribute::AccessFlags(access_flags::READWRITE),
        ask::ACCESS_FLAGS => PointerAttribute::AccessFlags(access_flags::NONE),
        ask::MEMPOOL_HANDLE => PointerAttribute::MemPool(MemPool::NULL),
        // DEVICE_POINTER: kernels do not reach this host memory.
        _ => return Err(CudaError::INVALID_VALUE),
    })
}

impl PointerCalls for Simulator {
    fn pointer_get_attribute(&self, attribute: u32, address: DevicePtr) -> CudaResult<PointerAttribute> {
        if let Some(found) = self.on_device(address.0) {
            return of_device(attribute, address.0, &found);
        }
        let found = self.host_memory.find(address.0).ok_or(CudaError::INVALID_VALUE)?;
        let device = self.contexts.get(found.context).map_or(0, |context| context.device);
        of_host(attribute, address.0, &found, device)
    }

    fn pointer_set_attribute(&self, value: u32, attribute: u32, address: DevicePtr) -> CudaResult<()> {
        if attribute != ask::SYNC_MEMOPS || self.on_device(address.0).is_none() {
            return Err(CudaError::INVALID_VALUE);
        }
        // From then on all synchronous calls wait, whatever the memory: more than was asked for, and never less.
        self.synchronous.fetch_or(value != 0, Ordering::Relaxed);
        Ok(())
    }
}
