//! Managed memory over every transport: the bytes fetched and flushed for a program's page faults, and a page fault
//! when the device is gone. The example programs check its contents.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use floe_tests::{Floed, Linkage, Program, descendants, example, repository};

/// The bytes that one page fault fetches.
const PIECE: u64 = 64 << 10;

#[test]
fn only_touched_pieces_travel_over_every_transport() {
    let daemon = Floed::start();
    for address in [daemon.shm(), daemon.unix().to_owned(), daemon.tcp().to_owned()] {
        let program = example("managedCalls", Linkage::Static, &["counts"]);
        let outcome = program.on(&daemon, &address).variable("FLOE_STATS", "json").run();
        assert_eq!(outcome.code, Some(0), "{}{}", outcome.stdout, outcome.stderr);
        let seen = outcome.statistics();
        // 130 launches, 10 of them behind a write of one piece.
        assert_eq!(seen.managed_to_device, 10 * PIECE, "{address}: {seen:?}");
        // The written piece by its first touch and by each of 10 waits behind it, and one that is read.
        assert_eq!(seen.managed_from_device, 12 * PIECE, "{address}: {seen:?}");
        assert_eq!(seen.managed_page_faults, 2, "{address}: {seen:?}");
        daemon.wait_for_workers(0);
    }
}

/// A program of `tests/programs` that needs no CUDA header.
fn built(name: &str, folder: &Path) -> PathBuf {
    let program = folder.join(name);
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&program);
    cc.arg(repository().join("tests/programs").join(name).with_extension("c")).args(["-ldl", "-lpthread"]);
    assert!(cc.status().unwrap().success());
    program
}

/// What one thread's touch brings along is another one's, whose kernel was launched meanwhile.
#[test]
fn threads_that_touch_and_threads_that_launch_see_their_own_numbers() {
    let (daemon, folder) = (Floed::start(), tempfile::tempdir().unwrap());
    let touches = built("touches", folder.path());
    for address in [daemon.shm(), daemon.unix().to_owned(), daemon.tcp().to_owned()] {
        let outcome = Program::new(touches.clone(), &["200"]).on(&daemon, &address).run();
        assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), "right\n"), "{address}: {}", outcome.stderr);
    }
}

#[test]
fn a_reset_finds_functions_that_write_managed_memory_and_the_session_goes_on() {
    let (daemon, folder) = (Floed::start(), tempfile::tempdir().unwrap());
    let functions = built("functions", folder.path());
    for address in [daemon.unix().to_owned(), daemon.tcp().to_owned()] {
        for what in ["resets", "beside", "brings"] {
            let outcome = Program::new(functions.clone(), &[what]).on(&daemon, &address).run();
            let said = (outcome.code, outcome.stdout.as_str());
            assert_eq!(said, (Some(0), "PASSED\n"), "{what} {address}: {}", outcome.stderr);
        }
    }
}

#[test]
fn modules_come_and_go_beside_functions_of_another_vgpu() {
    let (daemon, folder) = (Floed::start(), tempfile::tempdir().unwrap());
    let functions = built("functions", folder.path());
    let places = [format!("{}:0", daemon.unix()), format!("{}:0", daemon.unix())];
    for what in ["unloads", "apart"] {
        let outcome = Program::new(functions.clone(), &[what]).on_each(&daemon, &places).run();
        assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), "PASSED\n"), "{what}: {}", outcome.stderr);
    }
}

#[test]
fn what_a_function_writes_of_another_vgpus_memory_is_there_behind_it() {
    let (daemon, folder) = (Floed::start(), tempfile::tempdir().unwrap());
    let functions = built("functions", folder.path());
    for address in [daemon.unix(), daemon.tcp()] {
        let places = [format!("{address}:0"), format!("{address}:0")];
        let outcome = Program::new(functions.clone(), &["elsewhere"]).on_each(&daemon, &places).run();
        assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), "PASSED\n"), "{address}: {}", outcome.stderr);
    }
}

#[test]
fn a_touch_when_the_device_is_gone_is_a_fault() {
    let daemon = Floed::start_with(&["--grace", "1"], &[]);
    for address in [daemon.shm(), daemon.unix().to_owned(), daemon.tcp().to_owned()] {
        let folder = tempfile::tempdir().unwrap();
        let program = example("managedFaults", Linkage::Static, &["lost", folder.path().to_str().unwrap()]);
        let mut child = program.on(&daemon, &address).start();
        let began = Instant::now();
        while !folder.path().join("ready").exists() {
            assert!(began.elapsed() < Duration::from_secs(300), "{address}: it gets ready");
            std::thread::sleep(Duration::from_millis(5));
        }
        for worker in descendants(daemon.process()) {
            assert!(Command::new("kill").args(["-KILL", &worker.to_string()]).status().unwrap().success());
        }
        std::fs::write(folder.path().join("go"), "").unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(42), "{address}");
    }
}
