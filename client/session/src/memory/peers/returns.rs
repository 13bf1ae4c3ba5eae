//! Blocks on their way back to the vGPU that owns them. Frees, resets and completed work come in; posts that unmap and release go
//! out, behind all work of the importer that may use them, and ahead of the owner's own release.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use floe_abi::{CudaError, CudaResult};
use floe_wire::{BlockId, DevicePtr, ReleaseBlock, UnmapRange};

use super::imports::Import;
use crate::vgpu::Vgpu;
use crate::vgpu::order::Fence;
use floe_lock::lock;

/// How long an allocation waits for memory that others have just returned: the owner's worker hears of it by the daemon.
const PAUSES_MS: [u64; 6] = [1, 4, 16, 64, 256, 512];

impl Vgpu {
    /// A fence behind everything issued so far that may use memory at this address: by any vGPU that has its block.
    pub(crate) fn fence_of(&self, at: u64) -> Fence {
        let importers = self.others().filter(|other| lock(&other.peers.imports).find(at).is_some());
        importers.fold(self.order.fence(), |fence, importer| fence.and(importer.order.fence()))
    }

    /// A fence behind everything issued so far by this vGPU and all that have a block of its.
    pub(crate) fn fence_of_all(&self) -> Fence {
        self.importers().fold(self.order.fence(), |fence, importer| fence.and(importer.order.fence()))
    }

    /// The vGPUs that have a block of this one.
    fn importers(&self) -> impl Iterator<Item = Arc<Self>> {
        self.others().filter(|other| lock(&other.peers.imports).any_of(self.ordinal))
    }

    /// A number that changes when any stream is known to have come further which a fence may wait for.
    pub(crate) fn news(&self) -> u64 {
        self.others().fold(self.order.news(), |news, other| news.wrapping_add(other.order.news()))
    }

    /// Waits for all work that may use this vGPU's memory elsewhere.
    pub(crate) fn synchronize_importers(&self) {
        // A failure of theirs is reported by calls on them.
        for importer in self.importers() {
            let _ = importer.synchronize();
        }
    }

    /// Has a block that begins here returned by all who imported it. Nothing of theirs uses it any more.
    pub(crate) fn take_back(&self, at: u64) -> CudaResult<()> {
        for other in self.others() {
            let import = lock(&other.peers.imports).take(at);
            if let Some(import) = import {
                self.peers.note_return();
                // A session that is over has returned everything.
                let _ = other.unmap_import(&import);
            }
        }
        Ok(())
    }

    fn unmap_import(&self, import: &Import) -> CudaResult<()> {
        self.connection.post(&UnmapRange { at: DevicePtr(import.at), bytes: import.bytes })?;
        self.connection.post(&ReleaseBlock { block: BlockId(import.block) }).map(drop)
    }

    /// Unmaps what has been given up and is not used any more.
    pub(crate) fn unmap_returned(&self) -> CudaResult<()> {
        if !self.has_others() {
            return Ok(());
        }
        let mut imports = lock(&self.peers.imports);
        if !imports.any_leaves() {
            return Ok(());
        }
        // Posted under the lock: a new import at these addresses comes behind it.
        imports.collect(Fence::is_passed).iter().try_for_each(|import| self.unmap_import(import))
    }

    /// Makes sure that nothing given up is mapped in a range.
    pub(super) fn clear_the_way(&self, range: &Range<u64>) -> CudaResult<()> {
        self.unmap_returned()?;
        if !lock(&self.peers.imports).leaves(range) {
            return Ok(());
        }
        self.synchronize()?;
        self.unmap_returned()
    }

    /// Tries for memory again until what others have just returned has come back.
    pub(crate) fn behind_returns<T>(&self, attempt: impl Fn() -> CudaResult<T>) -> CudaResult<T> {
        let mut outcome = attempt();
        if !self.peers.take_returns() {
            return outcome;
        }
        for pause in PAUSES_MS.map(Duration::from_millis) {
            if !matches!(outcome, Err(CudaError::OUT_OF_MEMORY)) {
                break;
            }
            for other in self.others() {
                let _ = other.catch_up();
            }
            std::thread::sleep(pause);
            outcome = attempt();
        }
        outcome
    }

    /// Asks for memory that is not the allocator's. Where there is none, it asks again when all that was freed has come back.
    pub(crate) fn with_room<T>(&self, attempt: impl Fn() -> CudaResult<T>) -> CudaResult<T> {
        match attempt() {
            Err(CudaError::OUT_OF_MEMORY) => {}
            outcome => return outcome,
        }
        self.give_back_all_freed()?;
        self.behind_returns(attempt)
    }

    /// Gives the server all that was freed: what is in quarantine, also by other vGPUs, and blocks that lie idle.
    pub(crate) fn give_back_all_freed(&self) -> CudaResult<()> {
        self.synchronize()?;
        self.synchronize_importers();
        self.trim(0)
    }

    /// Everything of this vGPU goes: its pages and ticket, what it has of others, what others have of it. A link that has
    /// failed is what the next call reports.
    pub(crate) fn leave_peers(&self) {
        self.leave_signals();
        if let Some(ticket) = lock(&self.peers.ticket).take() {
            let _ = self.withdraw(&ticket);
        }
        self.leave_mappings();
        lock(&self.peers.imports).clear();
        lock(&self.peers.accessors).clear();
        for other in self.others() {
            lock(&other.peers.accessors).remove(&self.ordinal);
            let fence = other.order.fence();
            lock(&other.peers.imports).leave(self.ordinal, &fence);
            let _ = other.unmap_returned();
        }
    }

    /// Mappings of this vGPU's memory in other windows are no more, nor those of others' memory in its own.
    fn leave_mappings(&self) {
        for other in self.others() {
            lock(&other.virtual_memory).mappings.retain(|_, mapping| mapping.owner != self.ordinal);
            let here: Vec<_> = {
                let memory = lock(&self.virtual_memory);
                let of_other = memory.mappings.iter().filter(|(_, mapping)| mapping.owner == other.ordinal);
                of_other.map(|(at, mapping)| (*at, mapping.clone())).collect()
            };
            if !here.is_empty() {
                let _ = other.synchronize();
                other.synchronize_importers();
            }
            here.iter().for_each(|(at, mapping)| {
                let _ = other.unmap_mapping(*at, mapping);
            });
        }
    }
}
