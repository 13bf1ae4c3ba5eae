//! Memory that comes, moves and goes, by the driver's functions.
//! In: operations of memory. Out: addresses. It frees nothing that the model still names.

use std::ptr::null_mut;

use anyhow::{Context as _, Result, bail};
use cudarc::driver::sys;

use super::held::Held;
use super::state::{Executor, Vgpu};
use crate::device::{cu, is_code, pointer, set_host_bytes};
use crate::model::Model;
use crate::operation::{Id, Kind, Operation, Stream, Which};

const VARIABLES: &str = concat!(include_str!("../variables.ptx"), "\0");
/// Registered memory begins and ends at pages, so that no two registrations share one.
const PAGE: usize = 4096;

impl Executor {
    pub(super) fn carry_out_memory(&mut self, operation: &Operation, model: &Model) -> Result<()> {
        match *operation {
            Operation::Allocate { block, kind, vgpu, width, rows, fill } => {
                self.allocate(block, kind, vgpu, [width, rows], fill, model)
            }
            Operation::Free { block, stream } => self.free(block, stream),
            Operation::Remap { block } => self.remap(block),
            Operation::Register { block } => self.register(block, model),
            Operation::Unregister { block } => self.unregister(block),
            Operation::Prefetch { block, to_host, stream } => {
                let handle = self.stream(stream)?;
                let held = &self.blocks[&block];
                let host = sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST;
                let on_host = sys::CUmemLocation { type_: host, id: 0 };
                let location = if to_host { on_host } else { self.vgpus[stream.vgpu].location() };
                let bytes = model.blocks[&block].bytes.len();
                let asked = cu!(cuMemPrefetchAsync_v2(held.address, bytes, location, 0, handle));
                // A hint, which devices without concurrent access refuse.
                let refusals = [sys::CUresult::CUDA_ERROR_INVALID_DEVICE, sys::CUresult::CUDA_ERROR_NOT_SUPPORTED];
                asked.or_else(|error| if is_code(&error, &refusals) { Ok(()) } else { Err(error) })
            }
            Operation::Reset { vgpu } => self.reset(vgpu),
            _ => bail!("not an operation of memory: {operation:?}"),
        }
    }

    fn allocate(
        &mut self,
        id: Id,
        kind: Kind,
        vgpu: usize,
        [width, rows]: [usize; 2],
        fill: u8,
        model: &Model,
    ) -> Result<()> {
        self.enter(vgpu)?;
        let block = &model.blocks[&id];
        let mut held = Held::new(kind, vgpu, width, block.height());
        let bytes = width * rows;
        let address = &raw mut held.address;
        match kind {
            Kind::Device => cu!(cuMemAlloc_v2(address, bytes))?,
            Kind::Pitched => cu!(cuMemAllocPitch_v2(address, &raw mut held.pitch, width, rows, 4))?,
            Kind::Pool { stream, own } => {
                let handle = self.stream(stream)?;
                if own {
                    let pool = self.pool(vgpu)?;
                    cu!(cuMemAllocFromPoolAsync(address, bytes, pool, handle))?;
                } else {
                    cu!(cuMemAllocAsync(address, bytes, handle))?;
                }
                cu!(cuMemsetD8Async(held.address, fill, bytes, handle))?;
            }
            Kind::Virtual => self.create(&mut held, bytes)?,
            Kind::Managed => cu!(cuMemAllocManaged(address, bytes, 1))?,
            Kind::Pinned { write_combined } => {
                let mut host = null_mut();
                let flags = sys::CU_MEMHOSTALLOC_PORTABLE
                    | if model.can.mapped { sys::CU_MEMHOSTALLOC_DEVICEMAP } else { 0 }
                    | if write_combined { sys::CU_MEMHOSTALLOC_WRITECOMBINED } else { 0 };
                cu!(cuMemHostAlloc(&raw mut host, bytes, flags))?;
                held.host = host as u64;
                held.address = held.host;
                if model.can.mapped {
                    cu!(cuMemHostGetDevicePointer_v2(&raw mut held.address, host, 0))?;
                }
                set_host_bytes(held.host, &block.bytes);
            }
            Kind::Pageable => {
                held.own = vec![fill; bytes + 2 * PAGE];
                let begin = held.own.as_ptr() as u64;
                held.host = begin.next_multiple_of(u64::try_from(PAGE)?);
                held.address = held.host;
            }
            Kind::Array { unit, channels, depth } => {
                self.create_array(&mut held, unit, channels, [width, rows, depth])?
            }
            Kind::Variable => {
                cu!(cuModuleLoadData(&raw mut held.module, VARIABLES.as_ptr().cast()))?;
                let mut found = 0;
                cu!(cuModuleGetGlobal_v2(address, &raw mut found, held.module, c"table".as_ptr()))?;
                anyhow::ensure!(found == bytes, "the variable has {found} bytes");
            }
            Kind::OfGraph => bail!("graphs allocate it"),
        }
        match kind {
            Kind::Device | Kind::Virtual | Kind::Managed => cu!(cuMemsetD8_v2(held.address, fill, bytes))?,
            Kind::Pitched => cu!(cuMemsetD2D8_v2(held.address, held.pitch, fill, width, rows))?,
            _ => {}
        }
        self.blocks.insert(id, held);
        if matches!(kind, Kind::Array { .. }) { self.fill_array(id, &block.bytes) } else { Ok(()) }
    }

    fn pool(&mut self, vgpu: usize) -> Result<sys::CUmemoryPool> {
        if self.vgpus[vgpu].pool.is_null() {
            let properties = sys::CUmemPoolProps {
                allocType: sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
                handleTypes: self.handle_types(),
                location: self.vgpus[vgpu].location(),
                win32SecurityAttributes: null_mut(),
                maxSize: 0,
                usage: 0,
                reserved: [0; 54],
            };
            cu!(cuMemPoolCreate(&raw mut self.vgpus[vgpu].pool, &raw const properties))?;
        }
        Ok(self.vgpus[vgpu].pool)
    }

    /// Physical memory at a reserved address.
    fn create(&self, held: &mut Held, bytes: usize) -> Result<()> {
        let properties = self.physical(held.vgpu);
        held.reserved = self.granules(held.vgpu, bytes)?;
        cu!(cuMemCreate(&raw mut held.handle, held.reserved, &raw const properties, 0))?;
        self.map(held)
    }

    /// The bytes that physical memory has at least.
    pub(super) fn granules(&self, vgpu: usize, bytes: usize) -> Result<usize> {
        let minimum = sys::CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_MINIMUM;
        let (properties, mut granularity) = (self.physical(vgpu), 0);
        cu!(cuMemGetAllocationGranularity(&raw mut granularity, &raw const properties, minimum))?;
        Ok(bytes.next_multiple_of(granularity))
    }

    pub(super) fn physical(&self, vgpu: usize) -> sys::CUmemAllocationProp {
        sys::CUmemAllocationProp {
            type_: sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
            requestedHandleTypes: self.handle_types(),
            location: self.vgpus[vgpu].location(),
            win32HandleMetaData: null_mut(),
            allocFlags: sys::CUmemAllocationProp_st__bindgen_ty_1 {
                compressionType: 0,
                gpuDirectRDMACapable: 0,
                usage: 0,
                reserved: [0; 4],
            },
        }
    }

    pub(super) fn map(&self, held: &mut Held) -> Result<()> {
        cu!(cuMemAddressReserve(&raw mut held.address, held.reserved, 0, 0, 0))?;
        cu!(cuMemMap(held.address, held.reserved, 0, held.handle, 0))?;
        let location = self.vgpus[held.vgpu].location();
        let flags = sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        let access = sys::CUmemAccessDesc { location, flags };
        cu!(cuMemSetAccess(held.address, held.reserved, &raw const access, 1))
    }

    fn remap(&mut self, id: Id) -> Result<()> {
        let mut held = self.blocks.remove(&id).context("no such block")?;
        self.enter(held.vgpu)?;
        cu!(cuMemUnmap(held.address, held.reserved))?;
        let old = held.address;
        self.map(&mut held)?;
        cu!(cuMemAddressFree(old, held.reserved))?;
        self.blocks.insert(id, held);
        Ok(())
    }

    fn register(&mut self, id: Id, model: &Model) -> Result<()> {
        let bytes = model.blocks[&id].bytes.len().next_multiple_of(PAGE);
        self.enter(self.blocks[&id].vgpu)?;
        let held = self.blocks.get_mut(&id).context("no such block")?;
        let flags =
            sys::CU_MEMHOSTREGISTER_PORTABLE | if model.can.mapped { sys::CU_MEMHOSTREGISTER_DEVICEMAP } else { 0 };
        cu!(cuMemHostRegister_v2(pointer(held.host), bytes, flags))?;
        held.is_registered = true;
        if model.can.mapped {
            cu!(cuMemHostGetDevicePointer_v2(&raw mut held.address, pointer(held.host), 0))?;
        }
        Ok(())
    }

    pub(super) fn unregister(&mut self, id: Id) -> Result<()> {
        self.enter(self.blocks[&id].vgpu)?;
        let held = self.blocks.get_mut(&id).context("no such block")?;
        held.is_registered = false;
        held.address = held.host;
        cu!(cuMemHostUnregister(pointer(held.host)))
    }

    pub(super) fn free(&mut self, id: Id, stream: Option<Stream>) -> Result<()> {
        let held = self.blocks.remove(&id).context("no such block")?;
        if let Some(stream) = stream {
            let handle = self.stream(stream)?;
            return cu!(cuMemFreeAsync(held.address, handle));
        }
        self.enter(held.vgpu)?;
        match held.kind {
            Kind::Pool { .. } => {
                let handle = self.stream(Stream { vgpu: held.vgpu, which: Which::Legacy })?;
                cu!(cuMemFreeAsync(held.address, handle))
            }
            Kind::Device if held.is_opened => cu!(cuIpcCloseMemHandle(held.address)),
            Kind::Device | Kind::Pitched | Kind::Managed => cu!(cuMemFree_v2(held.address)),
            Kind::Virtual => {
                cu!(cuMemUnmap(held.address, held.reserved))?;
                cu!(cuMemRelease(held.handle))?;
                cu!(cuMemAddressFree(held.address, held.reserved))
            }
            Kind::Pinned { .. } => cu!(cuMemFreeHost(pointer(held.host))),
            Kind::Array { .. } => self.destroy_array(&held),
            Kind::Variable => cu!(cuModuleUnload(held.module)),
            Kind::Pageable | Kind::OfGraph => Ok(()),
        }
    }

    fn reset(&mut self, vgpu: usize) -> Result<()> {
        self.enter(vgpu)?;
        cu!(cuDevicePrimaryCtxReset_v2(self.vgpus[vgpu].device))?;
        let released = cu!(cuDevicePrimaryCtxRelease_v2(self.vgpus[vgpu].device));
        let inactive = [sys::CUresult::CUDA_ERROR_INVALID_CONTEXT];
        released.or_else(|error| if is_code(&error, &inactive) { Ok(()) } else { Err(error) })?;
        for held in self.blocks.values_mut().filter(|held| held.vgpu == vgpu && held.is_registered) {
            held.is_registered = false;
            held.address = held.host;
        }
        self.blocks.retain(|_, held| held.vgpu != vgpu || held.kind == Kind::Pageable);
        self.streams.retain(|stream, _| stream.vgpu != vgpu);
        self.events.retain(|_, (of, _)| *of != vgpu);
        self.graphs.retain(|_, graph| graph.vgpu != vgpu);
        self.instances.retain(|_, instance| instance.vgpu != vgpu);
        self.vgpus[vgpu] = Vgpu::open(vgpu)?;
        self.current = vgpu;
        if self.peers { self.connect() } else { Ok(()) }
    }
}
