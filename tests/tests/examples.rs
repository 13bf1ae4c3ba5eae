//! Every example program, static and shared cudart, over TCP and over the Unix socket, on the CPU device.
//! The programs check their own results; here their exit codes and their lines are checked.

use floe_tests::{Floed, Linkage, example, examples};

fn every_example_passes(linkage: Linkage, address: impl Fn(&Floed) -> String) {
    let daemon = Floed::start();
    let mut failures = Vec::new();
    for (name, expected) in examples() {
        let arguments: Vec<&str> = expected.args.iter().map(String::as_str).collect();
        let outcome = example(&name, linkage, &arguments).on(&daemon, &address(&daemon)).run();
        if let Some(difference) = expected.difference(&outcome) {
            failures.push(format!(
                "{name} {arguments:?}: {difference}\n  stdout: {}\n  stderr: {}",
                outcome.stdout, outcome.stderr
            ));
        }
    }
    assert!(failures.is_empty(), "{} runs failed:\n{}", failures.len(), failures.join("\n"));
    daemon.wait_for_workers(0);
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
fn shared_cudart_over_the_unix_socket() {
    every_example_passes(Linkage::Shared, |daemon| daemon.unix().to_owned());
}
