//! The table of sessions, and of the workers that they have: one, or two while a session moves.
//! In: admissions, reports of workers, moves, ends. Out: rows. It is pure: it starts no process, and its callers give it
//! the time.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use floe_metrics::SessionFigures;
use floe_migrate::Phase;
use floe_shares::Terms;
use floe_transport::Transport;
use floe_worker::contract::{Asks, Counts};

use super::accounting::{Accounting, HOST_MEMORY, NoRoom};
use super::carried::Said;
use super::door::{Door, Key};
use super::ended::Ended;
use super::queue::Queue;
use super::request::{SessionRequest, TRANSPORTS, Tenant, printable};
use super::seat::Seat;
use super::turns::TurnPlace;
use crate::entrance::limits::{SessionLimits, Source};
use crate::workers::launcher::leases::Lease;
use crate::workers::supervision::Ender;
use crate::workers::worker_channel::WorkerChannel;

mod memory;
pub(crate) mod moving;
mod rows;
mod users;

/// All sessions of a daemon, for its threads.
#[derive(Debug, Clone, Default)]
pub(crate) struct Table(Arc<Mutex<Sessions>>);

impl Table {
    /// A table with these sessions.
    pub(crate) fn new(sessions: Sessions) -> Self {
        Self(Arc::new(Mutex::new(sessions)))
    }

    /// A panic cannot leave it inconsistent: every change is one step.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Sessions> {
        floe_lock::lock(&self.0)
    }

    /// The row of an added worker. Dropping it removes the worker, and the session that it has.
    pub(crate) fn row(&self, seat: Seat) -> Row {
        Row { table: self.clone(), seat }
    }
}

/// A worker's row in the table. Dropping it removes the row, however the worker's thread ends.
#[derive(Debug)]
pub(crate) struct Row {
    table: Table,
    seat: Seat,
}

impl Row {
    /// The worker's place.
    pub(crate) fn seat(&self) -> &Seat {
        &self.seat
    }
}

impl Drop for Row {
    fn drop(&mut self) {
        let channel = self.table.lock().channel(self.seat.number());
        if let Some(channel) = channel {
            channel.end_tunnels();
        }
        // What a worker or a client sent may delay a close, so everything closes after the lock. The number is asked for under
        // it: a commit changes it.
        let mut sessions = self.table.lock();
        let gone = sessions.remove(self.seat.number());
        drop(sessions);
        drop(gone);
    }
}

/// What a session keeps wherever its worker is.
#[derive(Debug, Clone)]
pub(crate) struct Conditions {
    /// The vGPU's ordinal in the client.
    pub(crate) ordinal: u32,
    /// The quota in bytes; 0: all of the GPU.
    pub(crate) quota: u64,
    /// Whether the quota is a guarantee. Else the session takes what is left.
    pub(crate) is_guaranteed: bool,
    /// Variables of the program that belong to the driver.
    pub(crate) settings: Vec<(String, String)>,
    /// The most bulk connections.
    pub(crate) bulk_connections: u32,
    /// The grace period in milliseconds; 0: the session ends with any of its connections.
    pub(crate) grace_ms: u64,
    /// The client's process, if it is of this machine and has the same id there as here.
    pub(crate) client: Option<i32>,
    /// The transport that client and worker agree on first.
    pub(crate) transport: Transport,
    /// Its drivers place nothing at this address or above.
    pub(crate) ceiling: u64,
    /// The peer whose lines its worker's are.
    pub(crate) source: Source,
    /// Its terms for the GPU's time.
    pub(crate) terms: Terms,
    /// Its longest life; zero: no limit.
    pub(crate) time: Duration,
}

/// A session as it was admitted.
#[derive(Debug)]
pub(crate) struct Admission {
    /// Its number; never used again by this daemon.
    pub(crate) session: u64,
    /// Its worker's row, which it keeps in the table.
    pub(crate) row: Row,
    /// The channel to its worker, and the worker's end.
    pub(crate) channel: Arc<WorkerChannel>,
    pub(crate) worker_end: OwnedFd,
    /// The GPU's index in the device library.
    pub(crate) gpu: i32,
    /// Granularity of the GPU's physical memory in bytes.
    pub(crate) granularity: u64,
    /// First address of its window.
    pub(crate) window: u64,
    /// Bytes of the window.
    pub(crate) window_bytes: u64,
    /// Whether its worker must ask before it takes device memory.
    pub(crate) asks: Asks,
    /// The key by which further connections join.
    pub(crate) key: Key,
    pub(crate) conditions: Arc<Conditions>,
    pub(crate) turn: Arc<TurnPlace>,
    /// The user that its worker runs as; `None`: the daemon's.
    pub(crate) lease: Option<Lease>,
}

/// A session of the table.
#[derive(Debug)]
pub(crate) struct Session {
    session_request: SessionRequest,
    conditions: Arc<Conditions>,
    since: Instant,
    door: Door,
    worker: Worker,
    /// Where it moves to, and the phase of that.
    moves: Option<(u32, Phase)>,
    /// The GPU that it has, or had before it was suspended.
    gpu: u32,
    /// How often it got another worker.
    moved: u32,
    /// The transport, for how long its client has been missing, and where it moves to.
    transport: String,
    /// Why it is to end, if it is.
    ending: Option<String>,
    /// What its link had carried when its present worker got it.
    before: Counts,
}

/// A worker of the table: of a session, or the other one of a move.
#[derive(Debug)]
pub(crate) struct Worker {
    seat: Seat,
    gpu: u32,
    used: u64,
    /// Since when it says that it has more than its quota.
    exceeds: Option<Instant>,
    /// Its process; 0 before that has started.
    process: u32,
    /// Signals it; `None` before it has started.
    ender: Option<Ender>,
    channel: Arc<WorkerChannel>,
    /// When its client went missing.
    broken: Option<Instant>,
    /// Its place among those that take turns on its GPU.
    turn: Option<Arc<TurnPlace>>,
    /// What it says of its link.
    said: Said,
}

impl Worker {
    fn new(seat: Seat, gpu: u32, channel: Arc<WorkerChannel>) -> Self {
        let said = Said::default();
        Self { seat, gpu, used: 0, exceeds: None, process: 0, ender: None, channel, broken: None, turn: None, said }
    }
}

/// A session that somebody wants to move.
#[derive(Debug, Clone)]
pub(crate) struct Movable {
    /// The GPU that it has, or had before it was suspended.
    pub(crate) gpu: u32,
    pub(crate) is_suspended: bool,
    pub(crate) used: u64,
    pub(crate) conditions: Arc<Conditions>,
    pub(crate) seat: Seat,
    pub(crate) channel: Arc<WorkerChannel>,
}

/// What a number of the table stood for. Dropping it may close connections.
#[derive(Debug)]
pub(crate) enum Gone {
    Session(#[allow(dead_code, reason = "it is kept to be dropped")] Box<Session>),
    Worker(#[allow(dead_code, reason = "it is kept to be dropped")] Worker),
}

/// What a caller is shown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View {
    /// The peer; `None`: the operator, who sees all.
    pub(crate) source: Option<Source>,
    /// Whether it is shown all others' sessions, too.
    pub(crate) sees_others: bool,
}

impl From<Option<Source>> for View {
    fn from(source: Option<Source>) -> Self {
        Self { source, sees_others: false }
    }
}

impl Session {
    /// Whether it is this peer's. All are the operator's (`None`).
    fn is_of(&self, peer: Option<Source>) -> bool {
        peer.is_none() || self.session_request.source == peer
    }
}

/// All sessions of this daemon.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    last: u64,
    rows: BTreeMap<u64, Session>,
    /// Workers of moves beside the one that has the session: it arrives, or it is being released.
    beside: BTreeMap<u64, Worker>,
    accounting: Accounting,
    /// Requests that wait for room.
    queue: Queue,
    ended: Ended,
    /// What links have carried, by the GPU that their sessions had.
    carried: BTreeMap<u32, Counts>,
}

impl Sessions {
    /// The number of sessions.
    pub(crate) fn count(&self) -> usize {
        self.rows.len()
    }

    /// The number of workers.
    pub(crate) fn count_workers(&self) -> usize {
        self.rows.len() + self.beside.len()
    }

    /// The number of sessions on a GPU.
    pub(crate) fn on_gpu(&self, gpu: u32) -> u32 {
        let count = self.rows.values().filter(|session| session.worker.gpu == gpu).count();
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    /// Figures of the sessions that have a GPU, or had it before they were suspended: by transport, and by state.
    pub(crate) fn figures(&self, gpu: u32) -> (Vec<(&'static str, u64)>, SessionFigures) {
        let mut transports: Vec<_> = TRANSPORTS.into_iter().map(|transport| (transport, 0)).collect();
        let mut states = SessionFigures::default();
        for session in self.rows.values().filter(|session| session.gpu == gpu) {
            let transport = session.session_request.transport;
            transports.iter_mut().filter(|(other, _)| *other == transport).for_each(|(_, count)| *count += 1);
            states.suspended += u64::from(session.worker.gpu == HOST_MEMORY);
            states.waiting += u64::from(session.worker.broken.is_some());
            states.moving += u64::from(session.moves.is_some());
        }
        (transports, states)
    }

    /// The number of a peer's sessions.
    pub(crate) fn of_peer(&self, source: Source) -> usize {
        self.rows.values().filter(|session| session.session_request.source == Some(source)).count()
    }

    /// Sessions above the limit among those of `session`'s peer that wait for their client, with their workers.
    pub(crate) fn too_many_waiting(&self, session: u64, limits: &SessionLimits) -> Vec<(u64, u32)> {
        let Some(source) = self.rows.get(&session).and_then(|row| row.session_request.source) else {
            return Vec::new();
        };
        let its = self.rows.iter().filter(|(_, row)| row.session_request.source == Some(source));
        let mut waiting: Vec<_> =
            its.filter_map(|(number, row)| Some((row.worker.broken?, *number, row.worker.process))).collect();
        waiting.sort_unstable();
        let leaving = waiting.len().saturating_sub(limits.waiting);
        waiting.into_iter().take(leaving).map(|(_, number, worker)| (number, worker)).collect()
    }

    /// The account of device memory.
    pub(crate) fn accounting(&mut self) -> &mut Accounting {
        &mut self.accounting
    }

    /// The requests that wait for room.
    pub(crate) fn queue(&mut self) -> &mut Queue {
        &mut self.queue
    }

    /// Free bytes of a GPU.
    pub(crate) fn free_on_gpu(&self, gpu: u32) -> u64 {
        self.accounting.free(gpu)
    }

    /// A number that nothing of this daemon has had.
    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Adds a session whose connections arrive at `door`, for its worker at the end of `channel`. Returns its worker's seat,
    /// which has its number.
    pub(crate) fn add(
        &mut self,
        session_request: SessionRequest,
        gpu: u32,
        conditions: Arc<Conditions>,
        (door, channel): (Door, Arc<WorkerChannel>),
        now: Instant,
    ) -> Result<Seat, NoRoom> {
        let number = self.next();
        let seat = Seat::new(number);
        let transport = session_request.transport.to_owned();
        let admitted = if conditions.is_guaranteed {
            self.accounting.guarantee(number, gpu, conditions.quota)
        } else {
            self.accounting.best_effort(number, gpu, conditions.quota)
        };
        let least = if conditions.is_guaranteed { conditions.quota } else { 1 };
        admitted.inspect_err(|no_room| self.end_excess(gpu, least.saturating_sub(no_room.free), now))?;
        let worker = Worker::new(seat.clone(), gpu, channel);
        let session = Session {
            session_request,
            conditions,
            since: now,
            door,
            worker,
            moves: None,
            gpu,
            moved: 0,
            transport,
            ending: None,
            before: Counts::default(),
        };
        self.rows.insert(number, session);
        Ok(seat)
    }

    fn worker(&self, number: u64) -> Option<&Worker> {
        self.rows.get(&number).map(|row| &row.worker).or_else(|| self.beside.get(&number))
    }

    fn worker_mut(&mut self, number: u64) -> Option<&mut Worker> {
        let Self { rows, beside, .. } = self;
        rows.get_mut(&number).map(|row| &mut row.worker).or_else(|| beside.get_mut(&number))
    }

    /// All workers, with their numbers.
    fn workers(&self) -> impl Iterator<Item = (u64, &Worker)> {
        let of_sessions = self.rows.iter().map(|(number, row)| (*number, &row.worker));
        of_sessions.chain(self.beside.iter().map(|(number, worker)| (*number, worker)))
    }

    /// The channel to the worker of this number; `None` when it has ended.
    pub(crate) fn channel(&self, number: u64) -> Option<Arc<WorkerChannel>> {
        self.worker(number).map(|worker| Arc::clone(&worker.channel))
    }

    /// The worker of this number takes turns at this place.
    pub(crate) fn takes_turns(&mut self, number: u64, place: Arc<TurnPlace>) {
        if let Some(worker) = self.worker_mut(number) {
            worker.turn = Some(place);
        }
    }

    /// The place of the worker of this number among those that take turns.
    pub(crate) fn turn_of(&self, number: u64) -> Option<Arc<TurnPlace>> {
        self.worker(number)?.turn.clone()
    }

    /// A session's door; `None` when the session has ended.
    pub(crate) fn door(&mut self, session: u64) -> Option<&mut Door> {
        self.rows.get_mut(&session).map(|row| &mut row.door)
    }

    /// A worker's process has started.
    pub(crate) fn started(&mut self, number: u64, process: u32, ender: Option<Ender>) {
        let is_to_end = self.rows.get(&number).is_some_and(|row| row.ending.is_some());
        if let Some(worker) = self.worker_mut(number) {
            (worker.process, worker.ender) = (process, ender);
            if let Some(ender) = worker.ender.as_ref().filter(|_| is_to_end) {
                ender.kill();
            }
        }
    }

    /// A worker says what its link has carried. Of two workers of a move only the one that has the session counts.
    pub(crate) fn carries(&mut self, number: u64, said: Counts, now: Instant) {
        let Some(row) = self.rows.get_mut(&number) else { return };
        let more = row.worker.said.takes(said, now);
        let sum = self.carried.entry(row.gpu).or_default();
        *sum = sum.plus(more);
    }

    /// What the links of a GPU's sessions have carried, also of those that have ended.
    pub(crate) fn carried(&self, gpu: u32) -> Counts {
        self.carried.get(&gpu).copied().unwrap_or_default()
    }

    /// A session's worker reports since when its client is missing, or that it is back.
    pub(crate) fn breaks(&mut self, number: u64, since: Option<Instant>) {
        if let Some(worker) = self.worker_mut(number) {
            worker.broken = since;
        }
    }

    /// Removes a worker, and the session that it has. The caller drops it after the lock.
    #[must_use]
    pub(crate) fn remove(&mut self, number: u64) -> Option<Gone> {
        self.accounting.end(number);
        let mut session = self.rows.remove(&number);
        let ending = |row: &mut Session| Some((row.session_request.source, row.door.key(), row.ending.take()?));
        if let Some((whose, key, why)) = session.as_mut().and_then(ending) {
            self.ended.note(whose, number, key, why);
        }
        let session = session.map(|session| Gone::Session(Box::new(session)));
        session.or_else(|| self.beside.remove(&number).map(Gone::Worker))
    }

    /// The workers of a GPU's sessions.
    pub(crate) fn workers_on_gpu(&self, gpu: u32) -> Vec<u32> {
        self.sessions_on_gpu(gpu).into_iter().map(|(_, process)| process).collect()
    }

    /// The sessions on a GPU whose programs run on this host, of those that `peer` may see. Programs name their host
    /// themselves.
    pub(crate) fn tenants(&self, gpu: u32, host: &str, peer: Option<Source>) -> Vec<Tenant> {
        let host = printable(host);
        let its = |row: &&Session| row.worker.gpu == gpu && row.session_request.host == host && row.is_of(peer);
        let rows = self.rows.values().filter(its);
        rows.map(|row| Tenant {
            pid: row.session_request.pid,
            ordinal: row.session_request.ordinal,
            quota: row.conditions.quota,
            used: row.worker.used,
            worker: row.worker.process,
        })
        .collect()
    }

    /// Signals a worker; `None` before that has started.
    pub(crate) fn ender(&self, number: u64) -> Option<Ender> {
        self.worker(number)?.ender.clone()
    }

    /// The numbers of a GPU's workers, with their processes.
    pub(crate) fn sessions_on_gpu(&self, gpu: u32) -> Vec<(u64, u32)> {
        let its = self.workers().filter(|(_, worker)| worker.gpu == gpu && worker.process != 0);
        its.map(|(number, worker)| (number, worker.process)).collect()
    }

    /// The numbers of a GPU's workers that have a place in its turns, with their processes and places.
    pub(crate) fn turns_on_gpu(&self, gpu: u32) -> Vec<(u64, u32, Arc<TurnPlace>)> {
        let its = self.workers().filter(|(_, worker)| worker.gpu == gpu && worker.process != 0);
        its.filter_map(|(number, worker)| Some((number, worker.process, Arc::clone(worker.turn.as_ref()?)))).collect()
    }

    /// The enders of all workers.
    pub(crate) fn enders(&self) -> Vec<Ender> {
        self.workers().filter_map(|(_, worker)| worker.ender.clone()).collect()
    }
}

#[cfg(test)]
pub(crate) mod tests;
