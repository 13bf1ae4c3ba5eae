//! The program's own virtual memory: reserved addresses in the window's upper half, physical memory, and what is mapped
//! where. Reserving is local, creating physical memory waits for the server's yes, mapping is posted. Unmapping waits until
//! nothing issued before can touch the range.

use std::collections::BTreeSet;
use std::ops::Range;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use floe_abi::{
    CudaError, CudaResult, DevicePtr, HostPointer, MemAccess, MemAllocationProperties, MemHandle, MemLocation,
    access_flags, allocation_type, location_type, resource_type,
};
use floe_surface::{
    ShareableHandle, ShareableKind, VirtualMemoryCalls, accessing_device, check_handle_types, check_memory_flags,
    device_of_place, granted_memory,
};
use floe_wire::{BlockId, CreateBlock, MapBlock, SetAccess};

use crate::client::Client;
use crate::log::log_once;
use crate::memory::virtual_memory::{Mapping, Physical};
use crate::vgpu::Vgpu;
use crate::vgpu::handles::{Handle, Kind};
use floe_lock::lock;

/// Physical memory of the host comes in pages of this size with NVIDIA's driver.
const HOST_GRANULARITY: usize = 2 << 20;

fn is_of_host(location: &MemLocation) -> bool {
    matches!(location.kind, location_type::HOST_NUMA | location_type::HOST_NUMA_CURRENT)
}

/// An end that exists: `address + bytes`.
fn range(address: DevicePtr, bytes: usize) -> CudaResult<Range<u64>> {
    let end = address.0.checked_add(bytes as u64).ok_or(CudaError::INVALID_VALUE)?;
    if bytes == 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    Ok(address.0..end)
}

impl Client {
    pub(crate) fn physical(&self, handle: MemHandle) -> CudaResult<(Arc<Vgpu>, u64)> {
        let handle = Handle::of(Kind::Physical, handle.0).ok_or(CudaError::INVALID_VALUE)?;
        let device = self.device_of(handle).ok_or(CudaError::INVALID_VALUE)?;
        Ok((Arc::clone(&device.vgpu), handle.id))
    }

    fn window_of(&self, address: DevicePtr) -> CudaResult<&Arc<Vgpu>> {
        self.owner(address, None).ok_or(CudaError::INVALID_VALUE)
    }

    fn location_vgpu(&self, location: &MemLocation) -> CudaResult<&Arc<Vgpu>> {
        Ok(&self.device(device_of_place(location)?)?.vgpu)
    }
}

impl Client {
    /// Gives a vGPU access to a mapping, or takes it.
    fn set_access_of(&self, device: &Arc<Vgpu>, start: u64, mapping: &Mapping, access: u32) -> CudaResult<()> {
        if access != access_flags::READWRITE {
            // The worker's driver waits for all work when access is taken. Host functions among it need the worker meanwhile.
            device.synchronize()?;
        }
        if device.ordinal == mapping.owner {
            let (at, bytes) = (DevicePtr(start), mapping.bytes);
            return device.connection.post(&SetAccess { at, bytes, access }).map(drop);
        }
        let owner = &self.devices()?[usize::from(mapping.owner)].vgpu;
        if access != access_flags::NONE && device.ability_with(owner)?.access != 1 {
            return Err(CudaError::INVALID_VALUE);
        }
        if device.is_beside(owner) { device.access_piece(&mapping.piece(start), access) } else { Ok(()) }
    }
}

impl VirtualMemoryCalls for Client {
    fn mem_address_reserve(
        &self,
        bytes: usize,
        alignment: usize,
        wish: DevicePtr,
        flags: u64,
    ) -> CudaResult<DevicePtr> {
        // A reservation belongs to no device in CUDA; here it must be some vGPU's part of the address space.
        let vgpu = match self.owner(wish, None) {
            Some(vgpu) => Arc::clone(vgpu),
            None => match self.current() {
                Ok(context) => Arc::clone(&context.vgpu),
                Err(_) => Arc::clone(&self.devices()?[0].vgpu),
            },
        };
        let mut memory = lock(&vgpu.virtual_memory);
        let bytes = bytes as u64;
        if flags != 0 || bytes == 0 || !memory.is_aligned(bytes) {
            return Err(CudaError::INVALID_VALUE);
        }
        let alignment = match alignment as u64 {
            0 => memory.granularity,
            wanted if wanted.is_power_of_two() => wanted.max(memory.granularity),
            _ => return Err(CudaError::INVALID_VALUE),
        };
        let wish = (!wish.is_null()).then_some(wish.0);
        memory.reserved.reserve(bytes, alignment, wish).map(DevicePtr).ok_or(CudaError::OUT_OF_MEMORY)
    }

    fn mem_address_free(&self, address: DevicePtr, bytes: usize) -> CudaResult<()> {
        let range = range(address, bytes)?;
        let vgpu = self.window_of(address)?;
        let mut memory = lock(&vgpu.virtual_memory);
        let in_use = memory.mappings.range(range.clone()).next().is_some();
        if in_use || !memory.reserved.release(address.0, bytes as u64) {
            return Err(CudaError::INVALID_VALUE);
        }
        Ok(())
    }

    fn mem_create(&self, bytes: usize, properties: &MemAllocationProperties, flags: u64) -> CudaResult<MemHandle> {
        if flags != 0 || bytes == 0 || properties.kind != allocation_type::PINNED {
            return Err(CudaError::INVALID_VALUE);
        }
        // Memory that could be exported is like any other until somebody exports it. PyTorch's expandable segments always ask for it.
        check_handle_types(properties.requested_handle_types)?;
        if is_of_host(&properties.location) {
            // NCCL asks for it as it begins, and does without.
            log_once!(Info, "cuMemCreate: physical memory of the host is not supported");
            return Err(CudaError::NOT_SUPPORTED);
        }
        let properties = granted_memory(properties)?;
        let vgpu = self.location_vgpu(&properties.location)?;
        vgpu.snapshot.check_handle_types(properties.requested_handle_types)?;
        vgpu.errors.report()?;
        if !lock(&vgpu.virtual_memory).is_aligned(bytes as u64) {
            return Err(CudaError::INVALID_VALUE);
        }
        let id = vgpu.next_id();
        let message = CreateBlock { block: BlockId(id), bytes: bytes as u64 };
        vgpu.with_room(|| vgpu.call(&message))?;
        let physical = Physical { bytes: bytes as u64, origin: None, properties, handles: 1, mappings: 0 };
        lock(&vgpu.virtual_memory).physical.insert(id, physical);
        Ok(MemHandle(Handle::new(Kind::Physical, vgpu.ordinal, id).value()))
    }

    fn mem_release(&self, handle: MemHandle) -> CudaResult<()> {
        let (vgpu, id) = self.physical(handle)?;
        let mut memory = lock(&vgpu.virtual_memory);
        let physical =
            memory.physical.get_mut(&id).filter(|physical| physical.handles > 0).ok_or(CudaError::INVALID_VALUE)?;
        physical.handles -= 1;
        vgpu.release_unused(&mut memory, id)
    }

    fn mem_map(
        &self,
        address: DevicePtr,
        bytes: usize,
        offset: usize,
        handle: MemHandle,
        flags: u64,
    ) -> CudaResult<()> {
        let range = range(address, bytes)?;
        let (vgpu, id) = self.physical(handle)?;
        let window = self.window_of(address)?;
        let mapping = {
            let mut memory = lock(&vgpu.virtual_memory);
            let aligned = memory.is_aligned(address.0);
            let created = memory.physical.get_mut(&id).filter(|physical| physical.handles > 0);
            let physical = created.ok_or(CudaError::INVALID_VALUE)?;
            if flags != 0 {
                return Err(CudaError::INVALID_VALUE);
            }
            // Memory is mapped whole, as an H200's driver has it.
            if offset != 0 || bytes as u64 != physical.bytes || !aligned {
                return Err(CudaError::NOT_SUPPORTED);
            }
            physical.mappings += 1;
            Mapping::of(vgpu.ordinal, id, physical)
        };
        let _alone = lock(&window.remapping);
        let mut memory = lock(&window.virtual_memory);
        if !memory.is_free(&range) {
            drop(memory);
            return vgpu.unmapped(id).and(Err(CudaError::INVALID_VALUE));
        }
        vgpu.connection.post(&MapBlock {
            block: BlockId(id),
            offset: 0,
            at: address,
            bytes: bytes as u64,
            access: access_flags::NONE,
        })?;
        memory.mappings.insert(address.0, mapping);
        Ok(())
    }

    fn mem_unmap(&self, address: DevicePtr, bytes: usize) -> CudaResult<()> {
        let range = range(address, bytes)?;
        let window = self.window_of(address)?;
        let mappings = lock(&window.virtual_memory).within(&range)?;
        for ordinal in mappings.iter().map(|(_, mapping)| mapping.owner).collect::<BTreeSet<_>>() {
            let owner = &self.devices()?[usize::from(ordinal)].vgpu;
            owner.synchronize()?;
            owner.synchronize_importers();
        }
        let is_memory = |kind| [resource_type::LINEAR, resource_type::PITCH2D].contains(&kind);
        self.let_texture_references_go(|read| is_memory(read.kind) && range.contains(&read.place));
        let _alone = lock(&window.remapping);
        // Another thread may have been faster.
        let mappings = lock(&window.virtual_memory).remove_within(&range)?;
        mappings.into_iter().try_for_each(|(start, mapping)| {
            self.synchronous.forget(start);
            self.devices()?[usize::from(mapping.owner)].vgpu.unmap_mapping(start, &mapping)
        })
    }

    fn mem_set_access(&self, address: DevicePtr, bytes: usize, access: &[MemAccess]) -> CudaResult<()> {
        let range = range(address, bytes)?;
        let window = self.window_of(address)?;
        for wish in access {
            let device = self.location_vgpu(&wish.location)?;
            if !matches!(wish.flags, access_flags::NONE | access_flags::READ | access_flags::READWRITE) {
                return Err(CudaError::INVALID_VALUE);
            }
            let mappings = lock(&window.virtual_memory).exactly(&range)?;
            for (start, mapping) in mappings {
                self.set_access_of(device, start, &mapping, wish.flags)?;
                lock(&window.virtual_memory).note_access(start, device.ordinal, wish.flags);
            }
        }
        Ok(())
    }

    fn mem_get_access(&self, location: &MemLocation, address: DevicePtr) -> CudaResult<u64> {
        let vgpu = self.window_of(address)?;
        let memory = lock(&vgpu.virtual_memory);
        let (_, mapping) = memory.programs_mapping(address.0).ok_or(CudaError::INVALID_VALUE)?;
        let Some(device) = accessing_device(location)? else { return Ok(access_flags::NONE.into()) };
        Ok(mapping.access_of(self.device(device)?.vgpu.ordinal).into())
    }

    fn mem_get_allocation_granularity(&self, properties: &MemAllocationProperties, option: u32) -> CudaResult<usize> {
        if option > floe_abi::granularity::RECOMMENDED || properties.kind != allocation_type::PINNED {
            return Err(CudaError::INVALID_VALUE);
        }
        check_handle_types(properties.requested_handle_types)?;
        check_memory_flags(&properties.flags)?;
        // NCCL asks for it before it tries to make such memory, and does without where only the making is refused.
        if is_of_host(&properties.location) {
            return Ok(HOST_GRANULARITY);
        }
        let granularity = self.location_vgpu(&properties.location)?.snapshot.granularity;
        usize::try_from(granularity).map_err(|_| CudaError::INVALID_VALUE)
    }

    fn mem_get_allocation_properties_from_handle(&self, handle: MemHandle) -> CudaResult<MemAllocationProperties> {
        let (vgpu, id) = self.physical(handle)?;
        let memory = lock(&vgpu.virtual_memory);
        memory.physical.get(&id).map(|physical| physical.properties).ok_or(CudaError::INVALID_VALUE)
    }

    fn mem_export_to_shareable_handle(
        &self,
        handle: MemHandle,
        kind: ShareableKind,
    ) -> CudaResult<ShareableHandle<OwnedFd>> {
        self.export_physical(handle, kind)
    }

    fn mem_import_from_shareable_handle(&self, shared: ShareableHandle<BorrowedFd<'_>>) -> CudaResult<MemHandle> {
        self.import_physical(&shared)
    }

    fn mem_retain_allocation_handle(&self, address: HostPointer) -> CudaResult<MemHandle> {
        let window = self.window_of(DevicePtr(address.0))?;
        let mapped = lock(&window.virtual_memory).programs_mapping(address.0).map(|(_, it)| (it.owner, it.physical));
        let (ordinal, id) = mapped.ok_or(CudaError::INVALID_VALUE)?;
        let owner = &self.devices()?[usize::from(ordinal)].vgpu;
        let mut memory = lock(&owner.virtual_memory);
        // Its mapping keeps it, also when all handles were released.
        memory.physical.get_mut(&id).ok_or(CudaError::INVALID_VALUE)?.handles += 1;
        Ok(MemHandle(Handle::new(Kind::Physical, ordinal, id).value()))
    }
}
