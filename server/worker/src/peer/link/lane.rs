//! The connections of a link, with a thread that writes and one that reads each.
//! In: words and full slots, frames of a peer that may lie. Out: frames; words for the book, bytes for the device.
//! Any connection carries any chunk. The end of one ends the link. A peer that does not read holds up its own link only.

use std::sync::Arc;

use floe_abi::CudaError;
use floe_device::Device;
use floe_transport::{Arrival, BorrowedBuffer, Bulk, Frame, Link, LinkError, Receiver, Sender};
use floe_wire::{Chunk as ChunkFrame, Decode as _, DecodeError, Message as _, PeerDone, PeerReady};

use super::book::{Broken, Chunk};
use super::staging::{Full, Staging};
use super::{Lane, PeerLink, Word};
use crate::memory::budget::Budget;

/// Why a connection is read no further.
#[derive(Debug, thiserror::Error)]
enum Stop {
    #[error(transparent)]
    Link(#[from] LinkError),
    #[error(transparent)]
    Decode(#[from] DecodeError),
    #[error("{0}")]
    Broken(String),
    #[error("the device does not take its bytes: {0}")]
    Device(CudaError),
    /// The link is over.
    #[error("it is over")]
    Over,
}

impl From<Broken> for Stop {
    fn from(broken: Broken) -> Self {
        Self::Broken(broken.0)
    }
}

/// What a connection writes next.
enum Next<D: Device> {
    Word(Word),
    Full(Arc<Staging<D>>, Full),
}

impl<D: Device> PeerLink<D> {
    /// Takes the place of one of the connections, before its peer is answered.
    pub(crate) fn take_lane(self: &Arc<Self>, lane: u32, lanes: u32, budget: &Budget) -> Result<(), String> {
        self.start(budget).map_err(|fault| fault.to_string())?;
        let mut state = self.state();
        let count = state.lanes.len();
        if u32::try_from(count) != Ok(lanes) {
            return Err(format!("it has {count} connections, not: {lanes}"));
        }
        match usize::try_from(lane).ok().and_then(|lane| state.lanes.get_mut(lane)) {
            Some(place @ Lane::Missing) => *place = Lane::Taken,
            _ => return Err(format!("it has no place for a connection of number: {lane}")),
        }
        Ok(())
    }

    /// Begins with a connection whose place was taken. `false`: the link is over.
    pub(crate) fn open_lane(self: &Arc<Self>, lane: u32, link: Link) -> bool {
        let (sender, receiver) = link.halves();
        let mut state = self.state();
        let place = usize::try_from(lane).ok().and_then(|lane| state.lanes.get_mut(lane));
        match place {
            Some(place @ Lane::Taken) => *place = Lane::Open(sender.clone()),
            _ => return false,
        }
        state.threads += 2;
        drop(state);
        let (writing, reading) = (Arc::clone(self), Arc::clone(self));
        let named = |name: &str| std::thread::Builder::new().name(name.into());
        let spawned = named("floe-peer-write")
            .spawn(move || {
                writing.write(&sender);
                writing.thread_ends();
            })
            .map_err(|error| (error, 2))
            .and_then(|_| {
                let read = move || {
                    reading.read(receiver);
                    reading.thread_ends();
                };
                named("floe-peer-read").spawn(read).map_err(|error| (error, 1))
            });
        if let Err((error, missing)) = spawned {
            self.end(&format!("no thread for it: {error}"));
            (0..missing).for_each(|_| self.thread_ends());
        }
        true
    }

    fn write(self: &Arc<Self>, sender: &Sender) {
        while let Some(next) = self.next() {
            let sent = match next {
                Next::Word(Word::Ready { transfer, bytes }) => sender.send(&PeerReady { transfer, bytes }, |_| ()),
                Next::Word(Word::Done { transfer }) => sender.send(&PeerDone { transfer }, |_| ()),
                Next::Full(staging, full) => {
                    let Chunk { transfer, offset, .. } = full.chunk;
                    let link = Arc::clone(self);
                    sender.send_borrowed(
                        &ChunkFrame { transfer, offset, bytes: &[] },
                        Box::new(Lent { link, staging, full }),
                    )
                }
            };
            if let Err(error) = sent {
                return self.end(&format!("its connection has ended: {error}"));
            }
        }
    }

    /// Waits for what leaves next; words go first.
    fn next(&self) -> Option<Next<D>> {
        let mut state = self.state();
        loop {
            if state.over.is_some() {
                return None;
            }
            if let Some(word) = state.words.pop_front() {
                return Some(Next::Word(word));
            }
            let staging = state.staging.clone();
            if let Some(staging) = staging
                && let Some(full) = state.full.pop_front()
            {
                return Some(Next::Full(staging, full));
            }
            state = floe_lock::wait(&self.writers, state);
        }
    }

    fn read(&self, mut receiver: Receiver) {
        let why = match self.read_all(&mut receiver) {
            Ok(()) => "the other session has closed it".to_owned(),
            Err(stop) => stop.to_string(),
        };
        self.end(&why);
    }

    fn read_all(&self, receiver: &mut Receiver) -> Result<(), Stop> {
        while let Some(arrival) = receiver.next_arrival(ChunkFrame::KIND)? {
            match arrival {
                Arrival::Bulk(bulk) => self.take(bulk)?,
                Arrival::Frame(frame) => self.take_small(frame)?,
            }
        }
        Ok(())
    }

    fn take(&self, mut bulk: Bulk<'_>) -> Result<(), Stop> {
        let head = bulk.hollow()?;
        let ChunkFrame { transfer, offset, .. } = ChunkFrame::decode(&head)?;
        self.store(transfer, offset, bulk.left(), |place| bulk.read(place))
    }

    /// A word, or a chunk that came whole.
    fn take_small(&self, frame: Frame<'_>) -> Result<(), Stop> {
        match frame.kind {
            ChunkFrame::KIND => {
                let ChunkFrame { transfer, offset, bytes } = ChunkFrame::decode(frame.payload)?;
                self.store(transfer, offset, bytes.len(), |place| {
                    place.copy_from_slice(bytes);
                    Ok(())
                })
            }
            PeerReady::KIND => {
                let PeerReady { transfer, bytes } = PeerReady::decode(frame.payload)?;
                self.state().book.wanted(transfer, bytes)?;
                self.mover.notify_one();
                Ok(())
            }
            PeerDone::KIND => {
                let PeerDone { transfer } = PeerDone::decode(frame.payload)?;
                self.state().book.done(transfer)?.end();
                Ok(())
            }
            kind => Err(Stop::Broken(format!("not a message between workers: {kind:#06x}"))),
        }
    }

    /// Reads a chunk into a slot, and has the device copy it to its place.
    fn store(
        &self,
        transfer: u64,
        offset: u64,
        bytes: usize,
        read: impl FnOnce(&mut [u8]) -> Result<(), LinkError>,
    ) -> Result<(), Stop> {
        let bytes = bytes as u64;
        let mut state = self.state();
        let at = state.book.claim(transfer, offset, bytes)?;
        let (slot, staging) = loop {
            let staging = state.staging.clone().filter(|_| state.over.is_none()).ok_or(Stop::Over)?;
            if let Some(slot) = state.to_receive.pop() {
                break (slot, staging);
            }
            state = floe_lock::wait(&self.readers, state);
        };
        drop(state);
        let flying = staging.store(slot, Chunk { transfer, offset, at, bytes }, read)?.map_err(Stop::Device)?;
        self.state().flying.push_back(flying);
        self.mover.notify_one();
        Ok(())
    }
}

/// A slot's bytes, for a connection. The slot is free again when this is dropped.
struct Lent<D: Device> {
    link: Arc<PeerLink<D>>,
    staging: Arc<Staging<D>>,
    full: Full,
}

impl<D: Device> BorrowedBuffer for Lent<D> {
    fn len(&self) -> usize {
        Staging::<D>::bytes(self.full)
    }

    fn with_bytes(&self, write: &mut dyn FnMut(&[u8])) {
        self.staging.lend(self.full, write);
    }
}

impl<D: Device> Drop for Lent<D> {
    fn drop(&mut self) {
        self.link.give_back(self.full.slot);
    }
}
