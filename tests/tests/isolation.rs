//! One session's failure disturbs no other: killed clients, killed workers, garbage, wrong tokens, faulting kernels.
//! The tests count worker processes and the daemon's open files, before and after.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use floe_tests::{Floed, Linkage, Outcome, Program, descendants, example, open_files, settled};

/// For what a busy machine may take.
const PATIENCE: Duration = Duration::from_secs(300);

/// A program that is busy for a few seconds on the CPU device.
fn busy_program(daemon: &Floed, address: &str) -> Program {
    example("matrixMul", Linkage::Static, &["256", "20"]).on(daemon, address)
}

fn short_program(daemon: &Floed, address: &str) -> Program {
    example("vectorAdd", Linkage::Static, &[]).on(daemon, address)
}

fn assert_passed(outcome: &Outcome) {
    assert_eq!(outcome.code, Some(0), "stdout: {}\nstderr: {}", outcome.stdout, outcome.stderr);
}

fn kill(process: u32) {
    let killed = Command::new("kill").args(["-KILL", &process.to_string()]).status().expect("kill runs");
    assert!(killed.success(), "process {process} was gone");
}

#[test]
fn clients_killed_at_any_moment_leave_nothing_behind() {
    let mut daemon = Floed::start();
    assert_passed(&short_program(&daemon, daemon.unix()).run());
    daemon.wait_for_workers(0);
    // The first session's last file is closed a moment after its worker is gone.
    sleep(Duration::from_millis(100));
    let (files, _) = settled(daemon.process());
    for step in 0..24_u64 {
        let addresses = [daemon.unix(), daemon.tcp(), &daemon.shm()].map(str::to_owned);
        let address = &addresses[usize::try_from(step % 3).expect("below three")];
        let mut client = example("streams", Linkage::Static, &[]).on(&daemon, address).start();
        sleep(Duration::from_millis(step * 12));
        // It may have ended by itself already; then there was nothing to kill.
        let _ = client.kill();
        client.wait().expect("the client is our child");
    }
    daemon.wait_for_workers(0);
    assert!(daemon.is_running());
    assert_passed(&short_program(&daemon, daemon.unix()).run());
    daemon.wait_for_workers(0);
    // The daemon closes a session's last file a moment after the worker is gone.
    let start = Instant::now();
    while open_files(daemon.process()) != files {
        assert!(start.elapsed() < PATIENCE, "the daemon keeps files open: {}", open_files(daemon.process()));
        sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_killed_worker_ends_its_session_and_no_other() {
    let daemon = Floed::start();
    for address in [daemon.unix().to_owned(), daemon.shm()] {
        killed_worker_ends_one_session(&daemon, &address);
    }
}

fn killed_worker_ends_one_session(daemon: &Floed, address: &str) {
    let mut doomed = busy_program(daemon, address).start();
    daemon.wait_for_workers(1);
    let worker = descendants(daemon.process())[0];
    let other = busy_program(daemon, address);
    let other = std::thread::spawn(move || other.run());
    daemon.wait_for_workers(2);
    kill(worker);
    let status = doomed.wait().expect("the program is our child");
    assert!(!status.success(), "the program whose worker was killed says it passed");
    assert_passed(&other.join().expect("the other program ran"));
    daemon.wait_for_workers(0);
}

#[test]
fn garbage_on_the_port_closes_that_connection_only() {
    let mut daemon = Floed::start();
    let host = daemon.tcp().strip_prefix("tcp://").expect("a TCP address").to_owned();
    let busy = busy_program(&daemon, daemon.unix());
    let busy = std::thread::spawn(move || busy.run());
    let mut state = 0x9e37_79b9_u32;
    for length in [1_usize, 15, 16, 17, 64, 4096, 1 << 20] {
        let mut connection = TcpStream::connect(&host).expect("the daemon listens");
        let bytes: Vec<u8> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state.to_le_bytes()[3]
        })
        .take(length)
        .collect();
        // The daemon may close before all is sent.
        let _ = connection.write_all(&bytes);
        let _ = connection.shutdown(std::net::Shutdown::Write);
        connection.set_read_timeout(Some(Duration::from_secs(30))).expect("a time-out can be set");
        let mut answer = Vec::new();
        let closed = connection.read_to_end(&mut answer);
        assert!(
            !matches!(&closed, Err(error) if error.kind() == std::io::ErrorKind::WouldBlock),
            "the daemon keeps a connection of garbage open"
        );
    }
    assert_passed(&busy.join().expect("the program ran"));
    daemon.wait_for_workers(0);
    assert!(daemon.is_running());
}

#[test]
fn a_wrong_token_is_refused_with_a_reason() {
    let daemon = Floed::start();
    let address = daemon.tcp().to_owned();
    let outcome = short_program(&daemon, &address).variable("FLOE_TOKEN", "not the token").run();
    assert_ne!(outcome.code, Some(0), "a wrong token was let in");
    assert!(outcome.stderr.contains("token"), "no reason given: {}", outcome.stderr);
    daemon.wait_for_workers(0);
}

#[test]
fn a_faulting_kernel_disturbs_nobody() {
    let daemon = Floed::start();
    let busy = busy_program(&daemon, daemon.unix());
    let busy = std::thread::spawn(move || busy.run());
    for fault in ["address", "misaligned", "trap", "assert"] {
        let outcome = example("faults", Linkage::Static, &[fault]).on(&daemon, daemon.unix()).run();
        assert_passed(&outcome);
    }
    assert_passed(&busy.join().expect("the program ran"));
    daemon.wait_for_workers(0);
}

#[test]
fn sigterm_ends_sessions_and_leaves_no_socket() {
    let mut daemon = Floed::start();
    let socket = daemon.unix().strip_prefix("unix://").expect("a Unix address").to_owned();
    let mut program = busy_program(&daemon, daemon.unix()).start();
    daemon.wait_for_workers(1);
    assert_eq!(daemon.terminate(), Some(0));
    assert!(!std::path::Path::new(&socket).exists(), "the socket is left behind");
    let status = program.wait().expect("the program is our child");
    assert!(!status.success(), "a program without its server says it passed");
}

#[test]
fn the_transport_is_the_one_that_was_asked_for_or_the_best_there_is() {
    let with = Floed::start();
    let without = Floed::start_with(&["--no-rings"], &[]);
    let local = |daemon: &Floed| daemon.unix().replacen("unix://", "", 1);
    for (daemon, address, expected) in [
        (&with, with.tcp().to_owned(), "tcp"),
        (&with, with.unix().to_owned(), "unix"),
        (&with, with.shm(), "shm"),
        (&with, local(&with), "shm"),
        (&without, local(&without), "unix"),
    ] {
        assert_eq!(transport(daemon, &address).as_deref(), Some(expected), "{address}");
    }
    let refused = short_program(&without, &without.shm()).run();
    assert_ne!(refused.code, Some(0));
    assert!(refused.stderr.contains("the server takes none"), "{}", refused.stderr);
}

/// How the commands of a program's session come; `None`: it has none.
fn transport(daemon: &Floed, address: &str) -> Option<String> {
    let mut program = busy_program(daemon, address).start();
    let (listed, start) = (|| daemon.transports().into_iter().next(), Instant::now());
    let found = loop {
        let over = start.elapsed() > PATIENCE || program.try_wait().expect("the program is our child").is_some();
        match listed() {
            None if !over => sleep(Duration::from_millis(5)),
            found => break found,
        }
    };
    // It may have ended by itself already.
    let _ = program.kill();
    program.wait().expect("the program is our child");
    daemon.wait_for_workers(0);
    // A worker's session stays in the table until the daemon has heard of the worker's end.
    let start = Instant::now();
    while listed().is_some() {
        assert!(start.elapsed() < PATIENCE, "the session stays in the table");
        sleep(Duration::from_millis(5));
    }
    found
}
