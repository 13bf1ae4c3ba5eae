//! The session's bulk connections, as the worker has them.
//! In: connections that join, handed over by the daemon; chunks of what goes to the device. Out: the bytes in the upload ring,
//! to the issuer when they are whole; connections on which the completer's data leave.

use std::sync::{Arc, Mutex, PoisonError};

use floe_transport::{Help, Lent, Link, LinkError, Load, STRIPED_FROM, Target, pull};
use floe_wire::{CHUNK_BYTES, DeliveryFollows};

use crate::device::{Device, Pinned as _};
use crate::hand_over::{Role, Taker};
use crate::shared::Shared;
use crate::staging::{Landing, Staged};

/// Where connections that join come from.
#[derive(Debug, Default)]
pub struct Joining {
    /// Those that came before the session's own.
    pub early: Vec<Link>,
    /// Those that come.
    pub taker: Option<Taker>,
}

impl Joining {
    /// Has `join` take each connection, until the daemon gives no more.
    ///
    /// # Errors
    /// Those of `join`.
    pub(crate) fn each<E>(self, mut join: impl FnMut(Link) -> Result<(), E>) -> Result<(), E> {
        self.early.into_iter().try_for_each(&mut join)?;
        while let Some(Ok(Some((Role::Bulk, link)))) = self.taker.as_ref().map(Taker::take) {
            join(link)?;
        }
        Ok(())
    }
}

/// Where a transfer to the device is put together.
pub(crate) enum Upload<D: Device> {
    /// In the upload ring.
    Pinned { memory: Arc<D::Pinned>, staged: Staged },
    /// Beside it, a chunk each, until the issuer has room: while a stream is held, nobody waits for that here.
    Heap(Vec<Mutex<Vec<u8>>>),
}

impl<D: Device> Upload<D> {
    /// For so many bytes beside the ring.
    pub(crate) fn heap(bytes: usize) -> Self {
        Self::Heap((0..bytes.div_ceil(CHUNK_BYTES)).map(|_| Mutex::default()).collect())
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
            Self::Heap(chunks) => {
                let mut chunk = vec![0; bytes];
                read(&mut chunk)?;
                *chunks[offset / CHUNK_BYTES].lock().unwrap_or_else(PoisonError::into_inner) = chunk;
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

/// Why a bulk connection is not read any more.
pub(crate) enum PullEnd {
    /// The client has gone, or is about to.
    Closed,
    /// The session is over.
    Over,
    /// The client broke the contract.
    Contract(String),
    /// The connection broke.
    Link(LinkError),
}

/// Reads a bulk connection until it ends.
pub(crate) fn read<D: Device>(shared: &Shared<D>, mut receiver: floe_transport::Receiver) -> PullEnd {
    match pull(&mut receiver, &shared.transfers) {
        // A client that goes in the middle of a copy goes all the same.
        Ok(()) | Err(LinkError::CutOff { .. }) => PullEnd::Closed,
        Err(LinkError::Closed) => PullEnd::Over,
        Err(error) if error.is_broken_contract() => PullEnd::Contract(error.to_string()),
        Err(error) => PullEnd::Link(error),
    }
}
