//! Calls about managed memory: attachments, prefetches to the host, variables. Addresses come in, checked against what this
//! process holds; what has no place without concurrent access the surface has refused before.

use std::sync::Arc;

use floe_abi::{CudaError, CudaResult, DevicePtr, Stream, attach_flags};

use crate::client::Client;
use crate::log::log;
use crate::memory::managed::Attachment;
use crate::objects::module::Loaded;
use crate::vgpu::Vgpu;
use floe_lock::lock;

impl Client {
    /// The vGPU that has this managed memory.
    fn managed_owner(&self, at: DevicePtr) -> CudaResult<&Arc<Vgpu>> {
        let owner = self.owner(at, None).filter(|vgpu| vgpu.managed.has(at));
        owner.ok_or(CudaError::INVALID_VALUE)
    }

    /// As `cuStreamAttachMemAsync` has it. The attachment holds at once, not when the stream gets there: earlier
    /// launches have the memory already.
    pub(crate) fn attach(&self, stream: Stream, at: DevicePtr, bytes: usize, flags: u32) -> CudaResult<()> {
        let named = self.working_stream(stream)?;
        let vgpu = self.managed_owner(at)?;
        let attached = match flags {
            // The default streams are no streams of their own.
            attach_flags::SINGLE if stream.is_default() => return Err(CudaError::INVALID_VALUE),
            attach_flags::SINGLE => Attachment::Single(named.id().0),
            _ => Attachment::at_first(flags)?,
        };
        let allocation = lock(vgpu.blocks_at(at)).find(at.0).map(|found| (found.at, found.bytes));
        let whole = allocation.or_else(|| vgpu.global_at(at).map(|range| (range.start, range.end - range.start)));
        let is_whole = |(start, length): (u64, u64)| start == at.0 && (bytes == 0 || bytes as u64 == length);
        if !whole.is_some_and(is_whole) || !Arc::ptr_eq(vgpu, &named.vgpu) {
            return Err(CudaError::INVALID_VALUE);
        }
        vgpu.attach_managed(at, attached);
        Ok(())
    }

    /// Makes managed memory readable here, behind all work so far.
    pub(crate) fn prefetch_to_host(&self, at: DevicePtr, bytes: usize, stream: Stream) -> CudaResult<()> {
        self.working_stream(stream)?;
        let vgpu = self.managed_owner(at)?;
        vgpu.prefetch_managed(&(at.0..at.0 + bytes as u64))
    }

    /// Address and bytes of a variable; the program can touch a managed one from now on.
    pub(crate) fn variable(&self, loaded: &Loaded, name: &str) -> CudaResult<(u64, u64)> {
        let (at, bytes) = loaded.global(name)?;
        if loaded.is_managed(name) {
            let copiers = self.copiers()?;
            loaded.vgpu().hold_variable(&(at..at + bytes), copiers).inspect_err(|error| {
                log!(Warn, "a managed variable cannot be at its address in this process: {name}: {at:#x}: {error}");
            })?;
        }
        Ok((at, bytes))
    }
}
