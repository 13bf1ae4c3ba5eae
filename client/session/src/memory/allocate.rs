//! A vGPU's memory, cut from blocks: sizes come in, addresses go out; creating a block is the only thing that waits. A
//! freed range is reused only when all work issued before the free is over. A block that is not worth keeping goes back
//! to the server.

use std::sync::Mutex;
use std::sync::atomic::Ordering;

use floe_abi::{Context, CudaError, CudaResult, DevicePtr, access_flags};
use floe_wire::{BlockId, Call, CreateBlock, LibraryId, MapBlock, MemoryInfo, ReleaseBlock, UnloadLibrary, UnmapRange};

use crate::memory::blocks::early::{Asked, MOST_BLOCKS, may_be_shared};
use crate::memory::blocks::{Blocks, Plan, Whole};
use crate::vgpu::Vgpu;
use crate::vgpu::order::Fence;
use floe_lock::lock;

/// Bytes of blocks that are asked for early; of a vGPU's memory they are at most a quarter.
const MOST_EARLY: u64 = 1 << 30;

impl Vgpu {
    /// Allocates device memory for `owner`. `stream` as [`crate::memory::blocks::Blocks::allocate`] has it.
    ///
    /// # Errors
    /// OUT_OF_MEMORY when quota, device or window has no more even after everything freed has come back.
    pub(crate) fn allocate(&self, bytes: u64, owner: Context, stream: Option<u64>) -> CudaResult<DevicePtr> {
        self.allocate_from(&self.blocks, bytes, owner, stream)
    }

    /// The same from these blocks.
    pub(crate) fn allocate_from(
        &self,
        blocks: &Mutex<Blocks<Fence>>,
        bytes: u64,
        owner: Context,
        stream: Option<u64>,
    ) -> CudaResult<DevicePtr> {
        if bytes == 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        self.collect()?;
        self.count_allocation()?;
        if let Some(at) = lock(blocks).allocate(bytes, owner.0, stream) {
            return Ok(DevicePtr(at));
        }
        match self.grow(blocks, bytes, owner) {
            Err(CudaError::OUT_OF_MEMORY) => {}
            result => return result,
        }
        // Idle blocks may be of the wrong size.
        self.give_back_all_freed()?;
        if let Some(at) = lock(blocks).allocate(bytes, owner.0, stream) {
            return Ok(DevicePtr(at));
        }
        self.behind_returns(|| self.grow(blocks, bytes, owner))
    }

    /// Creates a block that holds `bytes`, a comfortable one or else the smallest.
    fn grow(&self, blocks: &Mutex<Blocks<Fence>>, bytes: u64, owner: Context) -> CudaResult<DevicePtr> {
        let plan = lock(blocks).plan(bytes);
        match self.create(blocks, plan, bytes, owner) {
            Err(CudaError::OUT_OF_MEMORY) => {}
            result => return result,
        }
        let tight = lock(blocks).plan_tight(bytes);
        // The same size would be refused again.
        match (plan, tight) {
            (Some(plan), Some(tight)) if plan.bytes == tight.bytes => {
                lock(blocks).cancel(tight);
                Err(CudaError::OUT_OF_MEMORY)
            }
            _ => self.create(blocks, tight, bytes, owner),
        }
    }

    fn create(
        &self,
        blocks: &Mutex<Blocks<Fence>>,
        plan: Option<Plan>,
        bytes: u64,
        owner: Context,
    ) -> CudaResult<DevicePtr> {
        let plan = plan.ok_or(CudaError::OUT_OF_MEMORY)?;
        let is_managed = std::ptr::eq(blocks, &self.managed.blocks);
        let early = if is_managed { None } else { self.take_early(plan.bytes)? };
        let (plan, id, made) = match early {
            Some((there, id)) => {
                lock(blocks).cancel(plan);
                (there, id, Ok(()))
            }
            None => {
                let id = self.next_id();
                (plan, id, self.call(&CreateBlock { block: BlockId(id), bytes: plan.bytes }).map(drop))
            }
        };
        let made = made.and_then(|()| {
            self.connection.post(&MapBlock {
                block: BlockId(id),
                offset: 0,
                at: DevicePtr(plan.at),
                bytes: plan.bytes,
                access: access_flags::READWRITE,
            })
        });
        let gate = self.gate();
        let whole = Whole { block: id, at: plan.at, bytes: plan.bytes };
        let made = match gate.as_deref() {
            Some(accessors) if !is_managed => made.and_then(|_| self.give_to_accessors(accessors, whole)),
            _ => made.map(drop),
        };
        if !is_managed && made.is_ok() {
            self.early.note(plan.bytes);
        }
        let mut blocks = lock(blocks);
        match made {
            Ok(_) => blocks.add(plan, id, bytes, owner.0).map(DevicePtr).ok_or(CudaError::OUT_OF_MEMORY),
            Err(error) => {
                blocks.cancel(plan);
                Err(error)
            }
        }
    }

    /// Free and total bytes, with what the allocator holds in reserve counted as free.
    pub(crate) fn info(&self) -> CudaResult<(u64, u64)> {
        self.give_up_arrays()?;
        let answer = self.call(&MemoryInfo {})?;
        let reply = self.connection.read(MemoryInfo::decode_reply(&answer.body))?;
        let idle = lock(&self.blocks).idle_bytes() + lock(&self.managed.blocks).idle_bytes() + self.early.bytes();
        Ok((reply.free.saturating_add(idle).min(reply.total), reply.total))
    }

    /// Gives freed memory back to the allocator, and to the server what is not worth keeping, where streams have come
    /// further since the last time.
    pub(crate) fn collect(&self) -> CudaResult<()> {
        self.give_up_arrays()?;
        self.unmap_closed()?;
        let news = self.news();
        let known = self.collected_news.swap(news, Ordering::Relaxed) == news;
        self.unmap_returned()?;
        [&self.blocks, &self.managed.blocks].into_iter().try_for_each(|blocks| self.collect_from(blocks, known))
    }

    /// `known`: no stream has come further since the last time.
    fn collect_from(&self, blocks: &Mutex<Blocks<Fence>>, known: bool) -> CudaResult<()> {
        let _gate = self.gate();
        let mut blocks = lock(blocks);
        if !blocks.has_quarantined() && known {
            return Ok(());
        }
        let surplus = blocks.collect(Fence::is_passed);
        // Posted under the lock: another thread may get these addresses for a new block right after it.
        surplus.iter().try_for_each(|block| self.give_up(block))
    }

    /// Gives every unused block back to the server.
    pub(crate) fn trim(&self, keep: u64) -> CudaResult<()> {
        self.give_up_early()?;
        self.unload_early()?;
        self.collect()?;
        for blocks in [&self.blocks, &self.managed.blocks] {
            let _gate = self.gate();
            let mut blocks = lock(blocks);
            let surplus = blocks.surplus(keep);
            surplus.iter().try_for_each(|block| self.give_up(block))?;
        }
        Ok(())
    }

    /// Gives a block back to the server, behind those who imported it.
    fn give_up(&self, surplus: &Whole) -> CudaResult<()> {
        self.take_back(surplus.at)?;
        self.connection.post(&UnmapRange { at: DevicePtr(surplus.at), bytes: surplus.bytes })?;
        self.connection.post(&ReleaseBlock { block: BlockId(surplus.block) })?;
        Ok(())
    }
}

impl Vgpu {
    /// Asks for blocks of these sizes, as far as that is not too much.
    pub(crate) fn ask_blocks(&self, sizes: &[u64]) -> CudaResult<()> {
        let (most, mut all) = (MOST_EARLY.min(self.snapshot.memory / 4), 0_u64);
        for bytes in sizes.iter().take(MOST_BLOCKS) {
            all = all.saturating_add(*bytes);
            if all > most {
                break;
            }
            let Some(plan) = lock(&self.blocks).plan_exactly(*bytes) else { break };
            let id = self.next_id();
            let ticket = self.connection.ask_early(&CreateBlock { block: BlockId(id), bytes: plan.bytes })?;
            let may_be_shared = may_be_shared(plan.bytes, self.snapshot.memory);
            self.early.expect(Asked { plan, id, ticket, may_be_shared });
        }
        Ok(())
    }

    /// A block of this size that was asked for, once it is there. Where the server has refused it, the others go back: it is short
    /// of memory.
    pub(crate) fn take_early(&self, bytes: u64) -> CudaResult<Option<(Plan, u64)>> {
        let Some(Asked { plan, id, ticket, .. }) = self.early.take(bytes) else { return Ok(None) };
        if self.connection.arrived(&ticket)?.status == 0 {
            return Ok(Some((plan, id)));
        }
        lock(&self.blocks).cancel(plan);
        self.give_up_early()?;
        Ok(None)
    }

    /// The program allocates: behind its beginning, what it has not taken goes back.
    pub(crate) fn count_allocation(&self) -> CudaResult<()> {
        let is_over = self.far.is_on() && self.early.count_allocation();
        if is_over { self.give_up_early() } else { Ok(()) }
    }

    /// Gives back what was asked for.
    pub(crate) fn give_up_early(&self) -> CudaResult<()> {
        for Asked { plan, id, ticket, .. } in self.early.take_all() {
            if self.connection.arrived(&ticket)?.status == 0 {
                self.connection.post(&ReleaseBlock { block: BlockId(id) })?;
            }
            lock(&self.blocks).cancel(plan);
        }
        Ok(())
    }

    /// Unloads libraries that were asked for and that the program has not brought.
    fn unload_early(&self) -> CudaResult<()> {
        let mut libraries = self.early.libraries();
        for id in std::mem::take(&mut *libraries) {
            self.connection.post(&UnloadLibrary { library: LibraryId(id) })?;
        }
        Ok(())
    }

    /// The server has given everything up.
    pub(crate) fn forget_early(&self) {
        self.early.libraries().clear();
        self.early.take_all().into_iter().for_each(|asked| lock(&self.blocks).cancel(asked.plan));
    }
}
