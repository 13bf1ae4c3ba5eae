//! Sessions that are moved while their programs run. In: a daemon with several GPUs. Out: how many moves came about, and why others
//! did not. It judges none of that.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::{Floed, installation};

/// Every so many moves a session goes by host memory: it is suspended and resumed.
const SUSPENDED: u32 = 3;

/// What came of a program's moves.
#[derive(Debug, Default)]
pub struct Moves {
    /// Those that came about.
    pub done: u32,
    /// Words of `floe migrate`, and how often it said so.
    pub refused: BTreeMap<String, u32>,
}

impl Moves {
    fn note(&mut self, moved: Result<(), String>) {
        match moved {
            Ok(()) => self.done += 1,
            Err(words) => *self.refused.entry(words).or_default() += 1,
        }
    }

    /// Suspends a session and resumes it on that GPU.
    fn through_host_memory(&mut self, daemon: &Floed, session: u64, gpu: u64) {
        self.note(told(daemon, "suspend", session, None).and_then(|()| told(daemon, "resume", session, Some(gpu))));
    }
}

/// Moves a daemon's sessions back and forth between its GPUs until something is over; every third time by host memory, if so told.
///
/// # Panics
/// When the daemon or `floe` fails.
pub fn moving<T>(daemon: &Floed, by_host_memory: bool, run: impl FnOnce() -> T) -> (T, Moves) {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let moves = scope.spawn(|| keep_moving(daemon, by_host_memory, &is_over));
        let outcome = run();
        is_over.store(true, Ordering::SeqCst);
        (outcome, moves.join().expect("it does not panic"))
    })
}

fn keep_moving(daemon: &Floed, by_host_memory: bool, is_over: &AtomicBool) -> Moves {
    let gpus = said_of(daemon, "gpus").len() as u64;
    let mut moves = Moves::default();
    while !is_over.load(Ordering::SeqCst) {
        let rows = said_of(daemon, "ps");
        if rows.is_empty() {
            std::thread::sleep(Duration::from_millis(2));
        }
        for row in rows {
            let number = |name: &str| row[name].as_u64().expect("a number");
            let (session, gpu) = (number("session"), (number("gpu") + 1) % gpus);
            if by_host_memory && (moves.done + 1).is_multiple_of(SUSPENDED) {
                moves.through_host_memory(daemon, session, gpu);
            } else {
                move_to(daemon, session, gpu, &mut moves);
            }
        }
    }
    moves
}

/// Moves a session to that GPU, and notes what came of it.
pub fn move_to(daemon: &Floed, session: u64, gpu: u64, moves: &mut Moves) {
    moves.note(told(daemon, "migrate", session, Some(gpu)));
}

/// Has `floe` do something with a session.
///
/// # Errors
/// What it said on stderr, where it did not.
///
/// # Panics
/// When `floe` does not run.
pub fn told(daemon: &Floed, command: &str, session: u64, gpu: Option<u64>) -> Result<(), String> {
    let mut floe = Command::new(installation().join("bin/floe"));
    floe.args([command, &session.to_string(), "--json", "--on", daemon.unix()]);
    let to = gpu.map(|gpu| ["--to".to_owned(), gpu.to_string()]);
    let output = floe.args(to.iter().flatten()).output().expect("floe runs");
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()) }
}

/// The rows of a command that lists something of the daemon's.
///
/// # Panics
/// When `floe` does not run, or prints no JSON.
#[must_use]
pub fn said_of(daemon: &Floed, command: &str) -> Vec<serde_json::Value> {
    let floe = installation().join("bin/floe");
    let output = Command::new(floe).args([command, "--json", "--on", daemon.unix()]).output().expect("floe runs");
    serde_json::from_slice(&output.stdout).expect("JSON")
}
