//! Programs of the differential fuzzer through each transport, and through cuts: every byte they read is what the model
//! says, and all of it together what the CPU device alone gives. `FLOE_DIFFERENTIAL_SEEDS=FIRST..END` runs these seeds
//! instead, for as long as that takes.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../../../link/transport/tests/authority/mod.rs"]
mod authority;

use std::path::PathBuf;

use authority::Authority;
use floe_tests::{Cutter, Floed, Outcome, Program, moving};

/// Programs whose seeds never change.
const FIXED: u64 = 6;
/// Programs whose seeds follow `seeds`, a number that is counted on with each change of what they walk through.
const FRESH: u64 = 3;

/// The first seed and how many.
fn seeds() -> Vec<(u64, u64)> {
    if let Ok(range) = std::env::var("FLOE_DIFFERENTIAL_SEEDS") {
        let (first, end) = range.split_once("..").expect("FIRST..END");
        let (first, end): (u64, u64) = (first.parse().unwrap(), end.parse().unwrap());
        return vec![(first, end - first)];
    }
    let counter: u64 = include_str!("seeds").trim().parse().unwrap();
    vec![(1, FIXED), (1000 + counter * FRESH, FRESH)]
}

fn program(first: u64, count: u64, flags: &[&str]) -> Program {
    let numbers = ["--seed".to_owned(), first.to_string(), "--count".to_owned(), count.to_string()];
    let arguments: Vec<&str> = numbers.iter().map(String::as_str).chain(flags.iter().copied()).collect();
    Program::new(PathBuf::from(env!("CARGO_BIN_EXE_floe-differential")), &arguments)
}

/// The lines of the programs without the time they took.
fn lines(what: &str, outcome: &Outcome) -> Vec<String> {
    assert_eq!(outcome.code, Some(0), "{what}: {}{}", outcome.stdout, outcome.stderr);
    let timeless = |line: &str| line.rsplit_once(", ").map_or(line, |(line, _)| line).to_owned();
    outcome.stdout.lines().map(timeless).collect()
}

#[test]
fn programs_read_the_same_through_every_transport_as_on_the_device_alone() {
    let daemon = Floed::start();
    for (first, count) in seeds() {
        let alone = lines("alone", &program(first, count, &["--plain"]).on_the_device_library().run());
        assert_eq!(u64::try_from(alone.len()).unwrap(), count);
        for address in [daemon.shm(), daemon.unix().to_owned(), daemon.tcp().to_owned()] {
            let through = program(first, count, &["--plain"]).on(&daemon, &address).run();
            assert_eq!(lines(&address, &through), alone, "{address}");
        }
    }
}

#[test]
fn programs_on_two_vgpus_with_mapped_memory_read_what_the_model_says() {
    let daemon = Floed::start_with(&[], &[("FLOE_CPU_DEVICES", "2")]);
    for (first, count) in seeds() {
        for address in [daemon.shm(), daemon.tcp().to_owned()] {
            let two = format!("{address}:1,{address}");
            let outcome = program(first, count, &[]).on(&daemon, &two).run();
            assert_eq!(lines(&two, &outcome).len(), usize::try_from(count).unwrap());
        }
    }
}

#[test]
fn programs_read_the_same_through_cuts() {
    let daemon = Floed::start_with(&["--grace", "60"], &[]);
    for (first, count) in seeds() {
        let alone = lines("alone", &program(first, count, &["--plain"]).on_the_device_library().run());
        // Every connection ends after some hundred thousand bytes, another number each time.
        let mut carried = 100_000_u64;
        let plan = move || {
            carried = carried.wrapping_mul(7).wrapping_add(first) % 900_001;
            Some(100_000 + carried)
        };
        let cutter = Cutter::start(daemon.tcp(), Box::new(plan));
        let through = program(first, count, &["--plain"]).on(&daemon, &cutter.address()).run();
        assert_eq!(lines("through cuts", &through), alone);
        assert!(cutter.cuts() > 0, "no connection was cut");
    }
}

#[test]
fn programs_read_the_same_while_their_sessions_move() {
    let daemon = Floed::start_with(&["--grace", "60"], &[("FLOE_CPU_DEVICES", "2")]);
    let addresses = [daemon.shm(), daemon.unix().to_owned(), daemon.tcp().to_owned()];
    let mut done = 0;
    // Not by host memory: a graph that no driver makes again would leave a program suspended for good. A process for each:
    // what one program has left of itself would keep the next one's session where it is.
    for seed in seeds().into_iter().flat_map(|(first, count)| first..first + count) {
        let program = || program(seed, 1, &["--plain"]);
        let alone = lines("alone", &program().on_the_device_library().run());
        let address = &addresses[usize::try_from(seed).unwrap() % addresses.len()];
        let (through, moves) = moving(&daemon, false, || program().on(&daemon, address).run());
        println!("seed {seed}, {address}: {moves:?}");
        assert_eq!(lines(address, &through), alone, "{address}");
        done += moves.done;
    }
    assert!(done > 0, "nothing moved");
}

#[test]
fn programs_of_two_processes_read_what_the_model_says() {
    let daemon = Floed::start_with(&[], &[("FLOE_CPU_DEVICES", "2")]);
    for (first, count) in seeds() {
        for address in [daemon.unix(), daemon.tcp()] {
            let places = [0, 1].map(|gpu| format!("{address}:{gpu}"));
            let outcome = program(first, count, &["--processes"]).on_each(&daemon, &places).run();
            assert_eq!(lines(address, &outcome).len(), usize::try_from(count).unwrap());
        }
    }
}

#[test]
fn programs_read_the_same_by_tls() {
    let authority = Authority::new();
    let [certificate, key] = authority.sign("localhost").map(|path| path.display().to_string());
    let daemon = Floed::start_with(&["--tls-certificate", &certificate, "--tls-key", &key], &[]);
    let (_, port) = daemon.tcp().rsplit_once(':').unwrap();
    let address = format!("tls://localhost:{port}");
    let trusted = authority.file().display().to_string();
    for (first, count) in seeds() {
        let alone = lines("alone", &program(first, count, &["--plain"]).on_the_device_library().run());
        let through =
            program(first, count, &["--plain"]).on(&daemon, &address).variable("FLOE_TLS_AUTHORITIES", &trusted);
        assert_eq!(lines(&address, &through.run()), alone);
    }
}

#[test]
fn programs_on_vgpus_of_two_daemons_read_what_the_model_says() {
    let daemons = [Floed::start(), Floed::start()];
    let places = daemons.each_ref().map(|daemon| format!("{}:0", daemon.unix()));
    for (first, count) in seeds() {
        let outcome = program(first, count, &[]).on_each(&daemons[0], &places).run();
        assert_eq!(lines(&places.join(","), &outcome).len(), usize::try_from(count).unwrap());
    }
}
