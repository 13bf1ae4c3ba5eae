//! Sessions outlive their connections. Programs check their results over a wire that is cut at every byte, at random,
//! for a while and for good. Processes are stopped and killed.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use floe_tests::{Cutter, Floed, Linkage, Plan, Program, Way, descendants, example};
use tempfile::TempDir;

/// After so long without progress something is stuck, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(300);

/// Numbers that look random and are the same each time.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// A program that works until the test stops it, and then reports whether all results were right.
struct Work {
    program: Program,
    folder: TempDir,
    child: Option<Child>,
}

impl Work {
    fn start(daemon: &Floed, address: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let stop = folder.path().join("stop");
        let program = example("steadyWork", Linkage::Static, &["until", stop.to_str().unwrap()]);
        let program = program.on(daemon, address).variable("FLOE_BULK_CONNECTIONS", "2");
        let child = Some(program.start());
        Self { program, folder, child }
    }

    fn stop_file(&self) -> PathBuf {
        self.folder.path().join("stop")
    }

    fn is_running(&mut self) -> bool {
        matches!(self.child.as_mut().unwrap().try_wait(), Ok(None))
    }

    /// The program's own process, below `floe run` where that stays.
    fn process(&self) -> u32 {
        let own = self.child.as_ref().unwrap().id();
        descendants(own).last().copied().unwrap_or(own)
    }

    /// Has it stop, and gives its exit code.
    fn finish(mut self) -> Option<i32> {
        std::fs::write(self.stop_file(), "").unwrap();
        self.end()
    }

    /// Its exit code when it has ended by itself.
    fn end(&mut self) -> Option<i32> {
        wait_until("the program ends", || !self.is_running());
        self.child.take().unwrap().wait().unwrap().code()
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
            eprintln!("{:?} was still running", self.program);
        }
    }
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until a program has memory on its GPU, and a moment more: then it works, however late it has begun.
fn wait_for_work(daemon: &Floed) {
    daemon.wait_for_workers(1);
    wait_until("the program works", || daemon.sessions().iter().any(|row| row["used"] != 0));
    std::thread::sleep(Duration::from_millis(500));
}

fn signal(name: &str, process: u32) {
    assert!(Command::new("kill").args([name, &process.to_string()]).status().unwrap().success());
}

/// Has a program work over a wire that is cut as `plan` says until that is enough; how often it was.
fn work_while_cut(plan: Plan, is_enough: impl Fn(&Cutter) -> bool) -> usize {
    let daemon = Floed::start_with(&["--grace", "60"], &[]);
    let cutter = Cutter::start(daemon.tcp(), plan);
    let mut work = Work::start(&daemon, &cutter.address());
    let mut last = (cutter.cuts(), Instant::now());
    while !is_enough(&cutter) {
        assert!(work.is_running(), "the program ended after {} cuts", cutter.cuts());
        if cutter.cuts() > last.0 {
            last = (cutter.cuts(), Instant::now());
        }
        assert!(last.1.elapsed() < PATIENCE, "nothing is cut any more after {} cuts", last.0);
        std::thread::sleep(Duration::from_millis(5));
    }
    // A program that leaves while its last words are cut off is waited for.
    cutter.heal();
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(work.finish(), Some(0), "what it computed is right");
    daemon.wait_for_workers(0);
    cutter.cuts()
}

#[test]
fn a_cut_at_any_byte_is_not_noticed() {
    // Making a connection takes some four hundred; what follows are commands, answers, and chunks.
    let mut places: Vec<u64> = (0..2000).collect();
    let mut random = Random(7);
    for index in (1..places.len()).rev() {
        places.swap(index, usize::try_from(random.below(index as u64 + 1)).unwrap());
    }
    let (mut places, left) = (places.into_iter(), Arc::new(AtomicUsize::new(0)));
    left.store(places.len(), Ordering::SeqCst);
    let next = {
        let left = Arc::clone(&left);
        move || {
            left.store(places.len().saturating_sub(1), Ordering::SeqCst);
            places.next()
        }
    };
    // Connections of a session end together: of several that are to be cut one is, at each time.
    let cuts = work_while_cut(Box::new(next), |_| left.load(Ordering::SeqCst) == 0);
    assert!(cuts > 400, "{cuts}");
}

/// Thousands of cuts are stepped in the transport's own tests; these are of real processes.
#[test]
fn two_hundred_random_cuts_are_not_noticed() {
    let mut random = Random(1);
    work_while_cut(Box::new(move || Some(random.below(300_000))), |cutter| cutter.cuts() >= 200);
}

#[test]
fn a_wire_that_is_away_for_a_while_is_a_pause() {
    let daemon = Floed::start_with(&["--grace", "60"], &[]);
    let cutter = Cutter::start(daemon.tcp(), Box::new(|| None));
    let mut work = Work::start(&daemon, &cutter.address());
    wait_for_work(&daemon);
    for way in [Way::Closed, Way::Silent] {
        std::thread::sleep(Duration::from_millis(500));
        cutter.set_way(way);
        cutter.cut_all();
        std::thread::sleep(Duration::from_secs(2));
        assert!(work.is_running());
        assert_eq!(descendants(daemon.process()).len(), 1, "its worker waits for it");
        cutter.set_way(Way::Open);
    }
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(work.finish(), Some(0));
    daemon.wait_for_workers(0);
}

#[test]
fn a_wire_that_swallows_everything_is_left_and_made_again() {
    let daemon = Floed::start_with(&["--grace", "3600"], &[]);
    let cutter = Cutter::start(daemon.tcp(), Box::new(|| None));
    let mut work = Work::start(&daemon, &cutter.address());
    daemon.wait_for_workers(1);
    for round in 0..10 {
        // It has begun with its connections, and works on them.
        let carried = cutter.carried();
        wait_until("the program works", || cutter.carried() > carried + 100_000);
        let taken = cutter.taken();
        let swallowed = Instant::now();
        cutter.swallow();
        wait_until("the program makes its connections again", || cutter.taken() >= taken + 2);
        eprintln!("round {round}: new connections after {} ms", swallowed.elapsed().as_millis());
        assert!(work.is_running());
    }
    assert_eq!(work.finish(), Some(0));
    daemon.wait_for_workers(0);
}

#[test]
fn a_first_connection_that_is_cut_is_made_again() {
    let daemon = Floed::start_with(&["--grace", "3"], &[]);
    // In the midst of each of the first frames, of either side.
    for bytes in [0, 10, 70, 150, 200, 330] {
        let cutter = Cutter::start(daemon.tcp(), Box::new(|| None));
        cutter.cut_first(vec![bytes; 3]);
        // The program's own: `on` has `floe run` not ask for the device.
        let program = example("steadyWork", Linkage::Static, &["3"]).on(&daemon, &cutter.address());
        let outcome = program.run();
        assert_eq!(outcome.code, Some(0), "cut after {bytes}: {}{}", outcome.stdout, outcome.stderr);
        assert!(cutter.taken() > 3, "it was cut after {bytes}, connections: {}", cutter.taken());
    }
    daemon.wait_for_workers(0);
}

#[test]
fn after_the_grace_period_the_program_has_an_error_and_the_worker_is_gone() {
    let daemon = Floed::start_with(&["--grace", "2"], &[]);
    let cutter = Cutter::start(daemon.tcp(), Box::new(|| None));
    let mut work = Work::start(&daemon, &cutter.address());
    wait_for_work(&daemon);
    cutter.set_way(Way::Closed);
    cutter.cut_all();
    assert_eq!(work.end(), Some(1), "its next call fails");
    daemon.wait_for_workers(0);
}

#[test]
fn a_worker_that_is_killed_is_not_waited_for() {
    let daemon = Floed::start_with(&["--grace", "3600"], &[]);
    let mut work = Work::start(&daemon, daemon.tcp());
    wait_for_work(&daemon);
    signal("-KILL", descendants(daemon.process())[0]);
    assert_eq!(work.end(), Some(1));
}

#[test]
fn a_program_that_ends_is_not_waited_for_and_one_that_is_killed_for_the_grace_period() {
    let daemon = Floed::start_with(&["--grace", "3600"], &[]);
    for address in [daemon.tcp(), daemon.unix()] {
        let work = Work::start(&daemon, address);
        daemon.wait_for_workers(1);
        assert_eq!(work.finish(), Some(0));
        daemon.wait_for_workers(0);
    }
    let daemon = Floed::start_with(&["--grace", "3"], &[]);
    let mut work = Work::start(&daemon, daemon.tcp());
    wait_for_work(&daemon);
    signal("-KILL", work.process());
    let killed = Instant::now();
    assert_ne!(work.end(), Some(0));
    daemon.wait_for_workers(0);
    assert!(killed.elapsed() > Duration::from_secs(2), "nobody could know that it does not come back");
}

#[test]
fn a_killed_program_of_the_same_machine_is_not_waited_for() {
    let daemon = Floed::start_with(&["--grace", "3600"], &[]);
    let mut work = Work::start(&daemon, daemon.unix());
    wait_for_work(&daemon);
    signal("-KILL", work.process());
    assert_ne!(work.end(), Some(0));
    daemon.wait_for_workers(0);
}

#[test]
fn a_daemon_that_is_killed_takes_its_sessions_along() {
    let mut daemon = Floed::start_with(&["--grace", "2"], &[]);
    let mut work = Work::start(&daemon, daemon.tcp());
    wait_for_work(&daemon);
    signal("-KILL", daemon.process());
    wait_until("the daemon has ended", || !daemon.is_running());
    assert_eq!(work.end(), Some(1));
}

#[test]
fn a_program_that_is_stopped_for_a_minute_goes_on_and_keeps_nobody_up() {
    let daemon = Floed::start_with(&["--grace", "10"], &[]);
    let stopped = Work::start(&daemon, daemon.tcp());
    wait_for_work(&daemon);
    let process = stopped.process();
    signal("-STOP", process);
    let start = Instant::now();
    let mut others = 0;
    while start.elapsed() < Duration::from_secs(60) || others < 4 {
        let other = example("steadyWork", Linkage::Static, &["40"]).on(&daemon, daemon.tcp()).run();
        assert_eq!(other.code, Some(0), "{}{}", other.stdout, other.stderr);
        others += 1;
    }
    signal("-CONT", process);
    assert_eq!(stopped.finish(), Some(0));
    daemon.wait_for_workers(0);
}
