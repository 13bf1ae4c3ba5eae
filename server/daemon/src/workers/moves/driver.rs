//! Carries a move out: a thread that does what the move's coordinator says.
//! In: what the two workers say and their ends, as the threads that follow them hear it. Out: orders to the workers, a target's
//! start, the door, the commit, lines in the log, the outcome for who asked.
//! It waits for events only: nothing that it does waits for a worker.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Instant;

use floe_metrics::{Event, MoveFailure, MoveKind};
use floe_migrate::{Action, Coordinator, Described, Input, Outcome, Output, Phase, Progress, Record, Side, Terms, Why};
use floe_users::Event as Audited;
use floe_worker::contract::Arrival;
use floe_worker::move_notices::{Leave, MOST_REASON, MoveOrder};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use super::admission::{self, Plan};
use super::registry::Place;
use super::watch::{Ending, Watch};
use crate::entrance::admission::take_turns;
use crate::entrance::conversation::{MoveRequest, Refusal};
use crate::server::Server;
use crate::status;
use crate::usage::accounting::HOST_MEMORY;
use crate::usage::seat::{MOST_WORDS_AHEAD, Seat};
use crate::workers::tending::{self, Post};
use crate::workers::worker_channel::WorkerChannel;

/// What a session takes in host memory beside its device memory, at most: contents of modules, what is on its way.
const BESIDE: u64 = 1 << 30;

/// A move that is under way.
struct Driver {
    server: Arc<Server>,
    /// Its number, which the other worker has: the target until the commit, the source from then on.
    number: u64,
    session: u64,
    plan: Plan,
    terms: Terms,
    to: SyncSender<Input>,
    /// The target's end of the move stream, until it is started.
    stream: Option<OwnedFd>,
    target: Option<(Seat, Arc<WorkerChannel>)>,
    watch: Arc<Watch>,
    /// Who asked for it.
    asker: String,
}

/// Begins a move that may be had.
pub(crate) fn begin(server: &Arc<Server>, request: &MoveRequest) -> Result<Arc<Watch>, Refusal> {
    let plan = admission::admit(server, request)?;
    let (to, from) = sync_channel(MOST_WORDS_AHEAD);
    let place = server.moves.take(request.session, request.source, to.clone())?;
    let failed = |error: std::io::Error| Refusal {
        status: status::SYSTEM_NOT_READY,
        detail: format!("the server cannot move it now: {error}"),
    };
    let ends = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None);
    let (near, far) = ends.map_err(|error| failed(error.into()))?;
    let number = server.sessions().number_move();
    let watch = Arc::new(Watch::new(plan.gpu, to.clone()));
    let has_ended = || Refusal { status: status::INVALID_HANDLE, detail: "the session has just ended".to_owned() };
    plan.movable.seat.take_part(number, Side::Source, to.clone()).map_err(|_| has_ended())?;
    // Where a session has no GPU, its program stands anyway.
    let stop_and_copy = request.stop_and_copy || request.action != Action::Move;
    let leave = Leave {
        number,
        importer: number,
        same_gpu: plan.is_same_gpu(),
        stop_and_copy,
        keeps: plan.gpu == HOST_MEMORY,
        patience_ms: u64::try_from(request.patience.as_millis()).unwrap_or(u64::MAX),
    };
    let terms = Terms { patience: request.patience, stop_and_copy };
    let seat = plan.movable.seat.clone();
    let driver = Driver {
        server: Arc::clone(server),
        number,
        session: request.session,
        plan,
        terms,
        to,
        stream: Some(far),
        target: None,
        watch: Arc::clone(&watch),
        asker: asker(request),
    };
    driver.say(&format!("{}: asked by {}", driver.heading(), driver.asker));
    let kind = driver.kind();
    let thread = std::thread::Builder::new().name("move".into());
    thread.spawn(move || driver.run(leave, near, &from, place)).map_err(|error| {
        seat.leave(number);
        failed(error)
    })?;
    server.journal.tally.count(Event::MoveBegun(kind));
    Ok(watch)
}

fn asker(request: &MoveRequest) -> String {
    request.source.map_or_else(|| "the operator".to_owned(), |source| source.to_string())
}

impl Driver {
    fn run(mut self, leave: Leave, stream: OwnedFd, from: &Receiver<Input>, place: Place) {
        let mut coordinator = Coordinator::new(Instant::now(), self.terms);
        // What is left unread waits, so this fails only for a worker whose end is about to be heard.
        self.plan.movable.channel.order(MoveOrder::Leave(leave), Some(stream));
        let mut outcome = None;
        while let Some(deadline) = coordinator.deadline() {
            let input = match from.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(input) => input,
                Err(RecvTimeoutError::Timeout) => Input::Tick,
                Err(RecvTimeoutError::Disconnected) => Input::DaemonEnds,
            };
            outcome = self.feed(&mut coordinator, input).or(outcome);
        }
        self.end(outcome, place);
    }

    /// Does what follows from an event. The answers to what it does come before other events.
    fn feed(&mut self, coordinator: &mut Coordinator, input: Input) -> Option<Outcome> {
        let mut outcome = None;
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            for output in coordinator.step(Instant::now(), input) {
                match output {
                    Output::Result(result) => outcome = Some(*result),
                    other => inputs.extend(self.carry_out(other)),
                }
            }
        }
        outcome
    }

    /// Does one thing. Returns its answer, if it has one.
    fn carry_out(&mut self, output: Output) -> Option<Input> {
        match output {
            Output::StartTarget(described) => {
                let started = self.start_target(described);
                return Some(started.map_or_else(Input::TargetNotStarted, |()| Input::TargetStarted));
            }
            Output::Commit => {
                return Some(self.commit().map_or_else(Input::NotCommitted, |()| Input::Committed));
            }
            Output::HoldDoor => _ = self.server.sessions().door(self.session).map(|door| door.hold()),
            Output::OpenDoor(_) => self.open_door(),
            Output::GoOn => self.order_source(MoveOrder::GoOn(self.number)),
            Output::Release => self.order_source(MoveOrder::Release(self.number)),
            Output::Go => {
                if let Some((_, channel)) = &self.target {
                    channel.order(MoveOrder::Go(self.number), None);
                }
            }
            // Whoever has the move's number has no session.
            Output::Kill(_) => {
                let ender = self.server.sessions().ender(self.number);
                ender.inspect(|worker| worker.kill());
            }
            Output::Progress(phase, progress) => self.goes(phase, progress),
            Output::Result(_) => {}
        }
        None
    }

    fn order_source(&self, order: MoveOrder) {
        self.plan.movable.channel.order(order, None);
    }

    fn goes(&self, phase: Phase, progress: Progress) {
        self.server.sessions().moves(self.session, Some((self.plan.gpu, phase)));
        self.watch.goes(phase, progress);
    }

    /// Admits the target for what the session holds, and starts it on a thread of its own.
    fn start_target(&mut self, described: Described) -> Result<(), String> {
        let Plan { movable, gpu, granularity } = &self.plan;
        let conditions = Arc::clone(&movable.conditions);
        let lease = self.server.lease(conditions.source).map_err(|no_id| no_id.to_string())?;
        let (channel, worker_end) =
            WorkerChannel::new(conditions.bulk_connections).map_err(|error| error.to_string())?;
        let mut sessions = self.server.sessions();
        let numbers = (self.number, self.session);
        let bytes = match *gpu {
            // What the session was seen to use may be older than its last blocks and arrays, and counts what modules bring.
            HOST_MEMORY => described.bytes.max(movable.used).saturating_add(BESIDE),
            _ => described.bytes,
        };
        let seat = sessions.arrive(numbers, *gpu, bytes, Arc::clone(&channel)).map_err(|no_room| {
            let where_to = if *gpu == HOST_MEMORY { "in" } else { "on" };
            format!("no room {where_to} {}: free {} bytes, the session takes {bytes}", place(*gpu), no_room.free)
        })?;
        let asks = sessions.accounting().asks(*gpu, conditions.is_guaranteed);
        let row = self.server.sessions.row(seat.clone());
        let own = sessions.turn_of(self.session);
        drop(sessions);
        let turn = match *gpu {
            HOST_MEMORY => None,
            gpu => Some(take_turns(&self.server, &conditions, gpu, own.as_deref(), &channel)?),
        };
        turn.iter().for_each(|turn| self.server.sessions().takes_turns(self.number, Arc::clone(turn)));
        let arrival = Arrival {
            number: self.number,
            importer: self.number,
            same_gpu: self.plan.is_same_gpu(),
            stop_and_copy: self.terms.stop_and_copy,
            keeps: (*gpu == HOST_MEMORY).then_some(bytes),
        };
        let post = Post {
            session: self.session,
            row,
            channel: Arc::clone(&channel),
            worker_end,
            gpu: i32::try_from(*gpu).unwrap_or(i32::MAX),
            granularity: *granularity,
            asks,
            conditions,
            turn,
            lease,
        };
        let stream = self.stream.take().ok_or("it was started already")?;
        seat.take_part(self.number, Side::Target, self.to.clone()).map_err(|_| "it has ended already".to_owned())?;
        let (done, is_done) = sync_channel(1);
        let server = Arc::clone(&self.server);
        let arrive = move || {
            tending::arrive(&server, post, arrival, stream, |started| _ = done.send(started));
        };
        std::thread::Builder::new().name("arriving".into()).spawn(arrive).map_err(|error| error.to_string())?;
        is_done.recv().unwrap_or_else(|_| Err("it could not be started".to_owned()))?;
        self.target = Some((seat, channel));
        Ok(())
    }

    /// The one step: channel, process, account and number of the session are the target's.
    fn commit(&self) -> Result<(), String> {
        let mut sessions = self.server.sessions();
        if self.server.peers.has_partners(self.session, self.number) {
            return Err("it has begun to share memory with another session".to_owned());
        }
        if sessions.has_links(self.session) {
            return Err("it has got a link with another server".to_owned());
        }
        if !sessions.commit(self.session, self.number) {
            return Err("a worker ended at the last moment".to_owned());
        }
        self.server.peers.succeed(self.session, self.number);
        Ok(())
    }

    /// Gives the connections that waited, in their order, to the worker that has the session.
    fn open_door(&self) {
        let mut sessions = self.server.sessions();
        let mut waiting = sessions.door(self.session).map(|door| door.open()).unwrap_or_default();
        let channel = sessions.channel(self.session);
        for arrived in &mut waiting {
            if let Some((channel, link)) = channel.as_ref().zip(arrived.link.take()) {
                // A worker that takes no more, or has ended, lets the client's connection end.
                let _ = channel.give(arrived.role, link);
            }
        }
        drop(sessions);
        drop(waiting);
    }

    fn end(self, outcome: Option<Outcome>, place: Place) {
        self.plan.movable.seat.leave(self.number);
        if let Some((seat, _)) = &self.target {
            seat.leave(self.number);
        }
        let mut sessions = self.server.sessions();
        sessions.moves(self.session, None);
        let worker = sessions.process(self.session);
        drop(sessions);
        let Some(outcome) = outcome else { return };
        let ending = self.ending(&outcome, worker);
        self.say(&ending);
        self.audit(&ending);
        self.count(&outcome);
        // Who hears of the end may ask for the next one.
        drop(place);
        self.watch.is_over(Ending { outcome, worker });
    }

    fn kind(&self) -> MoveKind {
        match (self.plan.from(), self.plan.gpu) {
            (_, HOST_MEMORY) => MoveKind::Suspend,
            (HOST_MEMORY, _) => MoveKind::Resume,
            _ => MoveKind::Move,
        }
    }

    fn count(&self, outcome: &Outcome) {
        let tally = &self.server.journal.tally;
        match outcome {
            Outcome::Moved(record) | Outcome::Lost(record) => tally.moved(self.kind(), record.pause),
            Outcome::Stayed(why, _) => tally.count(Event::MoveGivenUp(failure(why))),
        }
    }

    fn heading(&self) -> String {
        format!(
            "session {}: move {} from {} to {}",
            self.session,
            self.number,
            place(self.plan.from()),
            place(self.plan.gpu)
        )
    }

    fn ending(&self, outcome: &Outcome, worker: u32) -> String {
        let heading = self.heading();
        let how = match outcome {
            Outcome::Moved(_) => format!("done, its worker is {worker}"),
            Outcome::Lost(_) => "done, and the session has ended since".to_owned(),
            Outcome::Stayed(why, _) => {
                format!("given up: {}", floe_wire::printable_within(MOST_REASON, &why.to_string()))
            }
        };
        format!("{heading}: {how}; {}", times(outcome.record()))
    }

    fn audit(&self, what: &str) {
        let Some((whose, ..)) = self.server.sessions().described(self.session, Instant::now()) else { return };
        let what = format!("{what}; asked by {}", self.asker);
        self.server.audits(&whose, &Audited::Moved { session: self.session, what: &what });
    }

    fn say(&self, words: &str) {
        self.server.journal.of_session(self.plan.movable.conditions.source, &format!("floed: {words}\n"));
    }
}

/// The kind of a failure, by which it is counted.
fn failure(why: &Why) -> MoveFailure {
    match why {
        Why::Source(_) => MoveFailure::Source,
        Why::Target(_) => MoveFailure::Target,
        Why::NotAdmitted(_) => MoveFailure::NoRoom,
        Why::Retries(_) => MoveFailure::Retries,
        Why::Patience(_) | Why::TimeLimit(_) => MoveFailure::Time,
        Why::Cancelled => MoveFailure::Cancelled,
        Why::TargetEnded | Why::SessionEnded | Why::NotCommitted(_) => MoveFailure::Ended,
        Why::Nonsense(_) => MoveFailure::Protocol,
        Why::DaemonEnds => MoveFailure::ServerEnds,
    }
}

/// A GPU, or where suspended sessions are.
fn place(gpu: u32) -> String {
    if gpu == HOST_MEMORY { "host memory".to_owned() } else { format!("GPU {gpu}") }
}

/// What a move took, in one line.
fn times(record: &Record) -> String {
    let milliseconds = |time: std::time::Duration| format!("{:.1} ms", time.as_secs_f64() * 1e3);
    let phases: Vec<_> = record.phases().map(|(phase, time)| format!("{phase} {}", milliseconds(time))).collect();
    let Progress { bytes, of, rounds } = record.progress;
    format!(
        "{}; pause {}, retries {}; copied {bytes} bytes of {of} in {rounds} rounds",
        phases.join(", "),
        milliseconds(record.pause),
        record.retries
    )
}
