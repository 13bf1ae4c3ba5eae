//! Parks a session's link, so that another worker can continue it, and lets it go on where that worker does not.
//! In: the request, within a time limit. Out: readers that rest at a frame's border, and what the link remembers; or the
//! reason why not, and then everything goes on as if nothing had been. It stops no issuer and drains nothing: the caller
//! has done that, while the client's acknowledgements and answers still came.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use floe_device::Device;
use floe_transport::{
    ChannelEnds, Channels, MAIN_CHANNEL, NotTaken, Receiver, RingParts, Sender, TakenLink, go_on, hold, ring_parts,
    take_down,
};
use thiserror::Error;

use super::shared::Shared;
use super::watchdog::Watchdog;
use crate::wire_in::rest::Rest;

/// Pause between two looks whether nothing is being sent any more.
const LOOK: Duration = Duration::from_micros(200);
/// The client has soon said that it has what was sent: so much less is carried. A client that does not is not waited for.
const ACKNOWLEDGED: Duration = Duration::from_millis(50);
/// Bytes that are carried without waiting for that.
const CARRIED: u64 = 1 << 20;

/// A session's readers and senders, for who parks it; threads share it by cloning.
pub(crate) struct Parking<D: Device> {
    shared: Arc<Shared<D>>,
    channels: Option<Channels>,
    main: Arc<Rest>,
    bulk: Arc<Mutex<Vec<Bulk>>>,
    watchdog: Watchdog,
    /// Whether it is parked, or is being parked.
    is_parked: Arc<AtomicBool>,
}

/// A bulk connection's two directions.
struct Bulk {
    channel: u32,
    rest: Arc<Rest>,
    sender: Sender,
}

/// A link that is parked: what another worker needs, and nothing of it is used here before [`Parking::unpark`].
#[derive(Debug)]
pub(crate) struct ParkedLink {
    /// What it remembers, and the descriptor that goes along.
    pub(crate) taken: TakenLink,
    /// The transfer that the client announced last.
    pub(crate) last_transfer: u64,
}

/// Why a link is not parked. Everything goes on as before.
#[derive(Debug, Error)]
pub(crate) enum NotParked {
    /// The client has begun a frame and does not send its rest.
    #[error("the client has sent a part of a frame only")]
    WithinFrame,
    /// The client has announced a transfer and does not send its bytes.
    #[error("the client has announced bytes that have not come")]
    WithinTransfer,
    /// The connection has ended, or the session has.
    #[error("the session is over")]
    Over,
    /// It is parked.
    #[error("the session is parked already")]
    Parked,
    /// It cannot be taken down, or not now.
    #[error(transparent)]
    NotTaken(#[from] NotTaken),
}

/// Another worker has used the link, which therefore is not this one's any more.
#[derive(Debug, Error)]
#[error("another worker has continued the session's link")]
pub(crate) struct UsedElsewhere;

impl<D: Device> Clone for Parking<D> {
    fn clone(&self) -> Self {
        let Self { shared, channels, main, bulk, watchdog, is_parked } = self;
        Self {
            shared: Arc::clone(shared),
            channels: channels.clone(),
            main: Arc::clone(main),
            bulk: Arc::clone(bulk),
            watchdog: watchdog.clone(),
            is_parked: Arc::clone(is_parked),
        }
    }
}

impl<D: Device> Parking<D> {
    /// Of a session with this reader of its main connection; `channels` where it outlives its connections.
    pub(crate) fn new(shared: Arc<Shared<D>>, channels: Option<Channels>, main: Arc<Rest>, watchdog: Watchdog) -> Self {
        Self { shared, channels, main, bulk: Arc::default(), watchdog, is_parked: Arc::default() }
    }

    /// There is a bulk connection. A session that does not outlive its connections has no number for it.
    pub(crate) fn add_bulk(&self, channel: u32, rest: Arc<Rest>, sender: Sender) {
        floe_lock::lock(&self.bulk).push(Bulk { channel, rest, sender });
    }

    /// The descriptors that another worker needs ahead of the link's state. `None`: none, the client comes to it.
    ///
    /// # Errors
    /// [`NotTaken::NoGrace`]: the session cannot move. [`NotTaken::System`].
    pub(crate) fn ring_parts(&self) -> Result<Option<RingParts>, NotTaken> {
        ring_parts(self.channels.as_ref(), &self.shared.sender)
    }

    /// Whether the client can come back: its connection with acknowledgements has been there.
    #[cfg(test)]
    pub(crate) fn is_acknowledged(&self) -> bool {
        self.channels.as_ref().is_some_and(|channels| channels.hears())
    }

    /// The last transfer whose announcement has been read.
    #[cfg(test)]
    pub(crate) fn announced(&self) -> u64 {
        self.shared.transfers.last()
    }

    /// Has all readers rest at a frame's border, and takes the link down. The issuer rests, and nobody sends: the caller
    /// sees to that. Commands that were read lie in the queue, and their transfers are whole. From here on the client finds
    /// its connection broken or nobody at the other end of its rings, and waits.
    ///
    /// # Errors
    /// [`NotParked`], at the latest at `deadline`; then everything goes on.
    pub(crate) fn park_link(&self, deadline: Instant) -> Result<ParkedLink, NotParked> {
        // Before anything stops: some sessions never can.
        drop(self.ring_parts()?);
        if self.is_parked.swap(true, Ordering::SeqCst) {
            return Err(NotParked::Parked);
        }
        self.watchdog.rests();
        let parked = self.stop_reading(deadline).and_then(|()| self.stand_still(deadline));
        if parked.is_err() {
            self.read_on();
        }
        parked
    }

    /// Whether the client has left. Where it did while the link was parked, whoever continues the session finds out.
    #[cfg(test)]
    pub(crate) fn is_over(&self) -> bool {
        self.channels.as_ref().map_or_else(|| self.main.is_over(), Channels::is_over)
    }

    /// Lets a parked link go on in this worker.
    ///
    /// # Errors
    /// [`UsedElsewhere`]: it cannot, and the session is lost here.
    pub(crate) fn unpark(&self, parked: ParkedLink) -> Result<(), UsedElsewhere> {
        drop(parked);
        if !go_on(self.channels.as_ref(), &self.shared.sender) {
            return Err(UsedElsewhere);
        }
        self.read_on();
        Ok(())
    }

    /// Has the main connection's reader give out no more frames, then lets the bulk connections bring what they have to.
    fn stop_reading(&self, deadline: Instant) -> Result<(), NotParked> {
        self.shared.queue.let_pass(true);
        self.main.ask();
        self.border(&self.main, deadline)?;
        if !self.shared.transfers.stop(deadline) {
            return Err(NotParked::WithinTransfer);
        }
        let bulk: Vec<_> = floe_lock::lock(&self.bulk).iter().map(|bulk| Arc::clone(&bulk.rest)).collect();
        bulk.iter().for_each(|rest| rest.ask());
        bulk.iter().try_for_each(|rest| self.border(rest, deadline))
    }

    fn border(&self, rest: &Rest, deadline: Instant) -> Result<(), NotParked> {
        match rest.await_border(deadline) {
            true => Ok(()),
            false if rest.is_over() => Err(NotParked::Over),
            false => Err(NotParked::WithinFrame),
        }
    }

    /// Leaves connections, or holds rings, when everything is sent; then nobody reads or writes.
    fn stand_still(&self, deadline: Instant) -> Result<ParkedLink, NotParked> {
        self.shared.sender.flush().map_err(|_| NotParked::Over)?;
        let is_quiet = || self.shared.stripes.is_quiet();
        if !look_until(deadline, is_quiet) {
            return Err(NotTaken::Sends(MAIN_CHANNEL).into());
        }
        if let Some(channels) = &self.channels {
            let _ = look_until(deadline.min(Instant::now() + ACKNOWLEDGED), || channels.in_flight() <= CARRIED);
        }
        if !hold(self.channels.as_ref(), &self.shared.sender)? {
            return Err(NotParked::Over);
        }
        let parked = self.take_down(deadline);
        if parked.is_err() {
            // Nobody else knows of it yet.
            let _ = go_on(self.channels.as_ref(), &self.shared.sender);
        }
        parked
    }

    /// Waits until all readers rest, and takes the link down while they do.
    fn take_down(&self, deadline: Instant) -> Result<ParkedLink, NotParked> {
        let bulk = floe_lock::lock(&self.bulk);
        let bulk_rests = bulk.iter().map(|bulk| (bulk.channel, &bulk.rest, &bulk.sender));
        let main = (MAIN_CHANNEL, &self.main, &self.shared.sender);
        let all: Vec<_> = std::iter::once(main).chain(bulk_rests).collect();
        let mut receivers: Vec<(usize, Box<Receiver>)> = Vec::new();
        for (at, (_, rest, _)) in all.iter().enumerate() {
            if rest.await_rest(deadline) {
                receivers.extend(rest.take().map(|receiver| (at, receiver)));
            }
        }
        let ends: Vec<_> = receivers
            .iter()
            .map(|(at, receiver)| ChannelEnds { channel: all[*at].0, sender: all[*at].2, receiver })
            .collect();
        let mut taken = take_down(self.channels.as_ref(), &ends);
        while matches!(taken, Err(NotTaken::Sends(_))) && Instant::now() < deadline {
            std::thread::sleep(LOOK);
            taken = take_down(self.channels.as_ref(), &ends);
        }
        drop(ends);
        for (at, receiver) in receivers {
            all[at].1.give_back(receiver);
        }
        if all.iter().any(|(_, rest, _)| rest.is_over()) {
            return Err(NotParked::Over);
        }
        Ok(ParkedLink { taken: taken?, last_transfer: self.shared.transfers.last() })
    }

    /// Everything is read again.
    fn read_on(&self) {
        self.is_parked.store(false, Ordering::SeqCst);
        self.watchdog.goes_on();
        self.shared.queue.let_pass(false);
        self.shared.transfers.go_on();
        self.main.go_on();
        floe_lock::lock(&self.bulk).iter().for_each(|bulk| bulk.rest.go_on());
    }
}

/// Whether something is so by `deadline`.
fn look_until(deadline: Instant, is_so: impl Fn() -> bool) -> bool {
    loop {
        if is_so() {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(LOOK);
    }
}
