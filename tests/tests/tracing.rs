//! Programs with `floe run --trace`. In: examples and a program with a profiler of its own; a daemon on each way to it. Out:
//! what stands in the file: calls, waits within them, kernels by their names with the calls that launched them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use floe_tests::{Floed, Linkage, Program, example, installation, repository};
use serde_json::Value;

/// A trace's events.
struct Trace(Vec<Value>);

impl Trace {
    fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).expect("there is a trace");
        Self(serde_json::from_str(&text).expect("an array of JSON"))
    }

    fn of<'a>(&'a self, phase: &'a str, category: &'a str) -> impl Iterator<Item = &'a Value> {
        self.0.iter().filter(move |event| event["ph"] == phase && event["cat"] == category)
    }

    fn names<'a>(&'a self, category: &'a str) -> BTreeSet<&'a str> {
        self.of("X", category).filter_map(|event| event["name"].as_str()).collect()
    }

    fn arrows(&self, phase: &str) -> BTreeSet<u64> {
        self.of(phase, "floe").filter_map(|event| event["id"].as_u64()).collect()
    }
}

/// Row, beginning and end of an event, in nanoseconds.
fn place(event: &Value) -> (u64, u64, u64) {
    let number = |name: &str| event[name].as_f64().expect("a number");
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "times of a program that just ran")]
    let nanoseconds = |micros: f64| (micros * 1e3).round() as u64;
    let begin = nanoseconds(number("ts"));
    (event["tid"].as_u64().expect("a row"), begin, begin + nanoseconds(number("dur")))
}

fn traced(program: Program, path: &Path) -> Trace {
    let outcome = program.flag(&format!("--trace={}", path.display())).run();
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{}", outcome.stdout);
    Trace::read(path)
}

fn is_a_trace_of_vector_add(trace: &Trace) {
    let calls = trace.names("call");
    for name in ["attach", "cuLaunchKernel", "cuMemcpyHtoD_v2", "cuDeviceGetAttribute"] {
        assert!(calls.contains(name), "{name}: {calls:?}");
    }
    let kernels = trace.names("kernel");
    let signature = "vector_add(float const*, float const*, float*, unsigned long)";
    assert_eq!(kernels.iter().copied().collect::<Vec<_>>(), [signature]);
    assert!(trace.names("copy").contains("copy to the host"), "{:?}", trace.names("copy"));
    let (from, to) = (trace.arrows("s"), trace.arrows("f"));
    assert!(!to.is_empty() && to.is_subset(&from), "{from:?} {to:?}");
    // Each wait is one of a call's.
    let calls: Vec<_> = trace.of("X", "call").map(place).collect();
    let waits: Vec<_> = trace.of("X", "wait").map(place).collect();
    let is_within = |(row, begin, end): &(u64, u64, u64)| {
        calls.iter().any(|(of, from, to)| of == row && from <= begin && end <= &(to + 1))
    };
    assert!(!waits.is_empty() && waits.iter().all(is_within), "{waits:?} {calls:?}");
    assert!(trace.0.iter().any(|event| event["ph"] == "C" && event["name"] == "link"));
    let named =
        |name: &str| trace.0.iter().any(|event| event["args"]["name"].as_str().is_some_and(|it| it.contains(name)));
    assert!(["vectorAdd", "GPU 0 ", "stream "].into_iter().all(named));
}

#[test]
fn a_trace_has_calls_with_their_waits_and_kernels_with_their_calls() {
    let (daemon, folder) = (Floed::start(), tempfile::tempdir().expect("a temporary folder"));
    for address in [daemon.unix().to_owned(), daemon.tcp().to_owned(), daemon.shm()] {
        let program = example("vectorAdd", Linkage::Shared, &[]).on(&daemon, &address);
        // A second run takes the place of the first one's file.
        is_a_trace_of_vector_add(&traced(program, &folder.path().join("run.json")));
    }
    assert_eq!(std::fs::read_dir(folder.path()).expect("it is there").count(), 1);
    daemon.wait_for_workers(0);
}

#[test]
fn a_program_and_its_profiler_have_a_trace_too() {
    let (daemon, folder) = (Floed::start(), tempfile::tempdir().expect("a temporary folder"));
    let built = folder.path().join("activities");
    let source = repository().join("tests/programs/activities.c");
    let compiled = Command::new("cc").args(["-O1", "-o"]).arg(&built).arg(source).arg("-ldl").status();
    assert!(compiled.expect("cc runs").success());
    let trace = traced(Program::new(built, &[]).on(&daemon, daemon.unix()), &folder.path().join("run.json"));
    assert!(["kernel", "copy", "fill"].iter().all(|category| !trace.names(category).is_empty()));
}

#[test]
fn a_server_that_records_nothing_leaves_calls_and_waits() {
    let (daemon, folder) =
        (Floed::start_with(&["--cupti", "off"], &[]), tempfile::tempdir().expect("a temporary folder"));
    let program = example("vectorAdd", Linkage::Shared, &[]).on(&daemon, daemon.unix());
    let trace = traced(program, &folder.path().join("run.json"));
    assert!(trace.names("kernel").is_empty() && trace.names("call").contains("cuLaunchKernel"));
}

#[test]
fn processes_have_a_file_each_and_those_that_are_killed_leave_what_they_did() {
    let (daemon, folder) = (Floed::start(), tempfile::tempdir().expect("a temporary folder"));
    let path = folder.path().join("run.json");
    let work = |enough: &Path| {
        let file = enough.display().to_string();
        let program = example("steadyWork", Linkage::Shared, &["until", &file]).on(&daemon, daemon.unix());
        program.variable("FLOE_TRACE_FILE", &path.display().to_string()).start()
    };
    let mut children: BTreeMap<u32, _> = BTreeMap::new();
    let mut path_of = |place: &dyn Fn(u32) -> PathBuf| {
        let mut child = work(&folder.path().join("never"));
        let own = place(child.id());
        let has_kernels = || std::fs::read_to_string(&own).is_ok_and(|text| text.contains(r#""cat":"kernel""#));
        let begin = std::time::Instant::now();
        while !has_kernels() {
            assert!(begin.elapsed().as_secs() < 300, "waited for kernels in {}", own.display());
            assert!(child.try_wait().expect("our child").is_none(), "it runs");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        children.insert(child.id(), child);
        own
    };
    let first = path_of(&|_| path.clone());
    let second = path_of(&|process| folder.path().join(format!("run.{process}.json")));
    for child in children.values_mut() {
        child.kill().and_then(|()| child.wait()).expect("our child");
    }
    for file in [first, second] {
        let text = std::fs::read_to_string(&file).expect("there is a trace");
        let whole = text.rsplit_once(",\n").expect("more than one line").0;
        let all: Vec<Value> = serde_json::from_str(&format!("{whole}]")).expect("an array that was not closed");
        assert!(all.iter().any(|event| event["name"] == "cuLaunchKernel"));
    }
    daemon.wait_for_workers(0);
}

/// Libraries call the driver when the process ends, and on threads without a context.
#[test]
fn calls_at_the_end_of_a_process_and_without_a_context_are_as_without_a_trace() {
    let (daemon, folder) = (Floed::start(), tempfile::tempdir().expect("a temporary folder"));
    let ends = folder.path().join("ends");
    let mut built = Command::new("cc");
    built.args(["-O1", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&ends);
    built.arg(repository().join("tests/programs/ends.c")).args(["-ldl", "-lpthread"]);
    assert!(built.status().expect("cc runs").success());
    for address in [daemon.unix(), daemon.tcp()] {
        let plain = Program::new(ends.clone(), &[]).on(&daemon, address).run();
        assert_eq!((plain.code, plain.stdout.as_str()), (Some(0), "right\n"), "{}", plain.stderr);
        traced(Program::new(ends.clone(), &[]).on(&daemon, address), &folder.path().join("run.json"));
    }
}

#[test]
fn a_trace_that_cannot_be_written_is_refused_at_once() {
    let daemon = Floed::start();
    let mut command = Command::new(installation().join("bin/floe"));
    command.args(["run", "--trace", "/nowhere/run.json", "--on", &format!("{}:0", daemon.unix()), "--"]);
    let program = floe_tests::built_examples().join("shared/vectorAdd");
    let mut child = command.arg(program).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().expect("floe runs");
    let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
    let said = lines.next().expect("a line").expect("text");
    assert!(said.contains("the trace cannot be written: /nowhere/run.json: No such file"), "{said}");
    assert!(!child.wait().expect("our child").success());
}

/// Who forgets the file's name names the program in its place.
#[test]
fn a_file_that_is_no_trace_is_not_overwritten() {
    let (daemon, folder) = (Floed::start(), tempfile::tempdir().expect("a temporary folder"));
    let script = folder.path().join("train.py");
    std::fs::write(&script, "print()").expect("written");
    for place in [script.as_path(), folder.path(), Path::new("/dev/null")] {
        let program = example("vectorAdd", Linkage::Shared, &[]).on(&daemon, daemon.unix());
        let outcome = program.flag(&format!("--trace={}", place.display())).run();
        let words = format!("this is no trace, and is not overwritten: {}", place.display());
        assert!(outcome.code != Some(0) && outcome.stderr.contains(&words), "{}", outcome.stderr);
    }
    assert_eq!(std::fs::read_to_string(&script).expect("it is there"), "print()");
    assert!(Path::new("/dev/null").exists());
}
