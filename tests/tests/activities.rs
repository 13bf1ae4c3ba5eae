//! A program with a profiler of its own, as PyTorch's is one, whose work is known. In: the program, built here; a daemon on
//! each way to it. Out: the program's verdict on the records that it gets, and what servers and `floe` say where they have none.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use floe_tests::{Floed, Outcome, Program, installation, repository};
use tempfile::TempDir;

/// The program, built.
struct Built {
    folder: TempDir,
}

impl Built {
    fn new() -> Self {
        let this = Self { folder: tempfile::tempdir().expect("a temporary folder") };
        let built = Command::new("cc")
            .args(["-O1", "-Wall", "-Wextra", "-Werror", "-o"])
            .arg(this.path())
            .arg(repository().join("tests/programs/activities.c"))
            .arg("-ldl")
            .status();
        assert!(built.expect("cc runs").success());
        this
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("activities")
    }

    fn program(&self, mode: &[&str]) -> Program {
        Program::new(self.path(), mode)
    }
}

fn is_right(outcome: &Outcome) {
    assert_eq!(outcome.code, Some(0), "{}{}", outcome.stdout, outcome.stderr);
    assert_eq!((outcome.stdout.as_str(), outcome.stderr.as_str()), ("right\n", ""));
}

fn profiled(daemon: &Floed, address: &str, mode: &[&str]) {
    is_right(&Built::new().program(mode).on(daemon, address).run());
    daemon.wait_for_workers(0);
}

#[test]
fn kernels_copies_and_fills_are_recorded_with_their_calls_over_the_unix_socket() {
    let daemon = Floed::start();
    profiled(&daemon, daemon.unix(), &[]);
}

#[test]
fn kernels_copies_and_fills_are_recorded_with_their_calls_over_tcp() {
    let daemon = Floed::start();
    profiled(&daemon, daemon.tcp(), &[]);
}

#[test]
fn kernels_copies_and_fills_are_recorded_with_their_calls_through_rings() {
    let daemon = Floed::start();
    profiled(&daemon, &daemon.shm(), &[]);
}

#[test]
fn a_profiler_that_begins_before_cuda_does_gets_the_same_records() {
    let daemon = Floed::start();
    profiled(&daemon, daemon.unix(), &["early"]);
}

/// Two programs at once: each gets its own records, and no more.
#[test]
fn two_profiled_programs_do_not_see_each_other() {
    let (daemon, built) = (Floed::start(), Built::new());
    std::thread::scope(|scope| {
        let run = || is_right(&built.program(&[]).on(&daemon, daemon.unix()).run());
        let other = scope.spawn(run);
        run();
        other.join().expect("it is right");
    });
}

#[test]
fn a_program_without_a_profiler_sends_as_with_its_own_cupti() {
    let (daemon, built) = (Floed::start(), Built::new());
    let program = || built.program(&["unprofiled"]).on(&daemon, daemon.unix()).variable("FLOE_STATS", "json");
    let counts = |program: Program| {
        let outcome = program.run();
        assert_eq!(outcome.stdout, "right\n", "{}", outcome.stderr);
        serde_json::from_str::<serde_json::Value>(outcome.stderr.trim()).expect("JSON")
    };
    let (with, without) = (counts(program()), counts(program().flag("--own-cupti")));
    // What is known to be over when the program waits for it is answered here: it counts as another class then.
    let made = |counts: &serde_json::Value| {
        ["local", "post", "call"].iter().filter_map(|name| counts[name]["made"].as_u64()).sum::<u64>()
    };
    assert!(made(&with) > 0, "{with}");
    assert_eq!(made(&with), made(&without), "{with} {without}");
}

#[test]
fn a_server_without_cupti_says_so_and_the_program_goes_on() {
    let (daemon, built) = (Floed::start_with(&["--cupti", "off"], &[]), Built::new());
    let program = built.program(&["refused"]).on(&daemon, daemon.unix());
    is_right(&program.run());
    let program = built.program(&["refused"]).on(&daemon, daemon.unix()).variable("FLOE_LOG", "warn");
    let outcome = program.run();
    assert_eq!(outcome.code, Some(0), "{}{}", outcome.stdout, outcome.stderr);
    assert!(outcome.stderr.contains("this server has no CUPTI: floe serve --cupti PATH"), "{}", outcome.stderr);
}

#[test]
fn a_session_whose_host_memory_has_no_room_for_records_is_refused_them() {
    let daemon = Floed::start_with(&["--host-memory", "128M"], &[]);
    let built = Built::new();
    is_right(&built.program(&["refused"]).on(&daemon, daemon.unix()).run());
}

#[test]
fn what_floes_cupti_does_not_have_is_refused_by_name() {
    let (daemon, built) = (Floed::start(), Built::new());
    is_right(&built.program(&["absent"]).on(&daemon, daemon.unix()).run());
    let outcome = built.program(&["absent"]).on(&daemon, daemon.unix()).variable("FLOE_LOG", "warn").run();
    for name in ["cuptiActivityEnable of this kind", "cuptiProfilerInitialize"] {
        assert!(outcome.stderr.contains(name), "{}", outcome.stderr);
    }
}

#[test]
fn every_name_of_nvidias_cupti_is_exported() {
    let library = installation().join("lib/client/cupti/libcupti.so.13");
    let listed = Command::new("nm").args(["-D", "--defined-only"]).arg(&library).output().expect("nm runs");
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert_eq!(text.lines().filter(|line| line.contains(" T cupti")).count(), 194, "{text}");
}

/// Programs are linked with versions of NVIDIA's names, and the loader warns of a library that has none.
#[test]
fn a_program_that_is_linked_with_versions_loads_without_a_word() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let made = |name: &str| folder.path().join(name);
    std::fs::write(made("stand_in.c"), "int cuptiGetVersion(unsigned *v) { *v = 1; return 0; }").expect("written");
    std::fs::write(made("versions"), "libcupti.so.13 { global: cupti*; };").expect("written");
    let program = "int cuptiGetVersion(unsigned *); int main(void) { unsigned v = 0; return cuptiGetVersion(&v) || v != 130001; }";
    std::fs::write(made("program.c"), program).expect("written");
    let compile = |arguments: &[&str]| {
        let built = Command::new("cc").current_dir(folder.path()).args(arguments).status().expect("cc runs");
        assert!(built.success(), "{arguments:?}");
    };
    let (soname, versions) = ("-Wl,-soname,libcupti.so.13", "-Wl,--version-script=versions");
    compile(&["-shared", "-fPIC", soname, versions, "-o", "libcupti.so.13", "stand_in.c"]);
    compile(&["-o", "program", "program.c", "./libcupti.so.13", "-Wl,-z,now"]);
    let daemon = Floed::start();
    let outcome = Program::new(made("program"), &[]).on(&daemon, daemon.unix()).run();
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
}

fn floe(arguments: &[&str]) -> std::process::Output {
    Command::new(installation().join("bin/floe")).args(arguments).output().expect("floe runs")
}

fn only_session(daemon: &Floed) -> String {
    let said = floe(&["ps", "--json", "--on", daemon.unix()]);
    let rows: Vec<serde_json::Value> = serde_json::from_slice(&said.stdout).expect("JSON");
    rows.first().expect("a session")["session"].to_string()
}

fn hold(program: &Path, daemon: &Floed) -> std::process::Child {
    let mut command = Command::new(installation().join("bin/floe"));
    command.args(["run", "--on", &format!("{}:0", daemon.unix()), "--"]).arg(program).arg("held");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("floe runs")
}

#[test]
fn a_session_that_records_does_not_move_and_says_why() {
    let (daemon, built) = (Floed::start(), Built::new());
    let mut child = hold(&built.path(), &daemon);
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    assert_eq!(lines.next().expect("a line").expect("text"), "recording");
    let refused = floe(&["migrate", &only_session(&daemon), "--to", "0", "--on", daemon.unix()]);
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && words.contains("has a profiler that records"), "{words}");
    drop(child.stdin.take());
    assert_eq!(lines.next().expect("a line").expect("text"), "right");
    assert!(child.wait().expect("our child").success());
}
