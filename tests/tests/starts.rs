//! Starts of a program with `floe run --far`: what an earlier one used is there when the program brings it.
//! In: a program that starts as training programs do, a daemon by TCP, a cache between starts. Out: counts of waits, and right numbers
//! whatever the cache says.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use floe_tests::{Cutter, Floed, Outcome, Program, Statistics, compile_c, copy_executable};
use tempfile::TempDir;

struct Stage {
    daemon: Floed,
    folder: TempDir,
}

impl Stage {
    fn new() -> Self {
        let daemon = Floed::start_with(&["--grace", "60"], &[]);
        let stage = Self { daemon, folder: tempfile::tempdir().expect("a temporary folder") };
        compile_c("start", &stage.folder.path().join("start"));
        stage
    }

    fn run(&self, address: &str, flags: &[&str], mode: &str) -> Outcome {
        self.run_program("start", address, flags, mode)
    }

    fn run_program(&self, name: &str, address: &str, flags: &[&str], mode: &str) -> Outcome {
        let program = Program::new(self.folder.path().join(name), &[mode]).on(&self.daemon, address);
        let program = flags.iter().fold(program, |program, flag| program.flag(flag));
        let cache = self.folder.path().join("cache").display().to_string();
        program.variable("FLOE_STATS", "json").variable("XDG_CACHE_HOME", &cache).run()
    }

    /// A start that is right.
    fn start(&self, flags: &[&str], mode: &str) -> Statistics {
        self.start_program("start", flags, mode)
    }

    fn start_program(&self, name: &str, flags: &[&str], mode: &str) -> Statistics {
        let outcome = self.run_program(name, self.daemon.tcp(), flags, mode);
        assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), "right\n"), "{mode}: {}", outcome.stderr);
        outcome.statistics()
    }

    /// The file of the program's starts.
    fn file(&self) -> PathBuf {
        let folder = self.folder.path().join("cache/floe/starts");
        let mut files = std::fs::read_dir(folder).expect("a folder");
        files.next().expect("a file").expect("a file").path()
    }
}

/// Of the second start's three waits two are the program's catching up, and one is its number.
#[test]
fn a_second_start_waits_for_what_is_new() {
    let stage = Stage::new();
    let near = stage.start(&[], "plain");
    let (first, second) = (stage.start(&["--far"], "plain"), stage.start(&["--far"], "plain"));
    println!("waits: {} without, {} at a first start, {} at a second", near.waits(), first.waits(), second.waits());
    // What is small is sent to a first one, and asked for ahead by a second.
    let modules = |statistics: &Statistics| (statistics.modules_sent, statistics.modules_known);
    assert_eq!((modules(&first), modules(&second)), ((4, 0), (0, 4)));
    assert_eq!(second.waits(), 3, "{second:?}");
}

/// Libraries are the same for many programs: what another one found and asked is asked for with each.
#[test]
fn a_first_start_asks_for_what_another_program_used_of_its_libraries() {
    let stage = Stage::new();
    let first = stage.start(&["--far"], "plain");
    let [program, other] = ["start", "other"].map(|name| stage.folder.path().join(name));
    copy_executable(&program, &other);
    // It lets answers arrive before it needs them, so that their number is the same on every machine.
    let others_first = stage.start_program("other", &["--far"], "slow");
    println!("waits: {} of a first start, {} of another program's", first.waits(), others_first.waits());
    // To catch up once, and twice for each library; the loads of two texts, which are compiled at once; two blocks; the number.
    assert!(others_first.waits() <= 1 + 2 * 4 + 2 + 2 + 1, "{others_first:?}");
    assert!(first.waits() > 2 * others_first.waits(), "{first:?}");
}

#[test]
fn a_start_that_is_another_one_is_right() {
    let stage = Stage::new();
    for mode in ["plain", "changed", "plain", "other", "threads", "reset", "changed", "reset", "plain"] {
        stage.start(&["--far"], mode);
    }
}

#[test]
fn whatever_the_file_says_the_numbers_are_right() {
    let stage = Stage::new();
    stage.start(&["--far"], "plain");
    let file = stage.file();
    let said = std::fs::read_to_string(&file).expect("a record");
    let line = |word: &str| said.lines().find(|line| line.starts_with(word)).expect("a line").to_owned() + "\n";
    let libraries: Vec<&str> = said.lines().filter(|line| line.starts_with("library")).collect();
    let source = |line: &str| line.rsplit(' ').next().expect("contents").to_owned();
    let exchanged = said.replace(&source(libraries[0]), "x").replace(&source(libraries[1]), &source(libraries[0]));
    let many: String = (0..3000).map(|number| format!("kernel none{number}\n")).collect();
    let lies = [
        exchanged.replace(" x\n", &format!(" {}\n", source(libraries[1]))),
        said.replace(&source(libraries[0]), &format!("{}:5", "ab".repeat(32))),
        said.replace(&source(libraries[0]), &format!("{}:1000000000", &source(libraries[0])[..64])),
        said.replace(" 0 1 ", " 0 3 ").replace(" 0 3 ", " 0 2 "),
        said.replace("kernel kernel1", "kernel nothing").replace("variable known1", "variable kernel0"),
        said.replace("asked 65536 ", "asked 65535 "),
        said.replace("asked 65536 ", "asked 2147483647 "),
        said.replace("asked 65536 -1", "asked 65536 100").replace("asked 65536 0", "asked 65536 100"),
        said.replace("shared 1 64", "shared 2147483647 2147483647"),
        said.replace("blocks 64 ", "blocks 2147483647 "),
        said.replace(&line("block "), &"block 68719476736\n".repeat(9)),
        said.replace(&line("block "), "block 18446744073709551615\nblock 1\nblock 0\nblock 4096\n"),
        said.replace(&line("block "), &"block 2097152\n".repeat(60)),
        said.replace(&line("kernel "), &(line("kernel ") + &many)),
        said.replace("floe start", "floe stop"),
        said[..said.len() / 2].to_owned(),
        "\0".repeat(1 << 20),
    ];
    for lie in lies {
        std::fs::write(&file, &lie).expect("written");
        stage.start(&["--far"], "plain");
    }
}

/// A connection that is cut anywhere in a start is made again.
#[test]
fn a_start_that_is_cut_is_right() {
    let stage = Stage::new();
    stage.start(&["--far"], "plain");
    let next = AtomicU64::new(0);
    // Behind what it takes to make a connection.
    let plan = move || Some(600 + next.fetch_add(1, Ordering::SeqCst) * 977 % 9001);
    let cutter = Cutter::start(stage.daemon.tcp(), Box::new(plan));
    for _ in 0..6 {
        let outcome = stage.run(&cutter.address(), &["--far"], "plain");
        assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), "right\n"), "{}", outcome.stderr);
    }
    assert!(cutter.cuts() > 6, "{}", cutter.cuts());
}

/// Memory that was asked for ahead and is not wanted is no one's loss.
#[test]
fn memory_asked_for_ahead_goes_to_who_needs_it() {
    let stage = Stage::new();
    stage.start(&["--far", "--memory", "64M"], "plain");
    let file = stage.file();
    let said = std::fs::read_to_string(&file).expect("a record");
    let without: String =
        said.lines().filter(|line| !line.starts_with("block")).map(|line| format!("{line}\n")).collect();
    // A quarter of the vGPU's memory, in blocks that the program has no use for: it takes all the rest and what they had.
    let lie = without.replacen('\n', &format!("\n{}", "block 4194304\n".repeat(4)), 1);
    std::fs::write(&file, lie).expect("written");
    stage.start(&["--far", "--memory", "64M"], "full");
}
