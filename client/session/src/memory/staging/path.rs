//! The path of one stream's copies through slots. A copy takes a free slot, or waits for one, and queues the device's
//! work on it. The first copy that wants slots makes them, if the worker takes memory of this process.

use std::sync::Arc;
use std::time::{Duration, Instant};

use floe_abi::{CudaResult, DevicePtr};
use floe_wire::CopyOnDevice;

use super::pieces::Pieces;
use super::{Area, SLOT, SLOTS, Slot, State};
use crate::log::log;
use crate::memory::host_memory::arena::Arena;
use crate::vgpu::connection::Ticket;
use crate::vgpu::order::StreamProgress;
use crate::vgpu::{Vgpu, tally};
use floe_lock::lock;

/// The wait for a slot that may never come. Only other streams may be able to free one, or the program may release a
/// held stream only after this copy.
const PATIENCE: Duration = Duration::from_millis(20);
/// The time for which a thread polls for a slot without sleeping, and a helper waits. It is longer than the device and
/// the round trip take when nothing is ahead of the copy.
const SOON: Duration = Duration::from_micros(300);
/// Sleeps between later looks.
const PAUSE: Duration = Duration::from_micros(50);

/// The parts that a copy through slots needs.
#[derive(Debug)]
pub(crate) struct SlotPath {
    pub(super) vgpu: Arc<Vgpu>,
    pub(super) progress: Arc<StreamProgress>,
    pub(super) area: Arc<Area>,
}

impl SlotPath {
    /// Queues the device's work on a slot. The ticket is answered when the work is over, also after an error, which a
    /// later call reports.
    pub(super) fn queue(&self, to: DevicePtr, from: DevicePtr, bytes: usize) -> CudaResult<Ticket> {
        let stream = floe_wire::StreamId(self.progress.stream());
        let message = CopyOnDevice { stream, to, from, bytes: bytes as u64 };
        self.vgpu.connection.post_marked(&self.progress, &message)
    }

    /// A slot, if there is one.
    pub(super) fn slot_now(&self) -> Option<Slot> {
        self.area.take(self.progress.stream())
    }

    /// A slot for a piece, for a helper: it does not wait for long.
    pub(super) fn slot_soon(&self, pieces: &Pieces) -> Option<Slot> {
        self.slot_within(pieces, || SOON).0
    }

    /// A slot for a piece, after waiting for it, and whether helpers have left meanwhile. `None` where it may never come, or
    /// the link is over.
    pub(super) fn slot(&self, pieces: &Pieces) -> (Option<Slot>, bool) {
        let (slot, waited) = self.slot_within(pieces, || self.patience());
        (slot, waited >= SOON)
    }

    /// A slot, and how long it was waited for.
    fn slot_within(&self, pieces: &Pieces, patience: impl Fn() -> Duration) -> (Option<Slot>, Duration) {
        let began = Instant::now();
        loop {
            let slot = self.slot_now();
            let waited = began.elapsed();
            let is_over = || !pieces.are_left() || self.vgpu.errors.is_lost() || waited >= patience();
            if slot.is_some() || is_over() {
                return (slot, waited);
            }
            if waited < SOON {
                std::hint::spin_loop();
            } else {
                let _waits = tally::wait();
                std::thread::sleep(PAUSE);
            }
            // The server's answers free slots.
            self.vgpu.connection.look();
        }
    }

    /// The time to wait for a slot. CUDA's own copies of pageable memory wait for their stream, too.
    fn patience(&self) -> Duration {
        let comes = self.area.is_used_by(self.progress.stream()) && !self.vgpu.is_held();
        if comes { Duration::MAX } else { PATIENCE }
    }
}

impl Vgpu {
    /// The path of a stream's copies through slots; `None` where the worker has no memory of this process.
    pub(crate) fn slot_path(self: &Arc<Self>, progress: &Arc<StreamProgress>) -> Option<SlotPath> {
        let mut state = lock(&self.staging.state);
        if let State::Unknown = *state {
            // Held until the worker has said: other threads wait for the same answer.
            *state = self.make_slots().map_or(State::Refused, State::Ready);
        }
        let State::Ready(area) = &*state else { return None };
        Some(SlotPath { vgpu: Arc::clone(self), progress: Arc::clone(progress), area: Arc::clone(area) })
    }

    fn make_slots(&self) -> Option<Arc<Area>> {
        let arena = Some(()).filter(|()| self.shares()).and_then(|()| Arena::of_process())?;
        let memory = match arena.allocate(SLOT * SLOTS) {
            Ok(memory) => memory?,
            Err(error) => {
                log!(Info, "no memory for staging, pageable copies travel: {error}");
                return None;
            }
        };
        self.takes(memory.block.pointer().0, memory.pages()).then(|| Area::new(memory))
    }
}
