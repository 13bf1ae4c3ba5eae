//! The world of the stepped tests: two ends, a network, a clock of its own, and the client's and the server's ways to reconnect.
//! In: a seed and the weather. Out: how the session ended. It fails when neither all bytes arrive nor both sides end it, when
//! what is kept has no bound, and when nobody has anything to do and no timer is set.

mod client;
mod mover;

use std::time::Duration;

use client::Round;
use mover::Standstill;

use super::end::{End, How};
use super::network::{Id, Item, Network, Random, Said};
use crate::error::Lost;
use crate::frames::salt::SALTED_FROM;
use crate::resumption::channels::ACKNOWLEDGEMENT_CHANNEL;
use crate::resumption::history::HistoryDigest;
use crate::resumption::log::Impossible;
use crate::resumption::outbound::Under;
use crate::resumption::session::{Admission, LinkState, Time};

pub(super) const CLIENT: usize = 0;
pub(super) const SERVER: usize = 1;
pub(super) const GRACE: Duration = Duration::from_secs(60);
const CHANNELS: usize = 3;
/// After so long without an answer the kernel ends a connection.
const KERNEL: Duration = Duration::from_secs(20);
/// How long the server still hears what came before the end of another connection.
const QUIET: Duration = Duration::from_millis(500);
/// No session of these tests takes so long, by its own clock or in steps.
const LONGEST: Duration = Duration::from_secs(7200);
const MOST_STEPS: usize = 3_000_000;

/// What happens to a session.
#[derive(Clone, Copy, Default)]
pub(super) struct Weather {
    /// Frames that are written.
    pub(super) frames: usize,
    /// Wires that are cut, or that swallow everything.
    pub(super) cuts: usize,
    pub(super) swallows: usize,
    /// How often the server is not reached, and for how long at most.
    pub(super) outages: usize,
    pub(super) outage: Duration,
    /// How often the server moves to another process.
    pub(super) moves: usize,
    /// Old attempts to resume are heard again.
    pub(super) repeats: bool,
    /// From the middle on.
    pub(super) wrong: Option<Wrong>,
}

/// What cannot be.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Wrong {
    /// A peer says that it has more than was sent, when it resumes or meanwhile.
    Count(usize),
    /// As many bytes, and others.
    Digest(usize),
    Acknowledges(usize),
    /// An attempt of the present epoch is heard twice.
    Twice,
}

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Everything arrived, and then both sides ended it.
    Arrived,
    /// Both sides ended it before.
    Over,
}

pub(super) struct World {
    weather: Weather,
    pub(super) now: Time,
    pub(super) ends: [End; 2],
    pub(super) net: Network,
    random: Random,
    round: Option<Round>,
    next_attempt: Time,
    away_until: Time,
    /// Until when the server hears out what it has left.
    quiet: Option<Time>,
    /// Attempts to resume that the server has heard.
    heard: Vec<(u64, u32, HistoryDigest)>,
    frames: usize,
    arrived: bool,
    standstill: Option<Standstill>,
    /// How often the server has moved.
    pub(super) moved: usize,
}

impl World {
    pub(super) fn new(seed: u64, weather: Weather) -> Self {
        let random = Random(seed);
        let mut net = Network::new(Random(seed ^ 0x5555));
        let mut ends = [CLIENT, SERVER].map(|side| End::new(side, CHANNELS, GRACE));
        ends[SERVER].session.hear_goodbye();
        let own = net.dial(1, 0);
        for end in &mut ends {
            end.take(&mut net, own, (1, 0), HistoryDigest::none()).expect("nothing has been said");
        }
        let zero = Time::ZERO;
        let mut world = Self {
            weather,
            now: zero,
            ends,
            net,
            random,
            round: None,
            next_attempt: zero,
            away_until: zero,
            quiet: None,
            heard: Vec::new(),
            frames: weather.frames,
            arrived: false,
            standstill: None,
            moved: 0,
        };
        world.dial(1, 1);
        world
    }

    /// Lets the session go on to its end.
    pub(super) fn run(&mut self) -> Outcome {
        for _ in 0..MOST_STEPS {
            if self.ends.iter().all(End::is_over) {
                return if self.arrived { Outcome::Arrived } else { Outcome::Over };
            }
            assert!(self.now < LONGEST, "neither has everything arrived nor is the session over");
            if self.has_arrived() {
                self.arrived = true;
                self.ends[CLIENT].end(&mut self.net, None);
            }
            self.step();
        }
        panic!("it takes more than {MOST_STEPS} steps");
    }

    fn has_arrived(&self) -> bool {
        let all = |side: usize| {
            let pairs = self.ends[side].channels.iter().zip(&self.ends[1 - side].channels);
            pairs.into_iter().all(|(ours, theirs)| theirs.came == ours.written.len())
        };
        let is_free = |end: &End| end.copied() == 0 && end.borrowed() == 0 && end.busy().next().is_none();
        !self.arrived && self.frames == 0 && all(CLIENT) && all(SERVER) && self.ends.iter().all(is_free)
    }

    /// Something happens, or time passes until it does.
    pub(super) fn step(&mut self) {
        self.now += Duration::from_micros(self.random.below(400) as u64);
        self.timeouts();
        if self.ends.iter().all(End::is_over) {
            return;
        }
        let acted = match self.random.below(16) {
            0 => self.trouble(),
            1..4 => self.write(),
            4..8 => self.advance(),
            _ => self.deliver(),
        };
        if !acted && !self.deliver() && !self.advance() && !self.write() {
            let next = self.deadline();
            let next = next.unwrap_or_else(|| panic!("nobody has anything to do, and no timer is set: {self:?}"));
            self.now = self.now.max(next);
            self.timeouts();
        }
    }

    fn write(&mut self) -> bool {
        let (side, channel) = (self.random.below(2), self.random.below(CHANNELS));
        if self.frames == 0 || !self.ends[side].may_write(channel) {
            return false;
        }
        self.frames -= 1;
        let how = [How::Copied, How::Copied, How::BorrowedBuffer, How::Through][self.random.below(4)];
        let payload = match how {
            How::Copied if self.random.one_in(200) => 500_000,
            How::Copied => 1 + self.random.below(SALTED_FROM + 500),
            How::BorrowedBuffer | How::Through => SALTED_FROM + self.random.below(20_000),
        };
        self.ends[side].write(&mut self.net, self.now, channel, payload, how);
        true
    }

    fn advance(&mut self) -> bool {
        let side = self.random.below(2);
        [side, 1 - side].into_iter().any(|side| {
            let busy: Vec<usize> = self.ends[side].busy().collect();
            busy.into_iter().any(|channel| self.ends[side].advance(&mut self.net, self.now, channel))
        })
    }

    /// Something goes wrong.
    fn trouble(&mut self) -> bool {
        let half_way = self.frames < self.weather.frames / 2;
        match self.weather.wrong {
            Some(Wrong::Twice) if half_way => return self.repeat(true),
            // Until somebody notices.
            Some(_) if half_way => return self.cut(),
            _ => {}
        }
        if self.random.one_in(3) && self.park() {
            return true;
        }
        match self.random.below(4) {
            0 if self.weather.repeats => self.repeat(false),
            1 if self.weather.swallows > 0 && self.random.one_in(20) => {
                self.weather.swallows -= 1;
                self.net.swallow(self.now);
                true
            }
            2 if self.weather.outages > 0 && self.random.one_in(20) => {
                self.weather.outages -= 1;
                let longest = usize::try_from(self.weather.outage.as_millis()).expect("a short time");
                self.away_until = self.now + Duration::from_millis(self.random.below(longest) as u64);
                self.cut()
            }
            _ if self.weather.cuts > 0 => {
                self.weather.cuts -= 1;
                self.cut()
            }
            _ => false,
        }
    }

    fn cut(&mut self) -> bool {
        let wires: Vec<Id> = self.net.wires.keys().copied().collect();
        if wires.is_empty() {
            return false;
        }
        let wire = wires[self.random.below(wires.len())];
        self.net.cut(wire);
        true
    }

    /// The server hears again what a client said when it resumed a channel, of the `present` epoch or of one before.
    fn repeat(&mut self, present: bool) -> bool {
        let epoch = self.ends[SERVER].session.epoch();
        let fits = |(of, ..): &&(u64, u32, HistoryDigest)| (*of == epoch) == present;
        let Some(&(epoch, channel, mark)) = self.heard.iter().rev().find(fits) else { return false };
        let id = self.net.dial(epoch, channel);
        self.net.say(id, SERVER, Said::Continue(epoch, channel, mark));
        true
    }

    /// Delivers something that lies on a wire.
    fn deliver(&mut self) -> bool {
        let ends = &self.ends;
        let ready = |(id, side, wire, item): (Id, usize, &super::network::Wire, &Item)| {
            let is_read = ends[side].reads(id, wire.channel) || !ends[side].session.is_of(wire.epoch);
            (is_read || !matches!(item, Item::Bytes(_))).then_some((id, side, (wire.epoch, wire.channel)))
        };
        let ready: Vec<_> = self.net.fronts().filter_map(ready).collect();
        if ready.is_empty() {
            return false;
        }
        let (id, side, (epoch, channel)) = ready[self.random.below(ready.len())];
        match self.net.take(id, side) {
            Some(Item::Bytes(bytes)) if self.ends[side].reads(id, channel) => self.read(id, side, channel, &bytes),
            Some(Item::Said(said)) => self.hear(id, side, said),
            Some(Item::Ended) => self.ended(id, side, (epoch, channel)),
            _ => {}
        }
        true
    }

    fn read(&mut self, id: Id, side: usize, channel: u32, bytes: &[u8]) {
        let came = self.ends[side].channels[channel as usize].came;
        let written = &self.ends[1 - side].channels[channel as usize].written;
        let expected = written.get(came..came + bytes.len());
        assert!(expected == Some(bytes), "channel {channel}, side {side}: other bytes than were written, at {came}");
        let is_drained = self.net.is_drained(id, side);
        self.ends[side].read(&mut self.net, channel, bytes, is_drained);
    }

    fn ended(&mut self, id: Id, side: usize, (epoch, channel): (u64, u32)) {
        let end = &mut self.ends[side];
        let carries = end.channels.iter().any(|channel| channel.current.as_ref().is_some_and(|under| under.pipe == id));
        let acknowledges = end.session.acknowledgements().is_some_and(|(own, _)| *own == id);
        let is_made = side == CLIENT && self.round.as_ref().is_some_and(|round| round.has(id));
        if carries || acknowledges || is_made || end.reads(id, channel) {
            end.ended(&mut self.net, (id, channel, epoch), self.now);
        }
    }

    fn hear(&mut self, id: Id, side: usize, said: Said) {
        let now = self.now;
        let refused = match said {
            Said::Acknowledge(channel, mark) => {
                let mark = self.said(mark, Wrong::Acknowledges(1 - side));
                self.ends[side].acknowledged(channel, mark)
            }
            Said::Heartbeat(heartbeat) => {
                self.ends[side].hear_heartbeat(&mut self.net, heartbeat, now);
                Ok(())
            }
            Said::Goodbye => {
                self.ends[side].session.peer_says_goodbye();
                Ok(())
            }
            Said::Continue(epoch, channel, mark) => self.admit(id, (epoch, channel), mark),
            _ => self.answered(id, said),
        };
        if refused.is_err() {
            self.ends[side].end(&mut self.net, (side == CLIENT).then_some(Lost::Gone));
        }
    }

    /// What a peer says that it has; it lies where the weather says so.
    fn said(&self, mark: HistoryDigest, by: Wrong) -> HistoryDigest {
        let HistoryDigest { received, digest } = mark;
        match self.weather.wrong {
            Some(wrong) if self.frames < self.weather.frames / 2 && wrong == by => match wrong {
                Wrong::Digest(_) => HistoryDigest { received, digest: digest ^ 1 },
                _ => HistoryDigest { received: received + (1 << 40), digest },
            },
            _ => mark,
        }
    }

    fn said_by(&self, side: usize, channel: u32, mark: HistoryDigest) -> HistoryDigest {
        if channel == ACKNOWLEDGEMENT_CHANNEL {
            return mark;
        }
        self.said(self.said(mark, Wrong::Count(side)), Wrong::Digest(side))
    }

    /// The server hears which connection it is.
    fn admit(&mut self, id: Id, which: (u64, u32), mark: HistoryDigest) -> Result<(), Impossible> {
        if self.standstill.is_none() {
            // A server that stands still has heard nothing.
            self.heard.push((which.0, which.1, mark));
        }
        let mark = self.said_by(CLIENT, which.1, mark);
        let (server, net) = (&mut self.ends[SERVER], &mut self.net);
        let (admission, left) = server.session.admit(which.0, which.1, self.now);
        server.leave(net, left);
        match admission {
            Admission::Taken => {}
            Admission::Late { .. } => {
                net.say(id, CLIENT, Said::Refused);
                net.close(id, SERVER);
                return Ok(());
            }
            Admission::Parked => {
                net.close(id, SERVER);
                return Ok(());
            }
            Admission::Twice => return Err(Impossible::Others),
        }
        server.check(which.1, mark)?;
        let has = server.freeze(which.1);
        let has = self.said_by(SERVER, which.1, has);
        self.net.say(id, CLIENT, Said::Continued(has));
        self.ends[SERVER].take(&mut self.net, id, which, mark)
    }

    /// Does what is due.
    fn timeouts(&mut self) {
        self.unpark();
        let (now, waits) = (self.now, !self.arrived);
        if let Some((epoch, question)) = self.ends[CLIENT].timeout(&mut self.net, now, waits)
            && now >= self.away_until
            && self.ends[CLIENT].session.is_open(question)
        {
            self.ends[CLIENT].broke(&mut self.net, epoch, now);
        }
        // A server has nothing to find out about a client that does not answer.
        let _ = self.ends[SERVER].timeout(&mut self.net, now, false);
        while let Some((_, id)) = self.net.silent().filter(|(since, _)| now >= *since + KERNEL) {
            self.net.end(id);
        }
        let is_broken = self.ends[SERVER].session.link_state() == LinkState::Broken;
        self.quiet = is_broken.then(|| self.quiet.unwrap_or(now + QUIET));
        if self.quiet.is_some_and(|until| now >= until)
            && let Some(id) = self.ends[SERVER].session.stop_hearing()
        {
            self.net.end(id);
        }
        self.keep();
    }

    /// When the next timer is due.
    fn deadline(&self) -> Option<Time> {
        let client = &self.ends[CLIENT].session;
        let ends = self.ends.iter().filter_map(End::deadline);
        let kernel = self.net.silent().map(|(since, _)| since + KERNEL);
        let round = self.round.as_ref().map(|round| round.until);
        let is_broken = round.is_none() && client.link_state() == LinkState::Broken;
        let attempt = is_broken.then_some(self.next_attempt);
        let quiet = self.quiet.filter(|until| *until > self.now);
        let standstill = self.standstill.as_ref().map(|standstill| standstill.until);
        ends.chain(standstill).chain(kernel).chain(round).chain(attempt).chain(quiet).min()
    }

    /// The server is not reached for so long, and every wire ends.
    pub(super) fn go_away(&mut self, time: Duration) {
        self.away_until = self.now + time;
        let wires: Vec<Id> = self.net.wires.keys().copied().collect();
        wires.into_iter().for_each(|id| self.net.cut(id));
    }

    /// Which channels have a connection at both ends.
    pub(super) fn is_whole(&self) -> bool {
        let has = |end: &End| {
            end.session.acknowledgements().is_some() && end.channels.iter().all(|channel| channel.current.is_some())
        };
        self.ends.iter().all(has)
    }

    /// The connections at an end, by channel.
    pub(super) fn currents(&self, side: usize) -> Vec<Option<Under<Id>>> {
        self.ends[side].channels.iter().map(|channel| channel.current.clone()).collect()
    }
}

impl std::fmt::Debug for World {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(
            formatter,
            "at {:?}, next attempt: {:?}, round: {}",
            self.now,
            self.next_attempt,
            self.round.is_some()
        )?;
        for side in [CLIENT, SERVER] {
            writeln!(formatter, "{:?}\n{:?}", self.ends[side].session, self.currents(side))?;
        }
        write!(formatter, "{:?}", self.net.wires)
    }
}
