//! The calls of virtual memory management: checked here, kept in `mappings`.
//! Handles, sizes and wished addresses come in, addresses and codes go out.
//! Taking memory away waits for everything that runs, so that no kernel touches what is gone.

use std::os::fd::{BorrowedFd, OwnedFd};

use floe_abi::{
    CudaError, CudaResult, DevicePtr, HostPointer, MemAccess, MemAllocationProperties, MemHandle, MemLocation,
    access_flags, allocation_type, granularity, handle_type, location_type,
};
use floe_machine::MemoryError;
use floe_surface::{
    ShareableHandle, ShareableKind, VirtualMemoryCalls, accessing_device, check_handle_types, check_memory_flags,
    device_of_place, granted_memory,
};

use crate::simulator::Simulator;
use crate::simulator::device::limits::GRANULARITY;
use crate::simulator::memory::physical::Physical;
use floe_lock::lock;

impl Simulator {
    /// The device a location names.
    fn located(&self, location: &MemLocation) -> CudaResult<usize> {
        self.device(device_of_place(location)?).map(|device| device.place)
    }

    fn check_properties(&self, properties: &MemAllocationProperties) -> CudaResult<usize> {
        if properties.kind != allocation_type::PINNED {
            return Err(CudaError::INVALID_VALUE);
        }
        check_handle_types(properties.requested_handle_types)?;
        if properties.requested_handle_types & !handle_type::POSIX_FILE_DESCRIPTOR != 0 {
            crate::simulator::log::note(format_args!(
                "memory of the CPU device is exported by descriptors only, asked for handle types: {:#x}",
                properties.requested_handle_types
            ));
            return Err(CudaError::NOT_SUPPORTED);
        }
        self.located(&properties.location)
    }

    /// Whether the devices named get access. All CPU devices share one address space: what one may use, all may.
    fn wanted_access(&self, access: &[MemAccess]) -> CudaResult<bool> {
        let mut wanted = None;
        for entry in access {
            self.located(&entry.location)?;
            let accessible = match entry.flags {
                access_flags::NONE => false,
                access_flags::READWRITE => true,
                access_flags::READ => {
                    crate::simulator::log::warn(format_args!("the CPU device cannot map memory for reading only"));
                    return Err(CudaError::NOT_SUPPORTED);
                }
                _ => return Err(CudaError::INVALID_VALUE),
            };
            wanted = Some(wanted.unwrap_or(false) || accessible);
        }
        wanted.ok_or(CudaError::INVALID_VALUE)
    }
}

impl VirtualMemoryCalls for Simulator {
    fn mem_address_reserve(
        &self,
        bytes: usize,
        alignment: usize,
        wish: DevicePtr,
        flags: u64,
    ) -> CudaResult<DevicePtr> {
        let (bytes, alignment) = (bytes as u64, (alignment as u64).max(GRANULARITY));
        if flags != 0 || bytes == 0 || !bytes.is_multiple_of(GRANULARITY) || !alignment.is_power_of_two() {
            return Err(CudaError::INVALID_VALUE);
        }
        let reserved = lock(&self.virtual_memory).reservations.reserve(bytes, alignment, wish.0);
        reserved.map(DevicePtr).ok_or(CudaError::OUT_OF_MEMORY)
    }

    fn mem_address_free(&self, address: DevicePtr, bytes: usize) -> CudaResult<()> {
        lock(&self.virtual_memory).release_range(address.0, bytes as u64)
    }

    fn mem_create(&self, bytes: usize, properties: &MemAllocationProperties, flags: u64) -> CudaResult<MemHandle> {
        let place = self.check_properties(properties)?;
        let (properties, bytes) = (granted_memory(properties)?, bytes as u64);
        if flags != 0 || bytes == 0 || !bytes.is_multiple_of(GRANULARITY) {
            return Err(CudaError::INVALID_VALUE);
        }
        let device = self.devices.get(place).ok_or(CudaError::INVALID_DEVICE)?;
        let exportable = properties.requested_handle_types & handle_type::POSIX_FILE_DESCRIPTOR != 0;
        let physical = device.memory.create(bytes, exportable.then_some(device.identity.ordinal))?;
        let handle = self.handles.next();
        lock(&self.virtual_memory).add(handle, physical, place, properties);
        Ok(MemHandle(handle))
    }

    fn mem_release(&self, handle: MemHandle) -> CudaResult<()> {
        lock(&self.virtual_memory).release(handle.0)
    }

    fn mem_map(
        &self,
        address: DevicePtr,
        bytes: usize,
        offset: usize,
        handle: MemHandle,
        flags: u64,
    ) -> CudaResult<()> {
        if flags != 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        lock(&self.virtual_memory).map(address.0, bytes as u64, offset as u64, handle.0)
    }

    fn mem_unmap(&self, address: DevicePtr, bytes: usize) -> CudaResult<()> {
        self.wait_everything_unheld();
        self.executor
            .while_no_word_is_looked_at(|| lock(&self.virtual_memory).unmap(&self.memory, address.0, bytes as u64))
    }

    fn mem_set_access(&self, address: DevicePtr, bytes: usize, access: &[MemAccess]) -> CudaResult<()> {
        let accessible = self.wanted_access(access)?;
        let bytes = bytes as u64;
        // Giving access disturbs nobody unless an accessible mapping has to be cut; taking it always may.
        let waits = {
            let virtual_memory = lock(&self.virtual_memory);
            let at_edge = |edge: u64| {
                virtual_memory.mapped_range_at(edge).is_some_and(|range| range.address != edge && range.accessible)
            };
            virtual_memory.would_change(address.0, bytes, accessible)?
                && (!accessible || at_edge(address.0) || at_edge(address.0 + bytes))
        };
        if waits {
            self.wait_everything_unheld();
        }
        self.executor.while_no_word_is_looked_at(|| {
            lock(&self.virtual_memory).set_access(&self.memory, address.0, bytes, accessible)
        })
    }

    fn mem_get_access(&self, location: &MemLocation, address: DevicePtr) -> CudaResult<u64> {
        let Some(device) = accessing_device(location)? else { return Ok(access_flags::NONE.into()) };
        self.device(device)?;
        let range = lock(&self.virtual_memory).mapped_range_at(address.0).ok_or(CudaError::INVALID_VALUE)?;
        Ok(u64::from(if range.accessible { access_flags::READWRITE } else { access_flags::NONE }))
    }

    fn mem_get_allocation_granularity(&self, properties: &MemAllocationProperties, option: u32) -> CudaResult<usize> {
        if option > granularity::RECOMMENDED || properties.kind != allocation_type::PINNED {
            return Err(CudaError::INVALID_VALUE);
        }
        check_handle_types(properties.requested_handle_types)?;
        check_memory_flags(&properties.flags)?;
        self.located(&properties.location)?;
        usize::try_from(GRANULARITY).map_err(|_| CudaError::UNKNOWN)
    }

    fn mem_get_allocation_properties_from_handle(&self, handle: MemHandle) -> CudaResult<MemAllocationProperties> {
        lock(&self.virtual_memory).get(handle.0).map(|created| created.properties)
    }

    fn mem_export_to_shareable_handle(
        &self,
        handle: MemHandle,
        kind: ShareableKind,
    ) -> CudaResult<ShareableHandle<OwnedFd>> {
        let memory = lock(&self.virtual_memory);
        let created = memory.get(handle.0)?;
        kind.check_made_for(created.properties.requested_handle_types)?;
        created.export().map(ShareableHandle::Descriptor)
    }

    fn mem_import_from_shareable_handle(&self, shared: ShareableHandle<BorrowedFd<'_>>) -> CudaResult<MemHandle> {
        let ShareableHandle::Descriptor(file) = shared else {
            crate::simulator::log::note(format_args!("the CPU device has no fabric handles"));
            return Err(CudaError::NOT_SUPPORTED);
        };
        let physical = Physical::import(file).map_err(|error| {
            crate::simulator::log::note(format_args!("cannot import memory: {error}"));
            if matches!(error, MemoryError::Foreign { .. }) {
                CudaError::INVALID_VALUE
            } else {
                CudaError::OPERATING_SYSTEM
            }
        })?;
        let handle = self.handles.next();
        let file = physical.file().ok_or(CudaError::INVALID_VALUE)?;
        let mut virtual_memory = lock(&self.virtual_memory);
        if virtual_memory.add_again(handle, file.identity()) {
            return Ok(MemHandle(handle));
        }
        // The file says so itself, and may lie: a wrong device is a wrong answer to questions about the memory, no more.
        let owner = self.devices.iter().find(|device| device.identity.ordinal == file.device());
        let owner = owner.filter(|device| physical.length() <= device.memory.total());
        let place = owner.ok_or(CudaError::INVALID_DEVICE)?.place;
        let id = i32::try_from(place).map_err(|_| CudaError::INVALID_DEVICE)?;
        let properties = MemAllocationProperties {
            kind: allocation_type::PINNED,
            // As an H100's driver has it: what was imported is not exported again.
            requested_handle_types: 0,
            location: MemLocation { kind: location_type::DEVICE, id },
            ..MemAllocationProperties::default()
        };
        virtual_memory.add(handle, physical, place, properties);
        Ok(MemHandle(handle))
    }

    fn mem_retain_allocation_handle(&self, address: HostPointer) -> CudaResult<MemHandle> {
        lock(&self.virtual_memory).retain(address.0).map(MemHandle)
    }
}
