//! The session's bulk connections, as the client has them: made in the background after the attach, and used once they are
//! there. Copies leave on all of them at once. Announced copies go straight to the program's memory, and are complete
//! before the client reads any later frame of the server.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use floe_abi::{CudaError, CudaResult};
use floe_transport::{Help, Link, LinkError, Load, Receiver, Sender, Spin, Stripes, Target, Transfers, pull};
use floe_wire::{DeliveryFollows, Message};

use super::dial::Joining;
use super::error::ConnectError;
use super::handshake::CONNECT;
use super::pending::{DeliveryRange, Pending};
use super::{Connection, Shared};
use crate::log::log;
use crate::vgpu::statistics::Statistics;
use crate::vgpu::tally;
use floe_lock::lock;

/// Bytes of a copy from which on more threads copy it than there are connections: less is at sockets as soon as they have woken.
const STAGED_FROM: usize = 32 << 20;
/// The time in which a session whose bulk connection has ended may give the reason on its main connection.
const LAST_WORD: Duration = Duration::from_secs(1);
/// The interval at which this is checked.
const LOOK: Duration = Duration::from_millis(10);

/// The bulk connections of one link.
#[derive(Debug)]
pub(super) struct Bulk {
    stripes: Stripes,
    transfers: Transfers<Piece>,
    /// Deliveries that were announced and have not been waited for.
    announced: Mutex<Vec<u64>>,
    any_announced: AtomicBool,
    statistics: Arc<Statistics>,
}

/// A delivery on its way into the program's memory.
#[derive(Debug)]
struct Piece {
    place: DeliveryRange,
    pending: Arc<Pending>,
    heard: Arc<AtomicU64>,
}

impl Target for Piece {
    fn fill(
        &self,
        offset: usize,
        bytes: usize,
        read: &mut dyn FnMut(&mut [u8]) -> Result<(), LinkError>,
    ) -> Result<(), LinkError> {
        let read = self.place.fill_at(offset, bytes, read);
        self.heard.fetch_add(1, Ordering::AcqRel);
        read
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.pending.end_piece();
    }
}

impl Bulk {
    pub(super) fn new(spin: Spin, statistics: Arc<Statistics>) -> Self {
        Self {
            stripes: Stripes::new(spin),
            transfers: Transfers::new(spin),
            announced: Mutex::default(),
            any_announced: AtomicBool::new(false),
            statistics,
        }
    }

    /// Posts a command whose bytes, those of `load` at `place`, follow on these connections.
    fn post(
        &self,
        own: &Sender,
        command: &impl Message,
        load: &Arc<Load>,
        place: Range<usize>,
        help: Help,
    ) -> Result<u64, LinkError> {
        self.statistics.went_by_bulk(place.len() as u64);
        self.stripes.post(own, command, load, place, help)
    }

    /// A delivery follows as the transfer of this frame. False: nobody asked for it.
    pub(super) fn expect(&self, shared: &Shared, transfer: u64, delivery: &DeliveryFollows) -> bool {
        let Ok(bytes) = usize::try_from(delivery.bytes) else { return false };
        let begun = shared.pending.begin_piece(delivery.request, delivery.offset, bytes);
        let Some(place) = begun else { return false };
        let piece = Piece { place, pending: Arc::clone(&shared.pending), heard: Arc::clone(&shared.heard) };
        lock(&self.announced).push(transfer);
        self.any_announced.store(true, Ordering::Release);
        self.statistics.came_by_bulk(delivery.bytes);
        self.transfers.announce(transfer, bytes, piece)
    }

    /// Waits until every delivery that was announced is there. False: the link is over.
    pub(super) fn settle(&self) -> bool {
        if !self.any_announced.swap(false, Ordering::AcqRel) {
            return true;
        }
        let announced = std::mem::take(&mut *lock(&self.announced));
        announced.into_iter().all(|transfer| self.transfers.take(transfer).is_some())
    }

    /// Ends all of it at once.
    pub(super) fn close(&self) {
        self.stripes.close();
        self.transfers.close();
    }
}

impl Connection {
    /// Whether bulk connections carry what is large.
    pub(crate) fn has_stripes(&self) -> bool {
        self.shared.bulk.stripes.any()
    }

    /// Posts a message whose data, those of `load` at `place`, follow on the bulk connections.
    pub(crate) fn post_striped(
        &self,
        message: &impl Message,
        load: &Arc<Load>,
        place: Range<usize>,
        help: Help,
    ) -> CudaResult<u64> {
        tally::posted();
        let posted = self.shared.bulk.post(&self.sender, message, load, place, help);
        posted.map(|sequence| self.commands.note(sequence)).map_err(|error| self.shared.lost_by(&error))
    }

    /// Waits until nobody reads these data any more, and helps to send them.
    pub(crate) fn see_off(&self, load: &Load) {
        let Bulk { stripes, statistics, .. } = &self.shared.bulk;
        let _waiting = self.shared.waiting();
        stripes.see_off(load);
        statistics.staged_for_bulk(stripes.take_staged());
    }
}

/// Makes the connections, each on a thread that then reads it. Until one exists, all bytes use the main connection.
pub(super) fn start(shared: &Arc<Shared>, joining: &Arc<Joining>) -> std::io::Result<()> {
    // Connections that end with the session are given no pages.
    let copiers = if shared.keeper.is_some() { joining.copiers() } else { 0 };
    if let Err(error) = shared.bulk.stripes.stage(copiers, STAGED_FROM) {
        log!(Info, "copies have fewer threads than they could: {error}");
    }
    for place in 1..=joining.count {
        let (shared, joining) = (Arc::clone(shared), Arc::clone(joining));
        let body = move || match make(&shared, &joining, place) {
            Ok(link) => {
                let (sender, receiver) = link.halves();
                run(&shared, sender, receiver);
            }
            Err(_) if shared.errors.is_lost() => {}
            Err(error) => log!(Info, "copies have a connection less than they could: {error}"),
        };
        std::thread::Builder::new().name("floe-bulk".into()).spawn(body)?;
    }
    Ok(())
}

fn make(shared: &Shared, joining: &Joining, place: u32) -> Result<Link, ConnectError> {
    match &shared.keeper {
        Some(keeper) => keeper.make_first(shared, place),
        None => joining.join(CONNECT).map(|(link, _)| link),
    }
}

fn run(shared: &Shared, sender: Sender, mut receiver: Receiver) {
    if let Err(error) = shared.bulk.stripes.add(sender) {
        return shared.lose(CudaError::OPERATING_SYSTEM, &format!("no thread for a bulk connection: {error}"));
    }
    let reason = match pull(&mut receiver, &shared.bulk.transfers) {
        Ok(()) => "the server closed a bulk connection".to_owned(),
        Err(error) => format!("a bulk connection: {error}"),
    };
    // The session's own connection says more, where it says something.
    let mut waited = Duration::ZERO;
    while !shared.errors.is_lost() && waited < LAST_WORD {
        shared.incoming.watch();
        std::thread::sleep(LOOK);
        waited += LOOK;
    }
    shared.lose(CudaError::DEVICE_UNAVAILABLE, &reason);
}
