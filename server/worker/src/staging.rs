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

/// Bytes of each ring: eight pieces of the largest size.
pub(crate) const RING_BYTES: usize = 8 * floe_wire::PIECE_BYTES;
/// How long to wait before looking again whether an upload has completed.
const LOOK_AGAIN: Duration = Duration::from_micros(50);
/// Uploads in flight from which on the oldest are looked at even when there is room.
const LOOK_AT: usize = 64;

/// The ring towards the device; the issuer has it.
pub(crate) struct Uploads<D: Device> {
    memory: Option<Arc<D::Pinned>>,
    ring: Ring,
    flying: VecDeque<(Ticket, Arc<Mark<D>>)>,
}

impl<D: Device> Uploads<D> {
    pub(crate) fn new() -> Self {
        Self { memory: None, ring: Ring::new(RING_BYTES), flying: VecDeque::new() }
    }

    /// Copies `bytes` (at most a ring) into pinned memory; the range is ours until [`Uploads::fly`] or
    /// [`Uploads::drop_range`].
    pub(crate) fn put(&mut self, device: &D, bytes: &[u8]) -> CudaResult<(Ticket, usize, Arc<D::Pinned>)> {
        let memory = match &self.memory {
            Some(memory) => Arc::clone(memory),
            None => Arc::clone(self.memory.insert(Arc::new(device.pin(RING_BYTES)?))),
        };
        if self.flying.len() >= LOOK_AT {
            self.land();
        }
        loop {
            if let Some((ticket, offset)) = self.ring.allocate(bytes.len()) {
                memory.write(offset, bytes);
                return Ok((ticket, offset, memory));
            }
            if !self.land() {
                std::thread::sleep(LOOK_AGAIN);
            }
        }
    }

    /// The range's copy has been issued and completes with `mark`.
    pub(crate) fn fly(&mut self, ticket: Ticket, mark: Arc<Mark<D>>) {
        self.flying.push_back((ticket, mark));
    }

    /// The range's copy could not be issued.
    pub(crate) fn drop_range(&mut self, ticket: Ticket) {
        self.ring.release(ticket);
    }

    /// Takes ranges back whose copies have completed, or failed for good.
    fn land(&mut self) -> bool {
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

    /// Gives everything up: the context is about to go and has no work left.
    pub(crate) fn reset(&mut self) {
        *self = Self::new();
    }
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
        let state = DownloadState { memory: None, ring: Ring::new(RING_BYTES) };
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
            None => Arc::clone(state.memory.insert(Arc::new(device.pin(RING_BYTES)?))),
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
        state.ring = Ring::new(RING_BYTES);
    }
}

impl<D: Device> Drop for Landing<D> {
    fn drop(&mut self) {
        self.home.state().ring.release(self.ticket);
        self.home.released.notify_all();
    }
}
