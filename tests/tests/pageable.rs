//! Pageable memory of a program on the daemon's own machine: its large copies pass staging slots, not the socket.

use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use floe_tests::{Floed, Linkage, Statistics, descendants, example};

/// Bytes that one thread copies each way, in many sizes that use staging slots, while all slots are free: every byte
/// passes a slot. With many threads, timing decides how many bytes travel instead.
const ALONE: u64 = 300 << 20;

fn run(daemon: &Floed, address: &str, threads: &str) -> Statistics {
    let program = example("pageable", Linkage::Static, &[]).on(daemon, address);
    let outcome = program.variable("FLOE_STATS", "json").variable("FLOE_COPY_THREADS", threads).run();
    assert_eq!(outcome.code, Some(0), "{}{}", outcome.stdout, outcome.stderr);
    assert!(outcome.stdout.lines().any(|line| line == "PASSED"), "{}", outcome.stdout);
    daemon.wait_for_workers(0);
    outcome.statistics()
}

#[test]
fn pageable_copies_pass_shared_memory_over_the_unix_socket_and_over_rings() {
    let daemon = Floed::start();
    let (unix, shm) = (daemon.unix(), &*daemon.shm());
    for (address, threads) in [(unix, "1"), (unix, "5"), (shm, "1"), (shm, "5")] {
        let seen = run(&daemon, address, threads);
        let staged = [seen.staged_to_device, seen.staged_from_device];
        assert!(staged.iter().all(|bytes| *bytes >= ALONE), "{address}, {threads}: {seen:?}");
        // Some copies are too small for slots.
        assert!(
            staged[0] < seen.bytes_to_device && staged[1] < seen.bytes_from_device,
            "{address}, {threads}: {seen:?}"
        );
    }
}

#[test]
fn pageable_copies_travel_over_tcp_and_where_nothing_is_shared() {
    let daemon = Floed::start_with(&["--shared-memory", "1M"], &[]);
    for address in [daemon.tcp(), daemon.unix()] {
        let seen = run(&daemon, address, "3");
        assert_eq!((seen.staged_to_device, seen.staged_from_device), (0, 0), "{seen:?}");
        assert!(seen.bytes_to_device > 0 && seen.bytes_from_device > 0, "{seen:?}");
    }
}

#[test]
fn copies_end_with_an_error_when_the_worker_is_killed_and_with_the_program_when_that_is() {
    let mut daemon = Floed::start();
    for step in 0..6_u64 {
        // It copies until it is killed.
        let address = if step % 4 < 2 { daemon.unix().to_owned() } else { daemon.shm() };
        let endless = example("pageable", Linkage::Static, &["6", "1000000000"]).on(&daemon, &address);
        let mut program = endless.variable("FLOE_COPY_THREADS", "4").start();
        daemon.wait_for_workers(1);
        sleep(Duration::from_millis(step * 300));
        if step % 2 == 0 {
            let worker = descendants(daemon.process())[0];
            assert!(Command::new("kill").args(["-KILL", &worker.to_string()]).status().expect("kill runs").success());
        } else {
            program.kill().expect("it runs until it is killed");
        }
        let status = program.wait().expect("the program is our child");
        assert!(!status.success(), "a program that was killed says it passed");
        daemon.wait_for_workers(0);
    }
    assert!(daemon.is_running());
    run(&daemon, daemon.unix(), "3");
}
