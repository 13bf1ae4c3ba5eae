//! Receives what bulk connections carry.
//! In: frames of an untrusted peer. Out: their data, read straight into the targets of the transfers they name.

use floe_wire::{Chunk, Decode as _, Message as _};

use super::transfers::{Target, Transfers};
use crate::error::LinkError;
use crate::frames::bulk_frame::Bulk;
use crate::frames::receiver::{Arrival, Frame, Receiver};

/// Reads the chunks of a bulk connection into their targets, until the peer closes it.
///
/// # Errors
/// [`LinkError`] when the connection breaks or the peer violates the protocol; [`LinkError::Closed`] when the transfers
/// are closed.
pub fn pull<T: Target>(receiver: &mut Receiver, transfers: &Transfers<T>) -> Result<(), LinkError> {
    // Acknowledge complete transfers, not every chunk.
    receiver.tell_nothing();
    let peer = receiver.readiness();
    while let Some(arrival) = receiver.next_arrival(Chunk::KIND)? {
        let is_to_be_told = match arrival {
            Arrival::Bulk(bulk) => take(bulk, transfers)?,
            Arrival::Frame(frame) => take_small(frame, transfers)?,
        };
        if is_to_be_told {
            peer.tell_peer();
        }
    }
    Ok(())
}

/// Reads one chunk. Returns whether to acknowledge now.
fn take<T: Target>(mut bulk: Bulk<'_>, transfers: &Transfers<T>) -> Result<bool, LinkError> {
    let head = bulk.hollow()?;
    let chunk = Chunk::decode(&head)?;
    let claim = transfers.claim(chunk.transfer, chunk.offset, bulk.left())?;
    claim.fill(&mut |place| bulk.read(place))?;
    Ok(transfers.complete(claim))
}

/// The same for a small chunk, read as a whole frame: the end of a transfer.
fn take_small<T: Target>(frame: Frame<'_>, transfers: &Transfers<T>) -> Result<bool, LinkError> {
    if frame.kind != Chunk::KIND {
        return Err(LinkError::Kind { expected: Chunk::KIND, got: frame.kind });
    }
    let chunk = Chunk::decode(frame.payload)?;
    let claim = transfers.claim(chunk.transfer, chunk.offset, chunk.bytes.len())?;
    let mut rest = chunk.bytes;
    claim.fill(&mut |place| {
        let (now, later) = rest.split_at(place.len());
        place.copy_from_slice(now);
        rest = later;
        Ok(())
    })?;
    Ok(transfers.complete(claim))
}
