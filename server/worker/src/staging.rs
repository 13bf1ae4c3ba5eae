//! Pinned host memory between the link and the device, one ring for each direction.
//! In: bytes to upload, or room for bytes to download. Out: ranges of pinned memory.
//! It waits for room only when a ring is full, and it gives a range out again only after its work has completed.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use floe_abi::CudaResult;

use crate::device::{Device, Pinned as _};
use crate::events::Mark;
use crate::ring::{Ring, Ticket};

/// Bytes of the ring towards the device: copies may stand behind work, and while they do nothing else is read.
pub(crate) const UPLOAD_BYTES: usize = 16 * floe_wire::PIECE_BYTES;
/// Bytes of the ring from the device: eight pieces of the largest size.
pub(crate) const DOWNLOAD_BYTES: usize = 8 * floe_wire::PIECE_BYTES;
/// Bytes of the ring for copies whose bytes the client reads when their stream gets there.
pub(crate) const LATE_BYTES: usize = 4 * floe_wire::PIECE_BYTES;
/// How long to wait before looking again whether an upload has completed.
const LOOK_AGAIN: Duration = Duration::from_micros(50);
/// Uploads in flight from which on the oldest are looked at even when there is room.
const LOOK_AT: usize = 64;

/// A ring towards the device; the reader and the issuer take ranges, completed copies give them back.
pub(crate) struct Uploads<D: Device> {
    bytes: usize,
    state: Mutex<UploadState<D>>,
}

struct UploadState<D: Device> {
    memory: Option<Arc<D::Pinned>>,
    ring: Ring,
    flying: VecDeque<(Ticket, Arc<Mark<D>>)>,
}

/// A range on its way to the device. Whoever has it says [`Uploads::fly`] or [`Uploads::drop_range`] in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Staged {
    ticket: Ticket,
    pub(crate) offset: usize,
    pub(crate) bytes: usize,
}

impl<D: Device> Uploads<D> {
    /// A ring of `bytes`, which are taken from the device when they are asked for first.
    pub(crate) fn new(bytes: usize) -> Arc<Self> {
        let state = UploadState { memory: None, ring: Ring::new(bytes), flying: VecDeque::new() };
        Arc::new(Self { bytes, state: Mutex::new(state) })
    }

    fn state(&self) -> MutexGuard<'_, UploadState<D>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The ring's memory, taken when it is asked for first.
    pub(crate) fn memory(&self, device: &D) -> CudaResult<Arc<D::Pinned>> {
        let mut state = self.state();
        match &state.memory {
            Some(memory) => Ok(Arc::clone(memory)),
            None => Ok(Arc::clone(state.memory.insert(Arc::new(device.pin(self.bytes)?)))),
        }
    }

    /// Room for `bytes` (at most a ring), after waiting for it as long as `wait` says so.
    pub(crate) fn room(&self, device: &D, bytes: usize, wait: impl Fn() -> bool) -> Option<Staged> {
        loop {
            let mut state = self.state();
            if state.flying.len() >= LOOK_AT {
                state.land_oldest(device);
            }
            if let Some(staged) = state.allocate(bytes) {
                return Some(staged);
            }
            if !state.land(device) {
                drop(state);
                if !wait() {
                    return None;
                }
                std::thread::sleep(LOOK_AGAIN);
            }
        }
    }

    /// Copies `bytes` (at most a ring) into the ring, after waiting for room.
    pub(crate) fn put(&self, device: &D, bytes: &[u8]) -> CudaResult<Option<Staged>> {
        let memory = self.memory(device)?;
        let staged = self.room(device, bytes.len(), || true);
        if let Some(staged) = staged {
            memory.write(staged.offset, bytes);
        }
        Ok(staged)
    }

    /// The range's copy has been issued and completes with `mark`.
    pub(crate) fn fly(&self, staged: Staged, mark: Arc<Mark<D>>) {
        self.state().flying.push_back((staged.ticket, mark));
    }

    /// The range's copy could not be issued.
    pub(crate) fn drop_range(&self, staged: Staged) {
        self.state().ring.release(staged.ticket);
    }

    /// The context is about to go and has no work left. What stands in line stays where it is.
    pub(crate) fn let_go(&self) {
        let mut state = self.state();
        let UploadState { ring, flying, memory } = &mut *state;
        flying.drain(..).for_each(|(ticket, _)| ring.release(ticket));
        if let Some(memory) = memory {
            memory.unpin();
        }
    }

    /// There is a new context.
    pub(crate) fn take_up(&self) {
        if let Some(memory) = &self.state().memory {
            memory.pin_again();
        }
    }
}

impl<D: Device> UploadState<D> {
    fn allocate(&mut self, bytes: usize) -> Option<Staged> {
        let (ticket, offset) = self.ring.allocate(bytes)?;
        Some(Staged { ticket, offset, bytes })
    }

    /// Takes the oldest ranges back whose copies have completed, or failed for good.
    fn land_oldest(&mut self, device: &D) {
        enter(device);
        while let Some((ticket, _)) = self.flying.front().filter(|(_, mark)| mark.outcome().is_some()) {
            self.ring.release(*ticket);
            self.flying.pop_front();
        }
    }

    /// The same for all ranges.
    fn land(&mut self, device: &D) -> bool {
        enter(device);
        let before = self.flying.len();
        let ring = &mut self.ring;
        self.flying.retain(|(ticket, mark)| {
            let landed = mark.outcome().is_some();
            if landed {
                ring.release(*ticket);
            }
            !landed
        });
        self.flying.len() < before
    }
}

/// After a reset the context is another one, and to a thread in the old one every event would seem over. Called with the
/// ring locked: events in flight are of the context that is entered, since a reset lets the old ones go first.
fn enter<D: Device>(device: &D) {
    // A context beyond use answers every question with its error.
    let _ = device.enter();
}

/// The ring from the device; the issuer takes ranges, the completer gives them back.
pub(crate) struct Downloads<D: Device> {
    state: Mutex<DownloadState<D>>,
    released: Condvar,
}

struct DownloadState<D: Device> {
    memory: Option<Arc<D::Pinned>>,
    ring: Ring,
}

/// A range of pinned memory the device writes and the completer reads.
pub(crate) struct Landing<D: Device> {
    pub(crate) memory: Arc<D::Pinned>,
    pub(crate) offset: usize,
    pub(crate) bytes: usize,
    ticket: Ticket,
    home: Arc<Downloads<D>>,
}

impl<D: Device> Downloads<D> {
    pub(crate) fn new() -> Arc<Self> {
        let state = DownloadState { memory: None, ring: Ring::new(DOWNLOAD_BYTES) };
        Arc::new(Self { state: Mutex::new(state), released: Condvar::new() })
    }

    fn state(&self) -> MutexGuard<'_, DownloadState<D>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Room for `bytes` (at most a ring), after waiting for it.
    pub(crate) fn room(self: &Arc<Self>, device: &D, bytes: usize) -> CudaResult<Landing<D>> {
        let mut state = self.state();
        let memory = match &state.memory {
            Some(memory) => Arc::clone(memory),
            None => Arc::clone(state.memory.insert(Arc::new(device.pin(DOWNLOAD_BYTES)?))),
        };
        loop {
            if let Some((ticket, offset)) = state.ring.allocate(bytes) {
                return Ok(Landing { memory, offset, bytes, ticket, home: Arc::clone(self) });
            }
            state = self.released.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Gives the memory up: the context is about to go and has no work left.
    pub(crate) fn reset(&self) {
        let mut state = self.state();
        state.memory = None;
        state.ring = Ring::new(DOWNLOAD_BYTES);
    }
}

impl<D: Device> Drop for Landing<D> {
    fn drop(&mut self) {
        self.home.state().ring.release(self.ticket);
        self.home.released.notify_all();
    }
}
