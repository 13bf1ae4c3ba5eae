//! The session's bulk connections, as the worker has them.
//! In: chunks of what goes to the device, and the completer's data. Out: the bytes in the upload buffer, to the issuer when they
//! are whole; the completer's on whichever connection has nothing to do.

use floe_device::{Device, Pinned as _};
use floe_transport::{BorrowedBuffer, Help, LinkError, Load, Receiver, STRIPED_FROM, SendMode, pull};
use floe_wire::DeliveryFollows;

use crate::life::ending::InputEnd;
use crate::life::shared::Shared;
use crate::memory::transfer_buffers::DownloadRange;

impl<D: Device> BorrowedBuffer for DownloadRange<D> {
    fn len(&self) -> usize {
        self.bytes
    }

    fn with_bytes(&self, write: &mut dyn FnMut(&[u8])) {
        self.memory.lend(self.offset, self.bytes, write);
    }

    fn send_mode(&self) -> SendMode {
        self.send_mode
    }
}

/// Whether a piece leaves on the bulk connections: there are some, and the copy is large enough, as far as this piece tells.
pub(crate) fn carry<D: Device>(shared: &Shared<D>, range: &DownloadRange<D>, offset: u64) -> bool {
    shared.stripes.any() && offset + range.bytes as u64 >= STRIPED_FROM as u64
}

/// Has a piece for the client leave on the bulk connections. Does not wait; its place is free again when it has left.
pub(crate) fn deliver<D: Device>(
    shared: &Shared<D>,
    request: u64,
    range: DownloadRange<D>,
    offset: u64,
) -> Result<(), LinkError> {
    let bytes = range.bytes;
    let message = DeliveryFollows { request, offset, bytes: bytes as u64 };
    let load = Load::new(Box::new(range));
    shared.stripes.post(&shared.sender, &message, &load, 0..bytes, Help::None).map(|_| ())
}

/// Reads a bulk connection until it ends.
pub(crate) fn read<D: Device>(shared: &Shared<D>, receiver: &mut Receiver) -> InputEnd {
    pull(receiver, &shared.transfers).err().map_or(InputEnd::Closed, InputEnd::from)
}
