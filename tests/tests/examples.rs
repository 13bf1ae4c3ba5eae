//! Runs every example program, with static and shared cudart, on the CPU device. They run over TCP, the Unix socket,
//! rings in shared memory, and on the device library alone. The programs check their own results; these tests check
//! exit codes and lines.

use floe_tests::{Expectation, Floed, Linkage, Program, example, examples};

fn every_example_passes(linkage: Linkage, address: impl Fn(&Floed) -> String) {
    let daemon = Floed::start();
    every_run_passes(examples(), linkage, |program| {
        // Some programs look at how much memory is free, and a session that ends still gives some back.
        daemon.wait_for_workers(0);
        program.on(&daemon, &address(&daemon))
    });
    daemon.wait_for_workers(0);
}

fn every_run_passes(runs: Vec<(String, Expectation)>, linkage: Linkage, place: impl Fn(Program) -> Program) {
    let mut failures = Vec::new();
    for (name, expected) in runs {
        let arguments: Vec<&str> = expected.args.iter().map(String::as_str).collect();
        let outcome = place(example(&name, linkage, &arguments)).run();
        if let Some(difference) = expected.difference(&outcome) {
            failures.push(format!(
                "{name} {arguments:?}: {difference}\n  stdout: {}\n  stderr: {}",
                outcome.stdout, outcome.stderr
            ));
        }
    }
    assert!(failures.is_empty(), "{} runs failed:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn static_cudart_over_tcp() {
    every_example_passes(Linkage::Static, |daemon| daemon.tcp().to_owned());
}

#[test]
fn static_cudart_over_the_unix_socket() {
    every_example_passes(Linkage::Static, |daemon| daemon.unix().to_owned());
}

#[test]
fn shared_cudart_over_tcp() {
    every_example_passes(Linkage::Shared, |daemon| daemon.tcp().to_owned());
}

#[test]
fn shared_cudart_over_rings_in_shared_memory() {
    every_example_passes(Linkage::Shared, Floed::shm);
}

#[test]
fn static_cudart_on_the_device_library_alone() {
    every_run_passes(examples(), Linkage::Static, Program::on_the_device_library);
}

#[test]
fn shared_cudart_on_the_device_library_alone() {
    every_run_passes(examples(), Linkage::Shared, Program::on_the_device_library);
}

#[test]
fn kernels_of_the_cpu_device_reach_pinned_memory_of_their_own_process() {
    for linkage in [Linkage::Static, Linkage::Shared] {
        for (name, what) in [("pinned", "mapped"), ("registered", "files"), ("registered", "private")] {
            let outcome = example(name, linkage, &[what]).on_the_device_library().run();
            assert!(outcome.code == Some(0) && outcome.stdout.contains("PASSED"), "{name} {what}: {outcome:?}");
        }
    }
}
