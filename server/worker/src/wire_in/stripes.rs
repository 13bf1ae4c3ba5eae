//! The session's bulk connections, as the worker has them.
//! In: chunks of what goes to the device, and the completer's data. Out: the bytes in the upload ring, to the issuer when they
//! are whole; the completer's on whichever connection has nothing to do.

use std::sync::{Arc, Mutex, PoisonError};

use floe_device::{Device, Pinned as _};
use floe_transport::{Giving, Help, Lent, LinkError, Load, Receiver, STRIPED_FROM, Target, pull};
use floe_wire::{DeliveryFollows, chunk_bytes};

use crate::life::ending::InputEnd;
use crate::life::shared::Shared;
use crate::memory::staging::{Landing, Staged};

/// Where a transfer to the device is put together.
pub(crate) enum Upload<D: Device> {
    /// In the upload ring.
    Pinned { memory: Arc<D::Pinned>, staged: Staged },
    /// Beside it, a chunk each, until the issuer has room: while a stream is held, nobody waits for that here.
    Heap(Heap),
}

impl<D: Device> Upload<D> {
    /// For so many bytes beside the ring.
    pub(crate) fn heap(bytes: usize) -> Self {
        let step = chunk_bytes(bytes);
        Self::Heap(Heap { step, chunks: (0..bytes.div_ceil(step)).map(|_| Mutex::default()).collect() })
    }
}

/// Chunks of a transfer.
pub(crate) struct Heap {
    /// Bytes of each, but for the last.
    step: usize,
    chunks: Vec<Mutex<Vec<u8>>>,
}

impl Heap {
    /// Shows each, with where it begins.
    pub(crate) fn each(&self, mut see: impl FnMut(usize, &[u8])) {
        for (index, chunk) in self.chunks.iter().enumerate() {
            see(index * self.step, &chunk.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }
}

impl<D: Device> Target for Upload<D> {
    fn fill(
        &self,
        offset: usize,
        bytes: usize,
        read: &mut dyn FnMut(&mut [u8]) -> Result<(), LinkError>,
    ) -> Result<(), LinkError> {
        match self {
            Self::Pinned { memory, staged } => {
                let mut outcome = Ok(());
                memory.fill(staged.offset + offset, bytes, &mut |place| outcome = read(place));
                outcome
            }
            Self::Heap(heap) => {
                let mut chunk = vec![0; bytes];
                read(&mut chunk)?;
                *heap.chunks[offset / heap.step].lock().unwrap_or_else(PoisonError::into_inner) = chunk;
                Ok(())
            }
        }
    }
}

impl<D: Device> Lent for Landing<D> {
    fn len(&self) -> usize {
        self.bytes
    }

    fn lend(&self, write: &mut dyn FnMut(&[u8])) {
        self.memory.lend(self.offset, self.bytes, write);
    }

    fn giving(&self) -> Giving {
        self.giving
    }
}

/// Whether a piece leaves on the bulk connections: there are some, and the copy is large enough, as far as this piece tells.
pub(crate) fn carry<D: Device>(shared: &Shared<D>, landing: &Landing<D>, offset: u64) -> bool {
    shared.stripes.any() && offset + landing.bytes as u64 >= STRIPED_FROM as u64
}

/// Has a piece for the client leave on the bulk connections. Does not wait; its place is free again when it has left.
pub(crate) fn deliver<D: Device>(
    shared: &Shared<D>,
    request: u64,
    landing: Landing<D>,
    offset: u64,
) -> Result<(), LinkError> {
    let bytes = landing.bytes;
    let message = DeliveryFollows { request, offset, bytes: bytes as u64 };
    let load = Load::new(Box::new(landing));
    shared.stripes.post(&shared.sender, &message, &load, 0..bytes, Help::None).map(|_| ())
}

/// Reads a bulk connection until it ends.
pub(crate) fn read<D: Device>(shared: &Shared<D>, receiver: &mut Receiver) -> InputEnd {
    pull(receiver, &shared.transfers).err().map_or(InputEnd::Closed, InputEnd::from)
}
