//! Offers of `floe cdi`: a program with the environment and the mounts of such a device has its vGPUs with their memory. In: a
//! daemon, the file, a program. Out: what the program sees, where its vGPUs are, and which offers are refused.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use floe_tests::{Floed, installation};
use serde_json::Value;
use tempfile::TempDir;

/// Each GPU of the daemons has room for one vGPU of 8 GiB and some more.
const MEMORY: (&str, &str) = ("FLOE_CPU_MEMORY", "12G");

/// A file of `floe cdi` with these flags.
fn written(flags: &[&str]) -> Value {
    let output = floe(flags, "/nonexistent");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// `floe cdi` where this is the folder of sockets.
fn floe(flags: &[&str], runtime: &str) -> Output {
    let mut floe = Command::new(installation().join("bin/floe"));
    floe.arg("cdi").args(flags).env("XDG_RUNTIME_DIR", runtime).output().expect("floe runs")
}

fn list<'a>(value: &'a Value, what: &str) -> Vec<&'a str> {
    value[what].as_array().expect("a list").iter().map(|one| one.as_str().expect("text")).collect()
}

/// The environment and the mounts that a container gets with a device: those of all devices and its own, as an engine adds them.
struct Container {
    environment: Vec<(String, String)>,
    /// The paths in the container and outside of it.
    mounts: Vec<(String, String)>,
}

impl Container {
    fn with(file: &Value, device: &str) -> Self {
        let devices = file["devices"].as_array().expect("a list");
        let device = devices.iter().find(|one| one["name"] == device).expect("a device of that name");
        let edits = [&file["containerEdits"], &device["containerEdits"]];
        let variables = edits.iter().flat_map(|edits| list(edits, "env"));
        let mounts = edits.iter().filter_map(|edits| edits["mounts"].as_array()).flatten();
        let path = |mount: &Value, which: &str| mount[which].as_str().expect("a path").to_owned();
        Self {
            environment: variables
                .map(|one| {
                    one.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned())).expect("NAME=value")
                })
                .collect(),
            mounts: mounts.map(|mount| (path(mount, "containerPath"), path(mount, "hostPath"))).collect(),
        }
    }

    /// A program with this environment and no other. Nothing is mounted here: where a variable names a path of the container, it
    /// names what would be mounted there.
    fn command(&self, program: &PathBuf) -> Command {
        let mut command = Command::new(program);
        command.env_clear().stdin(Stdio::null());
        for (name, value) in &self.environment {
            let mounted = self.mounts.iter().find(|(inside, _)| inside == value).map(|(_, outside)| outside);
            command.env(name, mounted.unwrap_or(value));
        }
        command
    }
}

/// `tests/programs/offered.c`, built.
fn program() -> (PathBuf, TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let offered = folder.path().join("offered");
    floe_tests::compile_c("offered", &offered);
    (offered, folder)
}

fn said(output: &Output) -> Vec<String> {
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && words.is_empty(), "{words}{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

#[test]
fn a_program_with_an_offer_has_its_vgpus_with_their_memory() {
    let daemon = Floed::start_on("cpu", &[], &[("FLOE_CPU_DEVICES", "2"), MEMORY]);
    let on = format!("{0}:0,{0}:1", daemon.unix());
    let file = written(&["--on", &on, "--offer", "2x8G", "--offer", "3x512M"]);
    let names: Vec<_> = file["devices"].as_array().expect("a list").iter().map(|one| one["name"].as_str()).collect();
    assert_eq!(names, [Some("0"), Some("1"), Some("all"), Some("2x8G"), Some("3x512M")]);
    let (program, _folder) = program();
    let run = |device: &str| {
        let container = Container::with(&file, device);
        let socket = daemon.unix().trim_start_matches("unix://");
        assert!(
            container.mounts.iter().any(|(inside, _)| socket.starts_with(inside.as_str())),
            "{:?}",
            container.mounts
        );
        said(&container.command(&program).output().expect("it runs"))
    };
    assert_eq!(run("2x8G"), ["8192 MiB: a quota"; 2]);
    assert_eq!(run("3x512M"), ["512 MiB: a quota"; 3]);
    assert_eq!(run("1"), ["12288 MiB: a quota"], "without an offer it is all of the GPU");
}

#[test]
fn the_vgpus_of_an_offer_are_spread_over_the_gpus_with_a_guarantee_each() {
    let daemon = Floed::start_on("cpu", &[], &[("FLOE_CPU_DEVICES", "2"), MEMORY]);
    let on = format!("{0}:0,{0}:1", daemon.unix());
    let file = written(&["--on", &on, "--offer", "3x1G"]);
    let (program, _folder) = program();
    let mut command = Container::with(&file, "3x1G").command(&program);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it runs");
    let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let lines: Vec<_> = lines.take(3).map(|line| line.expect("text")).collect();
    assert_eq!(lines, ["1024 MiB: a quota"; 3]);
    let sessions = daemon.sessions();
    let mut of: Vec<_> =
        sessions.iter().map(|row| (row["gpu"].as_u64(), row["memory"].as_u64(), row["guaranteed"].as_bool())).collect();
    of.sort_unstable();
    let with = |gpu| (Some(gpu), Some(1 << 30), Some(true));
    assert_eq!(of, [with(0), with(0), with(1)]);
    drop(child.stdin.take());
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn an_offer_that_this_machines_gpus_have_no_room_for_is_refused() {
    let daemon = Floed::start_on("cpu", &[], &[MEMORY]);
    let runtime = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(runtime.path().join("floe")).expect("made");
    let socket = runtime.path().join("floe/floed.sock");
    std::os::unix::fs::symlink(daemon.unix().trim_start_matches("unix://"), &socket).expect("linked");
    let offers = |offer: &str| floe(&["--offer", offer], runtime.path().to_str().expect("text"));
    let refused = offers("2x8G");
    let place = format!("unix://{}:0", socket.display());
    let words = format!(
        "floe: --offer: more memory than {place} has, which is 12.0 GiB: 2 of 2x8G on it, 8.0 GiB each\n  \
         offer less, or name more GPUs with --on\n"
    );
    let of = |output: &Output| {
        (output.status.code(), output.stdout.len(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert_eq!(of(&refused), (Some(125), 0, words));
    let offered = offers("2x4G");
    assert!(offered.status.success(), "{offered:?}");
    let file: Value = serde_json::from_slice(&offered.stdout).expect("JSON");
    let (program, _folder) = program();
    assert_eq!(
        said(&Container::with(&file, "2x4G").command(&program).output().expect("it runs")),
        ["4096 MiB: a quota"; 2]
    );
    for offer in ["2x8Q", "0x8G", "8G"] {
        let (code, printed, words) = of(&offers(offer));
        assert!(code == Some(125) && printed == 0 && words.starts_with("floe: --offer: not a "), "{words}");
    }
}
