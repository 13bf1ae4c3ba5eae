//! Memory that other vGPUs get access to, by the driver's functions.
//! In: blocks and vGPUs. Out: calls. It never opens what the model has not admitted.

use anyhow::{Result, bail};
use cudarc::driver::sys;

use super::state::Executor;
use crate::device::cu;
use crate::operation::{Id, Kind};

impl Executor {
    /// Access to one block, or to the pool that it is from.
    pub(super) fn grant(&mut self, block: Id, vgpu: usize, has_access: bool) -> Result<()> {
        let held = &self.blocks[&block];
        let (kind, owner, address, reserved) = (held.kind, held.vgpu, held.address, held.reserved);
        let flags = if has_access {
            sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        } else {
            sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_NONE
        };
        let location = |vgpu: usize| -> Result<sys::CUmemLocation> {
            let type_ = sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
            Ok(sys::CUmemLocation { type_, id: i32::try_from(vgpu)? })
        };
        self.enter(owner)?;
        match kind {
            Kind::Virtual if has_access => {
                let of_owner = sys::CUmemAccessDesc { location: location(owner)?, flags };
                let both = [of_owner, sys::CUmemAccessDesc { location: location(vgpu)?, flags }];
                cu!(cuMemSetAccess(address, reserved, both.as_ptr(), both.len()))
            }
            Kind::Virtual => {
                let of_other = sys::CUmemAccessDesc { location: location(vgpu)?, flags };
                cu!(cuMemSetAccess(address, reserved, &raw const of_other, 1))
            }
            Kind::Pool { own, .. } => {
                let mut pool = self.vgpus[owner].pool;
                if !own {
                    cu!(cuDeviceGetMemPool(&raw mut pool, self.vgpus[owner].device))?;
                }
                let of_other = sys::CUmemAccessDesc { location: location(vgpu)?, flags };
                cu!(cuMemPoolSetAccess(pool, &raw const of_other, 1))
            }
            other => bail!("no access is given to one block of this kind: {other:?}"),
        }
    }
}
