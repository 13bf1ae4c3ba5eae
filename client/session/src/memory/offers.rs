//! Memory of this process that is offered to a worker of this machine, so that its device copies from and to it by itself. Blocks
//! come in when they are allocated or first used with a vGPU; whether the worker has them goes out. Memory that it
//! cannot have stays ordinary pinned memory, whose bytes travel.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use floe_abi::CudaResult;
use floe_wire::{Call as _, MapShared, ShareMemory, UnmapShared};

use super::sharing::Pages;
use crate::log::log;
use crate::memory::arena::Arena;
use crate::memory::host_memory::{PLACES, PinnedRange};
use crate::vgpu::Vgpu;

impl Vgpu {
    /// Whether the worker takes memory of this process.
    pub(crate) fn shares(&self) -> bool {
        *self.sharing.agreed.get_or_init(|| {
            let connection = &self.connection;
            let Some(arena) = Some(()).filter(|()| connection.carries_descriptors()).and_then(|()| Arena::of_process())
            else {
                return false;
            };
            let message = ShareMemory { at: floe_wire::DevicePtr(PLACES), bytes: arena.bytes() };
            match connection.ask_with(&message, arena.file()) {
                Ok(answer) if answer.status == 0 => true,
                Ok(answer) => {
                    let why = floe_wire::printable(answer.detail.trim_end());
                    log!(Info, "pinned memory is not shared with the server: {why}");
                    false
                }
                Err(_) => false,
            }
        })
    }

    /// The worker's access to pinned memory, after offering it.
    pub(crate) fn pages_of(&self, pinned: &PinnedRange) -> Pages {
        pinned.pages.map_or(Pages::Refused, |pages| self.share(pinned.start, pages))
    }

    /// The worker's access to a block, after offering it.
    fn share(&self, start: u64, bytes: u64) -> Pages {
        if let Some(pages) = self.sharing.pages(start) {
            return pages;
        }
        if !self.shares() {
            return Pages::Refused;
        }
        let mut blocks = floe_lock::write(&self.sharing.blocks);
        let block = Arc::clone(blocks.entry(start).or_default());
        drop(blocks);
        // Only threads that use this block wait for the answer: the worker may be in a call that ends only by an action
        // of another thread.
        let pages = *block.get_or_init(|| self.offer(start, bytes).unwrap_or(Pages::Refused));
        self.sharing.any.store(true, Ordering::Release);
        pages
    }

    /// Whether the worker has these pages, which are of no block of the program's, after offering them.
    pub(crate) fn takes(&self, start: u64, bytes: u64) -> bool {
        let taken = self.offer(start, bytes).is_ok_and(|pages| pages != Pages::Refused);
        self.sharing.any.fetch_or(taken, Ordering::AcqRel);
        taken
    }

    fn offer(&self, start: u64, bytes: u64) -> CudaResult<Pages> {
        let answer = self.connection.ask(&MapShared { at: floe_wire::DevicePtr(start), bytes })?;
        if answer.status != 0 {
            let why = floe_wire::printable(answer.detail.trim_end());
            log!(Info, "{bytes} bytes of pinned memory are not shared with the server ({}): {why}", answer.status);
            return Ok(Pages::Refused);
        }
        let reply = self.connection.read(MapShared::decode_reply(&answer.body))?;
        Ok(if reply.reached { Pages::Reached } else { Pages::Mapped })
    }

    /// The program frees a block: waits for all work, and the worker has it no more.
    pub(crate) fn unshare(&self, start: u64) -> CudaResult<()> {
        if !self.sharing.any() {
            return Ok(());
        }
        let had = floe_lock::write(&self.sharing.blocks).remove(&start);
        // A pending offer is answered first.
        if !had.is_some_and(|pages| *pages.get_or_init(|| Pages::Refused) != Pages::Refused) {
            return Ok(());
        }
        self.connection.call(&UnmapShared { at: floe_wire::DevicePtr(start) }).map(drop)
    }
}
