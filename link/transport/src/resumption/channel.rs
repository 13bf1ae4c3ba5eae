//! One channel of a session: the pipe that stays while sockets come and go under it.
//! In: bytes of both directions, and connections that resume the channel. Out: the same bytes at the other end, each once and
//! in order; a pause while there is no connection. What is kept and what is written again is decided in `outbound`.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};
use std::time::Duration;

use rustix::io::Errno;

pub(super) use floe_lock::lock;

use super::history::{DigestImage, HistoryDigest};
use super::inbound::Inbound;
use super::log::{Impossible, Log, Unkept};
use super::outbound::{CatchUp, Next, Outbound};
use super::waits::Waits;
use crate::error::{Failure, LinkError, Lost};
use crate::pipes::pipe::{Pipe, Reach};

/// Bytes from which on what is written from where it lies is not copied: who writes it waits until the peer has it.
pub(super) const HOLE_BYTES: usize = 512 << 10;

/// A connection of the session that carries the channel.
pub(super) type Under = super::outbound::Under<Arc<dyn Pipe>>;

/// All channels of a session, as one of them asks and tells them.
pub(super) trait Siblings: fmt::Debug + Send + Sync + 'static {
    /// Whether bytes still come: `Ok(false)` where either side has left.
    fn goes_on(&self) -> Result<bool, Failure>;

    /// Whether this side has left its connections, and makes nobody wait for others.
    fn is_parked(&self) -> bool;

    /// How long the peer may be missing altogether.
    fn grace(&self) -> Duration;

    /// How long it may still be missing.
    fn grace_left(&self) -> Duration;

    /// A connection of this epoch has failed.
    fn broke(&self, epoch: u64);

    /// The peer is to be told what has come, where it has not been told, or `anew` of all channels.
    fn tell(&self, anew: bool);

    /// This side ends the session.
    fn end(&self, lost: Option<Lost>);
}

/// A connection of a session, whichever socket carries it.
#[derive(Debug)]
pub(super) struct Channel<S> {
    pub(super) index: u32,
    pub(super) reach: Reach,
    pub(super) shared: Weak<S>,
    /// Who writes may be waiting for the peer to read.
    pub(super) waits: Arc<Waits>,
    /// Held by who reads, while it reads.
    inbound: Mutex<Option<Under>>,
    outbound: Mutex<Outbound<Arc<dyn Pipe>>>,
    /// Wakes who waits for the peer to have bytes, or for a connection to write the rest to.
    moved: Condvar,
    /// The connection there is, for who waits at it or ends it.
    pub(super) current: Mutex<Option<Under>>,
    /// Wakes who waits for a connection.
    pub(super) came: Condvar,
    /// What has been read, by who reads.
    read: Mutex<Inbound>,
}

/// What a channel remembers, for another process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChannelMemory {
    pub(crate) inbound: DigestImage,
    pub(crate) acknowledged: DigestImage,
    /// The bytes that were sent behind the acknowledged ones.
    pub(crate) kept: Vec<u8>,
}

/// What came of an attempt to read.
pub(super) enum Attempt {
    Got(Option<usize>),
    /// There is no connection.
    Without,
}

impl<S: Siblings> Channel<S> {
    pub(super) fn new(index: u32, reach: Reach, shared: Weak<S>, waits: Arc<Waits>) -> Self {
        Self {
            index,
            reach,
            shared,
            waits,
            inbound: Mutex::default(),
            outbound: Mutex::default(),
            moved: Condvar::new(),
            current: Mutex::default(),
            came: Condvar::new(),
            read: Mutex::default(),
        }
    }

    /// What has come, where the peer has not been told or is to be told `anew`.
    pub(super) fn untold(&self, anew: bool) -> Option<HistoryDigest> {
        lock(&self.read).untold(anew)
    }

    /// Bytes that were sent and are not known to have arrived.
    pub(super) fn in_flight(&self) -> u64 {
        lock(&self.outbound).in_flight()
    }

    /// What it remembers.
    pub(super) fn image(&self) -> Result<ChannelMemory, Unkept> {
        let (acknowledged, kept) = lock(&self.outbound).image()?;
        Ok(ChannelMemory { inbound: lock(&self.read).image(), acknowledged, kept })
    }

    /// Becomes the channel that another process remembers. False: that cannot be.
    pub(super) fn recall(&self, memory: &ChannelMemory) -> bool {
        let outbound = Outbound::recall(&memory.acknowledged, &memory.kept);
        let Some((read, outbound)) = Inbound::recall(&memory.inbound).zip(outbound) else { return false };
        (*lock(&self.outbound), *lock(&self.read)) = (outbound, read);
        true
    }

    /// How many bytes have come.
    pub(super) fn received(&self) -> u64 {
        lock(&self.read).received()
    }

    /// The peer has these bytes, or more: connections overtake each other.
    pub(super) fn acknowledge(&self, mark: HistoryDigest) -> Result<(), LinkError> {
        let free = lock(&self.outbound).acknowledge(mark);
        let free = free.map_err(|impossible| self.impossible(mark, impossible))?;
        self.moved.notify_all();
        drop(free);
        Ok(())
    }

    /// Whether the peer can have what it says it has.
    pub(super) fn check(&self, mark: HistoryDigest) -> Result<(), LinkError> {
        let checked = lock(&self.outbound).check(mark);
        checked.map_err(|impossible| self.impossible(mark, impossible))
    }

    fn impossible(&self, HistoryDigest { received, .. }: HistoryDigest, impossible: Impossible) -> LinkError {
        let channel = self.index;
        match impossible {
            Impossible::Outside { acknowledged, sent } => {
                LinkError::Acknowledgement { channel, received, acknowledged, sent }
            }
            Impossible::Others => LinkError::History { channel, received },
        }
    }

    /// Whether somebody reads at this moment.
    #[cfg(test)]
    pub(super) fn is_read(&self) -> bool {
        self.inbound.try_lock().is_err()
    }

    /// Leaves a connection of this epoch or an earlier one, which is ended; nobody waits at it any more.
    pub(super) fn detach(&self, epoch: u64) {
        let left = lock(&self.current).take_if(|under| under.epoch <= epoch);
        if let Some(under) = left {
            under.pipe.end();
        }
    }

    /// No byte is read before the next connection is there; which have been.
    pub(super) fn freeze(&self) -> HistoryDigest {
        let mut inbound = lock(&self.inbound);
        *inbound = None;
        lock(&self.read).mark()
    }

    /// As [`Channel::freeze`], where `is_valid` says so while nobody reads and none can attach.
    pub(super) fn freeze_if(&self, is_valid: impl Fn() -> bool) -> Option<HistoryDigest> {
        if !is_valid() {
            return None;
        }
        let mut inbound = lock(&self.inbound);
        is_valid().then(|| {
            *inbound = None;
            lock(&self.read).mark()
        })
    }

    /// Goes on with a connection whose peer has these bytes. `is_valid` is asked in the moment from which on
    /// [`Channel::detach`] ends it; what the peer lacks is written before anything else, which holds up nobody who posts or
    /// hears what has come. One that is not valid is ended.
    pub(super) fn attach(
        &self,
        epoch: u64,
        pipe: Arc<dyn Pipe>,
        mark: HistoryDigest,
        is_valid: impl Fn() -> bool,
    ) -> Result<(), LinkError> {
        let under = Under { pipe, epoch };
        let free = {
            let mut outbound = lock(&self.outbound);
            // Somebody may be reading on a later epoch's connection, which nothing ends: not waited for. While this one is
            // valid nobody reads, for its channel is frozen, and no later connection attaches before this lock is free.
            if !is_valid() {
                under.pipe.end();
                return Ok(());
            }
            let (mut inbound, mut current) = (lock(&self.inbound), lock(&self.current));
            // From a later epoch's beginning on neither direction may be touched by this one.
            if !is_valid() {
                under.pipe.end();
                return Ok(());
            }
            let free = outbound.resume(epoch, mark).map_err(|impossible| self.impossible(mark, impossible))?;
            *inbound = Some(under.clone());
            *current = Some(under.clone());
            free
        };
        self.came.notify_all();
        drop(free);
        let _waiting = self.waits.begin();
        let written = self.write_again(&under, mark.received);
        self.settle(&under, written);
        self.moved.notify_all();
        Ok(())
    }

    /// Writes what is kept from `at` on, with no lock held: who hears what has come must get on, for its peer to get on with
    /// what is written here. When nothing is left, others write.
    fn write_again(&self, under: &Under, mut at: u64) -> Result<(), Failure> {
        loop {
            let CatchUp::Write(part) = lock(&self.outbound).catch_up(under, at) else { return Ok(()) };
            at = part.end;
            part.write(|bytes, descriptor| match descriptor {
                Some(descriptor) => under.pipe.write_with(bytes, &[], descriptor),
                None => under.pipe.write(bytes, &[]),
            })?;
        }
    }

    /// The session is over for this side: nobody waits here any more, and what is kept goes back.
    pub(super) fn end(&self) {
        self.detach(u64::MAX);
        drop(lock(&self.current));
        self.came.notify_all();
        let free = lock(&self.outbound).end();
        self.moved.notify_all();
        drop(free);
    }

    /// Wakes who waits for a connection, to look whether it still should.
    pub(super) fn nudge(&self) {
        drop(lock(&self.current));
        self.came.notify_all();
    }

    /// As [`Channel::nudge`], and who waits to write, too.
    pub(super) fn nudge_all(&self) {
        self.nudge();
        drop(lock(&self.outbound));
        self.moved.notify_all();
    }

    /// Whether this side has left its connections, and makes nobody wait for others.
    pub(super) fn is_parked(&self) -> bool {
        self.shared.upgrade().is_some_and(|shared| shared.is_parked())
    }

    pub(super) fn broke(&self, epoch: u64) {
        if let Some(shared) = self.shared.upgrade() {
            shared.broke(epoch);
        }
    }

    /// Whether the session goes on; `Err` says why it does not, `Ok(false)` that the peer has left or this side has.
    pub(super) fn goes_on(&self) -> Result<bool, Failure> {
        self.shared.upgrade().map_or(Ok(false), |shared| shared.goes_on())
    }

    /// Waits for a connection, until the grace period is over.
    pub(super) fn await_connection(&self) -> Result<(), Failure> {
        let mut current = lock(&self.current);
        while current.is_none() && self.goes_on()? && !self.is_parked() {
            let left = self.shared.upgrade().map_or(Duration::ZERO, |shared| shared.grace_left());
            if left.is_zero() {
                drop(current);
                if let Some(shared) = self.shared.upgrade() {
                    shared.end(Some(Lost::Grace(shared.grace())));
                }
                return self.goes_on().map(|_| ());
            }
            current = floe_lock::wait_timeout(&self.came, current, left);
        }
        Ok(())
    }

    /// Reads once, where there is a connection.
    pub(super) fn attempt(
        &self,
        target: &mut [u8],
        read: impl FnOnce(&dyn Pipe, &mut [u8]) -> Result<Option<usize>, Failure>,
    ) -> Result<Attempt, Failure> {
        let mut inbound = lock(&self.inbound);
        let Some(under) = &*inbound else { return Ok(Attempt::Without) };
        match read(&*under.pipe, target) {
            Ok(None) => Ok(Attempt::Got(None)),
            Ok(Some(count)) if count > 0 => {
                let is_due = lock(&self.read).absorb(&target[..count]);
                drop(inbound);
                if is_due {
                    self.taken();
                }
                Ok(Attempt::Got(Some(count)))
            }
            Ok(Some(_)) | Err(Failure::System(_) | Failure::Lost(_)) => {
                let epoch = under.epoch;
                *inbound = None;
                drop(inbound);
                self.broke(epoch);
                Ok(Attempt::Without)
            }
            Err(failure @ (Failure::Index(_) | Failure::Stopped | Failure::Certificate(_))) => Err(failure),
        }
    }

    /// Has `note` keep in the log what is to be written, when there is room; the connection to write it to.
    pub(super) fn log(&self, note: impl FnOnce(&mut Log)) -> Result<Option<Under>, Failure> {
        Ok(self.outbound_with_room()?.keep(note))
    }

    /// Waits until a writer may keep more.
    fn outbound_with_room(&self) -> Result<MutexGuard<'_, Outbound<Arc<dyn Pipe>>>, Failure> {
        let mut outbound = lock(&self.outbound);
        // Looked at under this lock: who takes the session down finds here what was written before.
        while !outbound.has_room() || self.is_parked() {
            if !self.goes_on()? {
                return Err(rustix::io::Errno::PIPE.into());
            }
            outbound = self.wait_for_peer(outbound)?;
        }
        if self.goes_on()? { Ok(outbound) } else { Err(rustix::io::Errno::PIPE.into()) }
    }

    /// Waits until something has changed for who writes.
    fn wait_for_peer<'a>(
        &self,
        outbound: MutexGuard<'a, Outbound<Arc<dyn Pipe>>>,
    ) -> Result<MutexGuard<'a, Outbound<Arc<dyn Pipe>>>, Failure> {
        // Whoever reads sees to the grace period; this is for the case that nobody does.
        const LOOK: Duration = Duration::from_secs(1);
        let outbound = floe_lock::wait_timeout(&self.moved, outbound, LOOK);
        let is_without = lock(&self.current).is_none();
        let over = self.shared.upgrade().filter(|shared| is_without && shared.grace_left().is_zero());
        if let Some(shared) = over {
            drop(outbound);
            shared.end(Some(Lost::Grace(shared.grace())));
            return Err(Failure::Lost(Lost::Grace(shared.grace())));
        }
        Ok(outbound)
    }

    /// A write is done, or the next connection's beginning does it, where any can.
    pub(super) fn settle(&self, under: &Under, written: Result<(), Failure>) {
        match written {
            Ok(()) => {}
            Err(Failure::System(Errno::FAULT)) => self.end_all(Lost::Unreadable),
            Err(_) => self.broke(under.epoch),
        }
    }

    fn end_all(&self, lost: Lost) {
        if let Some(shared) = self.shared.upgrade() {
            shared.end(Some(lost));
        }
    }

    /// Writes what is too large to be kept; on return the peer has it.
    pub(super) fn write_through(&self, head: &[u8], tail: &[u8]) -> Result<(), Failure> {
        let _waiting = self.waits.begin();
        let (mut through, under) = self.outbound_with_room()?.begin_through(head, tail.len());
        if let Some(under) = &under {
            self.settle(under, under.pipe.write(head, tail));
        }
        let mut outbound = lock(&self.outbound);
        loop {
            let next = outbound.go_through(&mut through);
            if matches!(next, Next::Done) {
                return Ok(());
            }
            if !self.goes_on()? {
                return Err(rustix::io::Errno::PIPE.into());
            }
            if let Next::Write(from, under) = next {
                drop(outbound);
                self.settle(&under, under.pipe.write(&[], tail.get(from..).unwrap_or_default()));
                outbound = lock(&self.outbound);
            } else {
                outbound = self.wait_for_peer(outbound)?;
            }
        }
    }
}
