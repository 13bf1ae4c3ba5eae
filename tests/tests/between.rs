//! Programs on two vGPUs: of two GPUs of one daemon, of one GPU, and of two daemons, over every transport. In: the example
//! programs of two devices, which check their own results. Out: exit codes, lines, and how many bytes passed the client.

use floe_tests::{Floed, Linkage, Program, example, examples_between, repository};

/// Two CPU devices of one daemon.
fn two_devices() -> Floed {
    Floed::start_with(&[], &[("FLOE_CPU_DEVICES", "2")])
}

fn every_run_passes(servers: usize, place: impl Fn(Program) -> Program) {
    let mut failures = Vec::new();
    for (name, expected) in examples_between(servers) {
        let arguments: Vec<&str> = expected.args.iter().map(String::as_str).collect();
        let outcome = place(example(&name, Linkage::Static, &arguments)).run();
        if let Some(difference) = expected.difference(&outcome) {
            let (stdout, stderr) = (outcome.stdout, outcome.stderr);
            failures.push(format!("{name} {arguments:?}: {difference}\n  stdout: {stdout}\n  stderr: {stderr}"));
        }
    }
    assert!(failures.is_empty(), "{} runs failed:\n{}", failures.len(), failures.join("\n"));
}

fn on_two_gpus(address: impl Fn(&Floed) -> String) {
    let daemon = two_devices();
    let places = [0, 1].map(|gpu| format!("{}:{gpu}", address(&daemon)));
    every_run_passes(1, |program| program.on_each(&daemon, &places));
    daemon.wait_for_workers(0);
}

fn on_one_gpu(address: impl Fn(&Floed) -> String) {
    let daemon = Floed::start();
    let places = [0, 0].map(|gpu| format!("{}:{gpu}", address(&daemon)));
    every_run_passes(1, |program| program.on_each(&daemon, &places));
    daemon.wait_for_workers(0);
}

#[test]
fn two_gpus_of_a_daemon_over_tcp() {
    on_two_gpus(|daemon| daemon.tcp().to_owned());
}

#[test]
fn two_gpus_of_a_daemon_over_the_unix_socket() {
    on_two_gpus(|daemon| daemon.unix().to_owned());
}

#[test]
fn two_gpus_of_a_daemon_over_rings_in_shared_memory() {
    on_two_gpus(Floed::shm);
}

#[test]
fn two_vgpus_of_one_gpu_over_tcp() {
    on_one_gpu(|daemon| daemon.tcp().to_owned());
}

#[test]
fn two_vgpus_of_one_gpu_over_rings_in_shared_memory() {
    on_one_gpu(Floed::shm);
}

#[test]
fn two_daemons() {
    let (first, second) = (Floed::start(), Floed::start());
    for place in [|daemon: &Floed| daemon.unix().to_owned(), Floed::shm] {
        let places = [&first, &second].map(|daemon| format!("{}:0", place(daemon)));
        every_run_passes(2, |program| program.on_each(&first, &places));
    }
}

/// A daemon, and one whose operator has named the first. The first's has named another, so it lets servers in.
fn two_daemons_that_connect(first_at: impl Fn(&Floed) -> String) -> [Floed; 2] {
    let first = Floed::start_with(&["--peer", "unix:///nowhere"], &[]);
    let second = Floed::start_beside(&first, &["--peer", &first_at(&first)]);
    [first, second]
}

#[test]
fn two_daemons_of_which_one_connects_to_the_other_over_tcp() {
    let daemons = two_daemons_that_connect(|first| first.tcp().to_owned());
    let places = [&daemons[0], &daemons[1]].map(|daemon| format!("{}:0", daemon.tcp()));
    every_run_passes(2, |program| program.on_each(&daemons[0], &places));
    daemons.iter().for_each(|daemon| daemon.wait_for_workers(0));
}

/// As on a GPU, where many streams share few queues: a stream that waits holds up all that is issued behind it.
#[test]
fn two_daemons_whose_streams_share_one_hardware_queue() {
    for place in [|daemon: &Floed| daemon.tcp().to_owned(), |daemon: &Floed| daemon.unix().to_owned()] {
        let one_queue = [("FLOE_CPU_QUEUES", "1")];
        let first = Floed::start_with(&["--peer", "unix:///nowhere"], &one_queue);
        // By one of the two addresses they connect; else copies and waits pass the client.
        let second = Floed::start_beside_with(&first, &["--peer", first.tcp()], &one_queue);
        let places = [&first, &second].map(|daemon| format!("{}:0", place(daemon)));
        every_run_passes(2, |program| program.on_each(&first, &places));
    }
}

#[test]
fn a_server_whose_operator_has_named_none_lets_none_in_and_copies_pass_the_client() {
    let first = Floed::start();
    let second = Floed::start_beside(&first, &["--peer", first.tcp()]);
    let places = [&first, &second].map(|daemon| format!("{}:0", daemon.tcp()));
    let program = example("crossWaits", Linkage::Static, &["60"]).on_each(&first, &places);
    let outcome = program.variable("FLOE_LOG", "warn").run();
    assert_eq!(outcome.code, Some(0), "{}{}", outcome.stdout, outcome.stderr);
    assert!(outcome.stderr.contains("pass this program"), "{}", outcome.stderr);
}

#[test]
fn two_daemons_of_which_one_connects_to_the_other_over_the_unix_socket() {
    let daemons = two_daemons_that_connect(|first| first.unix().to_owned());
    let places = [&daemons[0], &daemons[1]].map(|daemon| format!("{}:0", daemon.unix()));
    every_run_passes(2, |program| program.on_each(&daemons[0], &places));
}

/// However often a value goes to and fro, no byte of it passes the client.
fn no_byte_passes_the_client(daemon: &Floed, places: &[String; 2]) {
    let bytes = |rounds: &str| {
        let program = example("crossWaits", Linkage::Static, &[rounds]).on_each(daemon, places);
        let outcome = program.variable("FLOE_STATS", "json").run();
        assert_eq!(outcome.code, Some(0), "{}{}", outcome.stdout, outcome.stderr);
        let statistics = outcome.statistics();
        (statistics.bytes_to_device, statistics.bytes_from_device)
    };
    assert_eq!(bytes("3"), bytes("60"));
}

#[test]
fn no_byte_of_a_copy_between_vgpus_of_one_server_passes_the_client() {
    let daemon = two_devices();
    no_byte_passes_the_client(&daemon, &[0, 1].map(|gpu| format!("{}:{gpu}", daemon.tcp())));
}

#[test]
fn no_byte_of_a_copy_between_servers_that_connect_passes_the_client() {
    let daemons = two_daemons_that_connect(|first| first.tcp().to_owned());
    let places = [&daemons[0], &daemons[1]].map(|daemon| format!("{}:0", daemon.tcp()));
    no_byte_passes_the_client(&daemons[0], &places);
    daemons.iter().for_each(|daemon| daemon.wait_for_workers(0));
}

#[test]
fn memory_that_another_vgpu_reached_is_there_again_when_it_is_released() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let built = folder.path().join("returned");
    let compiler = std::process::Command::new("cc")
        .args(["-O1", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&built)
        .arg(repository().join("tests/programs/returned.c"))
        .arg("-ldl")
        .status();
    assert!(compiler.expect("cc runs").success());
    let daemon = Floed::start();
    let places = [0, 0].map(|gpu| format!("{}:{gpu}", daemon.unix()));
    let outcome = Program::new(built, &[]).on_each(&daemon, &places).flag("--memory").flag("512M").run();
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), "right\n"), "{}", outcome.stderr);
}
