//! The table, stepped with a clock of the test's own.

use std::time::Duration;

use floe_transport::{Peer, Sealer};
use floe_wire::Attach;

use super::*;
use crate::entrance::limits::Share;
use crate::usage::request::NAME_CHARACTERS;

fn session_request() -> SessionRequest {
    let text = String::from;
    let (client, host, program) = (text("host"), text("host"), text("program"));
    let source = Some(Source::User(1));
    SessionRequest {
        source,
        client,
        host,
        program,
        pid: 7,
        ordinal: 2,
        transport: "unix",
        user: text("alice"),
        token: None,
    }
}

/// A door and a channel of a session.
pub(crate) fn ends() -> (Door, Arc<WorkerChannel>) {
    (Door::new(0, 4, false).expect("made"), WorkerChannel::new(0).expect("made").0)
}

/// What a session of this quota keeps.
pub(crate) fn with(quota: u64) -> Arc<Conditions> {
    Arc::new(Conditions {
        ordinal: 2,
        quota,
        is_guaranteed: false,
        settings: Vec::new(),
        bulk_connections: 0,
        grace_ms: 0,
        client: None,
        transport: Transport::Socket,
        ceiling: 0,
        source: Source::User(1),
        terms: floe_shares::Terms::default(),
        time: Duration::ZERO,
    })
}

fn add(sessions: &mut Sessions, request: SessionRequest, gpu: u32, quota: u64, now: Instant) -> u64 {
    sessions.add(request, gpu, with(quota), ends(), now).expect("it has no guarantee").number()
}

#[test]
fn numbers_are_not_used_again() {
    let mut sessions = Sessions::default();
    let first = add(&mut sessions, session_request(), 0, 0, Instant::now());
    assert!(sessions.remove(first).is_some());
    assert_ne!(add(&mut sessions, session_request(), 0, 0, Instant::now()), first);
}

#[test]
fn a_peers_words_cannot_draw_on_a_terminal() {
    let program = format!("a\u{1b}[2Jb\nc\u{202e}{}", "x".repeat(1 << 15));
    let request = Attach { host: "\u{7}host", program: &program, ..Attach::default() };
    let session_request =
        SessionRequest::new(&request, &Peer::Unix { uid: 1, pid: 2 }, Sealer::Nobody, Transport::Socket);
    assert_eq!(session_request.client, "\u{fffd}host (process 2 of user 1)");
    assert!(session_request.program.starts_with("a\u{fffd}[2Jb c\u{fffd}xxx"), "{}", session_request.program);
    assert_eq!(session_request.program.chars().count(), NAME_CHARACTERS);
}

#[test]
fn tenants_are_those_of_one_host_and_one_gpu() {
    let mut sessions = Sessions::default();
    let number = add(&mut sessions, session_request(), 1, 10, Instant::now());
    sessions.started(number, 99, None);
    sessions.uses(number, 5, Instant::now());
    add(&mut sessions, SessionRequest { host: "other".into(), ..session_request() }, 1, 10, Instant::now());
    add(&mut sessions, session_request(), 0, 10, Instant::now());
    let tenant = Tenant { pid: 7, ordinal: 2, quota: 10, used: 5, worker: 99 };
    assert_eq!(sessions.tenants(1, "host", None), [tenant]);
    assert_eq!(sessions.tenants(1, "host", Some(Source::User(1))), [tenant]);
    assert_eq!(sessions.tenants(1, "host", Some(Source::User(2))), [], "another's");
    assert_eq!(sessions.workers_on_gpu(1), [99]);
}

#[test]
fn of_a_peers_sessions_that_wait_those_that_have_waited_longest_are_too_many() {
    let (mut sessions, start) = (Sessions::default(), Instant::now());
    let limits = SessionLimits { sessions: Share { all: 9, each: 9 }, waiting: 1 };
    let numbers = [(); 3].map(|()| add(&mut sessions, session_request(), 0, 0, start));
    let other = SessionRequest { source: Some(Source::User(2)), ..session_request() };
    let other = add(&mut sessions, other, 0, 0, start);
    let own = add(&mut sessions, SessionRequest { source: None, ..session_request() }, 0, 0, start);
    assert_eq!(sessions.of_peer(Source::User(1)), 3);
    for (number, seconds) in [(own, 0), (other, 0), (numbers[1], 1), (numbers[0], 2)] {
        sessions.started(number, 90, None);
        sessions.breaks(number, Some(start + Duration::from_secs(seconds)));
    }
    assert_eq!(sessions.too_many_waiting(numbers[0], &limits), [(numbers[1], 90)]);
    assert_eq!(sessions.too_many_waiting(own, &limits), []);
    sessions.breaks(numbers[1], None);
    assert_eq!(sessions.too_many_waiting(numbers[0], &limits), []);
}

#[test]
fn rows_say_age_use_and_worker() {
    let start = Instant::now();
    let mut sessions = Sessions::default();
    let number = add(&mut sessions, session_request(), 1, 10, start);
    sessions.started(number, 99, None);
    sessions.uses(number, 5, Instant::now());
    let rows = sessions.rows(start + Duration::from_secs(3), None);
    assert_eq!((rows[0].seconds, rows[0].used, rows[0].worker, rows[0].gpu), (3, 5, 99, 1));
    assert_eq!(rows[0].transport, "unix");
    assert_eq!((sessions.on_gpu(1), sessions.on_gpu(0), sessions.accounting.used(1)), (1, 0, 5));
}

#[test]
fn figures_of_a_gpu_count_its_sessions_by_transport_and_state() {
    let (mut sessions, now) = (Sessions::default(), Instant::now());
    let first = add(&mut sessions, session_request(), 1, 10, now);
    let second = add(&mut sessions, SessionRequest { transport: "tls", ..session_request() }, 1, 10, now);
    add(&mut sessions, session_request(), 0, 10, now);
    sessions.breaks(first, Some(now));
    sessions.moves(second, Some((HOST_MEMORY, Phase::ALL[0])));
    let (transports, states) = sessions.figures(1);
    assert_eq!(transports, [("unix", 1), ("shm", 0), ("tcp", 0), ("tls", 1), ("clear", 0)]);
    assert_eq!(states, SessionFigures { suspended: 0, waiting: 1, moving: 1 });
    if let Some(worker) = sessions.worker_mut(second) {
        worker.gpu = HOST_MEMORY;
    }
    sessions.moves(second, None);
    assert_eq!(sessions.figures(1).1, SessionFigures { suspended: 1, waiting: 1, moving: 0 });
    assert_eq!(sessions.figures(2).1, SessionFigures::default());
}

#[test]
fn every_transport_of_a_request_has_figures() {
    let peers = [Peer::Unix { uid: 1, pid: 2 }, Peer::Tcp(([192, 0, 2, 1], 1).into())];
    for (transport, sealer) in Transport::ALL
        .into_iter()
        .flat_map(|transport| [Sealer::Nobody, Sealer::Token, Sealer::Process].map(|sealer| (transport, sealer)))
    {
        for peer in &peers {
            let request = SessionRequest::new(&Attach::default(), peer, sealer, transport);
            assert!(TRANSPORTS.contains(&request.transport), "{}", request.transport);
        }
    }
}

#[test]
fn a_peer_is_shown_its_own_sessions_and_no_process_of_the_server() {
    let (mut sessions, now) = (Sessions::default(), Instant::now());
    let own = add(&mut sessions, session_request(), 1, 10, now);
    sessions.started(own, 99, None);
    add(&mut sessions, SessionRequest { source: Some(Source::User(2)), ..session_request() }, 1, 10, now);
    add(&mut sessions, SessionRequest { source: None, ..session_request() }, 1, 10, now);
    let rows = sessions.rows(now, Some(Source::User(1)));
    assert_eq!(rows.iter().map(|row| (row.session, row.worker)).collect::<Vec<_>>(), [(own, 0)]);
    assert_eq!(sessions.rows(now, None).len(), 3);
}

#[test]
fn a_row_says_how_long_a_client_has_been_missing() {
    let start = Instant::now();
    let mut sessions = Sessions::default();
    let number = add(&mut sessions, session_request(), 1, 10, start);
    sessions.breaks(number, Some(start));
    assert_eq!(sessions.rows(start + Duration::from_secs(12), None)[0].transport, "unix, broken 12 s");
    sessions.breaks(number, None);
    assert_eq!(sessions.rows(start + Duration::from_secs(13), None)[0].transport, "unix");
}

/// A process in a worker's place, which leaves by itself after a minute.
fn process() -> crate::workers::supervision::Worker {
    use std::process::{Command, Stdio};

    use crate::workers::supervision::{Process, Worker};
    let child =
        Command::new("sleep").arg("60").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    Worker::of(Process::Own(child.expect("sleep runs")), None).expect("it is watched")
}

/// A session on GPU 0, and the target of its move on GPU 1, both with processes.
fn moving() -> (Sessions, [Seat; 2], [crate::workers::supervision::Worker; 2]) {
    let mut sessions = Sessions::default();
    (0..2).for_each(|gpu| sessions.accounting().offer(gpu, 100, false));
    let old = sessions.add(session_request(), 0, with(50), ends(), Instant::now()).expect("it has no guarantee");
    sessions.uses(old.number(), 10, Instant::now());
    let number = sessions.number_move();
    let new = sessions.arrive((number, old.number()), 1, 10, ends().1).expect("room");
    let processes = [process(), process()];
    for (seat, process) in [&old, &new].into_iter().zip(&processes) {
        sessions.started(seat.number(), process.id(), Some(process.ender()));
    }
    (sessions, [old, new], processes)
}

#[test]
fn a_target_is_no_session_and_is_counted_as_a_worker() {
    let (mut sessions, [old, new], [first, second]) = moving();
    assert_eq!((sessions.count(), sessions.count_workers(), sessions.on_gpu(1)), (1, 2, 0));
    assert_eq!((sessions.workers_on_gpu(0), sessions.workers_on_gpu(1)), (vec![first.id()], vec![second.id()]));
    assert_eq!(sessions.tenants(1, "host", None), []);
    sessions.moves(old.number(), Some((1, Phase::Precopy)));
    assert_eq!(sessions.rows(Instant::now(), None)[0].transport, "unix, moves to 1: precopy");
    assert!(sessions.remove(new.number()).is_some());
    assert_eq!((sessions.count_workers(), sessions.free_on_gpu(1)), (1, 100));
}

#[test]
fn a_commit_changes_the_workers_and_leaves_the_session_its_number_and_key() {
    let (mut sessions, [old, new], [first, second]) = moving();
    let session = old.number();
    let key = sessions.door(session).expect("there").key();
    let channels = [session, new.number()].map(|number| sessions.channel(number).expect("there"));
    assert!(sessions.commit(session, new.number()));
    assert_eq!((new.number(), sessions.process(session)), (session, second.id()));
    assert!(Arc::ptr_eq(&sessions.channel(session).expect("there"), &channels[1]));
    assert!(Arc::ptr_eq(&sessions.channel(old.number()).expect("there"), &channels[0]));
    assert_eq!(sessions.door(session).expect("there").key(), key);
    let row = &sessions.rows(Instant::now(), None)[0];
    assert_eq!((row.session, row.gpu, row.worker, row.used, row.memory), (session, 1, second.id(), 10, 50));
    assert_eq!(sessions.tenants(1, "host", None).len(), 1, "as NVML shows it");
    // The end of the first worker is no end of the session.
    drop(first);
    assert!(sessions.remove(old.number()).is_some());
    assert_eq!((sessions.count(), sessions.count_workers(), sessions.free_on_gpu(0)), (1, 1, 100));
}

#[test]
fn what_a_link_carried_is_summed_over_workers_and_by_gpu_and_never_falls() {
    let counts = |received, sent, waits| Counts { received, sent, waits };
    let shown = |sessions: &mut Sessions, now| {
        let row = &sessions.rows(now, None)[0];
        (counts(row.received, row.sent, row.waits), row.counted_ms)
    };
    let start = Instant::now();
    let at = |seconds| start + Duration::from_secs(seconds);
    let (mut sessions, [old, new], _processes) = moving();
    let (session, target) = (old.number(), new.number());
    sessions.carries(session, counts(100, 10, 1), at(1));
    sessions.carries(target, counts(7, 7, 7), at(1));
    assert_eq!(shown(&mut sessions, at(1)).0, counts(100, 10, 1), "a target has no session yet");
    assert_eq!(sessions.carried(0), counts(100, 10, 1));
    assert!(sessions.commit(session, target));
    assert_eq!(shown(&mut sessions, at(2)).0, counts(100, 10, 1));
    sessions.carries(session, counts(5, 0, 2), at(3));
    // The worker that it had may still say something.
    sessions.carries(target, counts(1000, 1000, 1000), at(3));
    let (carried, millis) = shown(&mut sessions, at(3));
    assert_eq!(carried, counts(105, 10, 3));
    assert!((2000..=3000).contains(&millis), "{millis}");
    assert_eq!((sessions.carried(0), sessions.carried(1)), (counts(100, 10, 1), counts(5, 0, 2)));
    drop(sessions.remove(session));
    assert_eq!(sessions.carried(1), counts(5, 0, 2), "also of sessions that have ended");
}

#[test]
fn there_is_no_commit_where_a_worker_has_ended() {
    for which in 0..2 {
        let (mut sessions, [old, new], mut processes) = moving();
        // A process that has ended and was not waited for is one that has ended.
        processes[which].ender().signal(rustix::process::Signal::KILL);
        while !processes[which].ender().has_ended() {
            std::thread::yield_now();
        }
        assert!(!sessions.commit(old.number(), new.number()));
        assert_eq!(sessions.process(old.number()), processes[0].id());
        processes.reverse();
    }
}

#[test]
fn a_session_that_is_to_end_is_not_committed_while_its_killed_worker_still_ends() {
    let (mut sessions, [old, new], _processes) = moving();
    sessions.end(old.number(), "ended by the operator".to_owned());
    assert!(!sessions.commit(old.number(), new.number()));
    let (mut sessions, [old, new], _processes) = moving();
    assert!(sessions.commit(old.number(), new.number()), "what is not to end is");
}

#[test]
fn a_session_is_moved_by_its_own_peer_or_its_key_and_by_the_servers_user() {
    use super::moving::{Asker, Found};
    let mut sessions = Sessions::default();
    let number = add(&mut sessions, session_request(), 0, 0, Instant::now());
    let key = sessions.door(number).expect("there").key();
    let may = |source, has_proved, key: &[u8]| {
        matches!(sessions.movable(number, &Asker { source, has_proved, key }), Found::Its(_))
    };
    assert!(may(None, true, &[]) && may(Some(Source::User(1)), true, &[]));
    assert!(!may(Some(Source::User(2)), true, &[]) && !may(Some(Source::Forwarded(1)), true, &[]));
    assert!(!may(Some(Source::User(1)), false, &[]), "an address proves nothing");
    assert!(may(Some(Source::User(2)), false, &key) && !may(Some(Source::User(2)), true, &[0; 16]));
    assert!(matches!(
        sessions.movable(number + 1, &Asker { source: None, has_proved: true, key: &key }),
        Found::Nothing
    ));
}

#[test]
fn who_misses_memory_ends_those_that_have_more_than_their_quotas_if_that_does() {
    const GIB: u64 = 1 << 30;
    let (mut sessions, now) = (Sessions::default(), Instant::now());
    sessions.accounting().offer(0, 10 * GIB, true);
    let [heir, modest, wanting] = [GIB, GIB, 0].map(|quota| add(&mut sessions, session_request(), 0, quota, now));
    for number in [heir, modest] {
        assert_eq!(sessions.want(number, GIB, now).total, GIB);
        sessions.uses(number, GIB, now);
    }
    let ends = |sessions: &mut Sessions| [heir, modest, wanting].map(|number| sessions.ending(number).is_some());
    // It has 4 GiB of sessions that have ended.
    sessions.uses(heir, 5 * GIB, now);
    assert_eq!(sessions.want(wanting, 8 * GIB, now + Duration::from_secs(2)).total, 0);
    assert_eq!(ends(&mut sessions), [false; 3], "a worker may count a block twice for a moment");
    let now = now + Duration::from_secs(3);
    assert_eq!(sessions.want(modest, 2 * GIB, now).total, GIB);
    assert_eq!(ends(&mut sessions), [false; 3], "its own quota is what it lacks");
    assert_eq!(sessions.want(wanting, 9 * GIB, now).total, 0);
    assert_eq!(ends(&mut sessions), [false; 3], "that would not do");
    assert_eq!(sessions.want(wanting, 8 * GIB, now).total, 0);
    assert_eq!(ends(&mut sessions), [true, false, false]);
    let why = "others need the 4294967296 bytes that it has beyond its quota, of sessions that have ended";
    assert_eq!(sessions.ending(heir).as_deref(), Some(why));
    drop(sessions.remove(heir));
    assert_eq!(sessions.want(wanting, 8 * GIB, now).total, 8 * GIB);
}
