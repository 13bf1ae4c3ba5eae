//! Memory pools and allocation in stream order: an allocation is usable at once, a free happens when its stream gets there.
//! Pools are accounts over the device's one heap: what a pool frees goes back to the heap, so its reserve is what it uses.
//! It never hands out memory that queued work may still use.

use std::collections::HashMap;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};

use floe_abi::{
    CudaError, CudaResult, Device, DevicePtr, MemAccess, MemLocation, MemPool, MemPoolProperties, PoolPointerData,
    Stream, access_flags, pool_attribute as ask,
};
use floe_surface::graph::record_alloc;
use floe_surface::{PoolCalls, ShareableHandle, ShareableKind, accessing_device, check_pool, device_of_place};

use crate::simulator::Simulator;
use crate::simulator::executor::Work;
use crate::simulator::handles::Handles;
use crate::simulator::log::refuse_between_processes;
use crate::simulator::memory::device_memory::Owner;
use floe_lock::lock;

#[derive(Clone)]
struct PoolState {
    device: usize,
    /// Most bytes it may hold; 0 for the device's.
    max_size: u64,
    release_threshold: u64,
    used_high: u64,
    /// The three reuse settings, kept for the asking: every free is reused as soon as it has happened.
    reuse: [u64; 3],
}

struct PoolTable {
    pools: HashMap<u64, PoolState>,
    current: Vec<u64>,
}

/// All pools of the process.
pub(crate) struct Pools {
    state: Mutex<PoolTable>,
    defaults: Vec<u64>,
}

impl PoolState {
    fn new(device: usize, max_size: u64) -> Self {
        Self { device, max_size, release_threshold: 0, used_high: 0, reuse: [1; 3] }
    }
}

impl Pools {
    /// One default pool for each device.
    pub(crate) fn new(devices: usize, handles: &Handles) -> Self {
        let defaults: Vec<u64> = (0..devices).map(|_| handles.next()).collect();
        let pools = defaults.iter().enumerate().map(|(device, handle)| (*handle, PoolState::new(device, 0))).collect();
        Self { state: Mutex::new(PoolTable { pools, current: defaults.clone() }), defaults }
    }

    /// # Errors
    /// INVALID_DEVICE.
    pub(crate) fn default_of(&self, device: Device) -> CudaResult<MemPool> {
        let place = usize::try_from(device.0).map_err(|_| CudaError::INVALID_DEVICE)?;
        self.defaults.get(place).copied().map(MemPool).ok_or(CudaError::INVALID_DEVICE)
    }

    /// # Errors
    /// INVALID_DEVICE.
    pub(crate) fn current_of(&self, device: Device) -> CudaResult<MemPool> {
        let place = usize::try_from(device.0).map_err(|_| CudaError::INVALID_DEVICE)?;
        lock(&self.state).current.get(place).copied().map(MemPool).ok_or(CudaError::INVALID_DEVICE)
    }

    /// # Errors
    /// INVALID_VALUE for a pool of another device, or none.
    pub(crate) fn set_current(&self, device: Device, pool: MemPool) -> CudaResult<()> {
        let place = usize::try_from(device.0).map_err(|_| CudaError::INVALID_DEVICE)?;
        let mut state = lock(&self.state);
        if state.pools.get(&pool.0).is_none_or(|pool| pool.device != place) {
            return Err(CudaError::INVALID_VALUE);
        }
        *state.current.get_mut(place).ok_or(CudaError::INVALID_DEVICE)? = pool.0;
        Ok(())
    }

    fn get(&self, pool: MemPool) -> CudaResult<PoolState> {
        lock(&self.state).pools.get(&pool.0).cloned().ok_or(CudaError::INVALID_VALUE)
    }

    fn change(&self, pool: MemPool, change: impl FnOnce(&mut PoolState)) -> CudaResult<()> {
        lock(&self.state).pools.get_mut(&pool.0).map(change).ok_or(CudaError::INVALID_VALUE)
    }
}

impl Simulator {
    fn allocate_in_order(&self, bytes: usize, pool: MemPool, stream: Stream) -> CudaResult<DevicePtr> {
        let (context, _) = self.stream(stream)?;
        self.executor.fault(context.serial)?;
        if let Some(captured) = self.capturing(stream)? {
            let device = i32::try_from(self.pools.get(pool)?.device).map_err(|_| CudaError::INVALID_DEVICE)?;
            return record_alloc(self, &captured, Device(device), bytes);
        }
        // Unlike `cuMemAlloc`, nothing is a size here.
        if bytes == 0 {
            return Ok(DevicePtr::NULL);
        }
        let state = self.pools.get(pool)?;
        let device = self.devices.get(state.device).ok_or(CudaError::INVALID_DEVICE)?;
        let bytes = bytes as u64;
        let used = device.memory.used_by_pool(pool.0).checked_add(bytes).ok_or(CudaError::OUT_OF_MEMORY)?;
        if state.max_size != 0 && used > state.max_size {
            return Err(CudaError::OUT_OF_MEMORY);
        }
        let owner = Owner { context: context.handle, pool: Some(pool.0), leaving: false, is_managed: false };
        let made = device.memory.allocate(bytes, owner).or_else(|_| {
            // Frees that are still queued may be enough.
            self.wait_everything();
            device.memory.allocate(bytes, owner)
        })?;
        self.pools.change(pool, |pool| pool.used_high = pool.used_high.max(used))?;
        Ok(DevicePtr(made.address))
    }

    fn check_location(&self, location: &MemLocation) -> CudaResult<()> {
        self.device(device_of_place(location)?).map(drop)
    }
}

impl PoolCalls for Simulator {
    fn mem_alloc_async(&self, bytes: usize, stream: Stream) -> CudaResult<DevicePtr> {
        let (context, _) = self.stream(stream)?;
        let device = Device(i32::try_from(context.device).map_err(|_| CudaError::INVALID_DEVICE)?);
        self.allocate_in_order(bytes, self.pools.current_of(device)?, stream)
    }

    fn mem_free_async(&self, address: DevicePtr, stream: Stream) -> CudaResult<()> {
        let (context, key) = self.stream(stream)?;
        self.executor.fault(context.serial)?;
        if address.is_null() {
            return Ok(());
        }
        if let Some(captured) = self.capturing(stream)? {
            return self.graphs.record_free(&captured, address);
        }
        if self.free_of_graph(address)? {
            return Ok(());
        }
        let device = self.device_of_allocation(address.0).ok_or(CudaError::INVALID_VALUE)?;
        device.memory.start_free(address.0).ok_or(CudaError::INVALID_VALUE)?;
        let memory = Arc::clone(&device.memory);
        let release = move || {
            // The bytes stay mapped: another stream may still run, and unmapping is for when nothing does.
            memory.free(address.0);
        };
        self.executor.post(key, Work::Release(Box::new(release))).map(|_| ())
    }

    fn mem_alloc_from_pool_async(&self, bytes: usize, pool: MemPool, stream: Stream) -> CudaResult<DevicePtr> {
        self.allocate_in_order(bytes, pool, stream)
    }

    fn mem_pool_create(&self, properties: &MemPoolProperties) -> CudaResult<MemPool> {
        check_pool(properties)?;
        if properties.handle_types != 0 {
            return Err(CudaError::NOT_SUPPORTED);
        }
        self.check_location(&properties.location)?;
        let device = usize::try_from(properties.location.id).map_err(|_| CudaError::INVALID_DEVICE)?;
        let handle = self.handles.next();
        lock(&self.pools.state).pools.insert(handle, PoolState::new(device, properties.max_size as u64));
        Ok(MemPool(handle))
    }

    fn mem_pool_destroy(&self, pool: MemPool) -> CudaResult<()> {
        if self.pools.defaults.contains(&pool.0) {
            return Err(CudaError::INVALID_VALUE);
        }
        let mut state = lock(&self.pools.state);
        let gone = state.pools.remove(&pool.0).ok_or(CudaError::INVALID_VALUE)?;
        if let (Some(current), Some(default)) =
            (state.current.get_mut(gone.device), self.pools.defaults.get(gone.device))
            && *current == pool.0
        {
            *current = *default;
        }
        Ok(())
    }

    fn mem_pool_get_attribute(&self, pool: MemPool, attribute: u32) -> CudaResult<u64> {
        let state = self.pools.get(pool)?;
        let device = self.devices.get(state.device).ok_or(CudaError::INVALID_DEVICE)?;
        match attribute {
            ask::REUSE_FOLLOW_EVENT_DEPENDENCIES => Ok(state.reuse[0]),
            ask::REUSE_ALLOW_OPPORTUNISTIC => Ok(state.reuse[1]),
            ask::REUSE_ALLOW_INTERNAL_DEPENDENCIES => Ok(state.reuse[2]),
            ask::RELEASE_THRESHOLD => Ok(state.release_threshold),
            ask::RESERVED_MEM_CURRENT | ask::USED_MEM_CURRENT => Ok(device.memory.used_by_pool(pool.0)),
            ask::RESERVED_MEM_HIGH | ask::USED_MEM_HIGH => Ok(state.used_high),
            _ => Err(CudaError::INVALID_VALUE),
        }
    }

    fn mem_pool_set_attribute(&self, pool: MemPool, attribute: u32, value: u64) -> CudaResult<()> {
        let current = self.mem_pool_get_attribute(pool, ask::USED_MEM_CURRENT)?;
        match attribute {
            ask::REUSE_FOLLOW_EVENT_DEPENDENCIES => self.pools.change(pool, |pool| pool.reuse[0] = value),
            ask::REUSE_ALLOW_OPPORTUNISTIC => self.pools.change(pool, |pool| pool.reuse[1] = value),
            ask::REUSE_ALLOW_INTERNAL_DEPENDENCIES => self.pools.change(pool, |pool| pool.reuse[2] = value),
            ask::RELEASE_THRESHOLD => self.pools.change(pool, |pool| pool.release_threshold = value),
            // Only a reset is allowed.
            ask::RESERVED_MEM_HIGH | ask::USED_MEM_HIGH if value == 0 => {
                self.pools.change(pool, |pool| pool.used_high = current)
            }
            _ => Err(CudaError::INVALID_VALUE),
        }
    }

    fn mem_pool_trim_to(&self, pool: MemPool, _keep: usize) -> CudaResult<()> {
        let state = self.pools.get(pool)?;
        self.wait_everything();
        if let Some(device) = self.devices.get(state.device) {
            device.memory.give_back(true);
        }
        Ok(())
    }

    fn mem_pool_set_access(&self, pool: MemPool, access: &[MemAccess]) -> CudaResult<()> {
        let state = self.pools.get(pool)?;
        for entry in access {
            self.check_location(&entry.location)?;
            let own = usize::try_from(entry.location.id) == Ok(state.device);
            match entry.flags {
                access_flags::READWRITE => {}
                // A device's access to its own pool cannot be revoked. Other devices share the address space, so theirs
                // cannot be either; no correct program notices.
                access_flags::NONE if !own => {}
                _ => return Err(CudaError::INVALID_VALUE),
            }
        }
        Ok(())
    }

    fn mem_pool_get_access(&self, pool: MemPool, location: &MemLocation) -> CudaResult<u32> {
        self.pools.get(pool)?;
        let Some(device) = accessing_device(location)? else { return Ok(access_flags::NONE) };
        self.device(device)?;
        Ok(access_flags::READWRITE)
    }

    fn mem_pool_export_to_shareable_handle(
        &self,
        _pool: MemPool,
        _kind: ShareableKind,
    ) -> CudaResult<ShareableHandle<OwnedFd>> {
        Err(refuse_between_processes("cuMemPoolExportToShareableHandle"))
    }

    fn mem_pool_import_from_shareable_handle(&self, _shared: ShareableHandle<BorrowedFd<'_>>) -> CudaResult<MemPool> {
        Err(refuse_between_processes("cuMemPoolImportFromShareableHandle"))
    }

    fn mem_pool_export_pointer(&self, _address: DevicePtr) -> CudaResult<PoolPointerData> {
        Err(refuse_between_processes("cuMemPoolExportPointer"))
    }

    fn mem_pool_import_pointer(&self, _pool: MemPool, _data: &PoolPointerData) -> CudaResult<DevicePtr> {
        Err(refuse_between_processes("cuMemPoolImportPointer"))
    }
}
