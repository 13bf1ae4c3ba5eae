//! Instances of a divided GPU (MIG) as GPUs of one daemon. In: a driver and a management library that stand in for NVIDIA's, with two
//! instances and a whole GPU. Out: what is offered, what workers are started with, what a program sees. No instance of a real GPU is
//! here.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use floe_session::Inquiry;
use floe_session::settings::Credentials;
use floe_tests::{Floed, descendants, installation, repository};
use floe_wire::{Call as _, ReadTelemetry};
use serde_json::Value;
use tempfile::TempDir;

/// As CUDA and NVML name what the stand-ins have, in the library's order.
const UNITS: [&str; 3] = [
    "MIG-11111111-1111-1111-1111-111111111111",
    "MIG-22222222-2222-2222-2222-222222222222",
    "GPU-bbbbbbbb-bbbb-bbbb-bbbb-bbbbbbbbbbbb",
];
/// The functions that the driver has itself.
const OWN: [&str; 3] = ["cuDeviceGetName", "cuDeviceGetUuid", "cuDeviceGetUuid_v2"];
/// `memory_used` of api/nvml/readings.toml.
const MEMORY_USED: u32 = 82;

/// A folder with both libraries.
struct Machine(TempDir);

impl Machine {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        std::fs::copy(installation().join("lib/device/libcuda.so.1"), path("real.so")).expect("copied");
        let functions = std::fs::read_to_string(repository().join("api/symbols.txt")).expect("the list");
        let functions = functions.lines().filter(|name| !name.is_empty() && !OWN.contains(name));
        let rows: String = functions.enumerate().map(|(index, name)| format!("X({index}, {name})\n")).collect();
        std::fs::write(path("symbols"), rows).expect("written");
        let text = |name: &str, path: PathBuf| format!("-D{name}=\"{}\"", path.display());
        let definitions = [text("SYMBOLS", path("symbols")), text("REAL", path("real.so"))];
        build("instance_driver", &path("driver.so"), &definitions);
        build("instance_management", &path("libnvidia-ml.so.1"), &[]);
        Self(folder)
    }

    fn daemon(&self, environment: &[(&str, &str)]) -> Floed {
        let (driver, folder) = (self.0.path().join("driver.so"), self.0.path().display().to_string());
        let mut all = vec![("LD_LIBRARY_PATH", folder.as_str())];
        all.extend(environment);
        Floed::start_on(&driver.display().to_string(), &[], &all)
    }
}

fn build(source: &str, library: &Path, definitions: &[String]) {
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]).args(definitions).arg("-o").arg(library);
    let built = cc.arg(repository().join(format!("tests/programs/{source}.c"))).arg("-ldl").status();
    assert!(built.expect("cc runs").success(), "{source}");
}

/// The name, the id and the GiB of each row of `floe gpus`.
fn offered(daemon: &Floed) -> Vec<(String, String, u64)> {
    let mut floe = Command::new(installation().join("bin/floe"));
    let output = floe.args(["gpus", "--json", "--on", daemon.unix()]).output().expect("floe runs");
    let rows: Vec<Value> = serde_json::from_slice(&output.stdout).expect("rows");
    let text = |row: &Value, what: &str| row[what].as_str().expect("text").to_owned();
    rows.iter()
        .enumerate()
        .map(|(index, row)| {
            assert_eq!((row["index"].as_u64(), row["kind"].as_str()), (Some(index as u64), Some("nvidia")));
            (text(row, "name"), text(row, "uuid"), row["memory"].as_u64().expect("bytes") >> 30)
        })
        .collect()
}

fn row(name: &str, uuid: &str, memory: u64) -> (String, String, u64) {
    (name.to_owned(), uuid.replace("MIG-", "GPU-"), memory)
}

/// The `CUDA_VISIBLE_DEVICES` of the daemon's workers, where this user may read that.
fn shown_to_workers(daemon: &Floed) -> Option<Vec<String>> {
    let of = |process: &u32| {
        let environment = std::fs::read_to_string(format!("/proc/{process}/environ")).ok()?;
        let value = environment.split('\0').find_map(|variable| variable.strip_prefix("CUDA_VISIBLE_DEVICES="));
        Some(value.unwrap_or_default().to_owned())
    };
    let mut shown = descendants(daemon.process()).iter().map(of).collect::<Option<Vec<_>>>()?;
    shown.sort_unstable();
    Some(shown)
}

#[test]
fn one_daemon_offers_each_instance_as_a_gpu_of_its_own() {
    let machine = Machine::new();
    let daemon = machine.daemon(&[]);
    let rows = [
        row("Stand-in MIG 1g.1gb", UNITS[0], 1),
        row("Stand-in MIG 2g.2gb", UNITS[1], 2),
        row("Stand-in", UNITS[2], 3),
    ];
    assert_eq!(offered(&daemon), rows);

    let program = machine.0.path().join("instances");
    floe_tests::compile_c("instances", &program);
    let devices = [0, 1, 2].map(|index| format!("{}:{index}", daemon.unix())).join(",");
    let mut floe = Command::new(installation().join("bin/floe"));
    floe.args(["run", "--on", &devices, "--"]).arg(&program).env_remove("CUDA_VISIBLE_DEVICES");
    let mut process = floe.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("floe runs");
    let lines = BufReader::new(process.stdout.take().expect("piped")).lines().take(4);
    let seen: Vec<_> = lines.map(|line| line.expect("text")).collect();
    let sees = ["Stand-in MIG 1g.1gb, 11, 1024 MiB, right", "Stand-in MIG 2g.2gb, 22, 2048 MiB, right"];
    assert_eq!(seen, [sees[0], sees[1], "Stand-in, bb, 3072 MiB, right", "pairs: 0, copy: right"]);
    if let Some(shown) = shown_to_workers(&daemon) {
        assert_eq!(shown, [UNITS[2], UNITS[0], UNITS[1]]);
    }
    drop(process.stdin.take());
    assert!(process.wait().expect("it ran").success());
}

#[test]
fn figures_of_an_instance_are_its_own_and_it_reaches_no_other() {
    let machine = Machine::new();
    let daemon = machine.daemon(&[]);
    let inquiry = Inquiry::open(daemon.unix(), &Credentials::default()).expect("it is there");
    let body = inquiry.ask(&ReadTelemetry { lasting: true, ..ReadTelemetry::default() }).expect("answered");
    let reply = ReadTelemetry::decode_reply(&body).expect("readings");
    let used = |gpu: &floe_wire::GpuTelemetry<'_>| {
        gpu.readings.iter().find(|reading| reading.number == MEMORY_USED).map(|reading| reading.value)
    };
    // The management library's handles of what is offered, and 1000.
    assert_eq!(reply.gpus.iter().map(used).collect::<Vec<_>>(), [Some(1003), Some(1004), Some(1002)]);
    // NVML_P2P_STATUS_OK would be 0.
    assert!(reply.gpus.iter().all(|gpu| gpu.peers.len() == 2), "{reply:?}");
    let mut pairs = reply.gpus.iter().flat_map(|gpu| &gpu.peers).flat_map(|peer| &peer.readings);
    assert!(pairs.all(|reading| reading.value != 0), "{reply:?}");
}

#[test]
fn the_operators_choice_restricts_what_is_offered() {
    let machine = Machine::new();
    let both = format!("{},{}", UNITS[1], UNITS[0]);
    let (first, second) = (row("Stand-in MIG 1g.1gb", UNITS[0], 1), row("Stand-in MIG 2g.2gb", UNITS[1], 2));
    let whole = row("Stand-in", UNITS[2], 3);
    for (choice, rows) in [
        (UNITS[1], vec![second.clone()]),
        (&both, vec![second.clone(), first.clone()]),
        ("0", vec![first, second]),
        (UNITS[2], vec![whole]),
    ] {
        assert_eq!(offered(&machine.daemon(&[("CUDA_VISIBLE_DEVICES", choice)])), rows, "{choice}");
    }
}

#[test]
fn a_choice_ends_at_an_entry_that_is_no_text() {
    let machine = Machine::new();
    let choice = OsString::from_vec([UNITS[1].as_bytes(), b",MIG-\xff,", UNITS[0].as_bytes()].concat());
    let mut worker = Command::new(installation().join("bin/floe-worker"));
    worker.arg("--probe").arg(machine.0.path().join("driver.so")).env("CUDA_VISIBLE_DEVICES", choice);
    let output = worker.env("LD_LIBRARY_PATH", machine.0.path()).output().expect("it runs");
    let probe: Value = serde_json::from_slice(&output.stdout).expect("what it has seen");
    let alone: Vec<_> = probe["gpus"].as_array().expect("a list").iter().map(|gpu| &gpu["alone"]).collect();
    assert_eq!(alone, [UNITS[1]], "{probe}");
}
