//! Pinned host memory between the link and the device, one ring for each direction.
//! In: bytes to upload, or room for bytes to download. Out: ranges of pinned memory.
//! It waits for room only when a ring is full, and it gives a range out again only after its work has completed. While a
//! stream waits for a word of memory, which a later command may write, or for a host function, which may wait for another
//! vGPU that waits for this, it takes more rings rather than to wait for long.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

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
/// How long room is waited for while a stream is held: what is in flight may be behind that.
const PATIENCE: Duration = Duration::from_millis(2);
/// Rings of one direction, at most: 1 GiB of pinned memory, then the issuer waits.
const UPLOAD_RINGS: usize = 16;
/// The same for the other direction.
const DOWNLOAD_RINGS: usize = 32;
/// Uploads in flight from which on the oldest are looked at even when there is room.
const LOOK_AT: usize = 64;

/// A ring towards the device; the reader and the issuer take ranges, completed copies give them back.
pub(crate) struct Uploads<D: Device> {
    bytes: usize,
    state: Mutex<UploadState<D>>,
}

struct UploadState<D: Device> {
    rings: Vec<PinnedRing<D>>,
    flying: VecDeque<(Staged, Arc<Mark<D>>)>,
}

/// A ring with its memory.
struct PinnedRing<D: Device> {
    memory: Arc<D::Pinned>,
    ring: Ring,
}

impl<D: Device> PinnedRing<D> {
    fn new(device: &D, bytes: usize) -> CudaResult<Self> {
        Ok(Self { memory: Arc::new(device.pin(bytes)?), ring: Ring::new(bytes) })
    }
}

/// A range on its way to the device. Whoever has it says [`Uploads::fly`] or [`Uploads::drop_range`] in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Staged {
    ring: usize,
    ticket: Ticket,
    pub(crate) offset: usize,
    pub(crate) bytes: usize,
}

impl<D: Device> Uploads<D> {
    /// Rings of `bytes`, which are taken from the device when they are asked for first.
    pub(crate) fn new(bytes: usize) -> Arc<Self> {
        let state = UploadState { rings: Vec::new(), flying: VecDeque::new() };
        Arc::new(Self { bytes, state: Mutex::new(state) })
    }

    fn state(&self) -> MutexGuard<'_, UploadState<D>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the first ring's memory, where that has not been done.
    pub(crate) fn begin(&self, device: &D) -> CudaResult<()> {
        let mut state = self.state();
        if state.rings.is_empty() {
            state.rings.push(PinnedRing::new(device, self.bytes)?);
        }
        Ok(())
    }

    /// Takes one more ring; whether there may be one.
    fn grow(&self, device: &D) -> CudaResult<bool> {
        let mut state = self.state();
        if state.rings.len() >= UPLOAD_RINGS {
            return Ok(false);
        }
        state.rings.push(PinnedRing::new(device, self.bytes)?);
        Ok(true)
    }

    /// The memory a range lies in.
    pub(crate) fn memory(&self, staged: Staged) -> Arc<D::Pinned> {
        Arc::clone(&self.state().rings[staged.ring].memory)
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

    /// Room for `bytes` (at most a ring), after waiting for it: not for long while a stream is `held` by what a later
    /// command may end.
    pub(crate) fn take(&self, device: &D, bytes: usize, held: impl Fn() -> bool) -> CudaResult<Option<Staged>> {
        self.begin(device)?;
        let begun = Instant::now();
        let staged = self.room(device, bytes, || begun.elapsed() < PATIENCE || !held());
        if staged.is_some() {
            return Ok(staged);
        }
        self.grow(device)?;
        Ok(self.room(device, bytes, || true))
    }

    /// Copies `bytes` into room that is taken as [`Uploads::take`] does.
    pub(crate) fn put(&self, device: &D, bytes: &[u8], held: impl Fn() -> bool) -> CudaResult<Option<Staged>> {
        let staged = self.take(device, bytes.len(), held)?;
        if let Some(staged) = staged {
            self.memory(staged).write(staged.offset, bytes);
        }
        Ok(staged)
    }

    /// The range's copy has been issued and completes with `mark`.
    pub(crate) fn fly(&self, staged: Staged, mark: Arc<Mark<D>>) {
        self.state().flying.push_back((staged, mark));
    }

    /// The range's copy could not be issued.
    pub(crate) fn drop_range(&self, staged: Staged) {
        self.state().release(staged);
    }

    /// The context is about to go and has no work left. What stands in line stays where it is.
    pub(crate) fn let_go(&self) {
        let mut state = self.state();
        for (staged, _) in std::mem::take(&mut state.flying) {
            state.release(staged);
        }
        state.rings.iter().for_each(|ring| ring.memory.unpin());
    }

    /// There is a new context.
    pub(crate) fn take_up(&self) {
        self.state().rings.iter().for_each(|ring| ring.memory.pin_again());
    }
}

impl<D: Device> UploadState<D> {
    fn allocate(&mut self, bytes: usize) -> Option<Staged> {
        self.rings.iter_mut().enumerate().find_map(|(ring, rings)| {
            let (ticket, offset) = rings.ring.allocate(bytes)?;
            Some(Staged { ring, ticket, offset, bytes })
        })
    }

    fn release(&mut self, staged: Staged) {
        self.rings[staged.ring].ring.release(staged.ticket);
    }

    /// Takes the oldest ranges back whose copies have completed, or failed for good.
    fn land_oldest(&mut self, device: &D) {
        enter(device);
        while let Some((staged, _)) = self.flying.pop_front_if(|(_, mark)| mark.outcome().is_some()) {
            self.release(staged);
        }
    }

    /// The same for all ranges.
    fn land(&mut self, device: &D) -> bool {
        enter(device);
        let before = self.flying.len();
        let rings = &mut self.rings;
        self.flying.retain(|(staged, mark)| {
            let landed = mark.outcome().is_some();
            if landed {
                rings[staged.ring].ring.release(staged.ticket);
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
    rings: Vec<PinnedRing<D>>,
}

/// A range of pinned memory the device writes and the completer reads.
pub(crate) struct Landing<D: Device> {
    pub(crate) memory: Arc<D::Pinned>,
    pub(crate) offset: usize,
    pub(crate) bytes: usize,
    ring: usize,
    ticket: Ticket,
    home: Arc<Downloads<D>>,
}

impl<D: Device> Downloads<D> {
    pub(crate) fn new() -> Arc<Self> {
        let state = DownloadState { rings: Vec::new() };
        Arc::new(Self { state: Mutex::new(state), released: Condvar::new() })
    }

    fn state(&self) -> MutexGuard<'_, DownloadState<D>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Room for `bytes` (at most a ring), after waiting for it: not for long while a stream is `held` by what a later
    /// command may end.
    pub(crate) fn room(self: &Arc<Self>, device: &D, bytes: usize, held: impl Fn() -> bool) -> CudaResult<Landing<D>> {
        let begun = Instant::now();
        let mut state = self.state();
        loop {
            if let Some((ring, memory, ticket, offset)) = state.allocate(bytes) {
                return Ok(Landing { memory, offset, bytes, ring, ticket, home: Arc::clone(self) });
            }
            let grows = held() && begun.elapsed() >= PATIENCE && state.rings.len() < DOWNLOAD_RINGS;
            if state.rings.is_empty() || grows {
                state.rings.push(PinnedRing::new(device, DOWNLOAD_BYTES)?);
                continue;
            }
            let woken = self.released.wait_timeout(state, PATIENCE).unwrap_or_else(PoisonError::into_inner);
            state = woken.0;
        }
    }

    /// Gives the memory up: the context is about to go and has no work left.
    pub(crate) fn reset(&self) {
        let mut state = self.state();
        state.rings.clear();
    }
}

impl<D: Device> DownloadState<D> {
    fn allocate(&mut self, bytes: usize) -> Option<(usize, Arc<D::Pinned>, Ticket, usize)> {
        self.rings.iter_mut().enumerate().find_map(|(index, ring)| {
            let (ticket, offset) = ring.ring.allocate(bytes)?;
            Some((index, Arc::clone(&ring.memory), ticket, offset))
        })
    }
}

impl<D: Device> Drop for Landing<D> {
    fn drop(&mut self) {
        if let Some(ring) = self.home.state().rings.get_mut(self.ring) {
            ring.ring.release(self.ticket);
        }
        self.home.released.notify_all();
    }
}
