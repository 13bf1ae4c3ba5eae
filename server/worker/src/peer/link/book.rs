//! The transfers of a peer link, as both sessions' clients announced them, and how far each is.
//! In: announcements, streams that have got there, the peer's words and chunks. Out: chunks to send, places for those that
//! come, transfers that are over, and what of the peer's words cannot be.
//! It is pure: no byte, socket or driver is here. Bytes that nobody announced have no place.

use std::collections::{BTreeMap, VecDeque};

use floe_wire::{DevicePtr, WINDOW_BYTES, peer_chunk_bytes};

use crate::issue::fault::{Fault, violation};

/// Transfers in one direction at once, and words of the peer about transfers that are not announced here yet.
pub(crate) const MOST: usize = 32 << 10;

/// Why a peer's word cannot be. It ends the link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Broken(pub(crate) String);

fn broken<T>(words: impl Into<String>) -> Result<T, Broken> {
    Err(Broken(words.into()))
}

/// A chunk that may be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub(crate) transfer: u64,
    pub(crate) offset: u64,
    pub(crate) at: DevicePtr,
    pub(crate) bytes: u64,
}

#[derive(Debug)]
struct Outgoing<W> {
    from: DevicePtr,
    bytes: u64,
    /// Whether its stream has got there.
    begun: bool,
    /// Whether the peer's has.
    wanted: bool,
    /// Chunks that were given out.
    given: u64,
    wait: W,
}

#[derive(Debug)]
struct Incoming<W> {
    to: DevicePtr,
    bytes: u64,
    begun: bool,
    /// A bit for each chunk that has come.
    came: Vec<u64>,
    /// Chunks that are not in the device's memory.
    left: u64,
    wait: W,
}

/// All transfers of a link. `W` is what waits for one.
#[derive(Debug)]
pub(crate) struct Book<W> {
    outgoing: BTreeMap<u64, Outgoing<W>>,
    incoming: BTreeMap<u64, Incoming<W>>,
    /// Transfers that the peer wants and that are not announced here, with their bytes.
    early: BTreeMap<u64, u64>,
    /// Transfers with chunks to send, in order.
    line: VecDeque<u64>,
    last_out: u64,
    last_in: u64,
}

/// Chunks of a transfer: one also of no bytes, so that both sides say that they are there.
fn chunks(bytes: u64) -> u64 {
    bytes.div_ceil(peer_chunk_bytes(bytes)).max(1)
}

/// Checks a transfer that the session's own client announces.
fn check_new(transfer: u64, last: &mut u64, bytes: u64, count: usize) -> Result<(), Fault> {
    if transfer <= *last {
        return violation(format!("a transfer's number is not above the one before, {last}: {transfer}"));
    }
    if bytes > WINDOW_BYTES {
        return violation(format!("a transfer has no: {bytes} bytes"));
    }
    if count >= MOST {
        let words = format!("a peer link has its most transfers: {MOST}");
        return Err(Fault::Explained(floe_abi::CudaError::OUT_OF_MEMORY, words));
    }
    *last = transfer;
    Ok(())
}

impl<W> Default for Book<W> {
    fn default() -> Self {
        let (outgoing, incoming, early) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { outgoing, incoming, early, line: VecDeque::new(), last_out: 0, last_in: 0 }
    }
}

impl<W> Book<W> {
    /// The client announces a transfer to the peer. `wait` is made only where it may be.
    pub(crate) fn announce_send(
        &mut self,
        transfer: u64,
        (from, bytes): (DevicePtr, u64),
        wait: impl FnOnce() -> Result<W, Fault>,
    ) -> Result<Result<(), Broken>, Fault> {
        check_new(transfer, &mut self.last_out, bytes, self.outgoing.len())?;
        let wanted = self.early.remove(&transfer);
        let wait = wait()?;
        self.outgoing
            .insert(transfer, Outgoing { from, bytes, begun: false, wanted: wanted.is_some(), given: 0, wait });
        Ok(match wanted {
            Some(other) if other != bytes => broken(differs(transfer, bytes, other)),
            _ => Ok(()),
        })
    }

    /// The client announces a transfer from the peer.
    pub(crate) fn announce_receive(
        &mut self,
        transfer: u64,
        (to, bytes): (DevicePtr, u64),
        wait: impl FnOnce() -> Result<W, Fault>,
    ) -> Result<(), Fault> {
        check_new(transfer, &mut self.last_in, bytes, self.incoming.len())?;
        let wait = wait()?;
        let incoming = Incoming { to, bytes, begun: false, came: Vec::new(), left: chunks(bytes), wait };
        self.incoming.insert(transfer, incoming);
        Ok(())
    }

    /// The stream has got to a transfer to the peer. One that is over is none.
    pub(crate) fn begin_send(&mut self, transfer: u64) {
        if let Some(outgoing) = self.outgoing.get_mut(&transfer) {
            outgoing.begun = true;
            if outgoing.wanted {
                self.line.push_back(transfer);
            }
        }
    }

    /// The stream has got to a transfer from the peer. Returns its bytes, for the peer to know.
    pub(crate) fn begin_receive(&mut self, transfer: u64) -> Option<u64> {
        let incoming = self.incoming.get_mut(&transfer)?;
        incoming.begun = true;
        let words = usize::try_from(incoming.left.div_ceil(u64::from(u64::BITS))).ok()?;
        incoming.came = vec![0; words];
        Some(incoming.bytes)
    }

    /// The peer wants a transfer now.
    pub(crate) fn wanted(&mut self, transfer: u64, bytes: u64) -> Result<(), Broken> {
        let Some(outgoing) = self.outgoing.get_mut(&transfer) else {
            if transfer <= self.last_out || self.early.len() >= MOST {
                return broken(format!("it wants a transfer that is over, or too many: {transfer}"));
            }
            return match self.early.insert(transfer, bytes) {
                None => Ok(()),
                Some(_) => broken(format!("it wants a transfer twice: {transfer}")),
            };
        };
        if outgoing.wanted {
            return broken(format!("it wants a transfer twice: {transfer}"));
        }
        if outgoing.bytes != bytes {
            return broken(differs(transfer, outgoing.bytes, bytes));
        }
        outgoing.wanted = true;
        if outgoing.begun {
            self.line.push_back(transfer);
        }
        Ok(())
    }

    /// The next chunk to send.
    pub(crate) fn next_chunk(&mut self) -> Option<Chunk> {
        let transfer = *self.line.front()?;
        let Some(outgoing) = self.outgoing.get_mut(&transfer) else {
            self.line.pop_front();
            return self.next_chunk();
        };
        let whole = peer_chunk_bytes(outgoing.bytes);
        let offset = outgoing.given * whole;
        outgoing.given += 1;
        if outgoing.given == chunks(outgoing.bytes) {
            self.line.pop_front();
        }
        let bytes = (outgoing.bytes - offset).min(whole);
        Some(Chunk { transfer, offset, at: DevicePtr(outgoing.from.0.wrapping_add(offset)), bytes })
    }

    /// The place of a chunk that comes.
    pub(crate) fn claim(&mut self, transfer: u64, offset: u64, bytes: u64) -> Result<DevicePtr, Broken> {
        let Some(incoming) = self.incoming.get_mut(&transfer).filter(|incoming| incoming.begun) else {
            return broken(format!("it sends bytes of a transfer that nobody waits for: {transfer}"));
        };
        let whole = peer_chunk_bytes(incoming.bytes);
        let index = offset / whole;
        let fits = offset.is_multiple_of(whole) && index < chunks(incoming.bytes);
        if !fits || bytes != (incoming.bytes - offset).min(whole) {
            return broken(format!("it sends {bytes} bytes at {offset} of a transfer of: {}", incoming.bytes));
        }
        let bits = u64::from(u64::BITS);
        let word = usize::try_from(index / bits).ok().and_then(|word| incoming.came.get_mut(word));
        match word {
            Some(word) if *word & (1 << (index % bits)) == 0 => *word |= 1 << (index % bits),
            _ => return broken(format!("it sends a chunk twice: {offset} of transfer {transfer}")),
        }
        Ok(DevicePtr(incoming.to.0.wrapping_add(offset)))
    }

    /// A chunk that came is in the device's memory. If all are, the transfer is over.
    pub(crate) fn landed(&mut self, transfer: u64) -> Option<W> {
        let incoming = self.incoming.get_mut(&transfer)?;
        incoming.left -= 1;
        if incoming.left > 0 {
            return None;
        }
        self.incoming.remove(&transfer).map(|incoming| incoming.wait)
    }

    /// The peer has all of a transfer.
    pub(crate) fn done(&mut self, transfer: u64) -> Result<W, Broken> {
        let is_sent = |outgoing: &Outgoing<W>| outgoing.given == chunks(outgoing.bytes);
        if !self.outgoing.get(&transfer).is_some_and(is_sent) {
            return broken(format!("it has all of a transfer that was not sent: {transfer}"));
        }
        let over = self.outgoing.remove(&transfer).map(|outgoing| outgoing.wait);
        over.ok_or_else(|| Broken(format!("it has a transfer twice: {transfer}")))
    }

    /// The link is over: all that wait.
    pub(crate) fn end(&mut self) -> Vec<W> {
        let outgoing = std::mem::take(&mut self.outgoing).into_values().map(|outgoing| outgoing.wait);
        let incoming = std::mem::take(&mut self.incoming).into_values().map(|incoming| incoming.wait);
        self.line.clear();
        self.early.clear();
        outgoing.chain(incoming).collect()
    }
}

fn differs(transfer: u64, own: u64, other: u64) -> String {
    format!("transfer {transfer} has {own} bytes here, and at the peer: {other}")
}

#[cfg(test)]
mod tests;
