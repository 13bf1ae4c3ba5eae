//! The device to pageable memory: the device fills slots, threads empty them. The call returns when all bytes are in the
//! program's memory.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use floe_abi::{CudaError, CudaResult, DevicePtr};
use floe_surface::HostRange;

use super::copiers::{Copiers, Work};
use super::path::SlotPath;
use super::pieces::{Piece, Pieces};
use super::{SLOT, Slot, WAKES_FROM};
use crate::vgpu::connection::Ticket;
use floe_lock::lock;

/// Slots of one thread: the device fills one while the thread empties the other.
const DEPTH: usize = 2;

struct Download {
    path: SlotPath,
    target: HostRange,
    from: DevicePtr,
    pieces: Pieces,
    failed: Mutex<Option<CudaError>>,
}

/// A slot the device fills.
struct InFlight {
    piece: Piece,
    slot: Slot,
    ticket: Ticket,
}

impl SlotPath {
    /// Copies from the device through slots, from the beginning on. Returns the number of bytes copied; the others must
    /// travel.
    pub(crate) fn download(self, copiers: &Arc<Copiers>, target: &HostRange, from: DevicePtr) -> CudaResult<usize> {
        let pieces = Pieces::new(target.len(), copiers.threads(), SLOT);
        let quiet = self.vgpu.is_quiet(&self.progress);
        let download = Arc::new(Download { path: self, target: *target, from, pieces, failed: Mutex::default() });
        download.call_and_run(copiers, quiet);
        let staged = download.pieces.close(copiers.spin());
        download.path.vgpu.statistics.staged_from_device(staged as u64);
        let failed = *lock(&download.failed);
        failed.map_or(Ok(staged), Err)
    }
}

impl Download {
    /// Calls helpers when there will be something to empty soon: now where the stream is `quiet`, else with the first slot.
    fn call_and_run(self: &Arc<Self>, copiers: &Arc<Copiers>, quiet: bool) {
        let (helpers, wakes) = (self.pieces.most() - 1, self.target.len() >= WAKES_FROM);
        let mut called = false;
        let mut call = || {
            if !std::mem::replace(&mut called, true) {
                copiers.call(self, helpers, wakes);
            }
        };
        if quiet {
            call();
        }
        self.run(|| self.path.slot(&self.pieces).0, call);
    }

    fn run(&self, slot: impl Fn() -> Option<Slot>, mut came: impl FnMut()) {
        let mut in_flight = VecDeque::with_capacity(DEPTH);
        loop {
            self.fill_ahead(&mut in_flight, &slot);
            // Each is waited for, whatever became of the others: the device may still write its slot.
            let Some(next) = in_flight.pop_front() else { return };
            let InFlight { piece, slot, ticket } = next;
            let arrived = self.path.vgpu.connection.outcome(&ticket).inspect(|()| came());
            self.end(arrived.and_then(|()| self.empty(piece, &slot)));
        }
    }

    /// Has the device fill slots, as many as a thread can have.
    fn fill_ahead(&self, in_flight: &mut VecDeque<InFlight>, slot: &impl Fn() -> Option<Slot>) {
        while in_flight.len() < DEPTH && self.pieces.are_left() && lock(&self.failed).is_none() {
            let found = if in_flight.is_empty() { slot() } else { self.path.slot_now() };
            let Some(slot) = found else { return };
            let Some(piece) = self.pieces.take() else { return };
            let from = self.from.offset(piece.offset as u64).ok_or(CudaError::INVALID_VALUE);
            match from.and_then(|from| self.path.queue(slot.address(), from, piece.bytes)) {
                Ok(ticket) => in_flight.push_back(InFlight { piece, slot, ticket }),
                Err(error) => return self.end(Err(error)),
            }
        }
    }

    fn empty(&self, piece: Piece, slot: &Slot) -> CudaResult<()> {
        self.target.sub(piece.offset, piece.bytes)?.copy_from(&slot.range(piece.bytes), piece.bytes)
    }

    /// A piece is done, or never will be.
    fn end(&self, result: CudaResult<()>) {
        if let Err(error) = result {
            lock(&self.failed).get_or_insert(error);
        }
        self.pieces.is_done();
    }
}

impl Work for Download {
    fn help(&self) {
        self.run(|| self.path.slot_soon(&self.pieces), || ());
    }
}
