//! Sessions that move from worker to worker in one process, with a daemon that the test plays.
//! In: a client that runs steady work and checks its numbers, orders of the daemon's. Out: the verdict.

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, Sender, channel};

use floe_transport::Channels;

use super::super::sharer::{Reported, Reports};
use super::super::*;
use super::keep;
use crate::daemon::descriptor_passing::{Heard, Taker};
use crate::daemon::move_notices::*;
use crate::daemon::peer_notices::{Answers, Kind, PeerNotice, Question, Refused, Returned};
use crate::life::moving::staging::{SOURCE, TARGET};
use crate::life::moving::stream::MoveStream;
use crate::life::moving::words::{Answer, Contents, Description, Last, LentBlock, LinkKind, Piece, Step, VERSION};
use crate::sandbox::Reserved;
use crate::{MoveEnds, MoveReports, PeerEnds, arrive};

const HOUR: Duration = Duration::from_secs(3600);
/// The session's number.
const SESSION: u64 = 1;

struct Words(Sender<MoveReport>);

impl MoveReports for Words {
    fn say(&self, report: MoveReport) {
        let _ = self.0.send(report);
    }
}

/// A worker as the daemon has it.
struct Worker {
    /// Its number at the broker.
    number: Arc<AtomicU64>,
    device: Arc<Fake>,
    giver: Arc<Giver>,
    orders: Sender<Ordered>,
    said: Receiver<MoveReport>,
    reported: Arc<Mutex<Receiver<Reported>>>,
    thread: JoinHandle<Ending>,
}

/// What a worker begins with.
enum Begins {
    Link(Link),
    Arrives(Arrival),
}

impl Worker {
    fn start(begins: Begins, number: u64, device: Arc<Fake>) -> Self {
        Self::start_standing(begins, number, device, Stands::default())
    }

    fn start_standing(begins: Begins, number: u64, device: Arc<Fake>, stands: Stands) -> Self {
        let (giver, taker) = pair(MOST_JOINING).unwrap();
        let socket = taker.into_descriptor();
        let answers = Answers::over(Reserved::anywhere(socket.as_fd()));
        let ((noticed, notices), (reports, reported)) = (channel(), channel());
        let ((orders, ordered), (says, said)) = (channel(), channel());
        let peers = PeerEnds {
            session: number,
            reports: Box::new(Reports(reports)),
            notices,
            answers,
            beside: Arc::default(),
            patience: PATIENCE,
        };
        let plan = Plan {
            ordinal: 0,
            memory: 0,
            granularity: BLOCK,
            host_memory: HOST_MEMORY,
            grants: None,
            shared_memory: SHARED,
            mirrored_memory: MIRRORED,
            transport_memory: TRANSPORT,
            device_speaks: false,
            nccl: None,
            nodes: false,
            cupti: None,
            cache: None,
            used: Arc::default(),
            carried: Arc::default(),
            joining: Joining::new(Vec::new(), Some(Taker::new(socket).noticing(noticed))),
            peers: Some(peers),
            moves: Some(MoveEnds { session: SESSION, orders: ordered, reports: Box::new(Words(says)) }),
            turns: None,
            end: None,
            stands,
            resumption: Some(Resumption {
                grace: HOUR,
                bulk_connections: 2,
                client: None,
                broken: Arc::new(AtomicBool::new(false)),
            }),
            idle: None,
            watchdog: Watchdog::nobody(),
        };
        let served = Arc::clone(&device);
        let thread = std::thread::spawn(move || match begins {
            Begins::Link(link) => serve(served, link, plan, Output::none(), Log::nowhere()),
            Begins::Arrives(task) => arrive(served, task, plan, Output::none(), Log::nowhere()),
        });
        let number = Arc::new(AtomicU64::new(number));
        let reported = Arc::new(Mutex::new(reported));
        Self { number, device, giver: Arc::new(giver), orders, said, reported, thread }
    }

    fn order(&self, order: MoveOrder, stream: Option<OwnedFd>) {
        self.orders.send(Ordered { order, stream }).unwrap();
    }

    /// The next word that is neither a phase nor another attempt.
    fn word(&self) -> Said {
        loop {
            match self.said.recv_timeout(PATIENCE).unwrap().said {
                Said::Phase(..) | Said::WentOn(_) => {}
                word => return word,
            }
        }
    }
}

/// Passes on what one worker asks the other for, as the daemon's broker does, until the importer is over.
fn broker(exporter: &Worker, importer: &Worker) -> JoinHandle<()> {
    broker_without(exporter, importer, None)
}

/// The same, except that it refuses a block.
fn broker_without(exporter: &Worker, importer: &Worker, block: Option<u64>) -> JoinHandle<()> {
    let (from, to) = (Arc::clone(&exporter.giver), Arc::clone(&importer.giver));
    let (number, reported) = (Arc::clone(&importer.number), Arc::clone(&importer.reported));
    std::thread::spawn(move || {
        let reported = reported.lock().unwrap();
        while let Ok(report) = reported.recv() {
            let import = match report {
                Reported::Import(import) if import.kind == Kind::Block && Some(import.object) == block => {
                    to.notify(&PeerNotice::Refused(import.request, Refused::Unknown), None).unwrap();
                    continue;
                }
                Reported::Import(import) => import,
                Reported::Returned(Returned { kind, object, .. }) => {
                    let notice = PeerNotice::Returned(number.load(Ordering::SeqCst), vec![(kind, object)]);
                    let _ = from.notify(&notice, None);
                    continue;
                }
                Reported::Dial(_) => panic!("nothing is dialled"),
            };
            let question = Question { importer: number.load(Ordering::SeqCst), import: import.clone() };
            from.notify(&PeerNotice::Asked(question), None).unwrap();
            let (outcome, descriptor) = answer(&from);
            let notice = match outcome {
                Ok(bytes) => super::super::peers::imported(&import, bytes, 1),
                Err(why) => PeerNotice::Refused(import.request, why),
            };
            let _ = to.notify(&notice, descriptor.as_ref().map(|descriptor| descriptor.as_fd()));
        }
    })
}

fn answer(giver: &Giver) -> (Result<u64, Refused>, Option<OwnedFd>) {
    let until = Instant::now() + PATIENCE;
    loop {
        match giver.hear() {
            Heard::Answer(answer, mut descriptors) => return (answer.outcome, descriptors.pop()),
            Heard::Taken => {}
            Heard::Nothing if Instant::now() < until => std::thread::sleep(Duration::from_micros(100)),
            other => panic!("no answer: {other:?}"),
        }
    }
}

/// A session, its client, and the worker that has it now.
struct Moving {
    client: Client,
    channels: Channels,
    worker: Worker,
    door: Arc<Mutex<Arc<Giver>>>,
    keeper: JoinHandle<()>,
    moves: u64,
    /// Whether on one GPU, and without copying ahead.
    options: (bool, bool),
    patience: Duration,
}

impl Moving {
    fn begin() -> Self {
        Self::begin_standing(Stands::default())
    }

    fn begin_standing(stands: Stands) -> Self {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let begins = Begins::Link(Link::new(theirs.into()));
        let worker = Worker::start_standing(begins, SESSION, Arc::default(), stands);
        let (channels, link) = Channels::take_over(client_end(ours), HOUR);
        let (device, giver) = (Arc::clone(&worker.device), Arc::clone(&worker.giver));
        let client = Client {
            link,
            giver: Arc::clone(&giver),
            device,
            used: Arc::default(),
            carried: Arc::default(),
            worker: None,
        };
        let door = Arc::new(Mutex::new(giver));
        let (kept, way) = (channels.clone(), Arc::clone(&door));
        let keeper = std::thread::spawn(move || keep(&kept, &way));
        let mut session =
            Self { client, channels, worker, door, keeper, moves: 0, options: (false, false), patience: PATIENCE };
        session.client.ok(&MemoryInfo {});
        session
    }

    /// Begins a move, and starts the worker that the session goes to, unless the source refuses.
    fn leave(&mut self) -> Result<(Worker, JoinHandle<()>), String> {
        let (ours, theirs) = UnixStream::pair().unwrap();
        self.leave_by(ours.into());
        match self.worker.word() {
            Said::Described(_) => {}
            Said::GaveUp(why) => return Err(why),
            other => panic!("{other:?}"),
        }
        let (same_gpu, stop_and_copy) = self.options;
        let task = Arrival { number: self.moves, importer: 100 + self.moves, same_gpu, stop_and_copy, keeps: None };
        let target = Worker::start(Begins::Arrives(task), task.importer, Arc::default());
        target.order(MoveOrder::Arrive(self.moves), Some(theirs.into()));
        let passing = broker(&self.worker, &target);
        Ok((target, passing))
    }

    fn leave_by(&mut self, stream: OwnedFd) {
        self.moves += 1;
        let (same_gpu, stop_and_copy) = self.options;
        let leave = Leave {
            number: self.moves,
            importer: 100 + self.moves,
            same_gpu,
            stop_and_copy,
            keeps: false,
            patience_ms: u64::try_from(self.patience.as_millis()).unwrap(),
        };
        self.worker.order(MoveOrder::Leave(leave), Some(stream));
    }

    /// Moves the session; why not.
    fn move_on(&mut self) -> Result<(), String> {
        let (target, passing) = self.leave()?;
        match self.worker.word() {
            Said::Frozen => {}
            Said::GaveUp(why) => {
                assert!(matches!(join(target.thread), Ending::NotArrived(_)));
                return Err(why);
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(target.word(), Said::Ready);
        self.commit(target, passing);
        Ok(())
    }

    fn commit(&mut self, target: Worker, passing: JoinHandle<()>) {
        *self.door.lock().unwrap() = Arc::clone(&target.giver);
        target.order(MoveOrder::Go(self.moves), None);
        self.worker.order(MoveOrder::Release(self.moves), None);
        let source = std::mem::replace(&mut self.worker, target);
        assert_eq!(join(source.thread), Ending::Moved);
        self.worker.number.store(SESSION, Ordering::SeqCst);
        self.client.device = Arc::clone(&self.worker.device);
        // It goes on as long as its importer may ask.
        drop(passing);
    }

    fn end(self) {
        // Its connections are there again.
        let mut client = self.client;
        client.ok(&MemoryInfo {});
        self.channels.say_goodbye(PATIENCE);
        self.channels.end();
        join(self.keeper);
        assert_eq!(join(self.worker.thread), Ending::ClientLeft);
    }
}

/// What the steady program has in its block after so many steps.
fn expected(steps: u64) -> Vec<u8> {
    (0..64).map(|at| (at * 3 + steps).to_le_bytes()[0]).collect()
}

impl Moving {
    fn prepare(&mut self) {
        self.client.memory_of(2 * BLOCK);
        self.client.send(&CreateStream { stream: StreamId(1), flags: 1, priority: 0 });
        self.client.send(&CreateEvent { event: EventId(1), flags: 0 });
    }

    fn step(&mut self, step: u64) {
        steady(&mut self.client, step);
    }
}

/// A step of the steady program: what it writes, it reads back at the next one.
fn steady(client: &mut Client, step: u64) {
    (0..STEADY).for_each(|part| steady_part(client, step, part));
}

/// Parts of a step, with a border between two commands between any two of them.
const STEADY: u32 = 6;

fn steady_part(client: &mut Client, step: u64, part: u32) {
    let stream = StreamId(1);
    let (first, second) = (DevicePtr(BASE), DevicePtr(BASE + BLOCK));
    match part {
        0 if step > 0 => {
            let sent = client.send(&CopyFromDevice { stream, from: second, bytes: 64 });
            let bytes = expected(step - 1);
            assert_eq!(client.get(), Some(Got::Delivery { request: sent, offset: 0, bytes }), "step {step}");
            assert_eq!(client.get(), status(sent, 0));
        }
        1 => drop(client.send(&CopyToDevice { stream, to: first, bytes: &expected(step) })),
        2 => drop(client.send(&CopyOnDevice { stream, to: second, from: first, bytes: 64 })),
        3 => drop(client.send(&RecordEvent { event: EventId(1), stream, flags: 0 })),
        4 => drop(client.ok(&SynchronizeEvent { event: EventId(1) })),
        _ => {}
    }
}

/// A worker that answers steps as an honest one does, until `refuses` says otherwise; a stream that it leaves is closed.
fn scripted(stream: UnixStream, mut answer: impl FnMut(&Step) -> Option<Answer> + Send + 'static) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut stream = MoveStream::over(stream.into());
        while let Ok((step, _)) = stream.receive::<Step>(None) {
            let Some(answer) = answer(&step) else { return };
            // Who refuses is there no more.
            if stream.send(&answer, &[]).is_err() || matches!(answer, Answer::Refused(_)) {
                return;
            }
        }
    })
}

/// The answer of a worker to which everything comes.
fn honest(step: &Step) -> Answer {
    match step {
        Step::Copy | Step::Compare { .. } => Answer::Copied(0),
        _ => Answer::Done,
    }
}

impl Moving {
    /// Has the session leave to a scripted worker; what came of it.
    fn leave_to(&mut self, answer: impl FnMut(&Step) -> Option<Answer> + Send + 'static) -> Said {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let playing = scripted(theirs, answer);
        self.leave_by(ours.into());
        let said = loop {
            match self.worker.word() {
                Said::Described(_) => {}
                said => break said,
            }
        };
        if matches!(said, Said::GaveUp(_)) {
            join(playing);
        }
        said
    }
}

fn gave_up(said: Said) -> String {
    match said {
        Said::GaveUp(why) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_session_that_leaves_in_vain_at_random_moments_goes_on_as_if_nothing_had_been() {
    let mut session = Moving::begin();
    session.prepare();
    let Moving { client, channels, worker, door, keeper, .. } = session;
    let busy = Arc::new(AtomicBool::new(true));
    let works = Arc::clone(&busy);
    let idle = Client {
        link: Link::new(UnixStream::pair().unwrap().0.into()),
        giver: Arc::clone(&client.giver),
        device: Arc::clone(&client.device),
        used: Arc::default(),
        carried: Arc::default(),
        worker: None,
    };
    let program = std::thread::spawn(move || {
        let (mut client, mut step) = (client, 0);
        while works.load(Ordering::SeqCst) {
            steady(&mut client, step);
            step += 1;
        }
        (client, step)
    });
    let (moves, options, patience) = (0, (false, true), PATIENCE);
    let mut session = Moving { client: idle, channels, worker, door, keeper, moves, options, patience };
    let mut seed = 7_u64;
    for round in 0..40 {
        // At another step each time: before the pause, in it, and at its end.
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let refused_at = usize::try_from(seed >> 60).unwrap() % 7;
        let mut count = 0;
        let answer = move |step: &Step| {
            count += 1;
            Some(if count > refused_at { Answer::Refused(format!("step {count}")) } else { honest(step) })
        };
        let why = gave_up(session.leave_to(answer));
        assert!(why.starts_with("the other worker: step"), "round {round}: {why}");
    }
    busy.store(false, Ordering::SeqCst);
    let (client, steps) = join(program);
    session.client = client;
    assert!(steps > 0);
    session.end();
}

#[test]
fn a_session_whose_target_dies_at_any_step_goes_on() {
    for dies_at in 0..11 {
        let mut session = Moving::begin();
        session.options = (false, true);
        session.prepare();
        session.step(0);
        let mut count = 0;
        let answer = move |step: &Step| {
            count += 1;
            (count <= dies_at).then(|| honest(step))
        };
        let said = session.leave_to(answer);
        if dies_at < 10 {
            assert_eq!(gave_up(said), "the other worker is gone", "{dies_at}");
        } else {
            // It has been told everything. The daemon sees that it is gone.
            assert_eq!(said, Said::Frozen);
            session.worker.order(MoveOrder::GoOn(session.moves), None);
            assert_eq!(gave_up(session.worker.word()), "the daemon has ended the move");
        }
        session.step(1);
        session.move_on().unwrap();
        session.step(2);
        session.end();
    }
}

/// The session leaves for a target, by streams whose other ends are here: the source's, then the target's.
fn leaves_through_a_relay(session: &mut Moving) -> (Worker, MoveStream, MoveStream) {
    let (ours, near) = UnixStream::pair().unwrap();
    let (far, theirs) = UnixStream::pair().unwrap();
    session.leave_by(ours.into());
    assert!(matches!(session.worker.word(), Said::Described(_)));
    let (same_gpu, stop_and_copy) = session.options;
    let task = Arrival { number: 1, importer: 101, same_gpu, stop_and_copy, keeps: None };
    let target = Worker::start(Begins::Arrives(task), task.importer, Arc::default());
    target.order(MoveOrder::Arrive(1), Some(theirs.into()));
    (target, MoveStream::over(near.into()), MoveStream::over(far.into()))
}

#[test]
fn a_target_whose_source_dies_at_any_step_ends_and_says_why() {
    for dies_at in 0..8 {
        let mut session = Moving::begin();
        session.options = (false, true);
        session.prepare();
        session.step(0);
        let (target, mut source, mut way) = leaves_through_a_relay(&mut session);
        drop(broker(&session.worker, &target));
        // Passes so many steps on, then nothing.
        for _ in 0..dies_at {
            let Ok((step, body)) = source.receive::<Step>(None) else { break };
            way.send(&step, &[&body]).unwrap();
            let (answer, _) = way.receive::<Answer>(None).unwrap();
            source.send(&answer, &[]).unwrap();
        }
        drop((source, way));
        assert_eq!(target.word(), Said::Refused("the other worker is gone".into()), "{dies_at}");
        assert!(matches!(join(target.thread), Ending::NotArrived(_)));
        assert!(gave_up(session.worker.word()).contains("is gone"), "{dies_at}");
        session.step(1);
        session.end();
    }
}

#[test]
fn the_targets_memory_is_mapped_for_the_copy_before_the_program_stands() {
    let mut session = Moving::begin();
    session.options = (false, true);
    session.prepare();
    session.step(0);
    let (target, mut source, mut way) = leaves_through_a_relay(&mut session);
    let passing = broker(&session.worker, &target);
    loop {
        let (step, body) = source.receive::<Step>(None).unwrap();
        let before = target.device.mappings();
        way.send(&step, &[&body]).unwrap();
        let (answer, _) = way.receive::<Answer>(None).unwrap();
        if matches!(step, Step::Copy) {
            assert!(matches!(answer, Answer::Copied(1..)), "{answer:?}");
            assert_eq!(target.device.mappings(), before);
            break;
        }
        source.send(&answer, &[]).unwrap();
    }
    drop((source, way));
    assert!(matches!(join(target.thread), Ending::NotArrived(_)));
    drop(passing);
    session.step(1);
    session.end();
}

#[test]
fn a_target_that_cannot_map_its_memory_refuses_and_keeps_none_and_the_session_goes_on() {
    for stop_and_copy in [true, false] {
        let mut session = Moving::begin();
        session.options = (false, stop_and_copy);
        session.prepare();
        session.step(0);
        let (ours, theirs) = UnixStream::pair().unwrap();
        session.leave_by(ours.into());
        assert!(matches!(session.worker.word(), Said::Described(_)));
        let task = Arrival { number: 1, importer: 101, same_gpu: false, stop_and_copy, keeps: None };
        let target = Worker::start(Begins::Arrives(task), task.importer, Arc::default());
        target.device.fill_from(TARGET);
        target.order(MoveOrder::Arrive(1), Some(theirs.into()));
        let passing = broker(&session.worker, &target);
        let why = gave_up(session.worker.word());
        assert!(why.contains("mapping this session's memory"), "{why}");
        let device = Arc::clone(&target.device);
        assert!(matches!(join(target.thread), Ending::NotArrived(_)));
        assert_eq!(device.mapped_from(SOURCE), 0, "staged memory stays");
        drop(passing);
        session.step(1);
        session.move_on().unwrap();
        session.step(2);
        session.end();
    }
}

#[test]
fn what_a_session_takes_counts_its_arrays() {
    const ARRAY: u64 = 1 << 24;
    let mut session = Moving::begin();
    session.prepare();
    let array =
        CreateArray { array: ArrayId(5), width: ARRAY / 4, format: 0x20, channels: 1, ..CreateArray::default() };
    session.client.ok(&array);
    let (ours, theirs) = UnixStream::pair().unwrap();
    session.leave_by(ours.into());
    let Said::Described(described) = session.worker.word() else { panic!("it may move") };
    assert!(described.bytes >= 2 * BLOCK + ARRAY, "{described:?}");
    drop(theirs);
    assert_eq!(gave_up(session.worker.word()), "the other worker is gone");
    session.end();
}

#[test]
fn work_that_does_not_end_is_named_and_the_program_goes_on() {
    let mut session = Moving::begin();
    // Long enough for the issuer to stand still on a busy machine, which is to be done within this time, too.
    (session.options, session.patience) = ((false, true), Duration::from_millis(500));
    session.prepare();
    session.client.ok(&MemoryInfo {});
    session.worker.device.hold(0);
    session.client.send(&CopyToDevice { stream: StreamId(1), to: DevicePtr(BASE), bytes: &[5; 8] });
    session.client.ok(&MemoryInfo {});
    let why = session.move_on().unwrap_err();
    assert_eq!(why, "streams have work that takes longer: 1");
    session.worker.device.release(0);
    session.client.send(&HostFunction { stream: StreamId(1), function: FunctionId(3) });
    assert_eq!(session.client.get(), Some(Got::RunHostFunction(3)));
    let why = session.move_on().unwrap_err();
    assert_eq!(why, "host functions have not returned: 1");
    session.client.send(&HostFunctionDone { function: FunctionId(3) });
    session.client.ok(&SynchronizeStream { stream: StreamId(1) });
    session.patience = PATIENCE;
    session.move_on().unwrap();
    assert_eq!(session.client.device.memory(BASE, 8), [5; 8]);
    session.end();
}

#[test]
fn commands_that_were_read_and_not_begun_are_carried_out_where_the_session_goes() {
    let mut session = Moving::begin();
    session.options = (false, true);
    session.prepare();
    session.client.ok(&MemoryInfo {});
    session.worker.device.hold(0);
    let stream = StreamId(1);
    session.client.send(&CopyToDevice { stream, to: DevicePtr(BASE), bytes: &[1; 8] });
    session.client.ok(&MemoryInfo {});
    let (target, passing) = session.leave().unwrap();
    loop {
        if let Said::Phase(floe_migrate::Phase::Drain, _) = session.worker.said.recv_timeout(PATIENCE).unwrap().said {
            break;
        }
    }
    // It stands: what comes now is begun at the other worker, large copies and small ones.
    let large = vec![7; 300_000];
    session.client.send(&CopyToDevice { stream, to: DevicePtr(BASE + 8), bytes: &[2; 8] });
    session.client.send(&CopyToDevice { stream, to: DevicePtr(BASE + 4096), bytes: &large });
    let request = session.client.send(&MemoryInfo {});
    // Nothing comes behind this wait: its answer must come without another command.
    let waits = session.client.send(&SynchronizeStream { stream });
    std::thread::sleep(Duration::from_millis(20));
    session.worker.device.release(0);
    assert_eq!(session.worker.word(), Said::Frozen);
    assert_eq!(target.word(), Said::Ready);
    session.commit(target, passing);
    assert!(matches!(session.client.get(), Some(Got::Reply { request: of, status: 0, .. }) if of == request));
    assert_eq!(session.client.get(), status(waits, 0));
    let device = &session.client.device;
    assert_eq!(device.memory(BASE, 16), [[1; 8], [2; 8]].concat());
    assert!(device.memory(BASE + 4096, 300_000) == large);
    session.end();
}

#[test]
fn a_wait_that_was_begun_between_two_errands_is_answered() {
    let begun = |stands: Stands| {
        let mut session = Moving::begin_standing(stands);
        session.options = (false, true);
        session.prepare();
        session.client.ok(&MemoryInfo {});
        session.worker.device.hold(0);
        let (to, from) = (DevicePtr(BASE + BLOCK), DevicePtr(BASE));
        let sent = session.client.send(&CopyOnDevice { stream: StreamId(1), to, from, bytes: 8 });
        (session, sent)
    };
    // The same commands have the same sequences.
    let (mut session, before) = begun(Stands::default());
    session.worker.device.release(0);
    session.client.ok(&MemoryInfo {});
    session.end();
    let (block, wait, behind) = (before + 1, before + 2, before + 3);
    let (mut session, _) = begun(Stands::of(&format!("{block},{behind}")));
    assert_eq!(session.client.send(&CreateBlock { block: BlockId(9), bytes: BLOCK }), block);
    assert_eq!(session.client.send(&SynchronizeStream { stream: StreamId(1) }), wait);
    assert_eq!(session.client.send(&MemoryInfo {}), behind);
    // It stands ahead of the block until this move is given up, then ahead of what comes behind the wait.
    gave_up(session.leave_to(|_| Some(Answer::Refused("no".into()))));
    assert_eq!(session.client.get(), status(block, 0));
    std::thread::sleep(Duration::from_millis(20));
    let (target, passing) = session.leave().unwrap();
    loop {
        if let Said::Phase(floe_migrate::Phase::Drain, _) = session.worker.said.recv_timeout(PATIENCE).unwrap().said {
            break;
        }
    }
    session.worker.device.release(0);
    assert_eq!(session.worker.word(), Said::Frozen);
    assert_eq!(target.word(), Said::Ready);
    session.commit(target, passing);
    // On a machine that was too busy for both, the wait is begun at the target, whose answers may come in another order.
    let answered = [session.client.get(), session.client.get()].map(|got| match got {
        Some(Got::Reply { request, status: 0, .. }) => request,
        other => panic!("{other:?}"),
    });
    assert!(answered == [wait, behind] || answered == [behind, wait], "{answered:?}");
    session.end();
}

#[test]
fn times_of_events_go_on_where_the_session_goes() {
    let mut session = Moving::begin();
    session.prepare();
    let record = |session: &mut Moving, event| {
        session.client.send(&RecordEvent { event: EventId(event), stream: StreamId(1), flags: 0 });
    };
    for event in 2..=4 {
        session.client.send(&CreateEvent { event: EventId(event), flags: 0 });
    }
    (1..=3).for_each(|event| record(&mut session, event));
    session.client.ok(&SynchronizeStream { stream: StreamId(1) });
    let elapsed = |session: &mut Moving, start, end| {
        let body = session.client.ok(&ElapsedTime { start: EventId(start), end: EventId(end) });
        ElapsedTime::decode_reply(&body).unwrap().milliseconds
    };
    assert_eq!(elapsed(&mut session, 1, 3), 2.0);
    for _ in 0..3 {
        session.move_on().unwrap();
        assert_eq!(elapsed(&mut session, 1, 3), 2.0);
        assert_eq!(elapsed(&mut session, 3, 2), -1.0);
        assert_eq!(session.client.call(&ElapsedTime { start: EventId(1), end: EventId(4) }).0, 400);
    }
    record(&mut session, 2);
    let since = elapsed(&mut session, 1, 2);
    assert!(since > 2.0, "{since}");
    session.end();
}

#[test]
fn what_forbids_a_move_is_said_by_name_before_anything_stands() {
    let mut session = Moving::begin();
    session.client.ok(&CreateSignals { signals: SignalsId(1) });
    assert_eq!(session.move_on().unwrap_err(), "the session has signal pages, which other sessions can have too");
    session.client.send(&DropSignals { signals: SignalsId(1) });
    session.client.ok(&MemoryInfo {});
    session.move_on().unwrap();
    session.worker.device.break_context(700);
    let why = session.move_on().unwrap_err();
    assert!(why.starts_with("the session's context is in error"), "{why}");
    session.channels.end();
}

#[test]
fn a_source_that_lies_harms_nobody_but_the_session_that_would_arrive() {
    let description = |change: fn(&mut Description)| {
        let link = LinkKind::Connections { local: true };
        let mut it = Description {
            version: VERSION,
            session: SESSION,
            ticket: 5,
            key: [7; 32],
            ordinal: 0,
            granularity: BLOCK,
            link,
            kept: false,
        };
        change(&mut it);
        Step::Describe(it)
    };
    let honest = || description(|_| ());
    let block = |offset, bytes| LentBlock { block: 1, bytes, offset };
    let last = |last: Last| Step::Last(Box::new(last));
    let piece = |block, offset| Step::Bytes(Piece { block, offset });
    let cases: Vec<Vec<(Step, Vec<u8>)>> = vec![
        vec![(Step::Copy, vec![])],
        vec![(description(|it| it.version += 1), vec![])],
        vec![(description(|it| it.ordinal = 3), vec![])],
        vec![(description(|it| it.granularity = 1), vec![])],
        vec![(description(|it| it.link = LinkKind::Rings { bytes: 1, offered: true }), vec![])],
        vec![(honest(), vec![]), (honest(), vec![])],
        vec![(honest(), vec![]), (Step::Blocks(vec![block(0, BLOCK), block(0, BLOCK)]), vec![])],
        vec![(honest(), vec![]), (Step::Blocks(vec![block(0, BLOCK)]), vec![]), (Step::Copy, vec![])],
        vec![(honest(), vec![]), (Step::Compare { key: [0, 0], last: false }, vec![])],
        vec![(honest(), vec![]), (Step::Compare { key: [9, 9], last: true }, vec![1; 64])],
        vec![(honest(), vec![]), (piece(1, 0), vec![1; 64])],
        vec![(honest(), vec![]), (piece(u64::MAX, u64::MAX), vec![1; 64])],
        vec![(honest(), vec![]), (Step::Objects, vec![0xff; 100])],
        vec![(honest(), vec![]), (Step::Contents(vec![(Contents::Mirror { at: BASE }, 8)]), vec![1; 8])],
        vec![
            (honest(), vec![]),
            (Step::Contents(vec![(Contents::Array { array: 1, slice: u64::MAX }, 8)]), vec![1; 8]),
        ],
        vec![(honest(), vec![]), (last(Last { link: 100, ..Last::default() }), vec![1; 8])],
        vec![(honest(), vec![]), (last(Last { link: 8, ..Last::default() }), vec![1; 8])],
        vec![(honest(), vec![]), (Step::Frozen([0; 32]), vec![])],
    ];
    for (case, steps) in cases.into_iter().enumerate() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let task = Arrival { number: 1, importer: 101, same_gpu: false, stop_and_copy: true, keeps: None };
        let target = Worker::start(Begins::Arrives(task), task.importer, Arc::default());
        target.order(MoveOrder::Arrive(1), Some(theirs.into()));
        // The broker knows no such session.
        let (to, reported) = (Arc::clone(&target.giver), Arc::clone(&target.reported));
        std::thread::spawn(move || {
            let next = || reported.lock().unwrap().recv();
            while let Ok(Reported::Import(import)) = next() {
                let _ = to.notify(&PeerNotice::Refused(import.request, Refused::Unknown), None);
            }
        });
        let mut stream = MoveStream::over(ours.into());
        for (step, body) in steps {
            let _ = stream.send(&step, &[&body]);
            if stream.receive::<Answer>(None).is_err() {
                break;
            }
        }
        assert!(matches!(target.word(), Said::Refused(_)), "case {case}");
        assert!(matches!(join(target.thread), Ending::NotArrived(_)), "case {case}");
    }
}

#[test]
fn a_session_moves_ten_times_and_its_numbers_are_right() {
    let mut session = Moving::begin();
    session.prepare();
    for step in 0..30 {
        session.step(step);
        if step % 3 == 0 {
            session.move_on().unwrap();
        }
    }
    session.end();
}

#[test]
fn a_steady_program_moves_at_every_border_between_two_commands() {
    for options in [(false, false), (true, false)] {
        for border in 0..STEADY {
            let mut session = Moving::begin();
            session.options = options;
            session.prepare();
            for step in 0..3 {
                for part in 0..STEADY {
                    if part == border {
                        session.move_on().unwrap();
                    }
                    steady_part(&mut session.client, step, part);
                }
            }
            session.end();
        }
    }
}

#[test]
fn every_way_of_copying_gives_the_same() {
    for options in [(false, false), (false, true), (true, false), (true, true)] {
        let mut session = Moving::begin();
        session.options = options;
        session.prepare();
        for step in 0..6 {
            session.step(step);
            session.move_on().unwrap();
        }
        session.end();
    }
}

/// No other list would show whether the program has freed it.
#[test]
fn a_block_that_cannot_be_taken_over_once_the_program_stands_ends_the_move() {
    const LATE: u64 = 9;
    let mut session = Moving::begin();
    session.options = (true, false);
    session.prepare();
    session.step(0);
    let (target, mut source, mut way) = leaves_through_a_relay(&mut session);
    drop(broker_without(&session.worker, &target, Some(LATE)));
    let mut is_made = false;
    while let Ok((step, body)) = source.receive::<Step>(None) {
        way.send(&step, &[&body]).unwrap();
        let (answer, _) = way.receive::<Answer>(None).unwrap();
        if step == Step::Objects && !is_made {
            // Behind the last look at the running program.
            session.client.ok(&CreateBlock { block: BlockId(LATE), bytes: BLOCK });
            is_made = true;
        }
        source.send(&answer, &[]).unwrap();
        if matches!(step, Step::Frozen(_)) {
            break;
        }
    }
    assert!(matches!(target.word(), Said::Refused(why) if why.starts_with("block 9 cannot be taken over")));
    assert!(matches!(join(target.thread), Ending::NotArrived(_)));
    assert!(gave_up(session.worker.word()).contains("block 9 cannot be taken over"));
    session.step(1);
    session.end();
}

/// The stream apart comes along, in a context of the new worker's.
#[test]
fn a_session_with_a_stream_apart_moves_and_its_copies_go_on() {
    const APART: StreamId = StreamId(77);
    for options in [(false, false), (true, true)] {
        let mut session = Moving::begin();
        session.options = options;
        session.prepare();
        session.client.ok(&CreateApartStream { stream: APART });
        for step in 0..3_u8 {
            session.step(u64::from(step));
            let at = DevicePtr(BASE + 4096);
            session.client.send(&CopyToDevice { stream: APART, to: at, bytes: &[step, 1, 2, 3] });
            session.move_on().unwrap();
            assert_eq!(session.worker.device.contexts_and_streams().0, 1);
            let sent = session.client.send(&CopyFromDevice { stream: APART, from: at, bytes: 4 });
            assert_eq!(
                session.client.get(),
                Some(Got::Delivery { request: sent, offset: 0, bytes: vec![step, 1, 2, 3] })
            );
            assert_eq!(session.client.get(), status(sent, 0));
        }
        session.end();
    }
}
