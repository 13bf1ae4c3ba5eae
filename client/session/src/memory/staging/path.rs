//! The path of one stream's copies through slots: a copy takes a free slot, or waits for one, and queues what the device does with
//! it. The first copy that wants slots makes them, where the worker takes memory of this process.

use std::sync::Arc;
use std::time::{Duration, Instant};

use floe_abi::{CudaResult, DevicePtr};
use floe_wire::CopyOnDevice;

use super::pieces::Pieces;
use super::{Area, SLOT, SLOTS, Slot, State};
use crate::log::log;
use crate::memory::arena::Arena;
use crate::vgpu::connection::Ticket;
use crate::vgpu::order::StreamProgress;
use crate::vgpu::{Vgpu, tally};
use floe_lock::lock;

/// How long to wait for a slot where it may never come: only other streams can free one, or a stream is held by what the
/// program may end only when this copy is over.
const PATIENCE: Duration = Duration::from_millis(20);
/// For so long a thread that waits for a slot does not sleep, and a helper waits: longer than the device and the way to it
/// and back take when nothing is ahead of the copy.
const SOON: Duration = Duration::from_micros(300);
/// Sleeps between later looks.
const PAUSE: Duration = Duration::from_micros(50);

/// What a copy through slots has to do with.
#[derive(Debug)]
pub(crate) struct SlotPath {
    pub(super) vgpu: Arc<Vgpu>,
    pub(super) progress: Arc<StreamProgress>,
    pub(super) area: Arc<Area>,
}

impl SlotPath {
    /// Queues what the device does with a slot. The ticket is answered when it is over, also where that is because of an
    /// error, which a later call reports.
    pub(super) fn queue(&self, to: DevicePtr, from: DevicePtr, bytes: usize) -> CudaResult<Ticket> {
        let stream = floe_wire::StreamId(self.progress.stream());
        let message = CopyOnDevice { stream, to, from, bytes: bytes as u64 };
        self.vgpu.connection.post_marked(&self.progress, &message)
    }

    /// A slot, if there is one.
    pub(super) fn slot_now(&self) -> Option<Slot> {
        self.area.take(self.progress.stream())
    }

    /// A slot for a piece, for who has been called to help: it does not wait for long.
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
                tally::waited();
                std::thread::sleep(PAUSE);
            }
            // What the server has said frees slots.
            self.vgpu.connection.look();
        }
    }

    /// How long to wait for a slot. CUDA's own copies of pageable memory wait for their stream, too.
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
