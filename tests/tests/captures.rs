//! The codes of captures that fail, beside those of NVIDIA's driver: one program makes each failure and prints its codes.
//! In: tests/programs/capture_codes.c, and what it printed on an H200 (driver 580.159, 2026-11-29). Out: the same, through a
//! daemon and on the CPU device alone.

use std::process::Command;

use floe_tests::{Floed, Program, repository};

#[test]
fn a_capture_fails_with_the_drivers_codes() {
    let programs = repository().join("tests/programs");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let built = folder.path().join("capture_codes");
    let compiler = Command::new("cc")
        .args(["-O1", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&built)
        .arg(programs.join("capture_codes.c"))
        .args(["-ldl", "-lpthread"])
        .status();
    assert!(compiler.expect("cc runs").success());
    let expected = std::fs::read_to_string(programs.join("capture_codes.txt")).expect("it is there");
    let daemon = Floed::start();
    let alone = Program::new(built.clone(), &[]).on_the_device_library().run();
    let through_floe = Program::new(built, &[]).on(&daemon, daemon.unix()).run();
    for (name, outcome) in [("alone", alone), ("through floe", through_floe)] {
        let lines = expected.lines().zip(outcome.stdout.lines());
        let differing: Vec<_> = lines.filter(|(native, own)| native.trim_end() != own.trim_end()).collect();
        assert!(differing.is_empty(), "{name}: {differing:#?}");
        assert_eq!(outcome.stdout.lines().count(), expected.lines().count(), "{name}: {}", outcome.stderr);
    }
}
