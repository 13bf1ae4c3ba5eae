//! Memory of this process that is offered to a worker of this machine, so that its device copies from and to it by itself. Blocks
//! come in when they are allocated or first used with a vGPU; whether the worker has them goes out. Memory that it
//! cannot have stays ordinary pinned memory, whose bytes travel.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use floe_abi::CudaResult;
use floe_wire::{Call as _, MapShared, ShareFile, ShareMemory, UnmapShared};

use super::sharing::Access;
use crate::log::log;
use crate::memory::host_memory::arena::Arena;
use crate::memory::host_memory::file_pages::{FilePages, pages_around};
use crate::memory::host_memory::{PLACES, Pages, PinnedRange};
use crate::vgpu::Vgpu;
use crate::vgpu::connection::Answer;

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
    pub(crate) fn access_of(&self, pinned: &PinnedRange) -> Access {
        pinned.pages.as_ref().map_or(Access::Refused, |pages| self.share(pinned.start, pages))
    }

    /// The worker's access to pages, after offering them.
    fn share(&self, start: u64, pages: &Pages) -> Access {
        if let Some(access) = self.sharing.access(start) {
            return access;
        }
        if !self.shares() {
            return Access::Refused;
        }
        let mut blocks = floe_lock::write(&self.sharing.blocks);
        let block = Arc::clone(blocks.entry(start).or_default());
        drop(blocks);
        // Only threads that use this block wait for the answer: the worker may be in a call that ends only by an action
        // of another thread.
        let access = *block.get_or_init(|| {
            let offered = match pages {
                Pages::Arena(own) => {
                    let own = own.addresses();
                    self.offer(start, own.end - own.start)
                }
                Pages::File(file) => self.offer_file(pages_around(start, 1).start, file),
            };
            offered.unwrap_or(Access::Refused)
        });
        self.sharing.any.fetch_or(access != Access::Refused, Ordering::AcqRel);
        access
    }

    /// Whether the worker has these pages, which are of no block of the program's, after offering them.
    pub(crate) fn takes(&self, start: u64, bytes: u64) -> bool {
        let taken = self.offer(start, bytes).is_ok_and(|access| access != Access::Refused);
        self.sharing.any.fetch_or(taken, Ordering::AcqRel);
        taken
    }

    fn offer(&self, start: u64, bytes: u64) -> CudaResult<Access> {
        let answer = self.connection.ask(&MapShared { at: floe_wire::DevicePtr(start), bytes })?;
        self.read_access(&answer, bytes, |body| MapShared::decode_reply(body).map(|reply| reply.reached))
    }

    fn offer_file(&self, at: u64, file: &FilePages) -> CudaResult<Access> {
        let message = ShareFile { at: floe_wire::DevicePtr(at), offset: file.offset(), bytes: file.bytes() };
        let answer = {
            let _passing = floe_lock::lock(&self.sharing.passing);
            self.connection.ask_with(&message, file.file())?
        };
        self.read_access(&answer, file.bytes(), |body| ShareFile::decode_reply(body).map(|reply| reply.reached))
    }

    fn read_access(
        &self,
        answer: &Answer,
        bytes: u64,
        reached: impl FnOnce(&[u8]) -> Result<bool, floe_wire::DecodeError>,
    ) -> CudaResult<Access> {
        if answer.status != 0 {
            let why = floe_wire::printable(answer.detail.trim_end());
            log!(Info, "{bytes} bytes of pinned memory are not shared with the server ({}): {why}", answer.status);
            return Ok(Access::Refused);
        }
        let reached = self.connection.read(reached(&answer.body))?;
        Ok(if reached { Access::Reached } else { Access::Mapped })
    }

    /// The program frees a block, or registers memory no more: waits for all work, and the worker has it no more.
    pub(crate) fn unshare(&self, start: u64) -> CudaResult<()> {
        if !self.sharing.any() {
            return Ok(());
        }
        let had = floe_lock::write(&self.sharing.blocks).remove(&start);
        // A pending offer is answered first.
        if !had.is_some_and(|access| *access.get_or_init(|| Access::Refused) != Access::Refused) {
            return Ok(());
        }
        self.connection.call(&UnmapShared { at: floe_wire::DevicePtr(pages_around(start, 1).start) }).map(drop)
    }
}
