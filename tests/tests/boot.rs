//! The boot matrix: every CUDA runtime from 12.1 to 13.5 brings a device up on floe's client library.

use std::path::PathBuf;

use floe_tests::{Floed, Program, built_examples};

/// Runtimes that `cargo xtask test` fetched: `target/examples/cudart/VERSION` holds the path of its libcudart.
const RUNTIMES: [&str; 10] = ["12.1", "12.4", "12.6", "12.8", "12.9", "13.0", "13.1", "13.2", "13.4", "13.5"];

#[test]
fn every_cuda_runtime_boots() {
    let daemon = Floed::start();
    let mut failures = Vec::new();
    for version in RUNTIMES {
        let note = built_examples().join("cudart").join(version);
        let library = std::fs::read_to_string(&note).unwrap_or_else(|error| panic!("{}: {error}", note.display()));
        let boot: PathBuf = built_examples().join("boot");
        let outcome = Program::new(boot, &[library.trim()]).on(&daemon, daemon.unix()).run();
        let expected = format!("cudart {}", version.replace('.', "0") + "0");
        let booted = outcome.stdout.lines().any(|line| line == expected);
        if outcome.code != Some(0) || !booted || !outcome.stdout.contains("PASSED") {
            failures.push(format!("{version}: {outcome:?}"));
        }
    }
    assert!(failures.is_empty(), "{} runtimes do not boot:\n{}", failures.len(), failures.join("\n"));
}
