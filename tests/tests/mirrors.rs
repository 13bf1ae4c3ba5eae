//! Pinned memory that kernels reach through a network, where its wire is cut and its session moves. In: a program that writes it by
//! turns with its kernels, and cuts and moves at random. Out: the program's own verdict on every byte.

use std::path::Path;
use std::time::Duration;

use floe_tests::{Cutter, Floed, Program, built_c, moving};

/// After so long something is stuck, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(300);
/// Rounds of a program: some of each kind many times.
const ROUNDS: &str = "100";

fn daemon() -> Floed {
    Floed::start_with(&["--grace", "60"], &[("FLOE_CPU_DEVICES", "2")])
}

fn steady(program: &Path, arguments: &[&str], daemon: &Floed, address: &str) -> Program {
    Program::new(program.to_owned(), arguments).on(daemon, address)
}

/// A wire that is cut after some hundred to two hundred thousand bytes each time: changes of a round, or a part of one. The first connection
/// is not, but with another one of its session, so those are cut soon.
fn cut_at_random(daemon: &Floed, seed: u64) -> Cutter {
    let (mut state, mut made) = (seed, 0);
    let next = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        made += 1;
        let most = if made < 10 { 1_000 } else { [5_000, 50_000, 200_000][made % 3] };
        // Making a connection takes some four hundred.
        Some(500 + (state >> 33) % most)
    };
    Cutter::start(daemon.tcp(), Box::new(next))
}

#[test]
fn every_byte_of_mirrored_memory_is_right_over_a_wire_that_is_cut() {
    let (_folder, program) = built_c("mirrored_steady");
    let daemon = daemon();
    let cutter = cut_at_random(&daemon, 7);
    let outcome = steady(&program, &["1", ROUNDS, "stands"], &daemon, &cutter.address()).run_within(PATIENCE);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), "right\n"), "{}", outcome.stderr);
    assert!(cutter.cuts() > 20, "{}", cutter.cuts());
}

/// On one machine what is allocated is shared, and what is registered in parts of pages is mirrored: a stream that waits for a word of
/// the one reads the other.
#[test]
fn every_byte_is_right_where_words_are_shared_and_memory_is_mirrored() {
    let (_folder, program) = built_c("mirrored_steady");
    let daemon = daemon();
    for address in [daemon.unix().to_owned(), daemon.shm()] {
        for seed in ["1", "3", "8"] {
            let outcome = steady(&program, &[seed, "300", "stands"], &daemon, &address).run_within(PATIENCE);
            assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), "right\n"), "{seed}: {}", outcome.stderr);
        }
    }
}

#[test]
fn every_byte_of_mirrored_memory_is_right_in_a_session_that_moves() {
    let (_folder, program) = built_c("mirrored_steady");
    let daemon = daemon();
    let run = || steady(&program, &["2", ROUNDS, "stands"], &daemon, daemon.tcp()).run_within(PATIENCE);
    let (outcome, moves) = moving(&daemon, true, run);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), "right\n"), "{}{moves:?}", outcome.stderr);
    assert!(moves.done > 3, "{moves:?}");
}

/// A stream that stands when the wire is cut in a move holds the program up until the move is given up, for seconds: here none does.
#[test]
fn every_byte_of_mirrored_memory_is_right_where_both_happen() {
    let (_folder, program) = built_c("mirrored_steady");
    let daemon = daemon();
    let cutter = cut_at_random(&daemon, 8);
    let run = || steady(&program, &["3", "40"], &daemon, &cutter.address()).run_within(PATIENCE);
    let (outcome, moves) = moving(&daemon, true, run);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), "right\n"), "{}{moves:?}", outcome.stderr);
    assert!(cutter.cuts() > 20 && moves.done > 3, "{} {moves:?}", cutter.cuts());
}
