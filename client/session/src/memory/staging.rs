//! Staging slots: pages of the arena that the worker of this machine has mapped, cut into slots for pageable copies. Threads copy
//! between the program's memory and slots, and the device between slots and its own, so no byte passes a socket. A copy takes a
//! slot and leaves it here with its ticket; the slot is free again when the server has answered that.
//!
//! All streams share the slots. One stream gets most of them at once, never all. A copy waits for a slot for a limited
//! time, then its other bytes travel.

pub(crate) mod copiers;
mod download;
pub(crate) mod path;
mod pieces;
mod upload;

use std::sync::{Arc, Mutex};

use floe_abi::DevicePtr;
use floe_surface::HostRange;

use crate::memory::host_memory::arena::ArenaBlock;
use crate::vgpu::connection::Ticket;
use floe_lock::lock;

/// Bytes of a copy from which on it goes through slots: less is at the socket as soon as it would be in a slot.
pub(crate) const FROM: usize = 64 << 10;
/// Bytes of a copy from which on other threads' waking pays: one thread copies so many in the time a few take to wake.
const WAKES_FROM: usize = 1 << 20;
/// Bytes of a slot. The device takes some 20 µs for them, the worker a third of that to queue the copy.
const SLOT: usize = 1 << 20;
/// The number of slots: a few for each copying thread, and few enough to stay in the processor's cache.
const SLOTS: usize = 16;
/// Slots one stream may have: the others are for streams that it may wait for.
const MOST: usize = 12;

/// The slots of one vGPU, once a copy has wanted some.
#[derive(Debug, Default)]
pub(crate) struct Staging {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Unknown,
    Refused,
    Ready(Arc<Area>),
}

/// Memory cut into slots.
#[derive(Debug)]
struct Area {
    memory: ArenaBlock,
    slots: Mutex<Slots>,
}

#[derive(Debug)]
struct Slots {
    /// Used last, taken first: its bytes are in the processor's cache.
    free: Vec<usize>,
    /// Which stream has each slot.
    streams: [Option<u64>; SLOTS],
    /// Slots the device reads, until their tickets are answered.
    in_flight: Vec<(usize, Ticket)>,
}

/// A slot somebody has. Free again when dropped.
#[derive(Debug)]
struct Slot {
    /// `None` once it is the device's.
    index: Option<usize>,
    area: Arc<Area>,
}

impl Staging {
    /// The worker has no slots any more.
    pub(crate) fn clear(&self) {
        *lock(&self.state) = State::Unknown;
    }
}

impl Area {
    fn new(memory: ArenaBlock) -> Arc<Self> {
        let slots = Slots { free: (0..SLOTS).rev().collect(), streams: [None; SLOTS], in_flight: Vec::new() };
        Arc::new(Self { memory, slots: Mutex::new(slots) })
    }

    /// A slot for a stream, if there is one for it.
    fn take(self: &Arc<Self>, stream: u64) -> Option<Slot> {
        let mut slots = lock(&self.slots);
        slots.free_answered();
        if slots.count(stream) >= MOST {
            return None;
        }
        let index = slots.free.pop()?;
        slots.streams[index] = Some(stream);
        Some(Slot { index: Some(index), area: Arc::clone(self) })
    }

    /// Whether the device still has to do with slots of this stream.
    fn is_used_by(&self, stream: u64) -> bool {
        lock(&self.slots).count(stream) > 0
    }
}

impl Slots {
    fn count(&self, stream: u64) -> usize {
        self.streams.iter().filter(|other| **other == Some(stream)).count()
    }

    fn release(&mut self, index: usize) {
        self.streams[index] = None;
        self.free.push(index);
    }

    /// Frees the slots the device is done with.
    fn free_answered(&mut self) {
        let over = self.in_flight.extract_if(.., |(_, ticket)| ticket.is_answered());
        let over: Vec<usize> = over.map(|(index, _)| index).collect();
        over.into_iter().for_each(|index| self.release(index));
    }
}

impl Slot {
    fn start(&self) -> usize {
        self.index.expect("it is not the device's yet") * SLOT
    }

    /// Its first bytes.
    fn range(&self, bytes: usize) -> HostRange {
        self.area.memory.block.range().sub(self.start(), bytes).expect("pieces are no longer than slots")
    }

    /// Its address, here and in the worker.
    fn address(&self) -> DevicePtr {
        DevicePtr(self.area.memory.block.pointer().0 + self.start() as u64)
    }

    /// Leaves it to the device until the ticket is answered.
    fn leave_until(mut self, ticket: Ticket) {
        if let Some(index) = self.index.take() {
            lock(&self.area.slots).in_flight.push((index, ticket));
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(index) = self.index {
            lock(&self.area.slots).release(index);
        }
    }
}
