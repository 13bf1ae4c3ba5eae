//! Pinned memory of a program on the daemon's own machine: the device copies from and to it, and its bytes do not
//! travel.

use floe_tests::{Floed, Linkage, Program, Statistics, built_c, example};

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

fn registered(daemon: &Floed, address: &str, what: &str) -> Statistics {
    let outcome =
        example("registered", Linkage::Static, &[what]).on(daemon, address).variable("FLOE_STATS", "json").run();
    assert_eq!(outcome.code, Some(0), "{}{}", outcome.stdout, outcome.stderr);
    assert!(outcome.stdout.lines().any(|line| line == "PASSED"), "{}", outcome.stdout);
    daemon.wait_for_workers(0);
    outcome.statistics()
}

#[test]
fn registered_files_are_the_devices_to_read_and_write_on_one_machine() {
    let daemon = Floed::start();
    for address in [daemon.unix().to_owned(), daemon.shm()] {
        let seen = registered(&daemon, &address, "files");
        assert_eq!(seen.bytes_from_device, seen.shared_from_device, "{address}: {seen:?}");
        assert_eq!(seen.bytes_to_device, seen.shared_to_device, "{address}: {seen:?}");
        assert!(seen.shared_to_device > 0, "{address}: {seen:?}");
    }
}

#[test]
fn registered_files_travel_over_tcp_and_where_the_operator_shares_none() {
    let daemon = Floed::start();
    assert_eq!(registered(&daemon, daemon.tcp(), "files").shared_to_device, 0);
    let daemon = Floed::start_with(&["--shared-memory", "1M"], &[]);
    assert_eq!(registered(&daemon, daemon.unix(), "files").shared_to_device, 0);
}

#[test]
fn registered_private_memory_stays_the_programs_own() {
    let daemon = Floed::start();
    for address in [daemon.unix().to_owned(), daemon.shm(), daemon.tcp().to_owned()] {
        assert_eq!(registered(&daemon, &address, "private").shared_to_device, 0, "{address}");
    }
}

#[test]
fn registered_private_pages_are_right_on_one_machine_and_over_tcp() {
    let daemon = Floed::start();
    for address in [daemon.unix().to_owned(), daemon.shm()] {
        // Whether the pages can be exchanged for shared ones, the kernel says. Kernels of the device reach them in any case.
        registered(&daemon, &address, "pages");
    }
    assert_eq!(registered(&daemon, daemon.tcp(), "pages").shared_to_device, 0);
    let daemon = Floed::start_with(&["--shared-memory", "1M"], &[]);
    assert_eq!(registered(&daemon, daemon.unix(), "pages").shared_to_device, 0);
}

#[test]
fn a_registered_file_that_shrinks_ends_its_own_session_only() {
    let daemon = Floed::start();
    let file = tempfile::NamedTempFile::new_in("/dev/shm").expect("a file in memory");
    file.as_file().set_len(4 << 20).expect("room");
    let name = file.path().display().to_string();
    let outcome = example("registered", Linkage::Static, &["shrinks", &name]).on(&daemon, daemon.unix()).run();
    assert_eq!(outcome.code, Some(0), "{}{}", outcome.stdout, outcome.stderr);
    assert!(outcome.stdout.contains("copied: cudaErrorDevicesUnavailable"), "{}", outcome.stdout);
    assert!(outcome.stdout.contains("the program goes on"), "{}", outcome.stdout);
    daemon.wait_for_workers(0);
    registered(&daemon, daemon.unix(), "files");
}

/// 200 kernels that write pinned memory, each with a copy out of it behind: the device copies, shared or from its mirror.
#[test]
fn copies_of_pinned_memory_that_kernels_write_wait_for_nothing() {
    let daemon = Floed::start();
    let (_folder, program) = built_c("mirrored_copies");
    for what in ["allocated", "registered"] {
        for address in [daemon.tcp().to_owned(), daemon.unix().to_owned()] {
            let run = Program::new(program.clone(), &[what]).on(&daemon, &address).variable("FLOE_STATS", "json").run();
            assert_eq!(run.code, Some(0), "{what} {address}: {}{}", run.stdout, run.stderr);
            let waits = run.statistics().waits();
            assert!(waits < 20, "{what} {address}: {waits} waits");
        }
        let alone = Program::new(program.clone(), &[what]).on_the_device_library().run();
        assert_eq!(alone.code, Some(0), "{what}: {}", alone.stdout);
    }
}

/// A stream that a word of the program's lets go on, or that copies to another server's memory, has what the program wrote.
#[test]
fn copies_of_mirrored_memory_have_what_the_program_wrote_before() {
    let daemon = Floed::start();
    let other = Floed::start_beside(&daemon, &[]);
    let (_folder, program) = built_c("mirrored_order");
    let places = [daemon.tcp(), other.tcp()].map(|address| format!("{address}:0"));
    for (what, places) in [("word", &places[..1]), ("other", &places[..])] {
        let run = Program::new(program.clone(), &[what]).on_each(&daemon, places).run();
        assert_eq!((run.code, run.stdout.as_str()), (Some(0), "right\n"), "{what}: {}", run.stderr);
    }
}

/// Where the order of work and of the program's own looks at pinned memory is easily lost.
#[test]
fn pinned_memory_that_kernels_reach_is_in_the_order_of_its_work() {
    let daemon = Floed::start();
    let (_folder, program) = built_c("mirrored_edges");
    for what in ["late", "elapsed", "polled", "first", "pages", "again", "held"] {
        for address in [daemon.tcp().to_owned(), daemon.unix().to_owned(), daemon.shm()] {
            let run = Program::new(program.clone(), &[what]).on(&daemon, &address).run();
            assert_eq!((run.code, run.stdout.as_str()), (Some(0), "right\n"), "{what} {address}: {}", run.stderr);
        }
        let alone = Program::new(program.clone(), &[what]).on_the_device_library().run();
        assert_eq!((alone.code, alone.stdout.as_str()), (Some(0), "right\n"), "{what}: {}", alone.stderr);
    }
}
