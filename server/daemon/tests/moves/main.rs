//! Moves of sessions through a daemon, with workers that the test plays: the commit, giving up, every death at every phase, the
//! door. No device and no program takes part.

mod stage;

use std::thread::JoinHandle;
use std::time::Instant;

use floe_transport::{Link, Sender};
use floe_wire::{CancelMigrate, Migrate, MigrateReply, Migrating, Push, Reply};
use floe_worker::contract::Report;
use floe_worker::move_notices::{Described, Leave, MoveOrder, Phase, Progress, Said};
use stage::{PATIENCE, Session, Stage, Worker, ask};

#[test]
#[ignore = "a process that the daemon starts in a worker's place"]
fn acts_as_a_worker() {
    stage::act_as_worker();
}

const BYTES: u64 = 1 << 30;
/// The phases that a source goes through before it has sent everything.
const PHASES: [Phase; 6] = [Phase::Replay, Phase::Lend, Phase::Precopy, Phase::Park, Phase::Drain, Phase::Finish];

fn migrate(session: u64, gpu: u32) -> Migrate<'static> {
    Migrate { session, key: &[], gpu, stop_and_copy: false, patience_ms: 30_000, action: 0 }
}

/// The phases that were told, and the answer: what was moved, or status and words.
type Heard = (Vec<u32>, Result<Moved, (u32, String)>);

/// One who has asked for a move: the phases it has heard of, and the answer.
struct Asker {
    sender: Sender,
    hears: JoinHandle<Heard>,
}

#[derive(Debug)]
struct Moved {
    gpu: u32,
    worker: u32,
    phases: Vec<u32>,
    bytes: u64,
}

impl Asker {
    fn new(stage: &Stage, message: &Migrate<'_>) -> Self {
        let mut link = stage.connect();
        let sequence = link.send(message).expect("sent");
        let (sender, mut receiver) = link.halves();
        let hears = std::thread::spawn(move || {
            let mut phases = Vec::new();
            loop {
                let Ok(Some(frame)) = receiver.next_exactly(Some(Instant::now() + PATIENCE)) else {
                    return (phases, Err((0, "closed".to_owned())));
                };
                match Push::decode(frame.kind, frame.payload).expect("a push") {
                    Push::Migrating(Migrating { phase, .. }) => phases.push(phase),
                    Push::Reply(Reply { request, status: 0, body, .. }) => {
                        assert_eq!(request, sequence);
                        let MigrateReply { gpu, worker, phases: times, bytes, .. } =
                            <Migrate<'_> as floe_wire::Call>::decode_reply(body).expect("a reply");
                        let times = times.iter().map(|time| time.phase).collect();
                        return (phases, Ok(Moved { gpu, worker, phases: times, bytes }));
                    }
                    Push::Reply(Reply { status, detail, .. }) => return (phases, Err((status, detail.to_owned()))),
                    other => panic!("{other:?}"),
                }
            }
        });
        Self { sender, hears }
    }

    fn hears(self) -> Heard {
        self.hears.join().expect("it hears the end")
    }

    fn refusal(self) -> String {
        self.hears().1.expect_err("refused").1
    }
}

/// A move that has been asked for, up to the start of its target.
struct Move {
    asker: Asker,
    number: u64,
    target: Worker,
}

impl Move {
    fn begin(stage: &Stage, session: &mut Session, gpu: u32) -> Self {
        let asker = Asker::new(stage, &migrate(session.number, gpu));
        let (order, has_stream) = session.worker.hears_order();
        let MoveOrder::Leave(Leave { number, importer, same_gpu, patience_ms, .. }) = order else {
            panic!("{order:?}")
        };
        assert_eq!((has_stream, importer, patience_ms), (true, number, 30_000));
        session.worker.moves(number, Said::Described(Described { bytes: BYTES, objects: 3 }));
        let mut target = stage.worker();
        let arrival = target.task.arrives.expect("it arrives");
        assert_eq!((target.task.session, arrival.number, arrival.same_gpu), (session.number, number, same_gpu));
        assert_eq!(target.hears_order(), (MoveOrder::Arrive(number), true));
        target.says(&Report::Ready);
        Self { asker, number, target }
    }

    /// The source goes to this phase, through those before it.
    fn goes_to(&self, source: &mut Worker, last: Phase) {
        for phase in PHASES.into_iter().filter(|phase| *phase <= last) {
            source.moves(self.number, Said::Phase(phase, Progress { bytes: BYTES, of: BYTES, rounds: 1 }));
        }
    }

    /// Everything goes well. Returns the session with its new worker.
    fn succeeds(mut self, stage: &Stage, session: Session) -> (Session, Moved) {
        let Session { number, key, worker: mut source, link } = session;
        self.goes_to(&mut source, Phase::Finish);
        source.moves(self.number, Said::Frozen);
        self.target.moves(self.number, Said::Ready);
        assert_eq!(self.target.hears_order(), (MoveOrder::Go(self.number), false));
        assert_eq!(source.hears_order(), (MoveOrder::Release(self.number), false));
        source.exits(0);
        let moved = self.asker.hears().1.unwrap_or_else(|error| panic!("{error:?}\n{}", stage.log()));
        (Session { number, key, worker: self.target, link }, moved)
    }
}

/// Waits until the daemon shows this phase.
fn shows(stage: &Stage, session: u64, phase: Phase) {
    let wanted = format!("moves to 1: {phase}");
    stage.until(&wanted, |stage| stage.sessions().iter().any(|row| row.0 == session && row.3.contains(&wanted)));
}

/// The session goes on with this worker, on GPU 0: connections reach it, and it may move again.
fn goes_on(stage: &Stage, session: &mut Session, number: u64) {
    assert_eq!(session.worker.hears_order(), (MoveOrder::GoOn(number), false));
    session.worker.moves(number, Said::GaveUp("told".into()));
    is_there(stage, session);
}

fn is_there(stage: &Stage, session: &mut Session) {
    let _joined = stage.join(session.number, &session.key);
    session.worker.hears_connection("joined");
    stage.until("it is where it was", |stage| {
        let rows = stage.sessions();
        rows.iter().map(|row| (row.0, row.1, row.3.as_str())).eq([(session.number, 0, "unix")])
    });
}

#[test]
fn a_session_moves_and_its_number_key_and_connections_lead_to_the_new_worker() {
    let stage = Stage::set();
    let mut session = stage.attach();
    let mut going = Move::begin(&stage, &mut session, 1);
    assert_eq!((going.target.task.gpu, going.target.task.memory), (1, session.worker.task.memory));
    session.worker.says(&Report::Used(BYTES));
    going.target.says(&Report::Used(BYTES));
    let before = stage.join(session.number, &session.key);
    session.worker.hears_connection("joined");
    going.goes_to(&mut session.worker, Phase::Park);
    shows(&stage, session.number, Phase::Park);
    let during = stage.join(session.number, &session.key);
    assert!(session.worker.hears_nothing() && going.target.hears_nothing(), "nobody has the door");
    session.worker.moves(going.number, Said::Phase(Phase::Finish, Progress::default()));
    going.target.moves(going.number, Said::Ready);
    session.worker.moves(going.number, Said::Frozen);
    assert_eq!(going.target.hears_order(), (MoveOrder::Go(going.number), false));
    going.target.hears_connection("joined");
    assert_eq!(session.worker.hears_order(), (MoveOrder::Release(going.number), false));
    let after = stage.join(session.number, &session.key);
    going.target.hears_connection("joined");
    session.worker.exits(0);
    let (heard, moved) = going.asker.hears();
    let moved = moved.expect("moved");
    assert!(heard.is_sorted() && heard.last() == Some(&Phase::Release.number()), "{heard:?}");
    assert_eq!((moved.gpu, moved.phases.last()), (1, Some(&Phase::Release.number())));
    let rows = stage.sessions();
    assert_eq!(rows, [(session.number, 1, moved.worker, "unix".to_owned())]);
    let log = stage.log();
    assert!(
        log.contains(&format!(
            "session {}: move {} from GPU 0 to GPU 1: asked by the operator",
            session.number, going.number
        )),
        "{log}"
    );
    assert!(log.contains("done, its worker is") && log.contains("retries 0; copied"), "{log}");
    // The new worker's end is the session's.
    going.target.exits(0);
    stage.until("the session is over", |stage| stage.sessions().is_empty());
    drop((before, during, after));
}

#[test]
fn whoever_gives_up_at_whatever_phase_leaves_the_session_at_its_worker() {
    let stage = Stage::set();
    let mut session = stage.attach();
    for phase in PHASES {
        for who in ["source", "target", "target dies", "cancelled", "asker leaves"] {
            let mut going = Move::begin(&stage, &mut session, 1);
            going.goes_to(&mut session.worker, phase);
            shows(&stage, session.number, phase);
            let expected = match who {
                "source" => {
                    session.worker.moves(going.number, Said::GaveUp("a device heap is in use".into()));
                    "a device heap is in use"
                }
                "target" => {
                    going.target.moves(going.number, Said::Refused("x lies elsewhere\u{1b}[2J".into()));
                    "x lies elsewhere\u{fffd}[2J"
                }
                "target dies" => {
                    going.target.exits(1);
                    "the new worker ended"
                }
                "cancelled" => {
                    going.asker.sender.send(&CancelMigrate {}, |_| {}).expect("sent");
                    "it was cancelled"
                }
                _ => {
                    going.asker.sender.close();
                    ""
                }
            };
            going.target.ends();
            if who == "source" {
                is_there(&stage, &mut session)
            } else {
                goes_on(&stage, &mut session, going.number)
            }
            if who == "asker leaves" {
                stage.until("it is over", |stage| {
                    stage.log().matches("given up").count() == stage.log().matches("asked by").count()
                });
                continue;
            }
            let (_, answer) = going.asker.hears();
            let (status, words) = answer.expect_err("given up");
            assert!(status == 600 && words.contains(expected), "{phase} {who}: {words}");
        }
    }
    let log = stage.log();
    assert_eq!(log.matches("given up: ").count(), PHASES.len() * 5, "{log}");
}

#[test]
fn a_source_that_dies_at_whatever_phase_takes_the_session_and_the_target_along() {
    for phase in PHASES {
        let stage = Stage::set();
        let mut session = stage.attach();
        let mut going = Move::begin(&stage, &mut session, 1);
        going.goes_to(&mut session.worker, phase);
        shows(&stage, session.number, phase);
        session.worker.exits(1);
        going.target.ends();
        assert!(going.asker.refusal().contains("the session ended meanwhile"));
        assert!(stage.sessions().is_empty());
    }
}

#[test]
fn a_frozen_source_goes_on_where_the_target_is_never_ready() {
    for dies in [false, true] {
        let stage = Stage::set();
        let mut session = stage.attach();
        let mut going = Move::begin(&stage, &mut session, 1);
        going.goes_to(&mut session.worker, Phase::Finish);
        session.worker.moves(going.number, Said::Frozen);
        shows(&stage, session.number, Phase::Switch);
        if dies {
            going.target.exits(1);
        } else {
            going.target.moves(going.number, Said::Refused("its memory differs".into()));
        }
        going.target.ends();
        goes_on(&stage, &mut session, going.number);
        going.asker.refusal();
    }
}

#[test]
fn a_client_that_leaves_meanwhile_ends_both_workers() {
    let stage = Stage::set();
    let mut session = stage.attach();
    let mut going = Move::begin(&stage, &mut session, 1);
    going.goes_to(&mut session.worker, Phase::Precopy);
    session.worker.says(&Report::Ended("the client left".into()));
    going.target.ends();
    session.worker.exits(0);
    assert!(going.asker.refusal().contains("the session ended meanwhile"));
    assert!(stage.sessions().is_empty());
}

#[test]
fn a_new_worker_that_dies_behind_the_commit_ends_the_session_as_any_worker_does() {
    let stage = Stage::set();
    let mut session = stage.attach();
    let mut going = Move::begin(&stage, &mut session, 1);
    going.goes_to(&mut session.worker, Phase::Finish);
    session.worker.moves(going.number, Said::Frozen);
    going.target.moves(going.number, Said::Ready);
    assert_eq!(session.worker.hears_order().0, MoveOrder::Release(going.number));
    going.target.exits(1);
    stage.until("the session is over", |stage| stage.sessions().is_empty());
    session.worker.exits(0);
    assert!(going.asker.hears().1.is_ok(), "it was moved");
    assert!(stage.log().contains("the session has ended since"));
}

#[test]
fn connections_that_waited_go_back_to_the_source_when_a_move_is_given_up() {
    let stage = Stage::set();
    let mut session = stage.attach();
    let going = Move::begin(&stage, &mut session, 1);
    going.goes_to(&mut session.worker, Phase::Park);
    shows(&stage, session.number, Phase::Park);
    let _waiting = stage.join(session.number, &session.key);
    assert!(session.worker.hears_nothing());
    session.worker.moves(going.number, Said::WentOn("a stream stands at a host function".into()));
    session.worker.hears_connection("joined");
    session.worker.moves(going.number, Said::Phase(Phase::Park, Progress::default()));
    shows(&stage, session.number, Phase::Park);
    let _waiting = stage.join(session.number, &session.key);
    going.asker.sender.send(&CancelMigrate {}, |_| {}).expect("sent");
    assert_eq!(session.worker.hears_order(), (MoveOrder::GoOn(going.number), false));
    session.worker.hears_connection("joined");
    going.asker.refusal();
}

#[test]
fn what_cannot_be_moved_refusal_by_name_and_no_worker_hears_of_it() {
    let stage = Stage::set();
    let mut session = stage.attach();
    for (message, words) in [
        (migrate(session.number + 1, 1), "no session of yours here"),
        (migrate(session.number, 7), "no such GPU here: 7; offered: [0, 1, 2]"),
        (migrate(session.number, 2), "GPU 2 has another architecture: 9.1"),
    ] {
        let error = ask(&mut stage.connect(), &message).expect_err("refused").1;
        assert!(error.contains(words), "{error}");
    }
    let _other = stage.attach();
    let going = Move::begin(&stage, &mut session, 1);
    let error = ask(&mut stage.connect(), &migrate(session.number, 1)).expect_err("refused").1;
    assert_eq!(error, "the session is moving already");
    drop(going);
    assert!(stage.has_no_worker());
}

#[test]
fn a_session_that_says_it_holds_more_than_there_is_gets_no_target() {
    let stage = Stage::set();
    let mut session = stage.attach();
    let asker = Asker::new(&stage, &migrate(session.number, 1));
    let (MoveOrder::Leave(Leave { number, .. }), _) = session.worker.hears_order() else { panic!("not to leave") };
    session.worker.moves(number, Said::Described(Described { bytes: 9 << 30, objects: 0 }));
    goes_on(&stage, &mut session, number);
    assert!(asker.refusal().contains("no room on GPU 1"));
    assert!(stage.has_no_worker());
}

#[test]
fn the_server_chooses_another_gpu_and_the_same_one_where_it_is_named() {
    let stage = Stage::set();
    let mut session = stage.attach();
    let (mut session, moved) = Move::begin(&stage, &mut session, u32::MAX).succeeds(&stage, session);
    assert_eq!((moved.gpu, session.worker.task.gpu), (1, 1));
    let going = Move::begin(&stage, &mut session, 1);
    assert!(going.target.task.arrives.is_some_and(|arrival| arrival.same_gpu));
    let (_, moved) = going.succeeds(&stage, session);
    assert_eq!((moved.gpu, moved.bytes), (1, BYTES));
}

#[test]
fn many_moves_in_a_row_leave_nothing_behind() {
    let stage = Stage::set();
    let mut session = stage.attach();
    let mut descriptors = Vec::new();
    for round in 0..20 {
        let going = Move::begin(&stage, &mut session, u32::from(round % 2 == 0));
        (session, _) = going.succeeds(&stage, session);
        stage.until("one worker", |stage| stage.sessions().len() == 1);
        descriptors.push(stage.descriptors());
    }
    // A connection that asked is closed a moment later.
    let first = descriptors[0];
    stage.until("as many as at first", |stage| stage.descriptors() <= first);
}

#[test]
fn a_word_about_another_move_counts_for_none() {
    let stage = Stage::set();
    let mut session = stage.attach();
    let going = Move::begin(&stage, &mut session, 1);
    session.worker.moves(going.number + 1, Said::GaveUp("an old word".into()));
    session.worker.moves(going.number - 1, Said::Frozen);
    let (_, moved) = going.succeeds(&stage, session);
    assert_eq!(moved.gpu, 1);
}

#[test]
fn a_daemon_that_ends_leaves_neither_worker() {
    let mut stage = Stage::set();
    let mut session = stage.attach();
    let mut going = Move::begin(&stage, &mut session, 1);
    going.goes_to(&mut session.worker, Phase::Park);
    shows(&stage, session.number, Phase::Park);
    let pid = rustix::process::Pid::from_raw(i32::try_from(stage.process.id()).expect("small")).expect("not 0");
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it runs");
    assert!(stage.process.wait().expect("waited for").success());
    session.worker.ends_some_time();
    going.target.ends_some_time();
    drop::<Link>(session.link);
}
