//! Programs of several processes that share memory and events: on two GPUs of a daemon and on one, over every transport, and with
//! each process killed at each of its steps. In: the example programs of several processes, which check their own results.
//! Out: exit codes and lines; and that nothing is left at the server.

use floe_tests::{Floed, Linkage, Program, example, examples_of_processes, settled};

/// More steps than any process of any example has.
const MOST_STEPS: usize = 40;

fn daemon(devices: &str) -> Floed {
    Floed::start_with(&[], &[("FLOE_CPU_DEVICES", devices)])
}

fn places(address: &str, devices: usize) -> Vec<String> {
    (0..devices).map(|gpu| format!("{address}:{gpu}")).collect()
}

fn every_run_passes(devices: usize, linkage: Linkage, address: impl Fn(&Floed) -> String) {
    let daemon = daemon(&devices.to_string());
    let places = places(&address(&daemon), devices);
    let mut failures = Vec::new();
    for (name, expected) in examples_of_processes() {
        let arguments: Vec<&str> = expected.args.iter().map(String::as_str).collect();
        let outcome = example(&name, linkage, &arguments).on_each(&daemon, &places).run();
        // What programs do wrong on purpose is explained on stderr by a process that ends right.
        if let Some(difference) = expected.difference(&outcome) {
            let (stdout, stderr) = (outcome.stdout, outcome.stderr);
            failures.push(format!("{name} {arguments:?}: {difference}\n  stdout: {stdout}\n  stderr: {stderr}"));
        }
    }
    assert!(failures.is_empty(), "{} runs failed:\n{}", failures.len(), failures.join("\n"));
    daemon.wait_for_workers(0);
}

#[test]
fn on_two_gpus_over_tcp() {
    every_run_passes(2, Linkage::Static, |daemon| daemon.tcp().to_owned());
}

#[test]
fn on_two_gpus_over_the_unix_socket() {
    every_run_passes(2, Linkage::Shared, |daemon| daemon.unix().to_owned());
}

#[test]
fn on_two_gpus_over_rings_in_shared_memory() {
    every_run_passes(2, Linkage::Static, Floed::shm);
}

#[test]
fn on_one_gpu_over_tcp() {
    every_run_passes(1, Linkage::Shared, |daemon| daemon.tcp().to_owned());
}

#[test]
fn on_one_gpu_over_rings_in_shared_memory() {
    every_run_passes(1, Linkage::Static, Floed::shm);
}

/// Each process has a network, a mount table, a host name and System V objects of its own, and the socket's path in common.
#[test]
fn in_namespaces_of_their_own_over_the_unix_socket() {
    let daemon = daemon("2");
    let places = places(daemon.unix(), 2);
    for name in ["ipcRing", "ipcPipeline", "ipcRules", "shareable"] {
        let outcome =
            example(name, Linkage::Static, &[]).on_each(&daemon, &places).variable("FLOE_EXAMPLE_APART", "1").run();
        assert_eq!(outcome.code, Some(0), "{name}\n  stdout: {}\n  stderr: {}", outcome.stdout, outcome.stderr);
    }
    daemon.wait_for_workers(0);
}

/// More cycles than a session may have tickets or pages of words at once.
#[test]
fn what_is_handed_on_and_given_back_leaves_nothing_behind() {
    let daemon = daemon("2");
    let places = places(daemon.unix(), 2);
    let free = has_all_its_memory(&daemon, daemon.unix());
    let before = settled(daemon.process());
    let outcome = example("ipcCycles", Linkage::Static, &["4500"]).on_each(&daemon, &places).run();
    assert_eq!(outcome.code, Some(0), "stdout: {}\n  stderr: {}", outcome.stdout, outcome.stderr);
    daemon.wait_for_workers(0);
    assert_eq!(settled(daemon.process()), before);
    assert_eq!(has_all_its_memory(&daemon, daemon.unix()), free);
}

/// Kills process `rank` of a program at each of its steps. The others end in order, and the server has what it had before.
fn each_step_can_be_the_last(program: impl Fn() -> Program, daemon: &Floed, rank: usize) {
    daemon.wait_for_workers(0);
    let before = settled(daemon.process());
    for step in 1..=MOST_STEPS {
        let outcome = program().variable("FLOE_EXAMPLE_DIES", &format!("{rank}:{step}")).run();
        let said = format!("process {rank}, step {step}\n  stdout: {}\n  stderr: {}", outcome.stdout, outcome.stderr);
        assert_eq!(outcome.code, Some(0), "{said}");
        daemon.wait_for_workers(0);
        assert_eq!(settled(daemon.process()), before, "the daemon keeps files or threads: {said}");
        if !outcome.stdout.contains("killed: 1") {
            assert!(step > 1, "it has no step: {said}");
            return;
        }
    }
    panic!("process {rank} never ends by itself");
}

/// A program that has all of a device's memory finds what was there at the start.
fn has_all_its_memory(daemon: &Floed, address: &str) -> u64 {
    let floe = floe_tests::installation().join("bin/floe");
    let gpus = std::process::Command::new(floe)
        .args(["gpus", "--json", "--on", address])
        .env("FLOE_TOKEN_FILE", daemon.token_file())
        .output()
        .expect("floe gpus runs");
    let rows: Vec<serde_json::Value> = serde_json::from_slice(&gpus.stdout).expect("JSON");
    rows.iter().map(|row| row["free"].as_u64().expect("a GPU says what is free")).sum()
}

fn killed_at_each_step(name: &str, ranks: usize, arguments: &[&str]) {
    let daemon = daemon("2");
    let places = places(daemon.unix(), 2);
    let free = has_all_its_memory(&daemon, daemon.unix());
    for rank in 0..ranks {
        let program = || example(name, Linkage::Static, arguments).on_each(&daemon, &places);
        each_step_can_be_the_last(program, &daemon, rank);
    }
    assert_eq!(has_all_its_memory(&daemon, daemon.unix()), free);
}

#[test]
fn each_process_of_a_ring_can_be_killed_at_each_step() {
    killed_at_each_step("ipcRing", 3, &["999"]);
}

#[test]
fn each_process_of_a_pipeline_can_be_killed_at_each_step() {
    killed_at_each_step("ipcPipeline", 3, &["4", "500"]);
}

#[test]
fn owner_and_opener_can_be_killed_at_each_step() {
    killed_at_each_step("ipcRules", 2, &[]);
}

#[test]
fn exporter_and_importer_can_be_killed_at_each_step() {
    killed_at_each_step("shareable", 2, &[]);
}
