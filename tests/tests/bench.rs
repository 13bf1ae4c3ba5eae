//! What measures floe works itself: the measured programs run on the CPU device, and every Python program is Python.

use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use floe_tests::Floed;

/// The folder `cargo xtask bench --pack` lays out.
fn floe_bench(arguments: &[&str]) -> Output {
    let executable = floe_tests::made_folder("FLOE_BENCH", "bench").join("bin/floe-bench");
    Command::new(executable).args(arguments).args(["--device-library", "cpu"]).output().expect("floe-bench runs")
}

#[test]
fn single_calls_are_measured_by_every_way() {
    let out = tempfile::tempdir().expect("a temporary folder");
    let only = ["speed", "--only", "context,launches,events,allocations", "--rounds", "1", "--quick", "--out"];
    let output = floe_bench(&[&only[..], &[out.path().to_str().expect("the path is text")]].concat());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("launch + synchronize") && text.contains("event query"), "{text}");
    assert!(!text.contains("failed:"), "{text}");
    let record = std::fs::read_to_string(out.path().join("results.json")).expect("it was written");
    let record: serde_json::Value = serde_json::from_str(&record).expect("it is JSON");
    for way in ["native", "shm", "unix", "tcp"] {
        assert!(record["samples"]["launch.caller"][way][0].is_f64(), "no sample of {way}: {record}");
    }
    assert!(out.path().join("ratios.svg").is_file());
}

#[test]
fn the_way_to_a_gpu_is_measured_by_every_transport_and_through_an_emulated_network() {
    let out = tempfile::tempdir().expect("a temporary folder");
    let file = |name: &str| out.path().join(name).to_str().expect("the path is text").to_owned();
    let output = Command::new(floe_tests::made_folder("FLOE_BENCH", "bench").join("bin/floe"))
        .args(["bench", "link", "--device-library", "cpu", "--quick", "--largest", "64K", "--rtt", "2ms"])
        .args(["--json", &file("link.json"), "--png", &file("link.png")])
        .output()
        .expect("floe runs");
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && text.contains("launch + synchronize"), "{text}{errors}");
    let record = std::fs::read_to_string(file("link.json")).expect("it was written");
    let record: serde_json::Value = serde_json::from_str(&record).expect("it is JSON");
    let ways = record["ways"].as_array().expect("a list");
    // 4 B to 64 KiB in powers of four, each by four kinds of copy.
    assert!(ways.iter().all(|way| way["points"].as_array().is_some_and(|points| points.len() == 32)), "{record}");
    let launch = |name: &str| ways.iter().find(|way| way["way"] == name).and_then(|way| way["launch"].as_f64());
    assert!(["native", "shm", "unix", "tcp"].iter().all(|name| launch(name).is_some()), "{record}");
    let [near, far] = ["tcp", "tcp +2000µs"].map(|name| launch(name).expect("measured"));
    assert!(far > near && far > 0.001, "two milliseconds away a wait takes longer: {near} and {far}");
    assert!(std::fs::read(file("link.png")).expect("it was drawn").starts_with(b"\x89PNG"));
}

#[test]
fn a_program_runs_behind_an_emulated_network_that_ends_with_it() {
    let server = Floed::start();
    let bin = floe_tests::installation().join("bin");
    let output = Command::new(bin.join("floe"))
        .args(["run", "--rtt", "1ms", "--bandwidth", "1Gb/s", "--on", &format!("{}:0", server.tcp()), "--"])
        .arg(bin.join("floe-demo"))
        .env("FLOE_TOKEN_FILE", server.token_file())
        .output()
        .expect("floe runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let begun = Instant::now();
    while is_running(&["relay", "--to", server.tcp()]) {
        assert!(begun.elapsed() < Duration::from_secs(30), "the relay outlives its program");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn vgpus_of_one_server_share_the_emulated_network() {
    let server = Floed::start();
    let devices = [server.tcp(), server.tcp().trim_start_matches("tcp://")].map(|address| format!("{address}:0"));
    let output = Command::new(floe_tests::installation().join("bin/floe"))
        .args(["run", "--bandwidth", "1Gb/s", "--on", &devices.join(","), "--", "printenv", "FLOE_DEVICES"])
        .output()
        .expect("floe runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let relayed: Vec<&str> = text.trim().split(',').collect();
    assert!(relayed.len() == 2 && relayed[0] == relayed[1], "one relay for both: {text}");
}

/// Whether a process has these arguments, one after the other.
fn is_running(arguments: &[&str]) -> bool {
    let wanted = arguments.join("\0");
    let processes = std::fs::read_dir("/proc").expect("processes are listed").filter_map(Result::ok);
    let mut lines = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    lines.any(|line| String::from_utf8_lossy(&line).contains(&wanted))
}

#[test]
fn an_unknown_section_is_named() {
    let output = floe_bench(&["speed", "--only", "weather"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("weather"));
}

#[test]
fn every_python_program_is_python() {
    for folder in ["bench/programs", "tests/frameworks"] {
        let sources = std::fs::read_dir(floe_tests::repository().join(folder)).expect("the folder is there");
        let sources: Vec<_> =
            sources.map(|entry| entry.expect("an entry").path()).filter(|path| is_python(path)).collect();
        assert!(!sources.is_empty(), "{folder} holds no program");
        for source in sources {
            let script = "import ast, sys; ast.parse(open(sys.argv[1]).read())";
            let status = Command::new("python3").args(["-c", script]).arg(&source).status().expect("python3 runs");
            assert!(status.success(), "{}", source.display());
        }
    }
}

fn is_python(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "py")
}
