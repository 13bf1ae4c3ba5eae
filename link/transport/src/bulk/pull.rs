//! Receives what bulk connections carry.
//! In: frames of an untrusted peer. Out: their data, read straight into the targets of the transfers they name.

use floe_wire::{Chunk, Decode as _, Message as _};

use super::transfers::{Target, Transfers};
use crate::error::LinkError;
use crate::frames::bulk_frame::Bulk;
use crate::frames::receiver::{Arrival, Frame, Receiver};

/// What became of a chunk.
enum Outcome {
    /// It is in its place, and complete transfers are to be acknowledged now, or are not.
    Read(bool),
    /// Its transfer has not been announced, and nobody waits for that now.
    NotYet,
}

/// Reads the chunks of a bulk connection into their targets, until the peer closes it.
///
/// # Errors
/// [`LinkError`] when the connection breaks or the peer violates the protocol; [`LinkError::Closed`] when the transfers
/// are closed. [`LinkError::Stopped`] when the reader or the transfers are to stop: then it may be called again.
pub fn pull<T: Target>(receiver: &mut Receiver, transfers: &Transfers<T>) -> Result<(), LinkError> {
    // Acknowledge complete transfers, not every chunk.
    receiver.tell_nothing();
    let peer = receiver.readiness();
    while let Some(outcome) = take_next(receiver, transfers)? {
        match outcome {
            Outcome::Read(true) => peer.tell_peer(),
            Outcome::Read(false) => {}
            Outcome::NotYet => {
                receiver.put_back();
                return Err(LinkError::Stopped);
            }
        }
    }
    Ok(())
}

/// Reads the next chunk; `None`: the peer has closed.
fn take_next<T: Target>(receiver: &mut Receiver, transfers: &Transfers<T>) -> Result<Option<Outcome>, LinkError> {
    match receiver.next_arrival(Chunk::KIND)? {
        Some(Arrival::Bulk(bulk)) => take(bulk, transfers).map(Some),
        Some(Arrival::Frame(frame)) => take_small(frame, transfers).map(Some),
        None => Ok(None),
    }
}

/// Reads one chunk.
fn take<T: Target>(mut bulk: Bulk<'_>, transfers: &Transfers<T>) -> Result<Outcome, LinkError> {
    let head = bulk.hollow()?;
    let chunk = Chunk::decode(&head)?;
    let Some(claim) = transfers.claim(chunk.transfer, chunk.offset, bulk.left())? else {
        bulk.leave();
        return Ok(Outcome::NotYet);
    };
    claim.fill(&mut |place| bulk.read(place))?;
    Ok(Outcome::Read(transfers.complete(claim)))
}

/// The same for a small chunk, read as a whole frame: the end of a transfer.
fn take_small<T: Target>(frame: Frame<'_>, transfers: &Transfers<T>) -> Result<Outcome, LinkError> {
    if frame.kind != Chunk::KIND {
        return Err(LinkError::Kind { expected: Chunk::KIND, got: frame.kind });
    }
    let chunk = Chunk::decode(frame.payload)?;
    let Some(claim) = transfers.claim(chunk.transfer, chunk.offset, chunk.bytes.len())? else {
        return Ok(Outcome::NotYet);
    };
    let mut rest = chunk.bytes;
    claim.fill(&mut |place| {
        let (now, later) = rest.split_at(place.len());
        place.copy_from_slice(now);
        rest = later;
        Ok(())
    })?;
    Ok(Outcome::Read(transfers.complete(claim)))
}
