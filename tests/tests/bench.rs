//! The benchmarks themselves work: the measured programs run on the CPU device, and every Python program parses.

use std::collections::BTreeSet;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use floe_tests::Floed;
use serde_json::Value;

/// The folder `cargo xtask bench --pack` lays out.
fn floe_bench(arguments: &[&str]) -> Output {
    let executable = floe_tests::made_folder("FLOE_BENCH", "bench").join("bin/floe-bench");
    Command::new(executable).args(arguments).args(["--device-library", "cpu"]).output().expect("floe-bench runs")
}

#[test]
fn single_calls_are_measured_by_every_way() {
    let out = tempfile::tempdir().expect("a temporary folder");
    let only = ["speed", "--only", "launches,events,allocations", "--rounds", "1", "--quick", "--out"];
    let output = floe_bench(&[&only[..], &[out.path().to_str().expect("the path is text")]].concat());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("launch + synchronize") && text.contains("event query"), "{text}");
    assert!(!text.contains("failed:"), "{text}");
    let record = std::fs::read_to_string(out.path().join("results.json")).expect("it was written");
    let record: Value = serde_json::from_str(&record).expect("it is JSON");
    for way in ["native", "shm", "unix", "tcp"] {
        assert!(record["samples"]["launch.caller"][way][0].is_f64(), "no sample of {way}: {record}");
    }
    assert!(out.path().join("ratios.svg").is_file());
}

#[test]
fn a_run_that_is_stopped_leaves_the_rounds_it_measured() {
    let out = tempfile::tempdir().expect("a temporary folder");
    let file = |name: &str| out.path().join(name);
    let mut run = Command::new(floe_tests::made_folder("FLOE_BENCH", "bench").join("bin/floe-bench"))
        .args(["speed", "--device-library", "cpu", "--only", "launches", "--rounds", "50", "--quick", "--out"])
        .arg(out.path())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .expect("floe-bench runs");
    let begun = Instant::now();
    while !file("ratios.svg").exists() {
        assert!(begun.elapsed() < Duration::from_secs(300), "no round comes to its end");
        std::thread::sleep(Duration::from_millis(20));
    }
    // Its daemon, too, as from a terminal.
    let group = format!("-{}", run.id());
    let stopped = Command::new("kill").args(["-TERM", "--", &group]).status().expect("kill runs");
    assert!(stopped.success() && !run.wait().expect("it is ours").success(), "it did not run until it was stopped");
    let record = std::fs::read_to_string(file("results.json")).expect("it was written");
    let record: Value = serde_json::from_str(&record).expect("it is whole");
    let rounds = record["rounds"].as_u64().expect("a number");
    assert!((1..50).contains(&rounds), "{record}");
    assert_eq!(list(&record["samples"]["launch.caller"]["tcp"]).len() as u64, rounds, "{record}");
    let table = std::fs::read_to_string(file("table.txt")).expect("it was written");
    assert!(table.contains(" of 50 rounds") && table.contains("launch + synchronize"), "{table}");
}

#[test]
fn the_way_to_a_gpu_is_measured_by_every_transport_and_through_an_emulated_network() {
    let out = tempfile::tempdir().expect("a temporary folder");
    let file = |name: &str| out.path().join(name).to_str().expect("the path is text").to_owned();
    let output = Command::new(floe_tests::made_folder("FLOE_BENCH", "bench").join("bin/floe"))
        .args(["bench", "link", "--device-library", "cpu", "--quick", "--largest", "64K", "--rtt", "2ms"])
        .args(["--json", &file("link.json"), "--svg", &file("link.svg")])
        .output()
        .expect("floe runs");
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && text.contains("launch + synchronize"), "{text}{errors}");
    let record = std::fs::read_to_string(file("link.json")).expect("it was written");
    let record: Value = serde_json::from_str(&record).expect("it is JSON");
    let ways = record["ways"].as_array().expect("a list");
    let count = |way: &Value, what: &str| way[what].as_array().map_or(0, Vec::len);
    let is_far = |way: &Value| way["way"].as_str().is_some_and(|name| name.ends_with(" far"));
    // 4 B to 64 KiB in powers of four, each by four kinds of copy; of programs that leave out waits, steps alone.
    assert!(ways.iter().all(|way| count(way, "points") == if is_far(way) { 0 } else { 32 }), "{record}");
    assert!(ways.iter().all(|way| count(way, "steps") == 2), "{record}");
    assert_eq!(
        ways.iter().filter(|way| is_far(way)).count(),
        5,
        "clear, tcp and tls, two of them far away, too: {record}"
    );
    let launch = |name: &str| ways.iter().find(|way| way["way"] == name).and_then(|way| way["launch"].as_f64());
    assert!(["native", "shm", "unix", "clear", "tcp", "tls"].iter().all(|name| launch(name).is_some()), "{record}");
    let [near, far] = ["tcp", "tcp +2000µs"].map(|name| launch(name).expect("measured"));
    assert!(far > near && far > 0.001, "two milliseconds away a wait takes longer: {near} and {far}");
    assert!(std::fs::read(file("link.svg")).expect("it was drawn").starts_with(b"<svg "));
}

#[test]
fn large_copies_are_compared_with_as_many_sockets_as_carry_them() {
    let record = link_with_two_bulk_connections();
    let [no, share, rate] = [None, Some(0.9), Some(12e9)];
    // The limits of copies of 64 MiB, one at a time and in a row. Over a Unix socket they hold for 16 MiB as well; over
    // TCP there are none.
    for (way, connections, sockets, [alone, in_a_row]) in [
        ("unix", &[1][..], "unix raw", [[share, no], [share, no]]),
        ("clear", &[1, 2, 4], "tcp raw ×2", [[no, no], [share, no]]),
        ("clear ×4", &[1, 4], "tcp raw ×4", [[no, rate], [share, rate]]),
    ] {
        let found = of(&record["ways"], way).remove(0);
        let measured = list(&found["raw"]).iter().map(|raw| raw["connections"].as_u64().expect("a number"));
        assert_eq!(measured.clone().collect::<BTreeSet<_>>(), connections.iter().copied().collect(), "{way}: {record}");
        // 64 KiB to 64 MiB in powers of four.
        assert_eq!(measured.count(), 6 * connections.len(), "{way}: {record}");
        let ratios = of(&record["ratios"], way);
        assert!(ratios.iter().all(|ratio| ratio["raw"] == sockets && ratio["ratio"].is_f64()), "{way}: {record}");
        let limits =
            |ratio: &Value| (ratio["bytes"].as_u64(), ["least_ratio", "least_rate"].map(|name| ratio[name].as_f64()));
        let of_16 = if way == "unix" { [share, no] } else { [no, no] };
        for (is_in_a_row, of_64, kinds) in [(false, alone, 4), (true, in_a_row, 2)] {
            let found = ratios.iter().filter(|ratio| ratio["in_a_row"] == is_in_a_row).map(|ratio| limits(ratio));
            let of_a_copy = [(Some(16 << 20), of_16), (Some(64 << 20), of_64)];
            assert_eq!(found.collect::<Vec<_>>(), of_a_copy.repeat(kinds), "{way}, in a row: {is_in_a_row}");
        }
    }
    assert!(of(&record["ratios"], "shm").is_empty(), "rings have no socket: {record}");
}

/// The output of `floe bench link` where a session has two bulk connections by default.
fn link_with_two_bulk_connections() -> Value {
    let out = tempfile::tempdir().expect("a temporary folder");
    let file = out.path().join("link.json");
    let output = Command::new(floe_tests::made_folder("FLOE_BENCH", "bench").join("bin/floe"))
        .args(["bench", "link", "--device-library", "cpu", "--quick", "--no-native", "--largest", "64M", "--json"])
        .arg(&file)
        .env("FLOE_BULK_CONNECTIONS", "2")
        .output()
        .expect("floe runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_str(&std::fs::read_to_string(file).expect("it was written")).expect("it is JSON")
}

/// A list's figures of one transport.
fn of<'a>(entries: &'a Value, way: &str) -> Vec<&'a Value> {
    list(entries).iter().filter(|entry| entry["way"] == way).collect()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

#[test]
fn a_program_runs_behind_an_emulated_network_that_ends_with_it() {
    let server = Floed::start();
    let bin = floe_tests::installation().join("bin");
    let output = Command::new(bin.join("floe"))
        .args([
            "run",
            "--no-check",
            "--rtt",
            "1ms",
            "--bandwidth",
            "1Gb/s",
            "--on",
            &format!("{}:0", server.tcp()),
            "--",
        ])
        .arg(bin.join("floe-demo"))
        .env("FLOE_TOKEN_FILE", server.token_file())
        .output()
        .expect("floe runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let begun = Instant::now();
    while is_running(&["relay", "--to", server.tcp()]) {
        assert!(begun.elapsed() < Duration::from_secs(300), "the relay outlives its program");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn the_emulated_network_leads_to_no_unix_socket() {
    let server = Floed::start();
    for address in [server.unix(), &server.shm(), server.unix().trim_start_matches("unix://")] {
        let output = Command::new(floe_tests::installation().join("bin/floe"))
            .args(["run", "--rtt", "1ms", "--on", &format!("{address}:0"), "--", "true"])
            .output()
            .expect("floe runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains("Unix socket") && said.contains(address), "{said}");
        assert!(!is_running(&["relay", "--to", address]), "whoever reaches its port would be the socket's user");
    }
}

#[test]
fn vgpus_of_one_server_share_the_emulated_network() {
    let server = Floed::start();
    let devices = [server.tcp(), server.tcp().trim_start_matches("tcp://")].map(|address| format!("{address}:0"));
    let output = Command::new(floe_tests::installation().join("bin/floe"))
        .env("FLOE_TOKEN_FILE", server.token_file())
        .args([
            "run",
            "--no-check",
            "--bandwidth",
            "1Gb/s",
            "--on",
            &devices.join(","),
            "--",
            "printenv",
            "FLOE_DEVICES",
        ])
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
