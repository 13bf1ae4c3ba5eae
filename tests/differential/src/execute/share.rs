//! Memory that other vGPUs get access to, and what other processes open, by the driver's functions.
//! In: blocks, events and vGPUs. Out: calls, and what one process passes to another. It never opens what the model has
//! not admitted.

use std::os::fd::{AsRawFd as _, OwnedFd};
use std::ptr::null_mut;

use anyhow::{Context as _, Result, bail};
use cudarc::driver::sys;

use super::held::Held;
use super::state::Executor;
use crate::device::{adopt, cu, ipc_bytes, ipc_words, pointer};
use crate::model::Model;
use crate::operation::{Id, Kind, Operation};

pub(super) const DESCRIPTOR: sys::CUmemAllocationHandleType =
    sys::CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
pub(super) const FABRIC: sys::CUmemAllocationHandleType = sys::CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_FABRIC;

/// What one process passes to another.
#[derive(Debug)]
pub(crate) struct Passed {
    pub(crate) bytes: [u8; 64],
    pub(crate) descriptor: Option<OwnedFd>,
}

impl Executor {
    /// The kinds of handles by which memory goes to other processes.
    pub(super) fn handle_types(&self) -> sys::CUmemAllocationHandleType {
        match self.process {
            Some(_) if self.has_fabric => sys::CUmemAllocationHandleType_enum(DESCRIPTOR.0 | FABRIC.0),
            Some(_) => DESCRIPTOR,
            None => sys::CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE,
        }
    }

    /// Whether memory has fabric handles here. NVIDIA's driver says that it has them, and makes none for a process that has
    /// no channel of its service for them (`/dev/nvidia-caps-imex-channels`).
    pub(super) fn makes_fabric_handles(&mut self, vgpu: usize) -> Result<bool> {
        let ask = sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED;
        let (mut says, mut handle) = (0, 0);
        cu!(cuDeviceGetAttribute(&raw mut says, ask, self.vgpus[vgpu].device))?;
        if says == 0 {
            return Ok(false);
        }
        self.enter(vgpu)?;
        let bytes = self.granules(vgpu, 1)?;
        let properties = sys::CUmemAllocationProp { requestedHandleTypes: FABRIC, ..self.physical(vgpu) };
        if cu!(cuMemCreate(&raw mut handle, bytes, &raw const properties, 0)).is_err() {
            return Ok(false);
        }
        cu!(cuMemRelease(handle)).map(|()| true)
    }

    /// Access to one block, or to the pool that it is from.
    pub(super) fn grant(&mut self, block: Id, vgpu: usize, has_access: bool) -> Result<()> {
        let owner = self.blocks[&block].vgpu;
        self.enter(owner)?;
        let held = &self.blocks[&block];
        let (kind, address, reserved) = (held.kind, held.address, held.reserved);
        let flags = if has_access {
            sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        } else {
            sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_NONE
        };
        let location = |vgpu: usize| self.vgpus[vgpu].location();
        match kind {
            Kind::Virtual if has_access => {
                let of_owner = sys::CUmemAccessDesc { location: location(owner), flags };
                let both = [of_owner, sys::CUmemAccessDesc { location: location(vgpu), flags }];
                cu!(cuMemSetAccess(address, reserved, both.as_ptr(), both.len()))
            }
            Kind::Virtual => {
                let of_other = sys::CUmemAccessDesc { location: location(vgpu), flags };
                cu!(cuMemSetAccess(address, reserved, &raw const of_other, 1))
            }
            Kind::Pool { own, .. } => {
                let mut pool = self.vgpus[owner].pool;
                if !own {
                    cu!(cuDeviceGetMemPool(&raw mut pool, self.vgpus[owner].device))?;
                }
                let of_other = sys::CUmemAccessDesc { location: location(vgpu), flags };
                cu!(cuMemPoolSetAccess(pool, &raw const of_other, 1))
            }
            other => bail!("no access is given to one block of this kind: {other:?}"),
        }
    }
    /// What another process needs to open this.
    pub(crate) fn give(&mut self, operation: &Operation) -> Result<Passed> {
        match operation {
            Operation::OpenEvent { event, .. } => {
                let (vgpu, event) = self.events[event];
                self.enter(vgpu)?;
                let mut handle = sys::CUipcEventHandle { reserved: [0; 64] };
                cu!(cuIpcGetEventHandle(&raw mut handle, event))?;
                Ok(Passed { bytes: ipc_bytes(handle.reserved), descriptor: None })
            }
            Operation::Open { block, .. } => self.give_block(*block),
            other => bail!("nothing is passed for this: {other:?}"),
        }
    }

    fn give_block(&mut self, block: Id) -> Result<Passed> {
        let held = &self.blocks[&block];
        let (kind, vgpu, address, physical) = (held.kind, held.vgpu, held.address, held.handle);
        self.enter(vgpu)?;
        let (mut bytes, mut number) = ([0; 64], -1_i32);
        let place = (&raw mut number).cast();
        match kind {
            Kind::Device => {
                let mut handle = sys::CUipcMemHandle { reserved: [0; 64] };
                cu!(cuIpcGetMemHandle(&raw mut handle, address))?;
                bytes = ipc_bytes(handle.reserved);
            }
            // One in two: the same memory by both, by turns.
            Kind::Virtual if self.has_fabric && block % 2 == 1 => {
                cu!(cuMemExportToShareableHandle(bytes.as_mut_ptr().cast(), physical, FABRIC, 0))?;
            }
            Kind::Virtual => cu!(cuMemExportToShareableHandle(place, physical, DESCRIPTOR, 0))?,
            Kind::Pool { .. } => {
                let mut handle = sys::CUmemPoolPtrExportData { reserved: [0; 64] };
                cu!(cuMemPoolExportToShareableHandle(place, self.vgpus[vgpu].pool, DESCRIPTOR, 0))?;
                cu!(cuMemPoolExportPointer(&raw mut handle, address))?;
                bytes = handle.reserved;
            }
            other => bail!("no process opens this kind: {other:?}"),
        }
        Ok(Passed { bytes, descriptor: (number >= 0).then(|| adopt(number)) })
    }

    /// Opens what another process has passed.
    pub(crate) fn take(&mut self, operation: &Operation, passed: &Passed, model: &Model) -> Result<()> {
        match *operation {
            Operation::OpenEvent { event, vgpu } => {
                self.enter(vgpu)?;
                let (mut made, handle) = (null_mut(), sys::CUipcEventHandle { reserved: ipc_words(passed.bytes) });
                cu!(cuIpcOpenEventHandle(&raw mut made, handle))?;
                self.events.insert(event, (vgpu, made));
                Ok(())
            }
            Operation::Open { block, vgpu } => self.take_block(block, vgpu, passed, model),
            _ => bail!("nothing is passed for this: {operation:?}"),
        }
    }

    fn take_block(&mut self, id: Id, vgpu: usize, passed: &Passed, model: &Model) -> Result<()> {
        self.enter(vgpu)?;
        let block = &model.blocks[&id];
        let mut held = Held::new(block.kind, vgpu, block.width, block.height());
        held.is_opened = true;
        let number = || -> Result<*mut std::ffi::c_void> {
            let descriptor = passed.descriptor.as_ref().context("no descriptor")?;
            Ok(pointer(u64::try_from(descriptor.as_raw_fd())?))
        };
        match block.kind {
            Kind::Device => {
                let handle = sys::CUipcMemHandle { reserved: ipc_words(passed.bytes) };
                cu!(cuIpcOpenMemHandle_v2(&raw mut held.address, handle, 1))?;
            }
            Kind::Virtual => {
                held.reserved = self.granules(vgpu, block.bytes.len())?;
                if passed.descriptor.is_some() {
                    cu!(cuMemImportFromShareableHandle(&raw mut held.handle, number()?, DESCRIPTOR))?;
                } else {
                    let handle = (&raw const passed.bytes).cast_mut().cast();
                    cu!(cuMemImportFromShareableHandle(&raw mut held.handle, handle, FABRIC))?;
                }
                self.map(&mut held)?;
            }
            Kind::Pool { .. } => {
                let mut pool = null_mut();
                let mut handle = sys::CUmemPoolPtrExportData { reserved: passed.bytes };
                cu!(cuMemPoolImportFromShareableHandle(&raw mut pool, number()?, DESCRIPTOR, 0))?;
                let flags = sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
                let access = sys::CUmemAccessDesc { location: self.vgpus[vgpu].location(), flags };
                cu!(cuMemPoolSetAccess(pool, &raw const access, 1))?;
                cu!(cuMemPoolImportPointer(&raw mut held.address, pool, &raw mut handle))?;
            }
            other => bail!("no process opens this kind: {other:?}"),
        }
        self.blocks.insert(id, held);
        Ok(())
    }

    /// Closes what this process has opened.
    pub(super) fn close(&mut self, block: Id) -> Result<()> {
        self.free(block, None)
    }
}
