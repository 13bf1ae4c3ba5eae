//! Sessions that take turns on a GPU by shares, weights and classes.
//! In: programs that keep a GPU busy and check their sums. Out: right sums, what each had of the GPU's time, refusals by name.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

use floe_tests::{Floed, installation, repository};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// For what a busy machine may take.
const PATIENCE: Duration = Duration::from_secs(300);
/// Iterations of a kernel: some 0.2 ms on the CPU device.
const TIMES: &str = "10000";

/// A daemon, and the program that keeps GPUs busy.
struct Stage {
    daemon: Floed,
    folder: TempDir,
}

/// A program that keeps its GPU busy until its input ends.
struct Busy {
    child: Child,
    output: BufReader<ChildStdout>,
}

fn floe(arguments: &[&str]) -> Output {
    Command::new(installation().join("bin/floe")).args(arguments).output().expect("floe runs")
}

impl Stage {
    fn new(devices: &str) -> Self {
        let daemon = Floed::start_with(&[], &[("FLOE_CPU_DEVICES", devices)]);
        let stage = Self { daemon, folder: tempfile::tempdir().expect("a temporary folder") };
        let source = repository().join("tests/programs/busy.c");
        let mut built = Command::new("cc");
        built.args(["-O1", "-Wall", "-Wextra", "-Werror", "-o"]).arg(stage.program()).arg(source).arg("-ldl");
        assert!(built.status().expect("cc runs").success());
        stage
    }

    fn program(&self) -> PathBuf {
        self.folder.path().join("busy")
    }

    fn command(&self, flags: &[&str], mode: &str) -> Command {
        let mut command = Command::new(installation().join("bin/floe"));
        command.args(["run", "--on", &format!("{}:0", self.daemon.unix())]).args(flags).arg("--");
        command.arg(self.program()).args([TIMES, mode]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Starts one and waits until it is about to begin.
    fn busy(&self, flags: &[&str], mode: &str) -> Busy {
        let mut child = self.command(flags, mode).spawn().expect("floe runs");
        let mut output = BufReader::new(child.stdout.take().expect("piped"));
        let mut line = String::new();
        output.read_line(&mut line).expect("text");
        assert_eq!(line, "ready\n");
        Busy { child, output }
    }

    /// The sessions, in the order of their numbers.
    fn sessions(&self) -> Vec<Value> {
        let listed = floe(&["ps", "--json", "--on", self.daemon.unix()]);
        let all: Value = serde_json::from_slice(&listed.stdout).expect("JSON");
        all.as_array().expect("a list").clone()
    }

    /// Waits until this holds of the sessions.
    fn await_sessions(&self, holds: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let begin = Instant::now();
        loop {
            let sessions = self.sessions();
            if holds(&sessions) {
                return sessions;
            }
            assert!(begin.elapsed() < PATIENCE, "{sessions:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Busy {
    /// Ends its input. Its sums are right.
    fn ends_right(mut self) {
        drop(self.child.stdin.take());
        let (mut said, mut errors) = (String::new(), String::new());
        self.output.read_to_string(&mut said).expect("text");
        self.child.stderr.take().expect("piped").read_to_string(&mut errors).expect("text");
        let status = self.child.wait().expect("our child");
        assert!(status.success() && said.ends_with(" kernels\n") && errors.is_empty(), "{status}: {said}{errors}");
    }
}

fn number(session: &Value, name: &str) -> u64 {
    session[name].as_u64().expect("a number")
}

#[test]
fn programs_with_terms_take_turns_and_every_sum_is_right() {
    let stage = Stage::new("1");
    let programs = [
        stage.busy(&["--share", "25%"], "graph"),
        stage.busy(&["--weight", "2"], "single"),
        stage.busy(&["--class", "latency"], "paused"),
        stage.busy(&[], "single"),
    ];
    let sessions = stage.await_sessions(|sessions| {
        sessions.len() == 4
            && sessions.iter().all(|session| number(session, "gpu_ms") > 50)
            && number(&sessions[0], "of_ms") > 600
    });
    let terms = |session: &Value| (number(session, "share"), number(session, "weight"), session["class"].clone());
    let all: Vec<_> = sessions.iter().map(terms).collect();
    assert_eq!(
        all,
        [(250, 0, "batch".into()), (0, 2, "batch".into()), (0, 0, "latency".into()), (0, 0, "batch".into())]
    );
    let had: u64 = sessions.iter().map(|session| number(session, "gpu_ms")).sum();
    let of = sessions.iter().map(|session| number(session, "of_ms")).max().expect("four");
    assert!(had <= of, "nobody's time is counted twice: {sessions:?}");
    programs.into_iter().for_each(Busy::ends_right);
    stage.daemon.wait_for_workers(0);
}

#[test]
fn of_two_programs_that_are_busy_the_heavier_one_has_more_of_the_time() {
    let stage = Stage::new("1");
    let programs = [stage.busy(&["--weight", "8"], "deep"), stage.busy(&["--weight", "1"], "deep")];
    let sessions = stage.await_sessions(|sessions| sessions.iter().all(|session| number(session, "of_ms") > 2000));
    let had = |index: usize| number(&sessions[index], "gpu_ms");
    assert!(had(0) > had(1), "{sessions:?}");
    programs.into_iter().for_each(Busy::ends_right);
}

#[test]
fn more_than_the_whole_of_a_gpus_time_is_refused_by_name() {
    let stage = Stage::new("1");
    let holder = stage.busy(&["--share", "62.5%"], "paused");
    let gpus = floe(&["gpus", "--json", "--on", stage.daemon.unix()]);
    let gpus: Value = serde_json::from_slice(&gpus.stdout).expect("JSON");
    assert_eq!(gpus[0]["share"], 375);
    let refused = stage.command(&["--share", "50%", "--wait", "0"], "single").output().expect("floe runs");
    let words = String::from_utf8_lossy(&refused.stdout).into_owned() + &String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success(), "{words}");
    assert!(words.contains("no room on GPU 0: 50% of its time were asked for, 37.5% are free"), "{words}");
    holder.ends_right();
    stage.daemon.wait_for_workers(0);
    stage.busy(&["--share", "100%"], "single").ends_right();
}

#[test]
fn a_share_is_waited_for_and_said_to_be() {
    let stage = Stage::new("1");
    let holder = stage.busy(&["--share", "62.5%"], "paused");
    let mut command = stage.command(&["--share", "50%", "--wait", "10m"], "single");
    let mut waiting = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("floe runs");
    let mut said = BufReader::new(waiting.stderr.take().expect("piped")).lines();
    let line = said.next().expect("a line").expect("text");
    let words = "floe: waiting for 50% of the time on GPU 0 of ";
    assert!(line.starts_with(words) && line.ends_with(": free 37.5%, requests ahead: 0"), "{line}");
    // Who wants memory only does not wait for it.
    assert!(stage.command(&["--memory", "64M", "--wait", "0"], "single").output().expect("floe runs").status.success());
    holder.ends_right();
    assert!(waiting.wait().expect("our child").success());
    stage.daemon.wait_for_workers(0);
}

/// The others go on whoever dies, and however.
#[test]
fn a_program_that_is_killed_gives_its_turn_and_its_share_back() {
    let stage = Stage::new("1");
    let other = stage.busy(&[], "single");
    for victim in ["client", "worker"] {
        let mut killed = stage.busy(&["--share", "100%"], "single");
        let sessions = stage.await_sessions(|sessions| {
            sessions.len() == 2 && sessions.iter().all(|session| number(session, "gpu_ms") > 20)
        });
        let process = match victim {
            "client" => killed.child.id(),
            _ => u32::try_from(number(&sessions[1], "worker")).expect("a process"),
        };
        let process = Pid::from_raw(i32::try_from(process).expect("a process")).expect("a process");
        kill_process(process, Signal::KILL).expect("it is ours");
        killed.child.wait().expect("our child");
        stage.await_sessions(|sessions| sessions.len() == 1);
    }
    other.ends_right();
}

#[test]
fn a_session_that_takes_turns_moves_and_takes_turns_there() {
    let stage = Stage::new("2");
    let programs = [stage.busy(&["--share", "60%"], "single"), stage.busy(&[], "graph")];
    let sessions = stage.await_sessions(|sessions| sessions.iter().all(|session| number(session, "gpu_ms") > 50));
    let first = number(&sessions[0], "session").to_string();
    // To the other GPU, within it, where its share counts once, and back.
    for gpu in ["1", "1", "0"] {
        let moved = floe(&["migrate", &first, "--to", gpu, "--on", stage.daemon.unix()]);
        assert!(moved.status.success(), "{}", String::from_utf8_lossy(&moved.stderr));
    }
    stage.await_sessions(|sessions| {
        sessions.len() == 2 && sessions.iter().all(|session| number(session, "gpu_ms") > 20)
    });
    programs.into_iter().for_each(Busy::ends_right);
    stage.daemon.wait_for_workers(0);
}

#[test]
fn a_program_whose_time_is_over_ends() {
    let stage = Stage::new("1");
    let mut limited = stage.busy(&["--time", "2s"], "single");
    let input = limited.child.stdin.take();
    let status = limited.child.wait().expect("our child");
    assert!(!status.success(), "its GPU is gone");
    drop(input);
    stage.daemon.wait_for_workers(0);
}
