//! What measures floe works itself: the measured programs run on the CPU device, and every Python program is Python.

use std::path::Path;
use std::process::{Command, Output};

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
    for way in ["native", "unix", "tcp"] {
        assert!(record["samples"]["launch.caller"][way][0].is_f64(), "no sample of {way}: {record}");
    }
    assert!(out.path().join("ratios.svg").is_file());
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
