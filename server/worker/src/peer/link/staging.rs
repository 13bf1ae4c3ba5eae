//! Staging memory of a link: slots of a chunk each, which the device copies from and to.
//! In: chunks. Out: their places in pinned memory, and the bytes of a slot for a connection.
//! A slot has one user at a time: its holder gives it back.

use std::sync::Arc;

use floe_abi::{CudaResult, Stream, stream_flags};
use floe_device::{Device, PageSize, Pinned as _};
use floe_transport::LinkError;
use floe_wire::{PIECE_BYTES, peer_chunk_bytes};

use super::book::Chunk;
use crate::complete::events::{CompletionEvent, Pool};
use crate::issue::apart::Apart;
use crate::issue::fault::Fault;
use crate::memory::budget::{Budget, Kept};

/// Slots for each connection, in each direction: while the device copies one, a connection has another.
const SLOTS_OF_LANE: usize = 2;
/// Bytes of a slot: of the longest chunk.
const SLOT: usize = PIECE_BYTES;
const _: () = assert!(peer_chunk_bytes(u64::MAX) == SLOT as u64);

/// The memory, and the streams of its copies.
pub(super) struct Staging<D: Device> {
    device: Arc<D>,
    memory: D::Pinned,
    pool: Arc<Pool<D>>,
    out: Stream,
    back: Stream,
    _kept: Kept,
    /// The context of all of these: it goes last.
    apart: Arc<Apart<D>>,
}

/// A copy by the device.
pub(super) struct Flying<D: Device> {
    pub(super) completion: Arc<CompletionEvent<D>>,
    pub(super) slot: usize,
    pub(super) goal: Goal,
}

/// What follows a copy.
#[derive(Clone, Copy)]
pub(super) enum Goal {
    /// Its bytes leave.
    Send(Chunk),
    /// A chunk of this transfer has landed.
    Land(u64),
}

/// A slot whose bytes leave.
#[derive(Clone, Copy)]
pub(super) struct Full {
    pub(super) slot: usize,
    pub(super) chunk: Chunk,
}

/// The slots of a link with so many connections: those for bytes to the peer, then those from it.
pub(super) fn slots(lanes: usize) -> (Vec<usize>, Vec<usize>) {
    let half = lanes * SLOTS_OF_LANE;
    ((0..half).collect(), (half..2 * half).collect())
}

fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(SLOT).min(SLOT)
}

impl<D: Device> Staging<D> {
    /// Takes the memory for so many connections. The program's context is current afterwards.
    pub(super) fn new(
        device: &Arc<D>,
        apart: Arc<Apart<D>>,
        lanes: usize,
        budget: &Budget,
    ) -> Result<Arc<Self>, Fault> {
        let made = Self::make(device, apart, lanes, budget);
        device.enter()?;
        made
    }

    fn make(device: &Arc<D>, apart: Arc<Apart<D>>, lanes: usize, budget: &Budget) -> Result<Arc<Self>, Fault> {
        let bytes = 2 * lanes * SLOTS_OF_LANE * SLOT;
        let _kept = budget.keep(bytes as u64)?;
        apart.enter()?;
        let memory = device.pin(bytes, PageSize::Large)?;
        let stream = || device.stream_create_with_priority(stream_flags::NON_BLOCKING, 0);
        let (out, back) = (stream()?, stream()?);
        let pool = Pool::new(Arc::clone(device));
        Ok(Arc::new(Self { device: Arc::clone(device), memory, pool, out, back, _kept, apart }))
    }

    /// Has the device copy a chunk into a slot.
    pub(super) fn fetch(&self, slot: usize, chunk: Chunk) -> CudaResult<Flying<D>> {
        let bytes = size(chunk.bytes);
        self.apart.enter()?;
        if bytes > 0 {
            self.device.download(&self.memory, slot * SLOT, chunk.at, bytes, self.out)?;
        }
        Ok(Flying { completion: self.pool.record(self.out)?, slot, goal: Goal::Send(chunk) })
    }

    /// Has `read` fill a slot, and the device copy from there.
    pub(super) fn store(
        &self,
        slot: usize,
        chunk: Chunk,
        read: impl FnOnce(&mut [u8]) -> Result<(), LinkError>,
    ) -> Result<CudaResult<Flying<D>>, LinkError> {
        let (bytes, mut read, mut outcome) = (size(chunk.bytes), Some(read), Ok(()));
        self.memory.fill(slot * SLOT, bytes, &mut |place| {
            if let Some(read) = read.take() {
                outcome = read(place);
            }
        });
        outcome?;
        let issue = || {
            self.apart.enter()?;
            if bytes > 0 {
                self.device.upload(chunk.at, &self.memory, slot * SLOT, bytes, self.back)?;
            }
            Ok(Flying { completion: self.pool.record(self.back)?, slot, goal: Goal::Land(chunk.transfer) })
        };
        Ok(issue())
    }
}

impl<D: Device> Staging<D> {
    /// Bytes of a full slot.
    pub(super) fn bytes(full: Full) -> usize {
        size(full.chunk.bytes)
    }

    /// Shows the bytes of a full slot.
    pub(super) fn lend(&self, full: Full, write: &mut dyn FnMut(&[u8])) {
        self.memory.lend(full.slot * SLOT, Self::bytes(full), write);
    }
}

impl<D: Device> Drop for Staging<D> {
    fn drop(&mut self) {
        // On a context beyond use the driver refuses; they are gone with it.
        let _ = self.apart.enter();
        let _ = self.device.stream_destroy(self.out);
        let _ = self.device.stream_destroy(self.back);
        self.pool.empty();
    }
}
