//! Memory and events between processes: handles of 64 bytes, and descriptors of physical memory and of pools. What programs pass on comes
//! in and goes out as passports. Which memory may leave the process is decided here as CUDA decides it; whether another
//! process may have it, by the exporter's worker.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use floe_abi::{
    Context, CudaError, CudaResult, DevicePtr, Event, IpcEventHandle, IpcMemHandle, MemHandle, MemPool,
    PoolPointerData, ipc_mem_flags,
};
use floe_surface::{IpcCalls, ShareableHandle, ShareableKind};

use crate::client::Client;
use crate::log::log;
use crate::lookup::{DeviceRange, Found};
use crate::memory::ipc::exporting::handle_of;
use crate::memory::ipc::opened::Door;
use crate::memory::ipc::opening::{passport, passport_of};
use crate::memory::ipc::passport::{Passport, Secret, Subject};
use crate::memory::virtual_memory::Physical;
use crate::objects::event::EventState;
use crate::objects::pool::{PoolOrigin, PoolState};
use crate::vgpu::Vgpu;
use crate::vgpu::handles::{Handle, Kind};
use floe_lock::lock;

impl Client {
    /// Memory that is an allocation of this process's own, not managed, whose vGPU's worker has it as a block.
    fn own_allocation(&self, address: DevicePtr) -> CudaResult<DeviceRange<'_>> {
        match self.lookup_address(address) {
            Some(Found::Device(memory)) if memory.is_own_allocation() => Ok(memory),
            _ => Err(CudaError::INVALID_VALUE),
        }
    }

    /// Whether `cuIpcGetMemHandle` takes this memory: what pools give is handed on through its pool.
    pub(crate) fn is_for_handles(&self, memory: &DeviceRange<'_>) -> bool {
        memory.is_own_allocation() && self.pool_of(memory.start).is_null()
    }

    /// The vGPU of this process that a passport is of.
    fn exporting_vgpu(&self, passport: &Passport) -> CudaResult<Option<&Arc<Vgpu>>> {
        let is_exporter = |vgpu: &&Arc<Vgpu>| {
            let seat = &vgpu.peers.seat;
            seat.session == passport.session && seat.server.is_some_and(|server| passport.is_of(&server))
        };
        Ok(self.devices()?.iter().map(|device| &device.vgpu).find(is_exporter))
    }

    /// The same where a process may not open what it has made itself.
    fn refuse_own(&self, passport: &Passport) -> CudaResult<()> {
        match self.exporting_vgpu(passport)? {
            Some(_) => Err(CudaError::INVALID_CONTEXT),
            None => Ok(()),
        }
    }

    /// A handle of physical memory that was made to be shared by this kind.
    pub(crate) fn export_physical(
        &self,
        handle: MemHandle,
        kind: ShareableKind,
    ) -> CudaResult<ShareableHandle<OwnedFd>> {
        let (vgpu, id) = self.physical(handle)?;
        let found = lock(&vgpu.virtual_memory).physical.get(&id).cloned();
        let physical = found.filter(|physical| physical.handles > 0).ok_or(CudaError::INVALID_VALUE)?;
        kind.check_made_for(physical.properties.requested_handle_types)?;
        vgpu.errors.report()?;
        handle_of(&vgpu.export_physical(id, physical.bytes)?, kind)
    }

    /// Physical memory that a process has exported, this one or another.
    pub(crate) fn import_physical(&self, shared: &ShareableHandle<BorrowedFd<'_>>) -> CudaResult<MemHandle> {
        let passport = passport_of(shared, Subject::Physical)?;
        let imported = match self.exporting_vgpu(&passport)? {
            Some(vgpu) => own_physical(vgpu, &passport),
            None => self.import_others_physical(&passport),
        };
        imported.map_err(|error| match (shared, error) {
            // What an H200's driver says of a fabric handle whose memory is gone.
            (ShareableHandle::Fabric(_), CudaError::INVALID_HANDLE) => CudaError::NOT_SUPPORTED,
            _ => error,
        })
    }

    fn import_others_physical(&self, passport: &Passport) -> CudaResult<MemHandle> {
        let vgpu = Arc::clone(&self.working()?.vgpu);
        let (id, _) = vgpu.import_physical(&vgpu.exporter_of(passport)?, passport.object)?;
        Ok(MemHandle(Handle::new(Kind::Physical, vgpu.ordinal, id).value()))
    }

    /// A handle of a pool that was made to be shared by this kind.
    pub(crate) fn export_pool(&self, pool: MemPool, kind: ShareableKind) -> CudaResult<ShareableHandle<OwnedFd>> {
        let (state, id) = self.shared_pool(pool)?;
        kind.check_made_for(state.handle_types)?;
        let server = state.vgpu.server_name()?;
        // It opens nothing by itself, so it has no ticket; each allocation has one.
        let passport = Passport {
            subject: Subject::Pool,
            server,
            session: state.vgpu.peers.seat.session,
            secret: Secret([0; 16]),
            ticket: 0,
            object: id,
            offset: 0,
            bytes: 0,
            pool: id,
        };
        handle_of(&passport, kind)
    }

    /// A pool of another process, or of this one: nothing is allocated from it.
    pub(crate) fn import_pool(&self, shared: &ShareableHandle<BorrowedFd<'_>>) -> CudaResult<MemPool> {
        let passport = passport_of(shared, Subject::Pool)?;
        let vgpu = Arc::clone(&self.working()?.vgpu);
        vgpu.exporter_of(&passport)?;
        let origin = PoolOrigin { session: passport.session, pool: passport.pool };
        let handle = Handle::new(Kind::Pool, vgpu.ordinal, self.next_id());
        self.pools.insert(handle.id, Arc::new(PoolState::imported(vgpu, origin)));
        Ok(MemPool(handle.value()))
    }

    /// The bytes of an allocation that a shared pool gave.
    pub(crate) fn export_pool_allocation(&self, address: DevicePtr) -> CudaResult<PoolPointerData> {
        let memory = self.own_allocation(address)?;
        let (_, pool) = self.shared_pool(self.pool_of(memory.start))?;
        memory.vgpu.errors.report()?;
        let passport = memory.vgpu.export_allocation(address, Subject::PoolAllocation, pool)?;
        Ok(PoolPointerData { bytes: passport.to_bytes()? })
    }

    /// Maps an allocation of an imported pool.
    pub(crate) fn import_pool_allocation(&self, pool: MemPool, data: &PoolPointerData) -> CudaResult<DevicePtr> {
        let state = self.pool(pool)?;
        let passport = passport(&data.bytes, Subject::PoolAllocation)?;
        let named = PoolOrigin { session: passport.session, pool: passport.pool };
        if state.origin != Some(named) {
            return Err(CudaError::INVALID_VALUE);
        }
        self.refuse_own(&passport)?;
        state.vgpu.errors.report()?;
        state.vgpu.open(&passport, self.context_on(&state.vgpu)?, Door::Pool)
    }

    /// A pool that was made to be shared, with its number.
    fn shared_pool(&self, pool: MemPool) -> CudaResult<(Arc<PoolState>, u64)> {
        let handle = Handle::of(Kind::Pool, pool.0).ok_or(CudaError::INVALID_VALUE)?;
        let state = self.pools.get(handle.id).filter(|pool| pool.handle_types != 0);
        state.map(|state| (state, handle.id)).ok_or(CudaError::INVALID_VALUE)
    }

    /// The context that what is opened on a vGPU belongs to.
    fn context_on(&self, vgpu: &Arc<Vgpu>) -> CudaResult<Context> {
        match self.current() {
            Ok(context) if Arc::ptr_eq(&context.vgpu, vgpu) => Ok(context.handle()),
            _ => Ok(self.device_having(vgpu)?.primary.handle()),
        }
    }
}

/// Physical memory of this process's own, by its passport: one more handle of it.
fn own_physical(vgpu: &Vgpu, passport: &Passport) -> CudaResult<MemHandle> {
    let mut memory = lock(&vgpu.virtual_memory);
    let known = lock(&vgpu.exports).of_physical(passport.object);
    // Memory that was released is there while it is mapped.
    let is_there = |physical: &&mut Physical| physical.handles > 0 || physical.mappings > 0;
    let physical = memory.physical.get_mut(&passport.object).filter(is_there);
    let physical = physical.filter(|_| known.as_ref() == Some(passport)).ok_or(CudaError::INVALID_HANDLE)?;
    physical.handles += 1;
    Ok(MemHandle(Handle::new(Kind::Physical, vgpu.ordinal, passport.object).value()))
}

impl IpcCalls for Client {
    fn ipc_get_mem_handle(&self, address: DevicePtr) -> CudaResult<IpcMemHandle> {
        let memory = self.own_allocation(address)?;
        if !self.is_for_handles(&memory) {
            log!(Warn, "cuIpcGetMemHandle: memory of a pool is handed on by cuMemPoolExportPointer");
            return Err(CudaError::INVALID_VALUE);
        }
        memory.vgpu.errors.report()?;
        let passport = memory.vgpu.export_allocation(address, Subject::Allocation, 0)?;
        Ok(IpcMemHandle { bytes: passport.to_bytes()? })
    }

    fn ipc_open_mem_handle(&self, handle: IpcMemHandle, flags: u32) -> CudaResult<DevicePtr> {
        // The flag is CUDA's only one. Without it only memory of the same GPU is promised, which is less.
        if flags & !ipc_mem_flags::LAZY_ENABLE_PEER_ACCESS != 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        let context = self.working()?;
        let passport = passport(&handle.bytes, Subject::Allocation)?;
        self.refuse_own(&passport)?;
        context.vgpu.open(&passport, context.handle(), Door::Handle)
    }

    fn ipc_close_mem_handle(&self, address: DevicePtr) -> CudaResult<()> {
        let vgpu = self.owner(address, None).ok_or(CudaError::INVALID_VALUE)?;
        if lock(&vgpu.openings.opened).find(address.0).is_none() {
            return Err(CudaError::INVALID_VALUE);
        }
        // So that the memory is back with its owner when this returns.
        vgpu.synchronize()?;
        vgpu.synchronize_importers();
        let was_open = vgpu.close(address, Door::Handle, &vgpu.fence_of(address.0))?;
        self.synchronous.forget(address.0);
        if was_open { Ok(()) } else { Err(CudaError::INVALID_VALUE) }
    }

    fn ipc_get_event_handle(&self, event: Event) -> CudaResult<IpcEventHandle> {
        self.graphs.refuse_captured(event)?;
        let event = self.event(event)?;
        event.vgpu.errors.report()?;
        Ok(IpcEventHandle { bytes: event.export()?.to_bytes()? })
    }

    fn ipc_open_event_handle(&self, handle: IpcEventHandle) -> CudaResult<Event> {
        let context = self.working()?;
        // CUDA's word for bytes that are no event's.
        let passport = passport(&handle.bytes, Subject::Event).or(Err(CudaError::MAP_FAILED))?;
        self.refuse_own(&passport)?;
        let vgpu = &context.vgpu;
        let id = vgpu.next_id();
        let state = EventState::opened(Arc::clone(vgpu), id, context.handle(), &passport)?;
        self.objects(vgpu)?.events.insert(id, Arc::new(state));
        Ok(Event(Handle::new(Kind::Event, vgpu.ordinal, id).value()))
    }
}
