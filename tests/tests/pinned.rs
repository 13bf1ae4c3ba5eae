//! Pinned memory of a program on the daemon's own machine: the device copies from and to it, and its bytes do not
//! travel.

use floe_tests::{Floed, Linkage, Statistics, example};

/// Bytes that go with a copy the program waits for, because sending them is quicker than the wait: a word fifty times.
const SMALL: u64 = 200;

fn run(daemon: &Floed, address: &str) -> Statistics {
    let program = example("pinned", Linkage::Static, &["copies"]).on(daemon, address).variable("FLOE_STATS", "json");
    let outcome = program.run();
    assert_eq!(outcome.code, Some(0), "{}{}", outcome.stdout, outcome.stderr);
    assert!(outcome.stdout.lines().any(|line| line == "PASSED"), "{}", outcome.stdout);
    daemon.wait_for_workers(0);
    outcome.statistics()
}

#[test]
fn pinned_memory_over_the_unix_socket_is_the_devices_to_read_and_write() {
    let daemon = Floed::start();
    let seen = run(&daemon, daemon.unix());
    assert!(seen.shared_to_device > 0 && seen.shared_from_device > 0, "{seen:?}");
    assert_eq!(seen.bytes_from_device, seen.shared_from_device, "{seen:?}");
    assert!(seen.bytes_to_device - seen.shared_to_device <= SMALL, "{seen:?}");
}

#[test]
fn pinned_memory_travels_over_tcp() {
    let daemon = Floed::start();
    let seen = run(&daemon, daemon.tcp());
    assert_eq!((seen.shared_to_device, seen.shared_from_device), (0, 0), "{seen:?}");
    assert!(seen.bytes_to_device > 0 && seen.bytes_from_device > 0, "{seen:?}");
}

#[test]
fn pinned_memory_travels_where_the_operator_shares_none() {
    for limit in ["0", "1M"] {
        let daemon = Floed::start_with(&["--shared-memory", limit], &[]);
        let seen = run(&daemon, daemon.unix());
        assert_eq!((seen.shared_to_device, seen.shared_from_device), (0, 0), "{limit}: {seen:?}");
    }
}
