//! The management library as programs see it. The C program `management` compares it with CUDA, and monitors watch it:
//! `monitors` makes the calls of nvtop, gpustat and nvitop. It runs on the CPU device, through an installation.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::{Duration, Instant};

use floe_tests::{Floed, Linkage, Outcome, Program, built_examples, example, installation, repository};

const GIB: u64 = 1 << 30;

fn passes(outcome: &Outcome) {
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(outcome.stdout.ends_with("PASSED\n"), "{outcome:?}");
}

fn management(arguments: &[&str]) -> Program {
    Program::new(built_examples().join("management"), arguments)
}

#[test]
fn it_agrees_with_cuda_about_a_vgpu_with_a_quota() {
    let daemon = Floed::start();
    let quota = GIB.to_string();
    let program = management(&[&quota]).variable("FLOE_MEMORY", &quota);
    passes(&program.on(&daemon, daemon.tcp()).run());
}

#[test]
fn it_agrees_with_cuda_about_a_whole_gpu() {
    let daemon = Floed::start();
    passes(&management(&[]).on(&daemon, daemon.unix()).run());
}

#[test]
fn it_knows_the_operators_limit_before_there_is_a_session() {
    let daemon = Floed::start_with(&["--memory-per-session", "1G"], &[]);
    passes(&management(&[&GIB.to_string()]).on(&daemon, daemon.unix()).run());
}

/// The program with these vGPUs, each as `ADDRESS:GPU`.
fn neighbours(daemon: &Floed, arguments: &[&str], vgpus: &[String]) -> Program {
    let token = daemon.token_file().display().to_string();
    management(arguments).variable("FLOE_DEVICES", &vgpus.join(",")).variable("FLOE_TOKEN_FILE", &token)
}

#[test]
fn vgpus_of_one_server_reach_each_other_and_of_two_servers_do_not() {
    let [one, other] = [(); 2].map(|()| Floed::start_with(&[], &[("FLOE_CPU_DEVICES", "2")]));
    let place = |address: &str, gpu: u32| format!("{address}:{gpu}");
    // Two GPUs of one server, also by two addresses; two vGPUs of one GPU.
    for vgpus in [
        [place(one.unix(), 0), place(one.unix(), 1)],
        [place(one.unix(), 0), place(one.tcp(), 1)],
        [place(one.unix(), 1), place(one.unix(), 1)],
    ] {
        passes(&neighbours(&one, &["peers", "reached"], &vgpus).run());
    }
    let apart = [place(one.unix(), 0), place(other.unix(), 0)];
    passes(&neighbours(&one, &["peers", "apart"], &apart).run());
}

#[test]
fn functions_that_are_not_implemented_say_so_by_name() {
    let daemon = Floed::start();
    let outcome = management(&[]).variable("FLOE_LOG", "info").on(&daemon, daemon.unix()).run();
    let said = "nvmlDeviceSetPersistenceMode is not implemented: the program gets NVML_ERROR_NOT_SUPPORTED";
    assert_eq!(outcome.stderr.matches(said).count(), 1, "{outcome:?}");
}

#[test]
fn every_name_of_nvidias_library_is_exported() {
    let library = installation().join("lib/client/libnvidia-ml.so.1");
    let output = Command::new("nm").args(["-D", "--defined-only"]).arg(&library).output().expect("nm runs");
    let output = String::from_utf8_lossy(&output.stdout).into_owned();
    let exported: BTreeSet<&str> = output.lines().filter_map(|line| line.split_whitespace().last()).collect();
    let names = std::fs::read_to_string(repository().join("api/nvml/symbols.txt")).expect("the list is there");
    let missing: Vec<&str> = names.lines().filter(|name| !exported.contains(name)).collect();
    assert!(missing.is_empty(), "not exported: {missing:?}");
}

#[test]
fn libraries_have_the_names_that_programs_ask_for_first() {
    let same = |one: &str, other: &str| {
        let path =
            |name| std::fs::canonicalize(installation().join(name)).unwrap_or_else(|_| panic!("{name} is there"));
        assert_eq!(path(one), path(other));
    };
    same("lib/client/libnvidia-ml.so", "lib/client/libnvidia-ml.so.1");
    same("lib/client/libcuda.so", "lib/client/libcuda.so.1");
    same("lib/device/libcuda.so", "lib/device/libcuda.so.1");
}

#[test]
fn a_monitor_sees_the_programs_of_this_machine_while_they_run() {
    // Both come from one address: a tenant is shown its own sessions.
    let daemon = Floed::start();
    let monitor = management(&["monitor"]).on(&daemon, daemon.tcp());
    let sees = |process: &str| monitor.run().stdout.lines().any(|line| line == process);
    let mut program = management(&["hold"]).on(&daemon, daemon.tcp()).start();
    let row = format!("process {}", program.id());
    let soon = |holds: &dyn Fn() -> bool| {
        let start = Instant::now();
        while !holds() {
            assert!(start.elapsed() < Duration::from_secs(300), "{row}: waited in vain");
        }
    };
    soon(&|| sees(&row));
    program.kill().expect("it holds its vGPU until it is killed");
    program.wait().expect("it is our child");
    soon(&|| !sees(&row));
}

/// The number behind a word of a line.
fn number(line: &str, word: &str) -> u64 {
    let number = line.split_whitespace().skip_while(|found| *found != word).nth(1);
    number.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("no number behind `{word}`: {line}"))
}

#[test]
fn a_busy_program_is_busy_in_every_picture_of_a_monitor() {
    const PICTURES: usize = 4;
    let daemon = Floed::start();
    // Edge of the matrices, and how often: long after the test.
    let mut busy = example("matrixMul", Linkage::Static, &["256", "1000000"]).on(&daemon, daemon.tcp()).start();
    let arguments = [busy.id().to_string(), PICTURES.to_string()];
    let arguments = arguments.each_ref().map(String::as_str);
    let outcome = Program::new(built_examples().join("monitors"), &arguments).on(&daemon, daemon.unix()).run();
    busy.kill().expect("it multiplies until it is killed");
    busy.wait().expect("it is our child");
    assert_eq!((outcome.code, outcome.stdout.lines().count()), (Some(0), PICTURES), "{outcome:?}");
    for line in outcome.stdout.lines() {
        // It is the only program there. Three matrices of 256 by 256 floats.
        assert!(number(line, "gpu") > 0 && number(line, "process") > 0, "{outcome:?}");
        assert!(number(line, "bytes") >= 3 * 256 * 256 * 4, "{outcome:?}");
    }
}

#[test]
fn asking_takes_no_vgpu() {
    let daemon = Floed::start_with(&["--max-sessions", "1"], &[]);
    let mut busy = example("memory", Linkage::Static, &[]).on(&daemon, daemon.unix()).start();
    let start = Instant::now();
    let monitor = management(&["monitor"]).on(&daemon, daemon.unix());
    loop {
        let outcome = monitor.run();
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        if busy.try_wait().expect("it is our child").is_some() {
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(300), "the program does not end beside a monitor");
    }
    assert!(busy.wait().expect("it is our child").success(), "the only session was taken by a monitor");
}
