//! Pinned host memory that a worker of this machine has mapped, and the copies its device makes from and to it by itself.
//! Blocks come in when they are allocated or first used with a vGPU; whether the worker has them goes out. What it cannot have
//! stays ordinary pinned memory, whose bytes travel.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use floe_abi::{CudaResult, DevicePtr, HostPointer};
use floe_surface::HostRange;
use floe_wire::{Call as _, CopyOnDevice, MapShared, ShareMemory, UnmapShared};

use crate::arena::{self, Arena};
use crate::client::Client;
use crate::host_memory::PLACES;
use crate::log::log;
use crate::session::Session;
use crate::stream::StreamState;

/// Bytes of a copy below which a program that waits is better off having them copied: it then waits for nothing, and the
/// processor copies so many in less time than an answer takes.
const WORTH_WAITING: usize = 96 << 10;

/// What a worker has of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pages {
    /// Nothing, and it was asked.
    Refused,
    /// All; copies may name them.
    Mapped,
    /// All; kernels may, too.
    Reached,
}

/// What the worker of one vGPU has.
#[derive(Debug, Default)]
pub(crate) struct Sharing {
    /// Whether it takes anything. Asked once.
    agreed: OnceLock<bool>,
    any: AtomicBool,
    /// By first address; empty while the worker is asked.
    blocks: RwLock<BTreeMap<u64, Arc<OnceLock<Pages>>>>,
}

impl Sharing {
    /// Whether the worker has anything.
    pub(crate) fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    fn pages(&self, start: u64) -> Option<Pages> {
        self.blocks.read().unwrap_or_else(PoisonError::into_inner).get(&start)?.get().copied()
    }

    /// The worker has none of them any more.
    pub(crate) fn clear(&self) {
        self.blocks.write().unwrap_or_else(PoisonError::into_inner).clear();
        self.any.store(false, Ordering::Release);
    }
}

impl Session {
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

    /// What the worker has of a block, after offering it.
    fn share(&self, start: u64, bytes: u64) -> Pages {
        if let Some(pages) = self.sharing.pages(start) {
            return pages;
        }
        if !self.shares() {
            return Pages::Refused;
        }
        let mut blocks = self.sharing.blocks.write().unwrap_or_else(PoisonError::into_inner);
        let block = Arc::clone(blocks.entry(start).or_default());
        drop(blocks);
        // Another thread that uses the block waits for the same answer, and no other: the worker may stand in a call that
        // ends only by what such a thread does.
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
    fn unshare(&self, start: u64) -> CudaResult<()> {
        if !self.sharing.any() {
            return Ok(());
        }
        let had = self.sharing.blocks.write().unwrap_or_else(PoisonError::into_inner).remove(&start);
        // Where the worker is still asked, that comes first.
        if !had.is_some_and(|pages| *pages.get_or_init(|| Pages::Refused) != Pages::Refused) {
            return Ok(());
        }
        self.connection.call(&UnmapShared { at: floe_wire::DevicePtr(start) }).map(drop)
    }
}

impl Client {
    /// Whether any vGPU's worker takes memory of this process.
    pub(crate) fn shares(&self) -> bool {
        self.devices().is_ok_and(|devices| devices.iter().any(|device| device.session.shares()))
    }

    /// What the worker of a vGPU has of these bytes, after offering the block they are in.
    fn pages_of(&self, at: u64, bytes: u64, session: &Session) -> Pages {
        let block = Some(at).filter(|at| arena::is_place(*at)).and_then(|at| self.host_memory.shared(at, bytes));
        block.map_or(Pages::Refused, |(start, pages)| session.share(start, pages))
    }

    /// Offers a block that was just allocated to the worker of a vGPU.
    pub(crate) fn offer(&self, at: HostPointer, session: &Session) {
        // What it does not take travels.
        let _ = self.pages_of(at.0, 1, session);
    }

    /// Whether the device copies these bytes by itself: its worker has them, and no bytes on their way from elsewhere will
    /// be written there.
    pub(crate) fn is_shared(&self, range: &HostRange, session: &Session) -> CudaResult<bool> {
        let (at, bytes) = (range.pointer().0, range.len() as u64);
        if self.pages_of(at, bytes, session) == Pages::Refused {
            return Ok(false);
        }
        Ok(!self.devices()?.iter().any(|device| device.session.connection.writes_into(at, bytes)))
    }

    /// Whether kernels of a vGPU reach shared memory at these addresses.
    pub(crate) fn reaches_shared(&self, at: DevicePtr, bytes: u64, session: &Session) -> bool {
        self.pages_of(at.0, bytes, session) == Pages::Reached
    }

    /// Whether kernels of any vGPU reach pinned memory at this address.
    pub(crate) fn is_reached(&self, at: u64) -> bool {
        let block = Some(at).filter(|at| arena::is_place(*at)).and_then(|at| self.host_memory.shared(at, 1));
        let reached = |(start, _)| {
            let devices = self.devices().unwrap_or_default();
            devices.iter().any(|device| device.session.sharing.pages(start) == Some(Pages::Reached))
        };
        self.is_mirrored(at, 1) || block.is_some_and(reached)
    }

    /// The memory of the program is about to be freed. A vGPU that is lost has let go of it.
    pub(crate) fn unshare(&self, start: u64) -> CudaResult<()> {
        let mut result = Ok(());
        for device in self.devices()? {
            // Each lets go of it, whatever another says.
            let unshared = device.session.unshare(start);
            if !device.session.errors.is_lost() {
                result = result.and(unshared);
            }
        }
        result
    }

    /// Whether a program that waits for a copy to the device had better send the bytes, which are what they will be.
    pub(crate) fn had_better_send(source: &HostRange, session: &Arc<Session>) -> bool {
        source.len() < WORTH_WAITING && session.order.writes_nothing()
    }
}

/// Queues a copy one end of which is shared memory.
pub(crate) fn copy_by_device(stream: &StreamState, to: u64, from: u64, bytes: u64) -> CudaResult<()> {
    let (to, from) = (floe_wire::DevicePtr(to), floe_wire::DevicePtr(from));
    stream.post(&CopyOnDevice { stream: stream.id(), to, from, bytes })
}
