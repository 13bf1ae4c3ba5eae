//! Bulk connections of real sessions over TCP: large copies use them and arrive whole, nothing is left behind, and
//! unauthorized peers get none.

use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use floe_tests::{Floed, Linkage, Program, Statistics, descendants, example, open_files, settled, threads};
use floe_transport::Link;
use floe_wire::*;

/// How long a step may take before it counts as stuck.
const PATIENCE: Duration = Duration::from_secs(300);

fn program(daemon: &Floed, address: &str) -> Program {
    example("bulkCopies", Linkage::Static, &[]).on(daemon, address).variable("FLOE_STATS", "json")
}

/// One whose copies end when it is killed, or its worker is.
fn endless(daemon: &Floed) -> Program {
    let program = example("steadyWork", Linkage::Static, &["until", "/nonexistent"]);
    program.on(daemon, daemon.tcp()).variable("FLOE_BULK_CONNECTIONS", "4")
}

fn run(program: &Program) -> Statistics {
    let outcome = program.run();
    assert_eq!(outcome.code, Some(0), "{}{}", outcome.stdout, outcome.stderr);
    assert!(outcome.stdout.lines().any(|line| line == "PASSED"), "{}", outcome.stdout);
    outcome.statistics()
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn large_copies_over_tcp_use_the_bulk_connections_and_leave_nothing_behind() {
    let daemon = Floed::start_with(&["--bulk-connections", "8", "--clear-text"], &[]);
    let clear = daemon.tcp().replacen("tcp", "clear", 1);
    let before = settled(daemon.process());
    // Sealing copies the bytes anyway, so no other threads copy ahead.
    let sealed = [("1", "1"), ("8", "1")].map(|(connections, threads)| (daemon.tcp(), connections, threads));
    let all = sealed.into_iter().chain([(clear.as_str(), "3", "4"), (&clear, "8", "1")]);
    for (address, connections, copy_threads) in all {
        let program = program(&daemon, address).variable("FLOE_BULK_CONNECTIONS", connections);
        let seen = run(&program.variable("FLOE_COPY_THREADS", copy_threads));
        // The connections are made while the program runs, and small copies stay with their commands.
        assert!(seen.bulk_to_device * 4 > seen.bytes_to_device, "{connections}: {seen:?}");
        assert_eq!(seen.bulk_staged > 0, copy_threads != "1", "{connections}: {seen:?}");
        assert!(seen.bulk_from_device * 2 > seen.bytes_from_device, "{connections}: {seen:?}");
        daemon.wait_for_workers(0);
        let left = || (open_files(daemon.process()), threads(daemon.process()));
        wait_until("the daemon has no more files and threads than before", || left() == before);
    }
}

#[test]
fn either_side_does_without_and_a_unix_socket_has_none() {
    let daemon = Floed::start_with(&["--bulk-connections", "3"], &[]);
    let none = |seen: Statistics| assert_eq!((seen.bulk_to_device, seen.bulk_from_device), (0, 0), "{seen:?}");
    none(run(&program(&daemon, daemon.unix()).variable("FLOE_BULK_CONNECTIONS", "3")));
    none(run(&program(&daemon, daemon.tcp()).variable("FLOE_BULK_CONNECTIONS", "0")));
    let daemon = Floed::start_with(&["--bulk-connections", "0"], &[]);
    none(run(&program(&daemon, daemon.tcp()).variable("FLOE_BULK_CONNECTIONS", "3")));
}

#[test]
fn program_that_is_killed_in_the_middle_leaves_no_worker() {
    let daemon = Floed::start_with(&["--bulk-connections", "4"], &[]);
    for _ in 0..5 {
        let mut running = endless(&daemon).start();
        daemon.wait_for_workers(1);
        std::thread::sleep(Duration::from_millis(300));
        // The program itself, not `floe run` only.
        for process in descendants(running.id()).into_iter().chain([running.id()]) {
            let _ = std::process::Command::new("kill").args(["-KILL", &process.to_string()]).status();
        }
        running.wait().expect("it was started");
        daemon.wait_for_workers(0);
    }
    run(&program(&daemon, daemon.tcp()));
}

#[test]
fn worker_that_is_killed_in_the_middle_ends_the_program_with_an_error() {
    let daemon = Floed::start_with(&["--bulk-connections", "4"], &[]);
    let mut running = endless(&daemon).start();
    daemon.wait_for_workers(1);
    std::thread::sleep(Duration::from_millis(500));
    for worker in descendants(daemon.process()) {
        let _ = std::process::Command::new("kill").args(["-KILL", &worker.to_string()]).status();
    }
    let start = Instant::now();
    let code = running.wait().expect("it was started").code();
    assert!(start.elapsed() < PATIENCE && code != Some(0), "{code:?}");
}

/// A client made by hand, over TCP without a token.
struct Client(Link);

impl Client {
    fn greeted(address: &str) -> Self {
        let socket = TcpStream::connect(address.strip_prefix("tcp://").expect("a TCP address")).expect("it listens");
        let mut client = Self(Link::new(OwnedFd::from(socket)));
        let hello = Hello { magic: MAGIC, oldest: OLDEST_VERSION, newest: NEWEST_VERSION, client: "test" };
        assert_eq!(client.call(&hello).expect("an answer").0, 0);
        client
    }

    /// A call's status and body; `None` when the connection closes.
    fn call(&mut self, message: &impl Message) -> Option<(u32, Vec<u8>)> {
        self.0.send(message).ok()?;
        let frame = self.0.receive(Some(Instant::now() + PATIENCE)).ok()??;
        match Push::decode(frame.kind, frame.payload).expect("a message") {
            Push::Reply(reply) => Some((reply.status, reply.body.to_vec())),
            other => panic!("not a reply: {}", other.name()),
        }
    }
}

#[test]
fn only_connections_with_the_key_join_and_no_more_than_allowed() {
    let daemon = Floed::start_with(&["--bulk-connections", "2", "--no-token", "--grace", "0"], &[]);
    let mut own = Client::greeted(daemon.tcp());
    let (_, body) = own.call(&Attach { program: "by hand", host: "here", ..Attach::default() }).expect("an answer");
    let reply = Attach::decode_reply(&body).expect("attached");
    assert_eq!((reply.key.len(), reply.bulk_connections), (16, 2));
    let (session, key) = (reply.session, reply.key.to_vec());
    let join = |session, key: &[u8]| {
        let mut client = Client::greeted(daemon.tcp());
        let status = client.call(&Join { session, key }).expect("an answer").0;
        (client, status)
    };
    let mut wrong = key.clone();
    wrong[0] ^= 1;
    for (session, key) in [(session, wrong.as_slice()), (session, &key[..15]), (session, &[]), (session + 1, &key)] {
        assert_eq!(join(session, key).1, 800);
    }
    let joined: Vec<_> = (0..2).map(|_| join(session, &key)).collect();
    assert!(joined.iter().all(|(_, status)| *status == 0));
    assert_eq!(join(session, &key).1, 800, "a third");
    assert_eq!(own.call(&SynchronizeContext {}).expect("it goes on").0, 0);
    drop(joined);
    wait_until("a session ends with any of its connections", || own.call(&SynchronizeContext {}).is_none());
    daemon.wait_for_workers(0);
}
