//! What graphs answer, beside NVIDIA's driver: programs make each failure of a capture, and each change of a copy in an
//! instantiated graph, and print the codes. In: tests/programs/capture_codes.c and changed_copies.c, and what they printed on an
//! H200 (driver 580.159, 2026-11-29). Out: the same, through a daemon and on the CPU device alone.

use floe_tests::{Floed, Program, built_c, repository};

fn compared(name: &str) {
    let (_folder, built) = built_c(name);
    let programs = repository().join("tests/programs");
    let expected = std::fs::read_to_string(programs.join(format!("{name}.txt"))).expect("it is there");
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

#[test]
fn a_capture_fails_with_the_drivers_codes() {
    compared("capture_codes");
}

#[test]
fn copies_of_graphs_change_and_have_bounds_as_the_drivers() {
    compared("changed_copies");
}
