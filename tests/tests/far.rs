//! Programs with `floe run --far`: they wait once a step, and see the same numbers.
//! In: a program that makes steps as training programs do, and examples; a daemon by TCP. Out: counts of waits, right numbers, an
//! error that comes late and is told.

use std::path::PathBuf;

use floe_tests::{Floed, Linkage, Outcome, Program, compile_c, example};
use tempfile::TempDir;

struct Stage {
    daemon: Floed,
    folder: TempDir,
}

impl Stage {
    fn new() -> Self {
        let stage = Self { daemon: Floed::start(), folder: tempfile::tempdir().expect("a temporary folder") };
        compile_c("steps", &stage.program());
        stage
    }

    fn program(&self) -> PathBuf {
        self.folder.path().join("steps")
    }

    /// So many steps of a kind, by TCP or at another address.
    fn steps(&self, address: &str, flags: &[&str], steps: u64, mode: &str) -> Outcome {
        let program = Program::new(self.program(), &[&steps.to_string(), mode]).on(&self.daemon, address);
        let program = flags.iter().fold(program, |program, flag| program.flag(flag));
        program.variable("FLOE_STATS", "json").variable("XDG_CACHE_HOME", &self.cache()).run()
    }

    fn cache(&self) -> String {
        self.folder.path().join("cache").display().to_string()
    }

    /// Waits per step, and waits left out.
    fn waits(&self, flags: &[&str], mode: &str) -> (u64, u64) {
        let of = |steps| {
            let outcome = self.steps(self.daemon.tcp(), flags, steps, mode);
            assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), "right\n"), "{}", outcome.stderr);
            let statistics = outcome.statistics();
            (statistics.waits(), statistics.waits_left_out)
        };
        let (few, many) = (of(10), of(20));
        assert_eq!((many.0 - few.0) % 10, 0, "{mode}: {few:?} {many:?}");
        ((many.0 - few.0) / 10, (many.1 - few.1) / 10)
    }
}

#[test]
fn a_step_waits_for_its_number_and_for_nothing_else() {
    let stage = Stage::new();
    assert_eq!(stage.waits(&[], "pinned"), (1, 0));
    assert_eq!(stage.waits(&["--far"], "pinned"), (1, 0));
    assert_eq!(stage.waits(&[], "pageable"), (3, 0));
    assert_eq!(stage.waits(&["--far"], "pageable"), (1, 2));
    // Words that kernels could write and nobody reads.
    assert_eq!(stage.waits(&["--far"], "flagged"), (1, 2));
}

#[test]
fn what_was_not_waited_for_is_over_for_all_that_comes_later() {
    let stage = Stage::new();
    for (mode, left_out) in [("streams", 4), ("questions", 1)] {
        let outcome = stage.steps(stage.daemon.tcp(), &["--far"], 5, mode);
        assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), "right\n"), "{mode}: {}", outcome.stderr);
        let statistics = outcome.statistics();
        assert!(statistics.waits_left_out >= 5 * left_out, "{mode}: {statistics:?}");
        // Within a machine an answer is quick, and nothing is left out.
        let near = stage.steps(stage.daemon.unix(), &["--far"], 5, mode);
        assert_eq!((near.code, near.statistics().waits_left_out), (Some(0), 0), "{mode}: {}", near.stderr);
    }
}

#[test]
fn words_that_kernels_and_program_share_are_as_without() {
    let stage = Stage::new();
    for flags in [["--far"].as_slice(), &[]] {
        let outcome = stage.steps(stage.daemon.tcp(), flags, 200, "words");
        assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), "right\n"), "{flags:?}: {}", outcome.stderr);
        // Some of them before copies name the memory: those that follow wait.
        let left_out = outcome.statistics().waits_left_out;
        assert!(if flags.is_empty() { left_out == 0 } else { left_out > 200 }, "{left_out}");
    }
}

/// What one thread waits for is not over for another one that has issued more.
/// Handlers, children, functions on streams, images in such memory: each hung or ended the program once.
#[test]
fn closed_words_are_opened_whoever_meddles() {
    let stage = Stage::new();
    let program = stage.folder.path().join("words");
    compile_c("words", &program);
    for mode in ["handler", "fork", "host", "image"] {
        for far in [false, true] {
            let run = Program::new(program.clone(), &[mode]).on(&stage.daemon, stage.daemon.tcp());
            let outcome = if far { run.flag("--far") } else { run }.variable("XDG_CACHE_HOME", &stage.cache()).run();
            assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), "right\n"), "{mode}: {}", outcome.stderr);
        }
    }
}

/// What a lost server's kernel would have written is nobody's to read.
#[test]
fn a_word_that_was_not_written_is_a_fault_and_no_number() {
    let stage = Stage::new();
    let program = stage.folder.path().join("words");
    compile_c("words", &program);
    let command = format!("pkill -KILL -P {}", stage.daemon.process());
    let run = Program::new(program, &["lost", &command]).on(&stage.daemon, stage.daemon.tcp()).flag("--far");
    let outcome = run.variable("XDG_CACHE_HOME", &stage.cache()).run();
    assert_eq!(outcome.stdout, "", "{}", outcome.stderr);
    assert_ne!(outcome.code, Some(0));
    assert!(outcome.stderr.contains("host memory is not what the program takes it for (--far)"), "{}", outcome.stderr);
}

#[test]
fn threads_contexts_and_streams_that_stand_are_as_without() {
    let stage = Stage::new();
    for (steps, mode) in [(500, "threads"), (30, "contexts"), (1, "stands")] {
        for flags in [["--far"].as_slice(), &[]] {
            let outcome = stage.steps(stage.daemon.tcp(), flags, steps, mode);
            assert_eq!(
                (outcome.code, outcome.stdout.as_str()),
                (Some(0), "right\n"),
                "{mode} {flags:?}: {}",
                outcome.stderr
            );
        }
    }
}

#[test]
fn an_error_comes_late_and_is_told() {
    let stage = Stage::new();
    let near = stage.steps(stage.daemon.tcp(), &[], 1, "fault");
    assert!(near.stdout.starts_with("synchronize: 700\n"), "{}", near.stdout);
    // Whether it is here before the program's end or not.
    for (steps, mode) in [(1, "fault"), (2, "fault"), (1, "reset"), (2, "reset")] {
        let far = stage.steps(stage.daemon.tcp(), &["--far"], steps, mode);
        // On a busy machine the answer may come before the call returns, which then says so.
        let in_time = far.stdout == "synchronize: 700\nright\n";
        assert!(in_time || far.stdout == "synchronize: 0\nright\n", "{mode}: {}{}", far.stdout, far.stderr);
        assert_eq!(far.code, Some(0), "{mode}: {}", far.stderr);
        let told =
            "floe: work that a synchronization has not waited for (--far) has failed: CUDA_ERROR_ILLEGAL_ADDRESS";
        assert_eq!(far.stderr.starts_with(told), !in_time, "{mode}: {}", far.stderr);
    }
}

#[test]
fn examples_see_the_same_numbers() {
    let (daemon, cache) = (Floed::start(), tempfile::tempdir().expect("a temporary folder"));
    let cache = cache.path().display().to_string();
    for name in ["streams", "graphs", "threads", "callbacks", "memory", "pageable", "graphMemory", "arrayCopies"] {
        let outcome = example(name, Linkage::Shared, &[])
            .on(&daemon, daemon.tcp())
            .flag("--far")
            .variable("XDG_CACHE_HOME", &cache)
            .run();
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{name}: {}", outcome.stdout);
    }
}

#[test]
fn a_second_start_asks_for_all_kernels_of_a_library_at_once() {
    let (daemon, cache) = (Floed::start(), tempfile::tempdir().expect("a temporary folder"));
    let cache = cache.path().display().to_string();
    let run = |flag: Option<&str>| {
        let program = example("sorting", Linkage::Shared, &[]).on(&daemon, daemon.tcp());
        let program = flag.into_iter().fold(program, Program::flag);
        let outcome = program.variable("FLOE_STATS", "json").variable("XDG_CACHE_HOME", &cache).run();
        assert_eq!(outcome.code, Some(0), "{}{}", outcome.stdout, outcome.stderr);
        outcome.statistics()
    };
    run(None);
    assert!(!PathBuf::from(&cache).join("floe").exists(), "nothing is written without --far");
    // The server has the library from here on.
    let (first, second) = (run(Some("--far")), run(Some("--far")));
    println!("{} {}", first.waits(), second.waits());
    assert!(second.waits() + 6 <= first.waits(), "{first:?} {second:?}");
    // A small library is sent without the question whether the server has it.
    assert_eq!((first.modules_sent, first.modules_known), (1, 0), "{first:?}");
    assert_eq!((second.modules_sent, second.modules_known), (0, 1), "{second:?}");
    let files = std::fs::read_dir(PathBuf::from(&cache).join("floe/starts")).expect("a folder").count();
    assert_eq!(files, 1);
}
