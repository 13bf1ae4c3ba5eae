//! A worker's life, from its start to its end, and what follows from its reports.
//! In: admissions, targets of moves. Out: processes with their connections; the table as their reports have it.
//! Each worker has the thread that starts it: the kernel ends the worker with that thread.

use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use floe_metrics::{Event, SessionEnd, SessionRefusal};
use floe_transport::Link;
use floe_users::Event as Audited;
use floe_wire::Ended;
use floe_worker::Granted;
use floe_worker::cache_channel::cache_ends;
use floe_worker::contract::{Arrival, Asks, Dial, MoveReport, NodeWish, Report};
use floe_worker::descriptor_passing::Role;
use floe_worker::move_notices::MoveOrder;
use floe_worker::peer_notices::PeerNotice;

use super::launcher::leases::Lease;
use super::passing::Member;
use super::supervision::{End, Worker};
use super::worker_channel::WorkerChannel;
use super::worker_process::{self, Posting, WorkerSettings};
use crate::entrance::gate::Connection;
use crate::entrance::limits::Source;
use crate::error::DaemonError;
use crate::modules::module_keeper::ModuleKeeper;
use crate::modules::shelf::{Notes, Shelf};
use crate::server::Server;
use crate::status;
use crate::usage::accounting::Share;
use crate::usage::door::close;
use crate::usage::nodes::NodePlace;
use crate::usage::seat::Seat;
use crate::usage::sessions::{Admission, Conditions, Row};
use crate::usage::turns::TurnPlace;

/// A worker that is to run, with all that the daemon has of it.
pub(crate) struct Post {
    /// The session's number, for the log.
    pub(crate) session: u64,
    pub(crate) row: Row,
    pub(crate) channel: Arc<WorkerChannel>,
    pub(crate) worker_end: OwnedFd,
    pub(crate) gpu: i32,
    pub(crate) granularity: u64,
    pub(crate) asks: Asks,
    pub(crate) conditions: Arc<Conditions>,
    /// `None`: it has no GPU.
    pub(crate) turn: Option<Arc<TurnPlace>>,
    /// The user that it runs as; `None`: this process's.
    pub(crate) lease: Option<Lease>,
}

/// A worker that runs. Dropping it tells others that it has ended: those that it shared something with, the table, and at
/// last its move.
struct Running {
    session: u64,
    conditions: Arc<Conditions>,
    gpu: i32,
    process: u32,
    channel: Arc<WorkerChannel>,
    /// `None`: it is being dropped.
    places: Option<(Member, Row)>,
    seat: Seat,
    turn: Option<Arc<TurnPlace>>,
    /// Its place in a node of NCCL's, once it has asked for one.
    node: OnceLock<NodePlace>,
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some((member, row)) = self.places.take() {
            drop(member);
            drop(row);
        }
        self.seat.ended();
    }
}

/// Gives a connection to a new session's worker and follows the worker to its end.
pub(crate) fn attach(server: &Server, connection: Connection, mut link: Link, admission: Admission) {
    let Admission { session, row, channel, worker_end, gpu, granularity, asks, conditions, turn, lease, .. } =
        admission;
    let source = conditions.source;
    let turn = Some(turn);
    let post = Post { session, row, channel, worker_end, gpu, granularity, asks, conditions, turn, lease };
    let (worker, running) = match start(server, post, None) {
        Ok(started) => started,
        Err(error) => {
            say(server, source, session, format_args!(": {error}"));
            server.journal.tally.count(Event::SessionRefused(SessionRefusal::Worker));
            // A client that has left does not need it. The worker's path is not for clients.
            let detail = "the server could not start a worker; its log says why";
            let _ = link.send(&Ended { status: status::DEVICE_UNAVAILABLE, detail });
            return close(link);
        }
    };
    server.journal.tally.count(Event::SessionStarted);
    audit_admission(server, &running);
    // From here on the worker waits for the client to read, not this process.
    let given = link.limit_writes(None).map_err(std::io::Error::other);
    if let Err(error) = given.and_then(|()| running.channel.give(Role::Session, link)) {
        // Dropping the handle ends the worker.
        drop(worker);
        server.journal.tally.count(Event::SessionEnded(SessionEnd::Failed));
        return say(server, source, session, format_args!(": cannot hand its connection to the worker: {error}"));
    }
    drop(connection);
    follow(server, worker, running);
}

/// Starts the target of a move, says whether that succeeded, and follows the worker to its end.
pub(crate) fn arrive(
    server: &Server,
    post: Post,
    arrival: Arrival,
    stream: OwnedFd,
    started: impl FnOnce(Result<(), String>),
) {
    let (session, source) = (post.session, post.conditions.source);
    let (worker, running) = match start(server, post, Some(arrival)) {
        Ok(running) => running,
        Err(error) => {
            say(server, source, session, format_args!(": {error}"));
            return started(Err("the server could not start a worker; its log says why".to_owned()));
        }
    };
    // What is left unread waits, so this fails only for a worker that has ended.
    running.channel.order(MoveOrder::Arrive(arrival.number), Some(stream));
    started(Ok(()));
    follow(server, worker, running);
}

fn say(server: &Server, source: Source, session: u64, words: std::fmt::Arguments<'_>) {
    server.journal.of_session(source, &format!("floed: session {session}{words}\n"));
}

fn start(server: &Server, post: Post, arrives: Option<Arrival>) -> Result<(Worker, Running), DaemonError> {
    let Post { session, row, channel, worker_end, gpu, granularity, asks, conditions, turn, lease } = post;
    let place = WorkerSettings {
        worker: &server.worker,
        library: &server.device_library,
        nccl: server.nccl.as_deref(),
        cupti: server.cupti.as_deref(),
        shared_memory: server.shared_memory,
        mirrored_memory: server.mirrored_memory,
        transport_memory: server.transport_memory,
        idle_limit: server.idle_limit,
        host_memory: server.host_memory,
        sandbox: server.sandbox,
        fixed_addresses: server.fixed_addresses,
        mps: server.mps.as_ref(),
        launcher: server.launcher.as_ref(),
    };
    let limited = server.limited(conditions.source);
    let nodes = server.gpu_of_nodes(gpu).is_some();
    let alone = u32::try_from(gpu).ok().and_then(|index| server.gpu(index)).and_then(|gpu| gpu.alone.as_deref());
    let posting = Posting { session, gpu, alone, granularity, asks, conditions: &conditions, nodes, limited, arrives };
    let seat = row.seat().clone();
    let worker = match worker_process::start(&place, &posting, lease, worker_end) {
        Ok(worker) => worker,
        Err(error) => {
            drop(row);
            seat.ended();
            return Err(error);
        }
    };
    server.sessions().started(seat.number(), worker.id(), Some(worker.ender()));
    if let Some(words) = &server.unprotected {
        say(server, conditions.source, session, format_args!(": {words}"));
    }
    if let Err(error) = give_modules(server, session, conditions.source, &channel) {
        say(server, conditions.source, session, format_args!(": its modules are not cached: {error}"));
    }
    let member = server.peers.begin(seat.clone(), gpu, Arc::clone(&channel));
    let process = worker.id();
    let (places, node) = (Some((member, row)), OnceLock::new());
    let running = Running { session, conditions, gpu, process, channel, places, seat, turn, node };
    Ok((worker, running))
}

/// Gives the worker access to the cache of modules, if there is one.
fn give_modules(server: &Server, session: u64, source: Source, channel: &WorkerChannel) -> std::io::Result<()> {
    let Some(cache) = &server.module_cache else { return Ok(()) };
    let (ours, theirs) = cache_ends()?;
    // Users whose workers are kept apart do not learn of each other's modules either.
    let shelf = server.launcher.as_ref().map_or(Shelf::Common, |_| Shelf::Of(source.name()));
    // Without the file, such as in a container that hides it, an update of the driver leaves old machine code in use.
    let driver = std::fs::read_to_string("/sys/module/nvidia/version").unwrap_or_default();
    let notes = Notes { user: source.name(), driver };
    ModuleKeeper::new(session, Arc::clone(cache), shelf, notes).start(ours)?;
    channel.give_modules(&theirs)
}

fn follow(server: &Server, worker: Worker, running: Running) {
    let Running { session, conditions, places, seat, .. } = &running;
    let (session, source) = (*session, conditions.source);
    let ear = places.as_ref().map(|(member, _)| member as &dyn super::supervision::Ear);
    let grace = Duration::from_millis(conditions.grace_ms);
    let log = |entry: &str| server.journal.of_session(source, entry);
    let End { kind, why, is_told } = worker.follow(session, grace, log, |report| heed(server, &running, report), ear);
    // Of two workers of a move one has the session.
    let has_session = seat.number() == session;
    // A client that has left meanwhile was not sent away.
    let ordered = server.sessions().ending(seat.number()).filter(|_| kind != SessionEnd::ClientLeft);
    let kind = ordered.as_ref().map_or(kind, |_| SessionEnd::Ordered);
    if has_session {
        server.journal.tally.count(Event::SessionEnded(kind));
    }
    let why = ordered.or(why);
    if has_session {
        audit_end(server, session, why.as_deref());
    }
    if let Some(why) = why {
        if has_session && is_told {
            server.sessions().end_at_once(session, why.clone());
        }
        let whose = if has_session { "" } else { ": the worker of its move" };
        say(server, source, session, format_args!("{whose} ended: {why}"));
    }
}

fn audit_admission(server: &Server, running: &Running) {
    let Running { session, conditions, gpu, .. } = running;
    let Some((whose, program, _)) = server.sessions().described(*session, Instant::now()) else { return };
    let (session, gpu) = (*session, u32::try_from(*gpu).unwrap_or(u32::MAX));
    let (memory, guaranteed, program) = (conditions.quota, conditions.is_guaranteed, &*program);
    server.audits(&whose, &Audited::Admitted { session, gpu, memory, guaranteed, program });
}

fn audit_end(server: &Server, session: u64, why: Option<&str>) {
    let Some((whose, _, age)) = server.sessions().described(session, Instant::now()) else { return };
    server.audits(&whose, &Audited::Ended { session, seconds: age.as_secs(), why });
}

/// What follows from a report. The worker's number may change at any time: each report counts for the one it has then.
fn heed(server: &Server, running: &Running, report: Report) {
    let number = running.seat.number();
    let Some((member, _)) = &running.places else { return };
    match report {
        Report::Used(bytes) => server.sessions().uses(number, bytes, Instant::now()),
        Report::Carried(counts) => server.sessions().carries(number, counts, Instant::now()),
        Report::Wants(bytes) => share(server, number, bytes),
        Report::Keeps(bytes) => server.sessions().accounting().keep(number, bytes),
        Report::Broken(broken) => breaks(server, number, broken),
        Report::Ready => measure(server, number, running),
        Report::Import(import) => member.import(import),
        Report::Dial(dial) => self::dial(server, number, running, dial),
        Report::Node(wish) => join(server, running, wish),
        Report::Returned(returned) => member.returned(&returned),
        Report::Move(report) => moves(server, running, report),
        Report::Turn(report) => _ = running.turn.as_ref().map(|turn| turn.says(report)),
        Report::Ended(_) => running.seat.ends(),
    }
}

/// A worker says something of a move.
fn moves(server: &Server, running: &Running, report: MoveReport) {
    if let Err(why) = running.seat.says(report) {
        say(server, running.conditions.source, running.session, format_args!(": killing its worker: {why}"));
        if let Some(worker) = server.sessions().ender(running.seat.number()) {
            worker.kill();
        }
    }
}

/// A session begins or stops waiting for its client. Of one peer's waiting sessions, those above the limit end.
fn breaks(server: &Server, session: u64, broken: bool) {
    let mut sessions = server.sessions();
    sessions.breaks(session, broken.then(Instant::now));
    for (late, _) in sessions.too_many_waiting(session, &server.session_limits) {
        // Nobody is there to be told.
        sessions.end_at_once(late, "too many of its peer's sessions wait for their client".to_owned());
    }
}

/// Answers a worker that asks for device memory.
fn share(server: &Server, number: u64, bytes: u64) {
    let mut sessions = server.sessions();
    let Share { total, left } = sessions.want(number, bytes, Instant::now());
    let channel = sessions.channel(number);
    drop(sessions);
    // A worker that has ended, or does not read, needs no answer.
    let _ = channel.map(|channel| channel.grant(Granted { total, left }));
}

/// Makes a connection to another server for a worker, if the operator has named it.
fn dial(server: &Server, number: u64, running: &Running, dial: Dial) {
    // What NCCL connects has no context of its own.
    let is_of_nccl = dial.server.starts_with('*');
    match server.dialer.dial(number, dial, &running.channel) {
        Ok(()) if is_of_nccl => {}
        Ok(()) => server.sessions().accounting().links(number),
        Err(words) => say(server, running.conditions.source, running.session, format_args!(": {words}")),
    }
}

/// Tells a worker its node of NCCL's, the same for as long as it lives. One that was told that there are none gets no answer.
fn join(server: &Server, running: &Running, wish: NodeWish) {
    let Some(gpu) = server.gpu_of_nodes(running.gpu) else { return };
    if running.node.get().is_none()
        && let Ok(place) = server.nodes.join(running.conditions.source.name(), &gpu.pci_bus, wish)
    {
        let _ = running.node.set(place);
    }
    // A worker that leaves its notices unread is ended by who finds that out next.
    running.channel.notify(PeerNotice::Node(wish.request, running.node.get().map(NodePlace::name)), None);
}

/// A worker has made its context and nothing else, so its bytes on the GPU are those of a context.
fn measure(server: &Server, number: u64, running: &Running) {
    let gpu = u32::try_from(running.gpu).unwrap_or(u32::MAX);
    if let Some(bytes) = server.processes(gpu).and_then(|mut all| all.remove(&running.process)) {
        server.sessions().accounting().measured(number, bytes);
    }
}
