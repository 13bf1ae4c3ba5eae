//! Memory pools and stream-ordered allocation. Sizes and streams come in; memory comes from the same blocks as every other
//! allocation, reused at once by the stream that freed it. Attributes are kept here: they steer reuse, which is decided here.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use floe_abi::{
    CudaError, CudaResult, DevicePtr, MemAccess, MemLocation, MemPool, MemPoolProperties, PoolPointerData, Stream,
    access_flags, location_type, pool_attribute,
};
use floe_surface::graph::record_alloc;
use floe_surface::{PoolCalls, ShareableHandle, ShareableKind, accessing_device, check_pool, device_of_place};

use crate::client::Client;
use crate::memory::blocks::Allocation;
use crate::memory::ipc::opened::Door;
use crate::objects::pool::PoolState;
use crate::vgpu::Vgpu;
use crate::vgpu::handles::{Handle, Kind};
use crate::vgpu::order::StreamProgress;
use floe_lock::lock;

impl Client {
    /// The pool of a handle.
    pub(crate) fn pool(&self, pool: MemPool) -> CudaResult<Arc<PoolState>> {
        let handle = Handle::of(Kind::Pool, pool.0).ok_or(CudaError::INVALID_VALUE)?;
        self.pools.get(handle.id).ok_or(CudaError::INVALID_VALUE)
    }

    /// An allocation is gone, behind a stream's work or at once: the pool it came from, if any, has it back.
    pub(crate) fn note_freed(&self, allocation: Allocation, stream: Option<&Arc<StreamProgress>>) {
        self.synchronous.forget(allocation.at);
        self.pools.any(|pool| pool.took_back(DevicePtr(allocation.at), stream));
        if let Some(vgpu) = self.owner(DevicePtr(allocation.at), None) {
            vgpu.withdraw_allocation(allocation.at);
        }
    }

    /// An allocation went with its context.
    pub(crate) fn forget_allocation(&self, at: u64) {
        self.synchronous.forget(at);
        self.pools.any(|pool| pool.took_back(DevicePtr(at), None));
    }

    /// The pool an allocation came from.
    pub(crate) fn pool_of(&self, at: DevicePtr) -> MemPool {
        let found = self.pools.find(|pool| pool.holds(at));
        found.map_or(MemPool::NULL, |(id, pool)| MemPool(Handle::new(Kind::Pool, pool.vgpu.ordinal, id).value()))
    }

    fn allocate_on(&self, bytes: usize, pool: &PoolState, stream: Stream) -> CudaResult<DevicePtr> {
        let stream = self.working_stream(stream)?;
        if !same_vgpu(&stream.vgpu, &pool.vgpu) || pool.origin.is_some() {
            return Err(CudaError::INVALID_VALUE);
        }
        pool.demand_room(bytes as u64)?;
        let progress = stream.progress().stream();
        let at = pool.vgpu.allocate(bytes as u64, stream.context(), Some(progress))?;
        pool.gave(at, bytes as u64, progress);
        Ok(at)
    }
}

impl PoolCalls for Client {
    fn mem_alloc_async(&self, bytes: usize, stream: Stream) -> CudaResult<DevicePtr> {
        let state = self.stream(stream)?;
        let device = floe_abi::Device(i32::from(state.vgpu.ordinal));
        if let Some(captured) = self.capturing(stream)? {
            return record_alloc(self, &captured.for_capture(), device, bytes);
        }
        let pool = MemPool(self.device(device)?.current_pool.load(Ordering::Acquire));
        self.allocate_on(bytes, &*self.pool(pool)?, stream)
    }

    fn mem_free_async(&self, address: DevicePtr, stream: Stream) -> CudaResult<()> {
        if address.is_null() {
            return Ok(());
        }
        if let Some(captured) = self.capturing(stream)? {
            return self.graphs.record_free(&captured.for_capture(), address);
        }
        let stream = self.working_stream(stream)?;
        let owner = self.owner(address, None);
        if !owner.is_some_and(|owner| same_vgpu(owner, &stream.vgpu)) {
            return Err(CudaError::INVALID_VALUE);
        }
        if self.free_of_graph(address, &stream.vgpu)? {
            return Ok(());
        }
        let progress = stream.progress();
        let fence = stream.vgpu.fence_behind(progress);
        if stream.vgpu.close(address, Door::Pool, &fence)? {
            self.synchronous.forget(address.0);
            return Ok(());
        }
        let freed = lock(&stream.vgpu.blocks).free(address.0, fence, Some(progress.stream()));
        self.note_freed(freed.ok_or(CudaError::INVALID_VALUE)?, Some(progress));
        Ok(())
    }

    fn mem_alloc_from_pool_async(&self, bytes: usize, pool: MemPool, stream: Stream) -> CudaResult<DevicePtr> {
        let state = self.pool(pool)?;
        if let Some(captured) = self.capturing(stream)? {
            if !same_vgpu(&captured.vgpu, &state.vgpu) || state.origin.is_some() {
                return Err(CudaError::INVALID_VALUE);
            }
            let device = floe_abi::Device(i32::from(state.vgpu.ordinal));
            return record_alloc(self, &captured.for_capture(), device, bytes);
        }
        self.allocate_on(bytes, &state, stream)
    }

    fn mem_pool_create(&self, properties: &MemPoolProperties) -> CudaResult<MemPool> {
        // The device says in its attributes which handles there are.
        check_pool(properties)?;
        let device = self.device(device_of_place(&properties.location)?)?;
        device.vgpu.snapshot.check_handle_types(properties.handle_types)?;
        let handle = Handle::new(Kind::Pool, device.vgpu.ordinal, self.next_id());
        let state = PoolState::created(Arc::clone(&device.vgpu), properties.handle_types, properties.max_size as u64);
        self.pools.insert(handle.id, Arc::new(state));
        Ok(MemPool(handle.value()))
    }

    fn mem_pool_destroy(&self, pool: MemPool) -> CudaResult<()> {
        if self.pool(pool)?.is_default {
            return Err(CudaError::INVALID_VALUE);
        }
        let handle = Handle::of(Kind::Pool, pool.0).ok_or(CudaError::INVALID_VALUE)?;
        let device = &self.devices()?[usize::from(handle.ordinal)];
        // A device whose current pool goes has its default one again.
        let _ =
            device.current_pool.compare_exchange(pool.0, device.default_pool.0, Ordering::AcqRel, Ordering::Acquire);
        if let Some(pool) = self.pools.remove(handle.id) {
            self.devices()?.iter().for_each(|device| pool.lock_out(&device.vgpu));
        }
        Ok(())
    }

    fn mem_pool_get_attribute(&self, pool: MemPool, attribute: u32) -> CudaResult<u64> {
        let pool = self.pool(pool)?;
        use pool_attribute as a;
        Ok(match attribute {
            a::RELEASE_THRESHOLD => pool.release_threshold.load(Ordering::Acquire),
            a::USED_MEM_CURRENT => pool.given().used,
            a::USED_MEM_HIGH => pool.given().used_high,
            a::RESERVED_MEM_CURRENT => pool.reserved().0,
            a::RESERVED_MEM_HIGH => pool.reserved().1,
            a::REUSE_FOLLOW_EVENT_DEPENDENCIES
            | a::REUSE_ALLOW_OPPORTUNISTIC
            | a::REUSE_ALLOW_INTERNAL_DEPENDENCIES => lock(&pool.switches).get(&attribute).copied().unwrap_or(1),
            _ => return Err(CudaError::INVALID_VALUE),
        })
    }

    fn mem_pool_set_attribute(&self, pool: MemPool, attribute: u32, value: u64) -> CudaResult<()> {
        let pool = self.pool(pool)?;
        use pool_attribute as a;
        match attribute {
            a::RELEASE_THRESHOLD => {
                pool.release_threshold.store(value, Ordering::Release);
                lock(&pool.vgpu.blocks).keep(value);
            }
            // Only a reset to 0 is allowed, and it means: from now on.
            a::USED_MEM_HIGH if value == 0 => {
                let mut given = pool.given();
                given.used_high = given.used;
            }
            a::RESERVED_MEM_HIGH if value == 0 => pool.reset_reserved_high(),
            a::REUSE_FOLLOW_EVENT_DEPENDENCIES
            | a::REUSE_ALLOW_OPPORTUNISTIC
            | a::REUSE_ALLOW_INTERNAL_DEPENDENCIES => {
                // All of them allow reuse; what happens here is less than what any of them allows.
                lock(&pool.switches).insert(attribute, u64::from(value != 0));
            }
            _ => return Err(CudaError::INVALID_VALUE),
        }
        Ok(())
    }

    fn mem_pool_trim_to(&self, pool: MemPool, keep: usize) -> CudaResult<()> {
        let pool = self.pool(pool)?;
        pool.trim(keep as u64);
        pool.vgpu.trim(keep as u64)
    }

    fn mem_pool_set_access(&self, pool: MemPool, access: &[MemAccess]) -> CudaResult<()> {
        let pool = self.pool(pool)?;
        for wish in access {
            if wish.location.kind != location_type::DEVICE {
                return Err(CudaError::INVALID_DEVICE);
            }
            let device = &self.device(floe_abi::Device(wish.location.id))?.vgpu;
            match wish.flags {
                access_flags::READWRITE if same_vgpu(device, &pool.vgpu) => {}
                // The device itself cannot be locked out.
                _ if same_vgpu(device, &pool.vgpu) => return Err(CudaError::INVALID_DEVICE),
                access_flags::READWRITE => pool.let_in(device)?,
                access_flags::NONE => pool.lock_out(device),
                _ => return Err(CudaError::INVALID_DEVICE),
            }
        }
        Ok(())
    }

    fn mem_pool_get_access(&self, pool: MemPool, location: &MemLocation) -> CudaResult<u32> {
        let pool = self.pool(pool)?;
        let Some(device) = accessing_device(location)? else { return Ok(access_flags::NONE) };
        let ordinal = self.device(device)?.vgpu.ordinal;
        let reaches = ordinal == pool.vgpu.ordinal || pool.reached_by().1.contains(&ordinal);
        Ok(if reaches { access_flags::READWRITE } else { access_flags::NONE })
    }

    fn mem_pool_export_to_shareable_handle(
        &self,
        pool: MemPool,
        kind: ShareableKind,
    ) -> CudaResult<ShareableHandle<OwnedFd>> {
        self.export_pool(pool, kind)
    }

    fn mem_pool_import_from_shareable_handle(&self, shared: ShareableHandle<BorrowedFd<'_>>) -> CudaResult<MemPool> {
        self.import_pool(&shared)
    }

    fn mem_pool_export_pointer(&self, address: DevicePtr) -> CudaResult<PoolPointerData> {
        self.export_pool_allocation(address)
    }

    fn mem_pool_import_pointer(&self, pool: MemPool, data: &PoolPointerData) -> CudaResult<DevicePtr> {
        self.import_pool_allocation(pool, data)
    }
}

impl PoolState {
    /// Another vGPU's kernels reach the pool's memory from now on.
    fn let_in(&self, device: &Arc<Vgpu>) -> CudaResult<()> {
        if device.ability_with(&self.vgpu)?.access == 0 {
            return Err(CudaError::INVALID_DEVICE);
        }
        let mut reached = self.reached_by();
        if !reached.1.contains(&device.ordinal) {
            device.reach_all_of(&self.vgpu)?;
            reached.1.insert(device.ordinal);
        }
        Ok(())
    }

    /// They do not any more.
    fn lock_out(&self, device: &Vgpu) {
        if self.reached_by().1.remove(&device.ordinal) {
            device.reach_less_of(&self.vgpu);
        }
    }
}

/// Whether both are one vGPU.
fn same_vgpu(left: &Arc<Vgpu>, right: &Arc<Vgpu>) -> bool {
    left.ordinal == right.ordinal
}
