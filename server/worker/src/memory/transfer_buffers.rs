//! Transfer buffers: pinned host memory between the link and the device, for each direction.
//! In: bytes to upload, or room for bytes to download. Out: ranges of pinned memory.
//! It waits for room only when a buffer is full, and it gives a range out again only after its work has completed.
//! While a stream waits for a word of memory or a host function, a long wait for room could deadlock. Then it takes
//! more buffers, and releases them when they lie idle.

mod grown;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use floe_abi::CudaResult;
use floe_device::{Device, PageSize, Pinned as _};
use floe_transport::SendMode;
use floe_wire::PIECE_BYTES;

use super::budget::Budget;
use super::range_allocator::Ticket;
use crate::complete::events::CompletionEvent;
use grown::{Buffers, Grows};

/// The pause between two looks whether an upload has completed.
const LOOK_AGAIN: Duration = Duration::from_micros(50);
/// The longest wait for room while a stream is held: work in flight may be behind that.
const PATIENCE: Duration = Duration::from_millis(2);
/// Pinned memory of one direction, at most: then the issuer waits.
const MOST_BYTES: usize = 1 << 30;
/// Uploads in flight from which on the oldest are looked at even when there is room.
const LOOK_AT: usize = 64;

/// Bytes of a session's transfer buffers, each taken when it is first needed, and of its command queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BufferBytes {
    /// Towards the device: copies may stand behind work, and while they do nothing else is read.
    pub(crate) upload: usize,
    /// From the device.
    pub(crate) download: usize,
    /// For copies whose bytes the client reads when their stream gets there.
    pub(crate) late: usize,
    /// No buffer: queued commands, with the data of small copies.
    pub(crate) commands: usize,
}

impl BufferBytes {
    /// Three eighths of all for uploads and for downloads, an eighth for each of the others, in pieces and none without one.
    pub(crate) fn of(all: u64) -> Self {
        let part = |eighths: u64| {
            let bytes = all / 8 * eighths;
            let pieces = usize::try_from(bytes).unwrap_or(usize::MAX) / PIECE_BYTES;
            pieces.clamp(1, MOST_BYTES / PIECE_BYTES) * PIECE_BYTES
        };
        Self { upload: part(3), download: part(3), late: part(1), commands: part(1) }
    }
}

/// A buffer towards the device; the reader and the issuer take ranges, completed copies give them back.
pub(crate) struct Uploads<D: Device> {
    bytes: usize,
    state: Mutex<UploadState<D>>,
}

struct UploadState<D: Device> {
    buffers: Buffers<D>,
    in_flight: VecDeque<(UploadRange, Arc<CompletionEvent<D>>)>,
}

/// A range on its way to the device. Its holder ends it by [`Uploads::put_in_flight`] or [`Uploads::drop_range`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UploadRange {
    buffer: usize,
    ticket: Ticket,
    pub(crate) offset: usize,
    pub(crate) bytes: usize,
}

impl<D: Device> Uploads<D> {
    /// Buffers of `bytes`, which are taken from the device when they are asked for first.
    pub(crate) fn new(bytes: usize, budget: &Budget) -> Arc<Self> {
        let state = UploadState { buffers: Buffers::of(PageSize::Large, budget), in_flight: VecDeque::new() };
        Arc::new(Self { bytes, state: Mutex::new(state) })
    }

    fn state(&self) -> MutexGuard<'_, UploadState<D>> {
        floe_lock::lock(&self.state)
    }

    /// Takes the first buffer's memory, where that has not been done.
    pub(crate) fn begin(&self, device: &D) -> CudaResult<()> {
        let mut state = self.state();
        if state.buffers.is_empty() {
            state.buffers.add(device, self.bytes)?;
        }
        Ok(())
    }

    /// Whether the first buffer's memory has been taken.
    pub(crate) fn has_begun(&self) -> bool {
        !self.state().buffers.is_empty()
    }

    /// Takes one more buffer, if there may be one, and room in it before anybody else has it.
    fn grow(self: &Arc<Self>, device: &Arc<D>, bytes: usize) -> CudaResult<Option<UploadRange>> {
        let mut state = self.state();
        if state.buffers.count() < MOST_BYTES / self.bytes && state.buffers.may_grow(self.bytes) {
            state.buffers.add(device, self.bytes)?;
            state.buffers.watch(device, self);
        }
        Ok(state.allocate(bytes))
    }

    /// Whether room will come by itself, as copies are in flight. Ranges of queued commands come behind the caller's.
    fn has_in_flight(&self) -> bool {
        !self.state().in_flight.is_empty()
    }

    /// The memory a range lies in.
    pub(crate) fn memory(&self, range: UploadRange) -> Arc<D::Pinned> {
        self.state().buffers.memory(range.buffer)
    }

    /// Room for `bytes` (at most a buffer), after waiting for it as long as `wait` says so.
    pub(crate) fn room(&self, device: &D, bytes: usize, wait: impl Fn() -> bool) -> Option<UploadRange> {
        loop {
            let mut state = self.state();
            if state.in_flight.len() >= LOOK_AT {
                state.reclaim_oldest(device);
            }
            if let Some(range) = state.allocate(bytes) {
                return Some(range);
            }
            if !state.reclaim(device) {
                drop(state);
                if !wait() {
                    return None;
                }
                std::thread::sleep(LOOK_AGAIN);
            }
        }
    }

    /// Room for `bytes` (at most a buffer). It waits, but not for long while a stream is `held` by something that a
    /// later command may end. Nor does it wait long where later copies have taken all.
    pub(crate) fn take(
        self: &Arc<Self>,
        device: &Arc<D>,
        bytes: usize,
        held: impl Fn() -> bool,
    ) -> CudaResult<Option<UploadRange>> {
        self.begin(device)?;
        let begun = Instant::now();
        let range = self.room(device, bytes, || begun.elapsed() < PATIENCE || (!held() && self.has_in_flight()));
        if range.is_some() {
            return Ok(range);
        }
        let range = self.grow(device, bytes)?;
        Ok(range.or_else(|| self.room(device, bytes, || true)))
    }

    /// Copies `bytes` into room that is taken as [`Uploads::take`] does.
    pub(crate) fn put(
        self: &Arc<Self>,
        device: &Arc<D>,
        bytes: &[u8],
        held: impl Fn() -> bool,
    ) -> CudaResult<Option<UploadRange>> {
        let range = self.take(device, bytes.len(), held)?;
        if let Some(range) = range {
            self.memory(range).write(range.offset, bytes);
        }
        Ok(range)
    }

    /// The range's copy has been issued and completes with `completion`.
    pub(crate) fn put_in_flight(&self, range: UploadRange, completion: Arc<CompletionEvent<D>>) {
        self.state().in_flight.push_back((range, completion));
    }

    /// The range's copy could not be issued.
    pub(crate) fn drop_range(&self, range: UploadRange) {
        self.state().release(range);
    }

    /// The context is about to go and has no work left. Ranges of queued commands stay.
    pub(crate) fn unpin(&self) {
        let mut state = self.state();
        for (range, _) in std::mem::take(&mut state.in_flight) {
            state.release(range);
        }
        state.buffers.memories().for_each(|memory| memory.unpin());
    }

    /// There is a new context.
    pub(crate) fn pin_again(&self) {
        self.state().buffers.memories().for_each(|memory| memory.pin_again());
    }
}

impl<D: Device> UploadState<D> {
    fn allocate(&mut self, bytes: usize) -> Option<UploadRange> {
        let (buffer, ticket, offset) = self.buffers.allocate(bytes)?;
        Some(UploadRange { buffer, ticket, offset, bytes })
    }

    fn release(&mut self, range: UploadRange) {
        self.buffers.release(range.buffer, range.ticket);
    }

    /// Takes the oldest ranges back whose copies have completed, or failed for good.
    fn reclaim_oldest(&mut self, device: &D) {
        enter(device);
        while let Some((range, _)) = self.in_flight.pop_front_if(|(_, completion)| completion.outcome().is_some()) {
            self.release(range);
        }
    }

    /// The same for all ranges.
    fn reclaim(&mut self, device: &D) -> bool {
        enter(device);
        let before = self.in_flight.len();
        let buffers = &mut self.buffers;
        self.in_flight.retain(|(range, completion)| {
            let is_complete = completion.outcome().is_some();
            if is_complete {
                buffers.release(range.buffer, range.ticket);
            }
            !is_complete
        });
        self.in_flight.len() < before
    }
}

/// After a reset the context is another one, and to a thread in the old one every event would seem over. Called with the
/// buffer locked: events in flight are of the context that is entered, since a reset lets the old ones go first.
fn enter<D: Device>(device: &D) {
    // A context beyond use answers every question with its error.
    let _ = device.enter();
}

/// The buffer from the device; the issuer takes ranges, the completer gives them back.
pub(crate) struct Downloads<D: Device> {
    bytes: usize,
    buffers: Mutex<Buffers<D>>,
    released: Condvar,
    /// Threads that wait for room, counted under the buffers' lock: waking nobody is a system call, too.
    waiting: AtomicUsize,
}

/// A range of pinned memory the device writes and the completer reads.
pub(crate) struct DownloadRange<D: Device> {
    pub(crate) memory: Arc<D::Pinned>,
    pub(crate) offset: usize,
    pub(crate) bytes: usize,
    /// How a socket is given it.
    pub(crate) send_mode: SendMode,
    buffer: usize,
    ticket: Ticket,
    home: Arc<Downloads<D>>,
}

impl<D: Device> Downloads<D> {
    /// Buffers of `bytes`, which are taken from the device when they are asked for first.
    pub(crate) fn new(bytes: usize, budget: &Budget) -> Arc<Self> {
        // From here sockets are given pages.
        let buffers = Mutex::new(Buffers::of(PageSize::Small, budget));
        Arc::new(Self { bytes, buffers, released: Condvar::new(), waiting: AtomicUsize::new(0) })
    }

    fn buffers(&self) -> MutexGuard<'_, Buffers<D>> {
        floe_lock::lock(&self.buffers)
    }

    /// Room for `bytes` (at most a buffer). It waits, but not for long while a stream is `held` by something that a
    /// later command may end.
    pub(crate) fn room(
        self: &Arc<Self>,
        device: &Arc<D>,
        bytes: usize,
        held: impl Fn() -> bool,
    ) -> CudaResult<DownloadRange<D>> {
        let begun = Instant::now();
        let mut buffers = self.buffers();
        loop {
            if let Some((buffer, ticket, offset)) = buffers.allocate(bytes) {
                let memory = buffers.memory(buffer);
                return Ok(DownloadRange {
                    memory,
                    offset,
                    bytes,
                    send_mode: SendMode::Copy,
                    buffer,
                    ticket,
                    home: Arc::clone(self),
                });
            }
            // A client that does not read what is on its way, and resets the context again and again, waits here.
            let has_room = buffers.taken() < (MOST_BYTES / self.bytes).max(1);
            let wants = buffers.is_empty() || held() && begun.elapsed() >= PATIENCE;
            if wants && has_room && (buffers.is_empty() || buffers.may_grow(self.bytes)) {
                buffers.add(device, self.bytes)?;
                buffers.watch(device, self);
                continue;
            }
            self.waiting.fetch_add(1, Ordering::Relaxed);
            let woken = self.released.wait_timeout(buffers, PATIENCE).unwrap_or_else(PoisonError::into_inner);
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            buffers = woken.0;
        }
    }

    /// Takes the first buffer's memory, where that has not been done.
    pub(crate) fn begin(&self, device: &D) -> CudaResult<()> {
        let mut buffers = self.buffers();
        if buffers.is_empty() { buffers.add(device, self.bytes) } else { Ok(()) }
    }

    /// Whether it has been done.
    pub(crate) fn has_begun(&self) -> bool {
        !self.buffers().is_empty()
    }

    /// Gives the memory up: the context is about to go and has no work left.
    pub(crate) fn reset(&self) {
        self.buffers().clear();
    }
}

impl<D: Device> Drop for DownloadRange<D> {
    fn drop(&mut self) {
        let mut buffers = self.home.buffers();
        buffers.release(self.buffer, self.ticket);
        let waits = self.home.waiting.load(Ordering::Relaxed) > 0;
        drop(buffers);
        if waits {
            self.home.released.notify_all();
        }
    }
}

impl<D: Device> Grows<D> for Uploads<D> {
    fn idle(&self, device: &D) -> grown::Idle<D> {
        let mut state = self.state();
        state.reclaim(device);
        state.buffers.idle()
    }
}

impl<D: Device> Grows<D> for Downloads<D> {
    fn idle(&self, _device: &D) -> grown::Idle<D> {
        self.buffers().idle()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;

    #[test]
    fn buffers_share_what_the_operator_gives_and_hold_a_piece() {
        let mib = |all: u64| {
            let BufferBytes { upload, download, late, commands } = BufferBytes::of(all << 20);
            [upload, download, late, commands].map(|bytes| bytes >> 20)
        };
        assert_eq!(mib(64), [24, 24, 8, 8]);
        assert_eq!(mib(100), [36, 36, 12, 12]);
        assert_eq!(mib(0), [4; 4]);
        assert_eq!(mib(1 << 20), [1024; 4]);
    }
}
