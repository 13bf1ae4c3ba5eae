//! A program whose session is ended by the server hears why, once, whatever lies between them and whatever its worker does.
//! In: programs that keep a GPU busy. Out: what they say on stderr, and the log's and the table's word for it.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../../link/transport/tests/authority/mod.rs"]
mod authority;

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::time::{Duration, Instant};

use authority::Authority;
use floe_tests::{Floed, descendants, installation, repository};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// For what a busy machine may take.
const PATIENCE: Duration = Duration::from_secs(300);

/// What programs run: 0.2 ms each.
const TIMES: &str = "10000";

/// A program that keeps its GPU busy.
struct Busy {
    child: Child,
    errors: BufReader<ChildStderr>,
}

fn floe(arguments: &[&str]) -> Output {
    Command::new(installation().join("bin/floe")).args(arguments).output().unwrap()
}

fn build(folder: &TempDir) -> PathBuf {
    let program = folder.path().join("busy");
    let mut built = Command::new("cc");
    built.args(["-O1", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&program);
    assert!(built.arg(repository().join("tests/programs/busy.c")).arg("-ldl").status().unwrap().success());
    program
}

/// Starts one at this address and waits until it has a session.
fn busy(daemon: &Floed, address: &str, flags: &[&str], environment: &[(&str, PathBuf)]) -> (Busy, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(installation().join("bin/floe"));
    command.args(["run", "--no-check", "--on", &format!("{address}:0")]).args(flags).arg("--");
    command.arg(build(&folder)).args([TIMES, "single"]).env("FLOE_TOKEN_FILE", daemon.token_file());
    command.envs(environment.iter().map(|(name, value)| (name, value)));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    output.read_line(&mut line).unwrap();
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    if line != "ready\n" {
        child.wait().unwrap();
        errors.read_to_string(&mut line).unwrap();
        panic!("{line}");
    }
    // What it says of its end is not of interest, and there is room for it.
    std::thread::spawn(move || output.read_to_string(&mut String::new()));
    (Busy { child, errors }, folder)
}

impl Busy {
    /// Waits until it has ended, with an error; what it has said on stderr.
    fn ends(mut self) -> String {
        let input = self.child.stdin.take();
        let mut words = String::new();
        self.errors.read_to_string(&mut words).unwrap();
        assert!(!self.child.wait().unwrap().success(), "its GPU is gone");
        drop(input);
        words
    }

    /// Waits until it has ended, and has said this of it and nothing else.
    fn hears(self, why: &str) {
        let words = self.ends();
        let told: Vec<_> = words.lines().filter(|line| line.starts_with("floe: ")).collect();
        assert_eq!(told, [format!("floe: the device is gone: session 1 was ended: {why}")], "{words}");
    }
}

fn sessions(daemon: &Floed) -> Vec<Value> {
    let listed = floe(&["ps", "--json", "--on", daemon.unix()]);
    serde_json::from_slice::<Value>(&listed.stdout).unwrap().as_array().unwrap().clone()
}

fn wait_until(mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "waited in vain");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn end(daemon: &Floed) {
    let ended = floe(&["end", "1", "--on", daemon.unix()]);
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
}

fn signal(process: u32, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(process).unwrap()).unwrap(), signal).unwrap();
}

#[test]
fn a_client_is_told_why_its_session_was_ended_over_every_transport() {
    for grace in ["60", "0"] {
        for scheme in ["shm", "unix", "tcp"] {
            let daemon = Floed::start_logging(&["--grace", grace]);
            let address = match scheme {
                "shm" => daemon.shm(),
                "unix" => daemon.unix().to_owned(),
                _ => daemon.tcp().to_owned(),
            };
            let (program, _folder) = busy(&daemon, &address, &[], &[]);
            end(&daemon);
            program.hears("ended by the operator");
            daemon.wait_for_workers(0);
            // Once: neither the worker says it, too, nor the refusal of a connection.
            wait_until(|| daemon.log().contains("session 1 ended: ended by the operator"));
            let log = daemon.log();
            assert!(!log.contains("floe-worker: "), "{log}");
        }
    }
}

#[test]
fn a_client_whose_records_the_daemon_seals_is_told_why() {
    let authority = Authority::new();
    let [certificate, key] = authority.sign("localhost").map(|path| path.to_str().unwrap().to_owned());
    for grace in ["60", "0"] {
        let daemon = Floed::start_with(&["--tls-certificate", &certificate, "--tls-key", &key, "--grace", grace], &[]);
        let address = format!("tls://localhost:{}", daemon.tcp().rsplit_once(':').unwrap().1);
        let (program, _folder) = busy(&daemon, &address, &[], &[("FLOE_TLS_AUTHORITIES", authority.file())]);
        end(&daemon);
        program.hears("ended by the operator");
        daemon.wait_for_workers(0);
    }
}

#[test]
fn a_client_is_told_that_its_time_is_over_and_that_its_server_ends() {
    let daemon = Floed::start();
    let (program, _folder) = busy(&daemon, daemon.tcp(), &["--time", "2s"], &[]);
    program.hears("its time of 2 seconds is over (--time)");
    for shm in [false, true] {
        let mut daemon = Floed::start();
        let address = if shm { daemon.shm() } else { daemon.tcp().to_owned() };
        let (program, _folder) = busy(&daemon, &address, &[], &[]);
        assert!(daemon.terminate().is_some());
        program.hears("the server ends");
    }
}

/// The worker's process is stopped: it tells nobody anything, and cannot escape its end.
#[test]
fn a_worker_that_does_not_obey_is_killed_and_its_client_is_told_by_the_daemon() {
    let daemon = Floed::start_with(&["--grace", "60"], &[]);
    let (program, _folder) = busy(&daemon, daemon.tcp(), &[], &[]);
    let workers = descendants(daemon.process());
    assert_eq!(workers.len(), 1);
    signal(workers[0], Signal::STOP);
    end(&daemon);
    program.hears("ended by the operator");
    daemon.wait_for_workers(0);
    // Its row goes with the process's end, which the daemon hears a moment after the system.
    wait_until(|| sessions(&daemon).is_empty());
}

#[test]
fn a_client_of_a_suspended_session_is_told_why_it_was_ended() {
    let daemon = Floed::start_with(&["--grace", "60"], &[]);
    let (program, _folder) = busy(&daemon, daemon.tcp(), &[], &[]);
    let suspended = floe(&["suspend", "1", "--on", daemon.unix()]);
    assert!(suspended.status.success(), "{}", String::from_utf8_lossy(&suspended.stderr));
    wait_until(|| sessions(&daemon)[0]["transport"].as_str().unwrap().contains("suspended"));
    end(&daemon);
    program.hears("ended by the operator");
    daemon.wait_for_workers(0);
}
