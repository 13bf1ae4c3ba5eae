//! Physical memory and where it lies in the windows of the program's vGPUs.
//! In: blocks by id, ranges of windows. Out: driver calls, and how much the session holds.
//! The quota is charged at the block; what else is charged stands where it is made, and in `ledger`.

use floe_abi::{CudaError, MemHandle};
use floe_device::Device;
use floe_wire::{
    BlockId, CreateBlock, DevicePtr, MapBlock, MemoryInfo, MemoryInfoReply, MemoryRequests, ReleaseBlock, SetAccess,
    UnmapRange,
};

use super::{Answer, Issuer, body};
use crate::issue::fault::{Fault, violation};
use crate::issue::objects::block::{Adopted, Block, Mapping};
use crate::memory::budget::cost;
use crate::memory::window::Window;

/// `CUmemAccess_flags`: none, read, read and write.
const ACCESS: [u32; 3] = [0, 1, 3];

impl<D: Device> MemoryRequests for Issuer<D> {
    fn create_block(&mut self, message: CreateBlock) -> Result<Answer, Fault> {
        let CreateBlock { block, bytes } = message;
        self.blocks.check_new(block.0)?;
        if bytes == 0 || !bytes.is_multiple_of(self.allowance.granularity) {
            return violation(format!("not a multiple of the granularity {}: {bytes}", self.allowance.granularity));
        }
        let adopted = self.adopted.remove(&block.0).filter(|adopted| adopted.bytes == bytes);
        let (adopted, file) = adopted.map(|Adopted { memory, file, .. }| (memory, file)).unzip();
        let memory = self.charged(bytes, |device| adopted.map_or_else(|| device.create_memory(bytes), Ok))?;
        self.shared.hub.offer_block(block.0, memory, bytes, file.flatten());
        self.blocks.bind(block.0, Ok(Block { memory, bytes, mappings: 0, released: false }));
        body(&())
    }

    fn release_block(&mut self, message: ReleaseBlock) -> Result<Answer, Fault> {
        let block = self.live_block(message.block)?;
        block.released = true;
        let (memory, mappings) = (block.memory, block.mappings);
        self.shared.hub.close_block(message.block.0);
        if mappings == 0 {
            self.forget_block(message.block)?;
        }
        self.device().mem_release(memory)?;
        Ok(Answer::Nothing)
    }

    fn map_block(&mut self, message: MapBlock) -> Result<Answer, Fault> {
        let MapBlock { block: id, offset, at, bytes, access } = message;
        let window = self.allowance.windows.demand(at, bytes)?;
        demand_access(access)?;
        let block = self.live_block(id)?;
        if offset.checked_add(bytes).is_none_or(|end| end > block.bytes) {
            return violation(format!("{bytes} bytes from {offset} of a block of: {}", block.bytes));
        }
        let memory = block.memory;
        self.reserve(window)?;
        self.allowance.budget.take(cost::MAPPING)?;
        let mapped = self.map(memory, &message);
        if mapped.is_err() {
            self.allowance.budget.give(cost::MAPPING);
            return mapped.map(|()| Answer::Nothing);
        }
        self.blocks.get_mut(id.0)?.mappings += 1;
        self.mappings.insert(at.0, Mapping { bytes, block: id, offset });
        Ok(Answer::Nothing)
    }

    fn set_access(&mut self, message: SetAccess) -> Result<Answer, Fault> {
        let SetAccess { at, bytes, access } = message;
        self.allowance.windows.demand_reserved(at, bytes)?;
        demand_access(access)?;
        self.device().set_access(at, bytes, access)?;
        Ok(Answer::Nothing)
    }

    fn unmap_range(&mut self, message: UnmapRange) -> Result<Answer, Fault> {
        let UnmapRange { at, bytes } = message;
        self.allowance.windows.demand_reserved(at, bytes)?;
        for start in self.whole_mappings(at, bytes)? {
            self.unmap(start)?;
        }
        Ok(Answer::Nothing)
    }

    fn memory_info(&mut self, _: MemoryInfo) -> Result<Answer, Fault> {
        let (free, total) = self.device().mem_get_info()?;
        let (free, total) = self.allowance.ledger.memory_info(free as u64, total as u64);
        body(&MemoryInfoReply { free, total })
    }
}

impl<D: Device> Issuer<D> {
    /// Makes what takes `bytes` of the device's memory, where the session may have them.
    pub(super) fn charged<T>(&mut self, bytes: u64, make: impl FnOnce(&D) -> Result<T, CudaError>) -> Result<T, Fault> {
        self.allowance.ledger.take(bytes)?;
        let made = make(self.device());
        if made.is_err() {
            self.allowance.ledger.give(bytes);
        }
        Ok(made?)
    }

    fn live_block(&mut self, id: BlockId) -> Result<&mut Block, Fault> {
        let block = self.blocks.get_mut(id.0)?;
        if block.released {
            return violation(format!("the block is released: {}", id.0));
        }
        Ok(block)
    }

    /// A released block's last mapping is gone: its memory is the device's again.
    fn forget_block(&mut self, id: BlockId) -> Result<(), Fault> {
        // What others hold of it is paid for beside the ledger, before the ledger gives it back.
        let own = self.shared.hub.end_block(id.0);
        if let Some(block) = self.blocks.remove(id.0)?.filter(|_| own) {
            self.allowance.ledger.give(block.bytes);
        }
        Ok(())
    }

    /// Reserves the window of another vGPU of the program, whose memory is mapped there.
    fn reserve(&mut self, window: Window) -> Result<(), Fault> {
        if self.allowance.windows.is_reserved(window) {
            return Ok(());
        }
        let at = self.device().reserve(window.bytes, DevicePtr(window.base))?;
        if at.0 != window.base {
            let words = format!("the driver has no {:#x} bytes of addresses at {:#x}", window.bytes, window.base);
            return Err(Fault::Explained(CudaError::OUT_OF_MEMORY, words));
        }
        self.allowance.windows.reserve(window);
        Ok(())
    }

    fn map(&self, memory: MemHandle, message: &MapBlock) -> Result<(), Fault> {
        let MapBlock { offset, at, bytes, access, .. } = *message;
        self.device().map(at, bytes, offset, memory)?;
        if access != 0
            && let Err(error) = self.device().set_access(at, bytes, access)
        {
            // The first error is the one to tell.
            let _ = self.device().unmap(at, bytes);
            return Err(error.into());
        }
        Ok(())
    }

    /// The starts of the mappings that fill the range exactly; the program's error when they do not.
    fn whole_mappings(&self, at: DevicePtr, bytes: u64) -> Result<Vec<u64>, Fault> {
        // The window's check has shown that this does not overflow.
        let end = at.0 + bytes;
        let mut next = at.0;
        let mut starts = Vec::new();
        for (start, mapping) in self.mappings.range(at.0..end) {
            if *start == next {
                starts.push(*start);
                next = start + mapping.bytes;
            }
        }
        if next == end { Ok(starts) } else { Err(CudaError::INVALID_VALUE.into()) }
    }

    fn unmap(&mut self, start: u64) -> Result<(), Fault> {
        let Some(mapping) = self.mappings.get(&start) else { return Ok(()) };
        let (bytes, id) = (mapping.bytes, mapping.block);
        self.device().unmap(DevicePtr(start), bytes)?;
        self.mappings.remove(&start);
        self.allowance.budget.give(cost::MAPPING);
        let block = self.blocks.get_mut(id.0)?;
        block.mappings -= 1;
        if block.released && block.mappings == 0 {
            self.forget_block(id)?;
        }
        Ok(())
    }

    /// Unmaps and releases everything; errors of a context beyond use do not matter, it goes with the memory.
    pub(super) fn drop_memory(&mut self) {
        for start in self.mappings.keys().copied().collect::<Vec<_>>() {
            let _ = self.unmap(start);
        }
        self.allowance.budget.give(cost::MAPPING * self.mappings.len() as u64);
        self.mappings.clear();
        for id in self.blocks.ids() {
            self.shared.hub.close_block(id);
            self.shared.hub.end_block(id);
        }
        for block in self.blocks.drain().filter(|block| !block.released) {
            let _ = self.shared.device.mem_release(block.memory);
        }
        self.allowance.ledger.clear();
    }
}

fn demand_access(access: u32) -> Result<(), Fault> {
    if ACCESS.contains(&access) { Ok(()) } else { violation(format!("unknown access: {access}")) }
}
