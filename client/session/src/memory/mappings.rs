//! Mappings of physical memory that come and go with their memory: the program's own, and memory of other programs in this vGPU's
//! window. Blocks and addresses come in; posts that map, unmap and release go out. What others have imported goes back first.

use floe_abi::{
    CudaError, CudaResult, MemAllocationProperties, MemLocation, access_flags, allocation_type, location_type,
};
use floe_wire::{BlockId, DevicePtr, ReleaseBlock, UnmapRange};

use crate::memory::peers::Exporter;
use crate::memory::virtual_memory::{Mapping, Physical, VirtualMemory};
use crate::vgpu::Vgpu;
use floe_lock::lock;

impl Vgpu {
    /// A mapping of this vGPU's memory is no more. Nothing uses it here or elsewhere.
    pub(crate) fn unmap_mapping(&self, start: u64, mapping: &Mapping) -> CudaResult<()> {
        let _gate = self.gate();
        self.take_back(start)?;
        self.connection.post(&UnmapRange { at: DevicePtr(start), bytes: mapping.bytes })?;
        self.unmapped(mapping.physical)
    }

    /// One mapping less of physical memory.
    pub(crate) fn unmapped(&self, id: u64) -> CudaResult<()> {
        let mut memory = lock(&self.virtual_memory);
        if let Some(physical) = memory.physical.get_mut(&id) {
            physical.mappings -= 1;
        }
        self.release_unused(&mut memory, id)
    }

    /// Releases physical memory nothing refers to. The server keeps what is mapped, so that others may still import it.
    pub(crate) fn release_unused(&self, memory: &mut VirtualMemory, id: u64) -> CudaResult<()> {
        if memory.drop_unused(id) {
            lock(&self.exports).released(id);
            self.connection.post(&ReleaseBlock { block: BlockId(id) })?;
        }
        Ok(())
    }

    /// Imports a block of another program as physical memory of this vGPU, which the program holds once. Returns its id
    /// and its bytes.
    ///
    /// # Errors
    /// As [`Vgpu::import`].
    pub(crate) fn import_physical(&self, from: &Exporter, object: u64) -> CudaResult<(u64, u64)> {
        let imported = self.import(from, object)?;
        let location = MemLocation { kind: location_type::DEVICE, id: i32::from(self.ordinal) };
        let properties = MemAllocationProperties { kind: allocation_type::PINNED, location, ..Default::default() };
        let origin = Some((from.clone(), object));
        let physical = Physical { bytes: imported.bytes, origin, properties, handles: 1, mappings: 0 };
        lock(&self.virtual_memory).physical.insert(imported.block, physical);
        Ok((imported.block, imported.bytes))
    }

    /// Imports a block of another program and maps it with access, at an address of this vGPU's window that is the block's
    /// until [`Vgpu::return_foreign`]. Returns the address and the block's bytes.
    ///
    /// # Errors
    /// As [`Vgpu::import`]; OUT_OF_MEMORY where the window has no room.
    pub(crate) fn import_foreign(&self, from: &Exporter, object: u64) -> CudaResult<(DevicePtr, u64)> {
        let (id, bytes) = self.import_physical(from, object)?;
        let mut memory = lock(&self.virtual_memory);
        let granularity = memory.granularity;
        let reserved = memory.reserved.reserve(bytes, granularity, None);
        // From here on its mapping keeps it.
        let Some(physical) = memory.physical.get_mut(&id) else { return Err(CudaError::INVALID_HANDLE) };
        physical.handles = 0;
        let Some(at) = reserved else {
            return self.release_unused(&mut memory, id).and(Err(CudaError::OUT_OF_MEMORY));
        };
        physical.mappings = 1;
        let mut mapping = Mapping::of(self.ordinal, id, physical);
        mapping.access.insert(self.ordinal, access_flags::READWRITE);
        mapping.is_of_opened = true;
        memory.mappings.insert(at, mapping);
        self.map_whole(id, bytes, at, access_flags::READWRITE)?;
        Ok((DevicePtr(at), bytes))
    }

    /// Unmaps and returns what was imported to this address. Nothing uses it any more.
    pub(crate) fn return_foreign(&self, DevicePtr(at): DevicePtr) -> CudaResult<()> {
        let removed = lock(&self.virtual_memory).mappings.remove(&at);
        let mapping = removed.ok_or(CudaError::INVALID_VALUE)?;
        self.unmap_mapping(at, &mapping)?;
        lock(&self.virtual_memory).reserved.release(at, mapping.bytes);
        Ok(())
    }
}
