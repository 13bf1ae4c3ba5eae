//! Programs whose sessions move to another GPU of their server and back while they run. In: every example program of one
//! device, eight borders between two of its commands, chosen by a seed. Out: the program's own verdict, and nothing left.
//! The worker stands at each border until the session has moved (`FLOE_TEST_STAND_AT`).

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use floe_tests::{
    Expectation, Floed, Linkage, Moves, Program, descendants, example, examples, installation, move_to, moving,
    said_of, settled, told,
};

/// Borders of a program.
const BORDERS: u64 = 8;
/// Programs whose streams stand until the program has said more: no move is possible meanwhile. They stand at no border.
const HELD: [&str; 2] = ["threads", "streamMemory"];
/// Programs that look at what a move changes: how much of the GPU is free, of which a move takes some as long as it lasts,
/// and whether work is not over, which a move waits for.
const LOOKING: [&str; 3] = ["memoryPools", "growingMemory", "callbacks"];
/// What `floe migrate` may say of a session that it does not move: it is over, or works, or its kernels know handles.
const WORDS: [&str; 14] = [
    // Pages that the program registered lie where the other worker has something of its own.
    "pages of shared memory at",
    STAYS,
    HANDLES,
    // It took a GiB and more while it was being suspended.
    "it has grown meanwhile",
    "the session ended meanwhile",
    "the session is over",
    // Its worker ended with it, and the one that it was to move to noticed first.
    "the session stays where it is: the other worker is gone",
    "the session has just ended",
    "the session's context is in error",
    "no session of yours here",
    "the session came to no border between two commands in time",
    "streams have work that takes longer",
    "host functions have not returned",
    "streams wait for words of memory",
];
/// What a client tells its user when its session stands for more than two seconds, as a suspended one may on a machine that
/// is busy, and when it goes on.
const LONG_WAITS: [&str; 3] =
    ["keeps the session, but no worker answers", "the program waits for a reconnect, at most", "floe: reconnected to "];
/// A program that uses memory of the device's heap does not move.
const STAYS: &str = "which no move takes along";
/// A program does not move while its kernels know the device's own numbers.
const HANDLES: &str = "graphs with conditional handles";
/// A device's memory. A program that fills it takes that long to move.
const DEVICE_MEMORY: (&str, &str) = ("FLOE_CPU_MEMORY", "2G");
/// Threads that a worker of the CPU device begins only when they are needed.
const LATE_THREADS: usize = 3;
/// The time after which a program with its moves stands still. Generous: machines stall.
const PATIENCE: Duration = Duration::from_secs(300);

/// The same numbers for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most.max(1)
    }
}

/// Sequences of commands, one in each eighth of the program.
fn borders(commands: u64, random: &mut Random) -> Vec<u64> {
    let part = (commands / BORDERS).max(1);
    let mut all: Vec<u64> = (0..BORDERS.min(commands)).map(|index| 1 + index * part + random.below(part)).collect();
    all.dedup();
    all
}

/// Runs a program that is moved at each of these borders. Long waits are not in its outcome.
fn run_moving(program: &Program, daemon: &Floed) -> (floe_tests::Outcome, Moves) {
    let (mut outcome, moves) = moving(daemon, true, || program.run_within(PATIENCE));
    let said = |line: &&str| !LONG_WAITS.iter().any(|words| line.contains(words));
    outcome.stderr = outcome.stderr.lines().filter(said).map(|line| format!("{line}\n")).collect();
    (outcome, moves)
}

/// How many commands a program has its worker carry out, more or less.
fn commands_of(name: &str, expected: &Expectation, daemon: &Floed, address: &str) -> u64 {
    let arguments: Vec<&str> = expected.args.iter().map(String::as_str).collect();
    let program = example(name, Linkage::Shared, &arguments).on(daemon, address).variable("FLOE_STATS", "json");
    let outcome = program.run();
    if !outcome.stderr.lines().any(|line| line.starts_with(r#"{"local":"#)) {
        return 0;
    }
    let statistics = outcome.statistics();
    statistics.post.made + statistics.call.made
}

fn every_example_moves(seed: u64, step: usize, address: impl Fn(usize, &Floed) -> String) {
    let mut random = Random(seed);
    examples_move(|index, _| index.is_multiple_of(step), |commands| borders(commands, &mut random), address);
}

/// Moves examples at chosen borders, of as many as they have.
fn examples_move(
    is_chosen: impl Fn(usize, &str) -> bool,
    mut borders: impl FnMut(u64) -> Vec<u64>,
    address: impl Fn(usize, &Floed) -> String,
) {
    let plain = Floed::start_with(&[], &[DEVICE_MEMORY]);
    let mut failures = Vec::new();
    let only = std::env::var("FLOE_TEST_ONLY").ok();
    for (index, (name, expected)) in examples().into_iter().enumerate() {
        if !is_chosen(index, &name) {
            continue;
        }
        if only.as_ref().is_some_and(|only| !only.split(',').any(|it| it == name)) {
            continue;
        }
        if LOOKING.contains(&name.as_str()) {
            continue;
        }
        let begin = Instant::now();
        plain.wait_for_workers(0);
        let commands = commands_of(&name, &expected, &plain, &address(index, &plain));
        let stands = if HELD.contains(&name.as_str()) { Vec::new() } else { borders(commands) };
        let list: Vec<String> = stands.iter().map(u64::to_string).collect();
        // On a busy machine a program may stand for longer than the tests' own grace period.
        let environment =
            [("FLOE_CPU_DEVICES", "2"), DEVICE_MEMORY, ("FLOE_TEST_STAND_AT", &list.join(",")), ("FLOE_GRACE", "60")];
        let daemon = Floed::start_with(&[], &environment);
        let arguments: Vec<&str> = expected.args.iter().map(String::as_str).collect();
        let program = example(&name, Linkage::Shared, &arguments).on(&daemon, &address(index, &daemon));
        let (outcome, moves) = run_moving(&program, &daemon);
        println!("{name} {arguments:?}: {commands} commands, stands {stands:?}, {moves:?}, {:?}", begin.elapsed());
        if let Some(difference) = expected.difference(&outcome) {
            failures.push(format!(
                "{name} {arguments:?}, stands {list:?}: {difference}\n  stdout: {}\n  stderr: {}\n  {moves:?}",
                outcome.stdout, outcome.stderr
            ));
        }
        let unknown = |words: &&String| !WORDS.iter().any(|known| words.contains(known));
        if let Some(words) = moves.refused.keys().find(unknown) {
            failures.push(format!("{name} {arguments:?}, stands {list:?}: {words}"));
        }
        let [stays, decides] = [STAYS, HANDLES].map(|why| moves.refused.keys().any(|words| words.contains(why)));
        if stays != (name == "deviceHeap") {
            failures.push(format!("{name} {arguments:?} moves although it must not, or may: {moves:?}"));
        }
        if decides && name != "conditionalNodes" {
            failures.push(format!("{name} {arguments:?} has no handles: {moves:?}"));
        }
        if !stands.is_empty() && moves.done == 0 && !stays && !decides {
            failures.push(format!("{name} {arguments:?} did not move: {moves:?}"));
        }
        daemon.wait_for_workers(0);
    }
    assert!(failures.is_empty(), "{} runs failed:\n{}", failures.len(), failures.join("\n"));
}

/// By another transport each.
fn transport(index: usize, daemon: &Floed) -> String {
    [daemon.unix().to_owned(), daemon.shm(), daemon.tcp().to_owned()][index % 3].clone()
}

/// Programs of which moves have lost something once: variables that were written ahead of the first kernel, variables of linked
/// code, what was printed and not waited for.
const LOST: [&str; 3] = ["printfOrder", "rdc", "runtimeLink"];

#[test]
fn programs_that_lost_something_move_at_every_one_of_their_first_borders() {
    for start in [1, 2] {
        let dense = |commands: u64| (start..=commands.min(30)).step_by(2).collect();
        examples_move(|_, name| LOST.contains(&name), dense, |_, daemon| daemon.unix().to_owned());
    }
}

#[test]
fn a_fifth_of_the_examples_moves_there_and_back_over_rings() {
    every_example_moves(0x5EED_0006, 5, |_, daemon| daemon.shm());
}

#[test]
#[ignore = "by hand: three minutes"]
fn every_example_moves_there_and_back_while_it_runs() {
    every_example_moves(0x5EED_0001, 1, transport);
}

#[test]
#[ignore = "by hand: three minutes"]
fn every_example_moves_there_and_back_over_the_unix_socket() {
    every_example_moves(0x5EED_0002, 1, |_, daemon| daemon.unix().to_owned());
}

#[test]
#[ignore = "by hand: three minutes"]
fn every_example_moves_there_and_back_over_rings() {
    every_example_moves(0x5EED_0003, 1, |_, daemon| daemon.shm());
}

#[test]
#[ignore = "by hand: three minutes"]
fn every_example_moves_there_and_back_over_tcp() {
    every_example_moves(0x5EED_0004, 1, |_, daemon| daemon.tcp().to_owned());
}

/// A program that works, and checks its work when it is told to end.
struct Steady {
    folder: tempfile::TempDir,
    running: std::thread::JoinHandle<floe_tests::Outcome>,
}

impl Steady {
    /// Starts it and waits until it has a session.
    fn start(daemon: &Floed, address: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("enough").display().to_string();
        let program = example("steadyWork", Linkage::Shared, &["until", &file]).on(daemon, address);
        let running = std::thread::spawn(move || program.run_within(PATIENCE));
        let steady = Self { folder, running };
        wait_until("it has a session that works", || row_of(daemon).is_some_and(|row| row["used"] != 0));
        steady
    }

    fn end(self) -> floe_tests::Outcome {
        std::fs::write(self.folder.path().join("enough"), "").expect("the folder is there");
        self.running.join().expect("it does not panic")
    }
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "waited until {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The daemon's only session.
fn row_of(daemon: &Floed) -> Option<serde_json::Value> {
    said_of(daemon, "ps").into_iter().next()
}

fn worker_of(daemon: &Floed) -> u32 {
    let worker = row_of(daemon).and_then(|row| row["worker"].as_u64()).expect("a session has a worker");
    u32::try_from(worker).expect("a process id")
}

fn free_of(daemon: &Floed) -> Vec<u64> {
    said_of(daemon, "gpus").iter().map(|gpu| gpu["free"].as_u64().expect("a number")).collect()
}

#[test]
fn what_a_sessions_link_carried_stays_counted_when_it_moves_or_is_suspended() {
    let daemon = Floed::start_with(&[], &[("FLOE_CPU_DEVICES", "2"), ("FLOE_GRACE", "60")]);
    let steady = Steady::start(&daemon, daemon.tcp());
    let counts = || {
        let row = row_of(&daemon).expect("it runs");
        ["received", "sent", "waits"].map(|name| row[name].as_u64().expect("a number"))
    };
    let all = |now: [u64; 3], than: [u64; 3], holds: fn(&u64, &u64) -> bool| {
        now.iter().zip(&than).all(|(now, than)| holds(now, than))
    };
    let mut last = [0; 3];
    for gpu in [1, 0, 0] {
        wait_until("it has carried more", || all(counts(), last, u64::gt));
        last = counts();
        if gpu == row_of(&daemon).expect("it runs")["gpu"] {
            told(&daemon, "suspend", 1, None).expect("suspended");
            let now = counts();
            assert!(all(now, last, u64::ge), "{now:?} behind {last:?}");
            told(&daemon, "resume", 1, Some(gpu)).expect("resumed");
        } else {
            told(&daemon, "migrate", 1, Some(gpu)).expect("moved");
        }
        let now = counts();
        assert!(all(now, last, u64::ge), "{now:?} behind {last:?}");
        last = now;
    }
    wait_until("it has carried more", || all(counts(), last, u64::gt));
    let outcome = steady.end();
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
}

#[test]
fn the_audit_log_says_which_sessions_moved_and_by_whom() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let log = folder.path().join("audit.jsonl");
    let flags = ["--audit", log.to_str().expect("text")];
    let daemon = Floed::start_with(&flags, &[("FLOE_CPU_DEVICES", "2"), ("FLOE_GRACE", "60")]);
    let steady = Steady::start(&daemon, daemon.unix());
    told(&daemon, "migrate", 1, Some(1)).expect("moved");
    told(&daemon, "suspend", 1, None).expect("suspended");
    told(&daemon, "resume", 1, Some(0)).expect("resumed");
    let outcome = steady.end();
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let moved = || -> Vec<String> {
        let lines = std::fs::read_to_string(&log).unwrap_or_default();
        let lines = lines.lines().map(|line| serde_json::from_str(line).expect("JSON"));
        let moved = lines.filter(|line: &serde_json::Value| line["event"] == "moved" && line["session"] == 1);
        moved.map(|line| line["what"].as_str().expect("text").to_owned()).collect()
    };
    wait_until("all three are in the log", || moved().len() >= 3);
    for (line, words) in moved().iter().zip(["from GPU 0 to GPU 1", "from GPU 1 to host memory", "to GPU 0"]) {
        assert!(line.contains(words) && line.contains("done") && line.contains("asked by "), "{words}: {line}");
    }
    assert_eq!(moved().len(), 3);
}

#[test]
fn two_hundred_moves_in_a_row_leave_nothing_behind() {
    let daemon = Floed::start_with(&[], &[("FLOE_CPU_DEVICES", "2"), ("FLOE_GRACE", "60")]);
    let (before, free) = (settled(daemon.process()), free_of(&daemon));
    let steady = Steady::start(&daemon, &daemon.shm());
    let mut early = None;
    for count in 1..=200 {
        let mut moves = Moves::default();
        move_to(&daemon, 1, count % 2, &mut moves);
        assert_eq!(moves.done, 1, "move {count}: {moves:?}");
        if count == 20 {
            early = Some(settled(worker_of(&daemon)));
        }
    }
    let ((files, threads), early) = (settled(worker_of(&daemon)), early.expect("there were as many"));
    assert_eq!(files, early.0, "files of the worker");
    // The device's threads that copy and call begin when there is work for one more.
    assert!(threads.abs_diff(early.1) <= LATE_THREADS, "threads of the worker: {threads}, and early {early:?}");
    let outcome = steady.end();
    assert!(outcome.code == Some(0) && outcome.stdout.contains("PASSED"), "{outcome:?}");
    daemon.wait_for_workers(0);
    wait_until("the daemon is as before", || settled(daemon.process()) == before && free_of(&daemon) == free);
}

#[test]
fn an_upgrade_gives_every_session_a_new_worker_and_no_program_notices() {
    let daemon = Floed::start_with(&[], &[("FLOE_GRACE", "60")]);
    let all = [daemon.unix().to_owned(), daemon.shm(), daemon.tcp().to_owned()]
        .map(|address| Steady::start(&daemon, &address));
    let workers = || said_of(&daemon, "ps").iter().map(|row| row["worker"].as_u64()).collect::<Vec<_>>();
    wait_until("each has a session", || workers().len() == all.len());
    // What the second takes over, the first has not made, and no driver exports what it has imported.
    for _ in 0..2 {
        let before = workers();
        let upgraded = said_of(&daemon, "upgrade");
        let after: Vec<_> = upgraded.iter().map(|upgraded| upgraded["worker"].as_u64()).collect();
        let all_went = upgraded.iter().all(|upgraded| upgraded["kept"].is_null());
        assert!(upgraded.len() == all.len() && all_went, "{upgraded:?}");
        assert!(after == workers() && after.iter().all(|worker| !before.contains(worker)), "{before:?} {after:?}");
    }
    for steady in all {
        let outcome = steady.end();
        assert!(outcome.code == Some(0) && outcome.stdout.contains("PASSED"), "{outcome:?}");
    }
    daemon.wait_for_workers(0);
}

/// Longer than any program of a test is kept from running by a busy machine.
const GRACE: Duration = Duration::from_secs(10);

#[test]
fn suspended_programs_free_their_gpu_and_go_on_on_another() {
    let grace = GRACE.as_secs().to_string();
    let daemon = Floed::start_with(&[], &[("FLOE_CPU_DEVICES", "2"), ("FLOE_GRACE", &grace)]);
    let free = free_of(&daemon);
    let all = [daemon.unix().to_owned(), daemon.shm(), daemon.tcp().to_owned()]
        .map(|address| Steady::start(&daemon, &address));
    let works = |row: &serde_json::Value| row["used"] != 0;
    let rows = || said_of(&daemon, "ps");
    wait_until("each has a session that works", || rows().len() == all.len() && rows().iter().all(works));
    let sessions: Vec<_> = rows().iter().map(|row| ["session", "gpu"].map(|name| row[name].as_u64())).collect();
    let sessions: Vec<_> = sessions.into_iter().map(|row| row.map(|number| number.expect("a number"))).collect();
    for [session, gpu] in &sessions {
        told(&daemon, "suspend", *session, None).expect("suspended");
        for (command, to, words) in
            [("suspend", None, "suspended already"), ("migrate", Some(1 - gpu), "floe resume gives it a GPU")]
        {
            let refused = told(&daemon, command, *session, to);
            assert!(refused.as_ref().is_err_and(|its| its.contains(words)), "{refused:?}");
        }
    }
    wait_until("the GPUs are free", || free_of(&daemon) == free);
    let is_suspended =
        |row: &serde_json::Value| row["transport"].as_str().is_some_and(|state| state.ends_with(", suspended"));
    assert!(rows().iter().all(is_suspended), "{:?}", rows());
    // Longer than a client that is missing is waited for: these are there.
    std::thread::sleep(GRACE + Duration::from_secs(3));
    for [session, gpu] in &sessions {
        told(&daemon, "resume", *session, Some(1 - gpu)).expect("resumed");
        assert!(told(&daemon, "resume", *session, None).is_err_and(|words| words.contains("not suspended")));
    }
    for steady in all {
        let outcome = steady.end();
        assert!(outcome.code == Some(0) && outcome.stdout.contains("PASSED"), "{outcome:?}");
    }
    daemon.wait_for_workers(0);
    wait_until("nothing is left", || rows().is_empty() && free_of(&daemon) == free);
}

#[test]
fn whoever_dies_while_a_session_is_suspended_leaves_nothing_behind() {
    let grace = GRACE.as_secs().to_string();
    let daemon = Floed::start_with(&[], &[("FLOE_CPU_DEVICES", "2"), ("FLOE_GRACE", &grace)]);
    let (before, free) = (settled(daemon.process()), free_of(&daemon));
    for address in [daemon.unix().to_owned(), daemon.shm(), daemon.tcp().to_owned()] {
        for victim in ["pid", "worker"] {
            let steady = Steady::start(&daemon, &address);
            let session = row_of(&daemon).and_then(|row| row["session"].as_u64()).expect("a number");
            told(&daemon, "suspend", session, None).expect("suspended");
            let process = row_of(&daemon).and_then(|row| row[victim].as_u64()).expect("a number");
            kill(u32::try_from(process).expect("a process id"));
            daemon.wait_for_workers(0);
            wait_until("the daemon lists no session", || said_of(&daemon, "ps").is_empty());
            let outcome = steady.end();
            assert!(outcome.code != Some(0), "{victim} over {address}: {outcome:?}");
        }
    }
    wait_until("the daemon is as before", || settled(daemon.process()) == before && free_of(&daemon) == free);
}

#[test]
fn a_session_is_not_suspended_where_there_is_no_room_for_it() {
    let settings = [("FLOE_CPU_DEVICES", "2"), ("FLOE_SUSPENDED_MEMORY", "512M"), ("FLOE_GRACE", "60")];
    let daemon = Floed::start_with(&[], &settings);
    let steady = Steady::start(&daemon, daemon.unix());
    let session = row_of(&daemon).and_then(|row| row["session"].as_u64()).expect("a number");
    let refused = told(&daemon, "suspend", session, None);
    assert!(refused.as_ref().is_err_and(|words| words.contains("no room in host memory")), "{refused:?}");
    told(&daemon, "migrate", session, None).expect("it runs on");
    let outcome = steady.end();
    assert!(outcome.code == Some(0) && outcome.stdout.contains("PASSED"), "{outcome:?}");
}

/// Who dies while a session moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    Source,
    Target,
    Client,
    /// Who asked for the move.
    Asker,
    Daemon,
}

fn kill(process: u32) {
    let _ = Command::new("kill").args(["-KILL", &process.to_string()]).status();
}

/// The phases that who asks for a move is told of.
const PHASES: [&str; 8] = ["admit", "replay", "lend", "precopy", "park", "drain", "finish", "switch"];

/// Kills somebody when a move has got to a phase. The program ends right where it can go on, and nothing is left in any case.
fn dies(daemon: &Floed, victim: Victim, phase: &str) {
    let steady = Steady::start(daemon, daemon.unix());
    let row = row_of(daemon).expect("it runs");
    let [session, gpu, source, client] =
        ["session", "gpu", "worker", "pid"].map(|name| row[name].as_u64().expect("a number"));
    let [source, client] = [source, client].map(|process| u32::try_from(process).expect("a process id"));
    let mut migrate = Command::new(installation().join("bin/floe"));
    migrate.args(["migrate", &session.to_string(), "--to", &(1 - gpu).to_string(), "--on", daemon.unix()]);
    let mut asker = migrate.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("floe migrate runs");
    let told = BufReader::new(asker.stderr.take().expect("it was asked for"));
    // A phase may be over before it is told of: then nobody dies.
    let begins = told.lines().map_while(Result::ok).any(|line| line.starts_with(phase));
    let target = || descendants(daemon.process()).into_iter().filter(|worker| *worker != source);
    match victim {
        _ if !begins => {}
        Victim::Source => kill(source),
        Victim::Target => target().for_each(kill),
        Victim::Client => kill(client),
        Victim::Asker => kill(asker.id()),
        Victim::Daemon => kill(daemon.process()),
    }
    let moved = asker.wait().expect("it is our child").success();
    let outcome = steady.end();
    let is_right = outcome.code == Some(0) && outcome.stdout.contains("PASSED");
    let may_fail = match victim {
        Victim::Client | Victim::Daemon => true,
        Victim::Asker => false,
        // Whoever has the session when it dies takes it along.
        Victim::Source => !moved,
        Victim::Target => moved,
    };
    assert!(is_right || may_fail, "{victim:?} in {phase}, moved: {moved}: {outcome:?}");
    if victim != Victim::Daemon {
        daemon.wait_for_workers(0);
        // A worker is gone before its row is: the next program must not take this session for its own.
        wait_until("the daemon lists no session", || said_of(daemon, "ps").is_empty());
    }
}

#[test]
fn whoever_dies_in_whatever_phase_of_a_move_leaves_nothing_behind() {
    // A program that moves makes its connections again within it.
    let grace = GRACE.as_secs().to_string();
    let two = || Floed::start_with(&[], &[("FLOE_CPU_DEVICES", "2"), ("FLOE_GRACE", &grace)]);
    let daemon = two();
    let (before, free) = (settled(daemon.process()), free_of(&daemon));
    for victim in [Victim::Target, Victim::Source, Victim::Client, Victim::Asker] {
        PHASES.iter().for_each(|phase| dies(&daemon, victim, phase));
    }
    wait_until("the daemon is as before", || settled(daemon.process()) == before && free_of(&daemon) == free);
    PHASES.iter().step_by(3).for_each(|phase| dies(&two(), Victim::Daemon, phase));
}
