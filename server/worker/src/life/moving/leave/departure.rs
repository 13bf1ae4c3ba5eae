//! The phases of a move, as the session that leaves goes through them.
//! In: the daemon's order, the move stream. Out: the session at the other end, frozen here until the daemon's word; or why
//! not. What can be done while the program runs is done before it stands.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use floe_device::{Device, HashKey, Mapped};
use floe_migrate::{Phase, Progress};
use floe_transport::RingParts;

use super::lending::{self, Lending};
use super::objects::{self, Told};
use super::off::Off;
use super::partner::{Partner, RUNNING, unexpected};
use super::pause::Pause;
use super::sides::{Daemon, Session};
use crate::daemon::move_notices::{Described, Said};
use crate::issue::issuer::Issuer;
use crate::life::moving::stream::MoveStream;
use crate::life::moving::words::{Answer, Contents, Description, LinkKind, RING_MEMORY, RING_SOCKET, Step, VERSION};
use crate::peer::hub::Hub;
use crate::peer::proof::{KEY_BYTES, Key};

/// The longest silence while the program stands.
const STANDING: Duration = Duration::from_secs(60);
/// The longest time for the session to come to a border while the program runs: a load may take that long.
const BORDER: Duration = Duration::from_secs(60);
/// Pauses that are given up before the move is.
const RETRIES: u32 = 3;
/// Rounds of copying while the program runs, at most.
const ROUNDS: u32 = 6;
/// Bytes of variables and arrays that are sent together.
const TOGETHER: usize = 32 << 20;

/// A move on its way.
pub(super) struct Departure<'a, D: Device> {
    pub(super) session: &'a Session<'a, D>,
    pub(super) daemon: &'a Daemon<'a>,
    partner: Partner<'a>,
    pub(super) lending: &'a Arc<Mutex<Lending<D>>>,
    progress: Progress,
    told: Told,
}

impl<'a, D: Device> Departure<'a, D> {
    pub(super) fn new(
        session: &'a Session<'a, D>,
        daemon: &'a Daemon<'a>,
        stream: MoveStream,
        lending: &'a Arc<Mutex<Lending<D>>>,
    ) -> Self {
        let (progress, told) = (Progress::default(), Told::default());
        Self { session, daemon, partner: Partner::new(stream, daemon), lending, progress, told }
    }

    /// Goes through all phases. Ok: the session is the target's.
    pub(super) fn go(&mut self) -> Result<(), Off> {
        let left = self.phases();
        self.session.shared.hub.end_move();
        left
    }

    /// It was given up, and the session goes on.
    pub(super) fn end(self) {
        self.partner.leave();
    }

    fn phases(&mut self) -> Result<(), Off> {
        self.admit()?;
        self.phase(Phase::Replay)?;
        self.update()?;
        self.phase(Phase::Lend)?;
        let mut retries = 0;
        loop {
            if !self.daemon.order.stop_and_copy && !self.daemon.order.same_gpu {
                self.copy_ahead()?;
            }
            match self.pause() {
                Err(Off::NotNow(why)) if retries < RETRIES => {
                    retries += 1;
                    self.daemon.say(Said::WentOn(why));
                    self.session.errands.goes_on();
                    self.update()?;
                }
                other => return other,
            }
        }
    }

    /// Says where the move is.
    pub(super) fn phase(&mut self, phase: Phase) -> Result<(), Off> {
        self.progress.of = floe_lock::lock(self.lending).bytes();
        self.daemon.say(Said::Phase(phase, self.progress));
        self.daemon.demand_on()
    }

    fn admit(&mut self) -> Result<(), Off> {
        let Session { shared, errands, number, ordinal, .. } = *self.session;
        let deadline = Instant::now() + BORDER;
        let parking = self.session.parking.clone();
        let described = errands.call(deadline, move |issuer| {
            let refusal = issuer.refusals().into_iter().find(|refusal| !refusal.passes);
            (refusal, issuer.own_description(), parking.ring_parts())
        })?;
        let (refusal, (granularity, objects, arrays), parts) = described;
        if let Some(refusal) = refusal {
            return Err(Off::Ended(refusal.why));
        }
        let link = match parts.map_err(|error| Off::Ended(error.to_string()))? {
            None => LinkKind::Connections { local: shared.sender.carries_descriptors() },
            Some(RingParts { memory, bytes, offered, socket }) => {
                shared.hub.offer_file(RING_MEMORY, memory);
                shared.hub.offer_file(RING_SOCKET, socket);
                LinkKind::Rings { bytes, offered }
            }
        };
        let (ticket, key) = begin_lending(&shared.hub, self.daemon)?;
        let blocks: u64 = lending::refresh(errands, self.lending, deadline)?.iter().map(|block| block.bytes).sum();
        self.daemon.say(Said::Described(Described { bytes: blocks.saturating_add(arrays), objects }));
        let description =
            Description { version: VERSION, session: number, ticket, key, ordinal, granularity, link, kept: false };
        self.partner.demand_done(&Step::Describe(description), &[])
    }

    /// Brings the target's blocks and objects up to date while the program runs.
    fn update(&mut self) -> Result<(), Off> {
        let deadline = Instant::now() + BORDER;
        loop {
            match self.update_once(false, deadline) {
                Err(Off::NotNow(_)) if objects::again(deadline) => {}
                updated => {
                    // What the program has freed since is the GPU's again. This waits for its work, and it does not wait for this.
                    floe_lock::lock(self.lending).give_back();
                    return updated;
                }
            }
        }
    }

    fn update_once(&mut self, standing: bool, deadline: Instant) -> Result<(), Off> {
        let (lending, since, errands) = (Arc::clone(self.lending), self.told.clock, self.session.errands);
        let searched = Arc::clone(&self.told.searched);
        let look = move |issuer: &mut Issuer<D>| objects::look(issuer, &lending, since, &searched, standing);
        let present = errands.call(deadline, look)??;
        let names = self.told.names(&present)?;
        let variables = errands.call(deadline, move |issuer| issuer.find_variables(&names))?;
        let have_changed = *self.told.variables != variables;
        self.partner.send_code(&present.code)?;
        self.partner.demand_done(&Step::Blocks(present.blocks.clone()), &[])?;
        if self.daemon.order.keeps {
            self.partner.demand_done(&Step::Files(present.files.clone()), &[])?;
        }
        if have_changed {
            self.partner.demand_done(&Step::Places(variables.clone()), &[])?;
        }
        self.partner.demand_done(&Step::Objects, &[&present.image.encode()])?;
        self.told.clock = present.image.clock;
        if have_changed {
            self.partner.demand_done(&Step::Variables(variables.clone()), &[])?;
            self.told.variables = Arc::new(variables);
        }
        Ok(())
    }

    /// Copies while the program runs, in rounds as long as they shrink.
    fn copy_ahead(&mut self) -> Result<(), Off> {
        self.phase(Phase::Precopy)?;
        let mut last = self.copy_all(Phase::Precopy)?;
        self.count(last);
        while self.progress.rounds < ROUNDS {
            self.update()?;
            let copied = self.compare(false)?;
            self.count(copied);
            self.phase(Phase::Precopy)?;
            if copied == 0 || copied > last - last / 3 {
                break;
            }
            last = copied;
        }
        Ok(())
    }

    fn count(&mut self, copied: u64) {
        self.progress.bytes += copied;
        self.progress.rounds += 1;
    }

    /// Has the target copy all that it has not copied yet. Returns how many bytes these were.
    fn copy_all(&mut self, phase: Phase) -> Result<u64, Off> {
        match self.partner.ask(&Step::Copy, &[])? {
            Answer::Copied(bytes) => Ok(bytes),
            Answer::Send { copied, pieces } => Ok(copied + self.send_pieces(phase, &pieces)?),
            other => Err(unexpected(&other)),
        }
    }

    /// Has the target compare its memory with the session's, and copy what differs. Returns how many bytes these were.
    pub(super) fn compare(&mut self, last: bool) -> Result<u64, Off> {
        let mut random_bits = [0; 16];
        random(&mut random_bits)?;
        let both = u128::from_le_bytes(random_bits);
        let low = |bits: u128| u64::try_from(bits & u128::from(u64::MAX)).unwrap_or_default();
        let key = HashKey::of([low(both), low(both >> 64)]);
        let lending = self.lending;
        let own = || floe_lock::lock(lending).hashes(key);
        let (answer, hashes) = self.partner.ask_beside(&Step::Hash(key.points()), &[], own);
        let hashes = hashes.map_err(Off::device("hashing the session's memory"))?;
        match answer? {
            Answer::Done => {}
            other => return Err(unexpected(&other)),
        }
        match self.partner.ask(&Step::Compare { key: key.points(), last }, &[hashes.as_flattened()])? {
            Answer::Copied(bytes) => Ok(bytes),
            Answer::Send { copied, pieces } => {
                let phase = if last { Phase::Finish } else { Phase::Precopy };
                let sent = self.send_pieces(phase, &pieces)?;
                if last && sent > 0 {
                    // What was sent is compared, too.
                    return Ok(copied + sent + self.compare(last)?);
                }
                Ok(copied + sent)
            }
            other => Err(unexpected(&other)),
        }
    }

    /// Sends what the target cannot import.
    fn send_pieces(&mut self, phase: Phase, pieces: &[(u64, u64, u64)]) -> Result<u64, Off> {
        let (lending, daemon, before) = (self.lending, self.daemon, self.progress);
        let read = |block, offset, bytes| {
            let read = floe_lock::lock(lending).read(block, offset, bytes);
            read.map_err(Off::device("reading the session's memory"))
        };
        self.partner.send_pieces(pieces, read, |sent| {
            daemon.say(Said::Phase(phase, Progress { bytes: before.bytes + sent, ..before }));
            daemon.demand_on()
        })
    }

    /// Has the program stand, sends the rest, and waits for the daemon's word.
    fn pause(&mut self) -> Result<(), Off> {
        self.phase(Phase::Park)?;
        let deadline = Instant::now() + Duration::from_millis(self.daemon.order.patience_ms);
        let mut pause = Pause::begin(self.session, deadline)?;
        self.phase(Phase::Drain)?;
        let ended = pause.drain(deadline).and_then(|()| {
            self.partner.patience = STANDING;
            self.finish(&mut pause, deadline)
        });
        self.partner.patience = RUNNING;
        match ended.and_then(|()| self.daemon.last_word()) {
            Ok(()) => {
                pause.stay();
                Ok(())
            }
            Err(off) => {
                pause.go_on()?;
                Err(off)
            }
        }
    }

    fn finish(&mut self, pause: &mut Pause<'_, D>, deadline: Instant) -> Result<(), Off> {
        self.phase(Phase::Finish)?;
        let last = pause.stop_link(deadline)?;
        self.update_once(true, Instant::now() + STANDING)?;
        let contents = pause.contents(&self.told.variables)?;
        self.send_contents(&contents)?;
        let mut sent = 0;
        loop {
            let slices = pause.slices(sent, TOGETHER)?;
            if slices.is_empty() {
                break;
            }
            self.send_contents(&slices)?;
            sent += slices.len();
            self.daemon.demand_on()?;
        }
        if !self.daemon.order.same_gpu {
            let copied = self.copy_all(Phase::Finish)? + self.compare(true)?;
            self.progress.bytes += copied;
            self.phase(Phase::Finish)?;
        }
        let bodies: Vec<&[u8]> = last.bodies.iter().map(Vec::as_slice).collect();
        self.partner.demand_done(&Step::Last(Box::new(last.word)), &bodies)?;
        self.partner.demand_done(&Step::Frozen(pause.digest()?), &[])?;
        self.daemon.say(Said::Frozen);
        Ok(())
    }

    /// Sends what is not memory of blocks, many things at a time.
    fn send_contents(&mut self, contents: &[(Contents, Vec<u8>)]) -> Result<(), Off> {
        let mut rest = contents;
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = |(_, its): &&(Contents, Vec<u8>)| {
                bytes += its.len();
                bytes <= TOGETHER
            };
            // One that is larger goes alone.
            let count = rest.iter().take_while(fits).count().max(1);
            let (now, later) = rest.split_at(count);
            let heads = now.iter().map(|(contents, its)| (contents.clone(), its.len() as u64)).collect();
            let bodies: Vec<&[u8]> = now.iter().map(|(_, its)| its.as_slice()).collect();
            self.partner.demand_done(&Step::Contents(heads), &bodies)?;
            rest = later;
        }
        Ok(())
    }
}

/// Has the target import from this session by a ticket and a key of the move's own. Returns both.
pub(in crate::life::moving) fn begin_lending<M: Mapped>(
    hub: &Hub<M>,
    daemon: &Daemon<'_>,
) -> Result<(u64, [u8; KEY_BYTES]), Off> {
    let mut key = [0; KEY_BYTES];
    random(&mut key)?;
    let secret = Key::of(&key).ok_or_else(|| Off::Ended("a key has another length".into()))?;
    // Clients count their tickets from 1.
    let ticket = u64::MAX - daemon.order.number;
    hub.begin_move(ticket, daemon.order.importer, secret)?;
    Ok((ticket, key))
}

fn random(bytes: &mut [u8]) -> Result<(), Off> {
    getrandom::fill(bytes).map_err(|_| Off::Ended("the system gives no random bytes".into()))
}
