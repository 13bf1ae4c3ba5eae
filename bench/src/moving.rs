//! Sessions that move to and fro while programs run, by `floe migrate`, one move after the other.
//! In: a server, work that runs programs through it. Out: what came of the moves. Programs are told nothing of them.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::installation::Installation;
use crate::server::Server;

/// Pause where no session is there to be moved.
const NONE: Duration = Duration::from_millis(20);

/// A move that was made, as `floe migrate --json` describes it.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Made {
    /// How long the program stood, by the server's clock.
    pub(crate) pause_ms: f64,
    /// Bytes that were copied.
    pub(crate) bytes: u64,
    phases: Vec<Phase>,
}

#[derive(Debug, Clone, Deserialize)]
struct Phase {
    phase: String,
    ms: f64,
}

impl Made {
    /// Milliseconds of all phases.
    pub(crate) fn total_ms(&self) -> f64 {
        self.phases.iter().map(|phase| phase.ms).sum()
    }

    /// Milliseconds of a phase; 0: it had none.
    pub(crate) fn phase(&self, name: &str) -> f64 {
        self.phases.iter().filter(|phase| phase.phase == name).map(|phase| phase.ms).sum()
    }
}

/// What came of all moves.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Moves {
    pub(crate) made: u64,
    /// Of the program's stands, in milliseconds.
    pub(crate) longest_pause_ms: f64,
    /// Why sessions stayed where they were, and how often.
    pub(crate) refused: BTreeMap<String, u64>,
}

impl Moves {
    fn note(&mut self, made: Result<Made>) {
        match made {
            Ok(made) => {
                self.made += 1;
                self.longest_pause_ms = self.longest_pause_ms.max(made.pause_ms);
            }
            // Numbers of sessions and blocks make no two alike.
            Err(error) => {
                let words: String = format!("{error:#}").chars().filter(|c| !c.is_ascii_digit()).collect();
                *self.refused.entry(words).or_default() += 1;
            }
        }
    }
}

/// A way to ask a server for its sessions and have them moved.
#[derive(Debug)]
pub(crate) struct Mover<'a> {
    installation: &'a Installation,
    address: String,
    gpus: u64,
}

impl<'a> Mover<'a> {
    /// # Errors
    /// When the server does not say what it offers.
    pub(crate) fn new(installation: &'a Installation, server: &Server) -> Result<Self> {
        let mover = Self { installation, address: server.unix().to_owned(), gpus: 0 };
        let gpus = mover.rows("gpus")?.len() as u64;
        if gpus == 0 { bail!("no GPU is offered") } else { Ok(Self { gpus, ..mover }) }
    }

    /// How many GPUs there are to move to.
    pub(crate) fn gpus(&self) -> u64 {
        self.gpus
    }

    /// For each session, in the order in which they came: milliseconds for which it had its GPU while turns were taken, and of
    /// how many.
    ///
    /// # Errors
    /// When the server does not say.
    pub(crate) fn gpu_time(&self) -> Result<Vec<[u64; 2]>> {
        let mut rows = self.rows("ps")?;
        let number = |row: &Value, name: &str| row.get(name).and_then(Value::as_u64).unwrap_or(0);
        rows.sort_by_key(|row| number(row, "session"));
        Ok(rows.iter().map(|row| [number(row, "gpu_ms"), number(row, "of_ms")]).collect())
    }

    fn rows(&self, command: &str) -> Result<Vec<Value>> {
        let output = Command::new(self.installation.floe())
            .args([command, "--json", "--on", &self.address])
            .output()
            .context("floe does not start")?;
        serde_json::from_slice(&output.stdout)
            .with_context(|| format!("floe {command}: {}", String::from_utf8_lossy(&output.stderr).trim()))
    }

    /// The numbers of all sessions, and the GPU that each is on.
    pub(crate) fn sessions(&self) -> Result<Vec<(u64, u64)>> {
        let rows = self.rows("ps")?;
        let number = |row: &Value, name: &str| row.get(name).and_then(Value::as_u64);
        Ok(rows.iter().filter_map(|row| Some((number(row, "session")?, number(row, "gpu")?))).collect())
    }

    /// The number of the one session there is, and its GPU.
    ///
    /// # Errors
    /// When there is another number of sessions.
    pub(crate) fn only_session(&self) -> Result<(u64, u64)> {
        let [session] = self.sessions()?[..] else { bail!("the program has another number of sessions") };
        Ok(session)
    }

    /// Moves a session to a GPU.
    ///
    /// # Errors
    /// Why it stays where it is.
    pub(crate) fn to(&self, session: u64, gpu: u64, flags: &[&str]) -> Result<Made> {
        let (session, gpu) = (session.to_string(), gpu.to_string());
        let output = Command::new(self.installation.floe())
            .args(["migrate", &session, "--to", &gpu, "--json", "--on", &self.address])
            .args(flags)
            .output()
            .context("floe does not start")?;
        if !output.status.success() {
            bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
        }
        serde_json::from_slice(&output.stdout).context("floe migrate says something else")
    }

    /// Moves every session to the next GPU, again and again, until the work is done.
    pub(crate) fn keep_moving<T>(&self, work: impl FnOnce() -> T) -> (T, Moves) {
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let moving = scope.spawn(|| {
                let mut moves = Moves::default();
                while !is_over.load(Ordering::Relaxed) {
                    let sessions = self.sessions().unwrap_or_default();
                    if sessions.is_empty() {
                        std::thread::sleep(NONE);
                    }
                    for (session, gpu) in sessions {
                        moves.note(self.to(session, (gpu + 1) % self.gpus, &[]));
                    }
                }
                moves
            });
            let over = Over(&is_over);
            let done = work();
            drop(over);
            (done, moving.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        })
    }
}

/// Ends the moves, also where the work has panicked: else nobody would hear of it.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_counted_by_their_words() {
        let mut moves = Moves::default();
        for session in [7, 12] {
            moves.note(Err(anyhow::anyhow!("session {session} stays")));
        }
        moves.note(Ok(Made { pause_ms: 3.0, bytes: 1, phases: Vec::new() }));
        assert_eq!((moves.made, moves.longest_pause_ms), (1, 3.0));
        assert_eq!(moves.refused.into_iter().collect::<Vec<_>>(), [("session  stays".to_owned(), 2)]);
    }
}
