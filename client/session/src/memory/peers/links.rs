//! Links between vGPUs of different servers, over which their workers send each other bytes.
//! In: a pair of vGPUs, at their first copy. Out: the link's numbers at both workers and the next transfer's, or that there is
//! none. A pair is asked for once; where no server may connect to the other, copies pass this process.

use std::collections::HashMap;
use std::sync::{Arc, MutexGuard};

use floe_abi::{CudaError, CudaResult};
use floe_wire::{ConnectPeer, DropPeer, PeerLinkId, TicketId};

use super::signals::one_pair_at_a_time;
use super::ticket::Scope;
use super::ways::{Link, Way};
use crate::log::log;
use crate::vgpu::Vgpu;
use floe_lock::lock;

/// Connections of a link. One alone reaches no network's rate, as with bulk connections.
const LANES: u32 = 8;
/// Seconds in which the connections have to be made.
const SECONDS: u32 = 30;

/// A transfer over a link.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Transfer {
    pub(crate) number: u64,
    /// The link's number at the worker that sends.
    pub(crate) sender: PeerLinkId,
    /// And at the one that receives.
    pub(crate) receiver: PeerLinkId,
}

type Ways<'a> = MutexGuard<'a, HashMap<u8, Way>>;

/// The way between two vGPUs, held until a transfer is posted: both workers are told of transfers in the same order.
#[derive(Debug)]
pub(crate) struct Road<'a> {
    ways: Ways<'a>,
    lower: &'a Arc<Vgpu>,
    higher: &'a Arc<Vgpu>,
    goes_up: bool,
}

impl<'a> Road<'a> {
    /// The way from one vGPU to another of another server. It is made at first; `None`: the servers do not connect.
    pub(crate) fn between(source: &'a Arc<Vgpu>, target: &'a Arc<Vgpu>) -> CudaResult<Option<Self>> {
        let goes_up = source.ordinal < target.ordinal;
        let (lower, higher) = if goes_up { (source, target) } else { (target, source) };
        let mut ways = lock(&lower.peers.links);
        let epochs = [lower.epoch(), higher.epoch()];
        let is_there = match ways.get(&higher.ordinal) {
            Some(Way::Link(link)) if link.epochs == epochs => true,
            // The reset has ended it at one of them.
            Some(Way::Link(link)) => {
                drop_at(link, lower, higher);
                false
            }
            Some(Way::None) => return Ok(None),
            None => false,
        };
        if !is_there {
            let way = make(lower, higher, epochs)?;
            ways.insert(higher.ordinal, way);
        }
        let road = Self { ways, lower, higher, goes_up };
        let is_link = matches!(road.ways.get(&higher.ordinal), Some(Way::Link(_)));
        Ok(is_link.then_some(road))
    }

    /// Posts the next transfer to both workers.
    pub(crate) fn post(mut self, post: impl FnOnce(Transfer) -> CudaResult<()>) -> CudaResult<()> {
        let (lower, higher) = (self.lower, self.higher);
        let Some(Way::Link(link)) = self.ways.get_mut(&higher.ordinal) else { return Err(CudaError::UNKNOWN) };
        let number = &mut link.transfers[usize::from(self.goes_up)];
        *number += 1;
        let (sender, receiver) = if self.goes_up { (link.lower, link.higher) } else { (link.higher, link.lower) };
        let pair = one_pair_at_a_time();
        let posted = post(Transfer { number: *number, sender, receiver });
        drop(pair);
        if posted.is_err() {
            // One side may wait for the other.
            drop_at(link, lower, higher);
            self.ways.remove(&higher.ordinal);
        }
        posted
    }
}

/// Ends a link at both workers; one that is gone needs no telling.
fn drop_at(link: &Link, lower: &Vgpu, higher: &Vgpu) {
    for (vgpu, id, epoch) in [(lower, link.lower, link.epochs[0]), (higher, link.higher, link.epochs[1])] {
        if vgpu.epoch() == epoch {
            let _ = vgpu.connection.post(&DropPeer { link: id });
        }
    }
}

/// Has one of the servers connect to the other.
fn make(lower: &Vgpu, higher: &Vgpu, epochs: [u64; 2]) -> CudaResult<Way> {
    let up = connect(lower, higher)?;
    let made = match up {
        Ok([lower, higher]) => Ok([lower, higher]),
        Err(first) => connect(higher, lower)?.map(|[higher, lower]| [lower, higher]).map_err(|second| (first, second)),
    };
    Ok(match made {
        Ok([lower, higher]) => Way::Link(Link { lower, higher, epochs, transfers: [0; 2] }),
        Err((first, second)) => {
            let [one, other] = [lower, higher].map(|vgpu| &vgpu.peers.seat.address);
            log!(
                Warn,
                "copies between the vGPUs {} and {} pass this program: {one} does not connect to {other} ({first}), nor the other \
                 way round ({second})\n  name each server at the other: floe serve --peer ADDRESS",
                lower.ordinal,
                higher.ordinal
            );
            Way::None
        }
    })
}

/// Has one server connect to another. Returns the link's number at the first and at the other, or why it did not.
fn connect(from: &Vgpu, to: &Vgpu) -> CudaResult<Result<[PeerLinkId; 2], CudaError>> {
    let (own, theirs) = (PeerLinkId(from.next_id()), PeerLinkId(to.next_id()));
    let ticket = to.export(Scope::Link(theirs), LANES, SECONDS)?;
    let made = from.call(&ConnectPeer {
        link: own,
        server: &to.peers.seat.address,
        session: ticket.session,
        ticket: TicketId(ticket.ticket),
        key: &ticket.key,
        lanes: LANES,
        sealed: from.peers.seat.is_sealed || to.peers.seat.is_sealed,
    });
    match made {
        Ok(_) => Ok(Ok([own, theirs])),
        Err(error) => {
            to.connection.post(&DropPeer { link: theirs })?;
            from.errors.check()?;
            Ok(Err(error))
        }
    }
}
