//! One end of the stepped tests: a session's state and its channels', without threads, and what it has written and read.
//! In: bytes, words and the time. Out: what it writes on wires. It does under no lock what the shell does under several.

use std::sync::Arc;
use std::time::Duration;

use floe_wire::Heartbeat;

use super::network::{Id, Network, Said};
use crate::error::Lost;
use crate::pipes::borrowed::BorrowedBuffer;
use crate::resumption::channels::ACKNOWLEDGEMENT_CHANNEL;
use crate::resumption::heartbeat::{Step, TICK};
use crate::resumption::history::{DigestImage, HistoryDigest, frame};
use crate::resumption::inbound::Inbound;
use crate::resumption::log::{Held, Impossible};
use crate::resumption::outbound::{CatchUp, MOST_COPIED, Next, Outbound, Through, Under};
use crate::resumption::session::{Left, LinkState, Session, Time};

/// How a frame's payload is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    Copied,
    BorrowedBuffer,
    Through,
}

/// Data whose owner counts how many are borrowed.
struct Data(Vec<u8>, #[allow(dead_code, reason = "its drop is what counts")] Arc<()>);

impl BorrowedBuffer for Data {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn with_bytes(&self, write: &mut dyn FnMut(&[u8])) {
        write(&self.0);
    }
}

#[derive(Default)]
pub(super) struct Channel {
    pub(super) outbound: Outbound<Id>,
    /// What is read, and what is ended.
    inbound: Option<Id>,
    pub(super) current: Option<Under<Id>>,
    pub(super) read: Inbound,
    /// A large write that waits for the peer.
    pub(super) through: Option<(Through, Vec<u8>)>,
    /// A connection that is being given what came before, and up to where it has been.
    behind: Option<(Under<Id>, u64)>,
    /// All that was ever written, and so much of what the peer has written came.
    pub(super) written: Vec<u8>,
    pub(super) came: usize,
}

impl Channel {
    /// What another process remembers of a channel, and what the tests do.
    pub(super) fn recalled(
        inbound: &DigestImage,
        (acknowledged, kept): (&DigestImage, &[u8]),
        (written, came): (Vec<u8>, usize),
    ) -> Self {
        let outbound = Outbound::recall(acknowledged, kept).expect("it was taken down so");
        let read = Inbound::recall(inbound).expect("it was taken down so");
        Self { outbound, read, written, came, ..Self::default() }
    }
}

pub(super) struct End {
    pub(super) side: usize,
    pub(super) session: Session<Id>,
    pub(super) channels: Vec<Channel>,
    /// The last look, and how many bytes had come by then.
    pub(super) looked: (Time, usize),
    borrowed: Arc<()>,
}

impl End {
    pub(super) fn new(side: usize, channels: usize, grace: Duration) -> Self {
        let channels = (0..channels).map(|_| Channel::default()).collect();
        Self { side, session: Session::new(grace, 0), channels, looked: (Time::ZERO, 0), borrowed: Arc::default() }
    }

    fn peer(&self) -> usize {
        1 - self.side
    }

    pub(super) fn is_over(&self) -> bool {
        self.session.link_state() == LinkState::Over
    }

    /// How much is borrowed and not back.
    pub(super) fn borrowed(&self) -> usize {
        Arc::strong_count(&self.borrowed) - 1
    }

    /// Bytes of copies that are kept.
    pub(super) fn copied(&self) -> usize {
        self.channels.iter().map(|channel| channel.outbound.copied()).sum()
    }

    /// Whether a channel's writer may write.
    pub(super) fn may_write(&self, channel: usize) -> bool {
        let channel = &self.channels[channel];
        let waits = channel.through.is_some() || self.session.link_state() == LinkState::Parked;
        !waits && channel.outbound.has_room() && self.session.goes_on() == Ok(true)
    }

    /// Writes a frame.
    pub(super) fn write(&mut self, net: &mut Network, now: Time, at: usize, payload: usize, how: How) {
        let (to, channel) = (self.peer(), &mut self.channels[at]);
        let from = channel.written.len();
        let data: Vec<u8> = (from..from + payload).map(|index| (index / 3 + at).to_le_bytes()[0]).collect();
        let all = frame(&data, (from + at) as u64);
        let head = &all[..all.len() - payload];
        channel.written.extend_from_slice(&all);
        let under = match how {
            How::Copied => channel.outbound.keep(|log| log.append(&all)),
            How::BorrowedBuffer => {
                let held = Held::new(Box::new(Data(data, Arc::clone(&self.borrowed))));
                channel.outbound.keep(|log| {
                    log.append(head);
                    log.hold(held, payload);
                })
            }
            How::Through => {
                let (through, under) = channel.outbound.begin_through(head, payload);
                channel.through = Some((through, data));
                under
            }
        };
        assert!(channel.outbound.copied() < MOST_COPIED + all.len(), "what is kept has no bound");
        if let Some(under) = under
            && !net.write(under.pipe, to, &all)
        {
            self.broke(net, under.epoch, now);
        }
    }

    /// Channels whose connection is being given what came before, or whose large write goes on.
    pub(super) fn busy(&self) -> impl Iterator<Item = usize> {
        let is_busy = |channel: &Channel| channel.behind.is_some() || channel.through.is_some();
        self.channels.iter().enumerate().filter(move |(_, channel)| is_busy(channel)).map(|(at, _)| at)
    }

    /// One more step of that; false: it waits.
    pub(super) fn advance(&mut self, net: &mut Network, now: Time, at: usize) -> bool {
        let (to, channel) = (self.peer(), &mut self.channels[at]);
        let failed = if let Some((under, from)) = channel.behind.take() {
            let CatchUp::Write(part) = channel.outbound.catch_up(&under, from) else { return true };
            channel.behind = Some((under.clone(), part.end));
            let written: Result<(), rustix::io::Errno> = part
                .write(|bytes, _| if net.write(under.pipe, to, bytes) { Ok(()) } else { Err(rustix::io::Errno::PIPE) });
            written.err().map(|_| {
                channel.behind = None;
                under.epoch
            })
        } else {
            let Some((through, data)) = &mut channel.through else { return false };
            match channel.outbound.go_through(through) {
                Next::Done => {
                    channel.through = None;
                    None
                }
                Next::Write(from, under) => (!net.write(under.pipe, to, &data[from..])).then_some(under.epoch),
                Next::Wait => return false,
            }
        };
        if let Some(epoch) = failed {
            self.broke(net, epoch, now);
        }
        true
    }

    /// Whether this end reads from a wire.
    pub(super) fn reads(&self, id: Id, channel: u32) -> bool {
        self.channels.get(channel as usize).is_some_and(|channel| channel.inbound == Some(id))
    }

    /// Bytes come on a channel.
    pub(super) fn read(&mut self, net: &mut Network, channel: u32, bytes: &[u8], is_drained: bool) {
        let channel = &mut self.channels[channel as usize];
        channel.came += bytes.len();
        if channel.read.absorb(bytes) || is_drained {
            self.tell(net, false);
        }
    }

    /// A wire has ended for who reads it.
    pub(super) fn ended(&mut self, net: &mut Network, (id, channel, epoch): (Id, u32, u64), now: Time) {
        if self.reads(id, channel) {
            self.channels[channel as usize].inbound = None;
        }
        self.broke(net, epoch, now);
    }

    pub(super) fn freeze(&mut self, channel: u32) -> HistoryDigest {
        if channel == ACKNOWLEDGEMENT_CHANNEL {
            return HistoryDigest::none();
        }
        let channel = &mut self.channels[channel as usize];
        channel.inbound = None;
        channel.read.mark()
    }

    pub(super) fn check(&self, channel: u32, mark: HistoryDigest) -> Result<(), Impossible> {
        self.channels.get(channel as usize).map_or(Ok(()), |channel| channel.outbound.check(mark))
    }

    /// Resumes a channel, or takes the acknowledgement connection.
    pub(super) fn take(
        &mut self,
        net: &mut Network,
        id: Id,
        which: (u64, u32),
        mark: HistoryDigest,
    ) -> Result<(), Impossible> {
        let (epoch, channel) = which;
        if channel == ACKNOWLEDGEMENT_CHANNEL {
            match self.session.hear(epoch, id) {
                Ok(()) => self.tell(net, true),
                Err(late) => net.close(late, self.side),
            }
            return Ok(());
        }
        if !self.session.is_of(epoch) {
            net.close(id, self.side);
            return Ok(());
        }
        let (channel, under) = (&mut self.channels[channel as usize], Under { pipe: id, epoch });
        drop(channel.outbound.resume(epoch, mark)?);
        (channel.inbound, channel.current) = (Some(id), Some(under.clone()));
        channel.behind = Some((under, mark.received));
        Ok(())
    }

    pub(super) fn acknowledged(&mut self, channel: u32, mark: HistoryDigest) -> Result<(), Impossible> {
        self.channels[channel as usize].outbound.acknowledge(mark).map(drop)
    }

    fn tell(&mut self, net: &mut Network, anew: bool) {
        let Some((&id, _)) = self.session.acknowledgements() else { return };
        for (at, channel) in (0..).zip(&mut self.channels) {
            if let Some(mark) = channel.read.untold(anew) {
                net.say(id, 1 - self.side, Said::Acknowledge(at, mark));
            }
        }
    }

    pub(super) fn hear_heartbeat(&mut self, net: &mut Network, heartbeat: Heartbeat, now: Time) {
        if self.session.hear_heartbeat(heartbeat, now) {
            self.send_heartbeat(net);
        }
    }

    fn send_heartbeat(&self, net: &mut Network) {
        if let Some((&id, _)) = self.session.acknowledgements() {
            net.say(id, self.peer(), Said::Heartbeat(self.session.heartbeat().0));
        }
    }

    pub(super) fn broke(&mut self, net: &mut Network, epoch: u64, now: Time) {
        let left = self.session.broke(epoch, now);
        self.leave(net, left);
    }

    /// Closes what is left.
    pub(super) fn leave(&mut self, net: &mut Network, left: Option<Left<Id>>) {
        let Some(left) = left else { return };
        for channel in &mut self.channels {
            if let Some(under) = channel.current.take_if(|under| under.epoch <= left.epoch) {
                net.close(under.pipe, self.side);
            }
        }
        left.acknowledgements.into_iter().flatten().for_each(|id| net.close(id, self.side));
    }

    /// Ends the session for this side, which says so where it can.
    pub(super) fn end(&mut self, net: &mut Network, lost: Option<Lost>) {
        if let Some((&id, _)) = self.session.acknowledgements() {
            net.say(id, self.peer(), Said::Goodbye);
        }
        let Some(left) = self.session.end(lost) else { return };
        for channel in &mut self.channels {
            drop(channel.outbound.end());
            (channel.through, channel.behind) = (None, None);
        }
        self.leave(net, Some(left));
    }

    /// When this end next has something to do although nothing comes.
    pub(super) fn deadline(&self) -> Option<Time> {
        let is_missing = self.channels.iter().any(|channel| channel.current.is_none());
        let grace = is_missing.then(|| self.session.deadline());
        let look = self.session.acknowledgements().map(|_| self.looked.0 + TICK);
        grace.into_iter().chain(look).min().filter(|_| !self.is_over())
    }

    /// Does what is due. A question that ought to have been answered, and its epoch.
    pub(super) fn timeout(&mut self, net: &mut Network, now: Time, waits: bool) -> Option<(u64, u64)> {
        let is_missing = self.channels.iter().any(|channel| channel.current.is_none());
        if is_missing && !self.is_over() && self.session.grace_left(now).is_zero() {
            self.end(net, Some(Lost::Grace(self.session.grace())));
        }
        if now < self.looked.0 + TICK {
            return None;
        }
        let came = self.channels.iter().map(|channel| channel.came).sum();
        let (last, before) = std::mem::replace(&mut self.looked, (now, came));
        let look = self.session.look(now.saturating_sub(last), waits, came != before, now);
        if look.tell {
            self.tell(net, false);
        }
        match look.step {
            Step::Nothing => None,
            Step::Ask(_) => {
                self.send_heartbeat(net);
                None
            }
            Step::Doubt(question) => look.epoch.map(|epoch| (epoch, question)),
        }
    }
}
