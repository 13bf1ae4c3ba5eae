//! Trainings that are moved to and fro as fast as it goes. In: a model. Out: what the moves cost, and whether every loss is that of
//! a training that nobody moved, bit for bit.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::Serialize;

use crate::bars::Way;
use crate::installation::{Equipment, Installation};
use crate::moving::{Made, Mover};
use crate::program::asked::Asked;
use crate::server::Server;

/// Moves in a row.
const MOVES: usize = 20;
/// A training runs so long before it is moved, and its rate is that of this time.
const ALONE: Duration = Duration::from_secs(3);
/// The longest pause less what drains, in milliseconds: these models have less than 4 GiB.
const LONGEST_PAUSE_MS: f64 = 40.0;
/// The longest move, in milliseconds.
const LONGEST_MOVE_MS: f64 = 5000.0;

const MODELS: [&str; 2] = ["resnet18", "gpt"];

/// What trains.
pub(super) struct With<'a> {
    pub(super) installation: &'a Installation,
    pub(super) server: &'a Server,
    pub(super) mover: &'a Mover<'a>,
    pub(super) equipment: &'a Equipment,
}

/// One move of a training, in milliseconds.
#[derive(Debug, Serialize)]
struct Row {
    pause: f64,
    drain: f64,
    total: f64,
    copied_bytes: u64,
}

impl Row {
    fn is_over(&self) -> bool {
        self.pause - self.drain > LONGEST_PAUSE_MS || self.total > LONGEST_MOVE_MS
    }
}

/// A training that was moved.
#[derive(Debug, Serialize)]
pub(super) struct Trained {
    model: &'static str,
    moves: Vec<Row>,
    /// The longest step of the program, without moves and with them.
    longest_step_ms: [f64; 2],
    /// Steps a second while it moved, of those while it did not.
    throughput: f64,
    losses: usize,
    /// Losses that are not those of the training that nobody moved.
    different: usize,
    limits: bool,
}

impl Trained {
    pub(super) fn moves(&self) -> usize {
        self.moves.len()
    }

    /// Moves over a limit, and whether losses differ.
    pub(super) fn over(&self) -> usize {
        let slow = if self.limits { self.moves.iter().filter(|row| row.is_over()).count() } else { 0 };
        slow + usize::from(self.different > 0)
    }

    fn line(&self) -> String {
        let most = |of: fn(&Row) -> f64| self.moves.iter().map(of).fold(0.0, f64::max);
        format!(
            "{}: {} moves, longest pause {:.1} ms of which {:.1} ms is not its own work, longest move {:.0} ms, longest step {:.1} ms \
             ({:.1} ms unmoved), {:.2} of its throughput; {} of {} losses differ",
            self.model,
            self.moves.len(),
            most(|row| row.pause),
            most(|row| row.pause - row.drain),
            most(|row| row.total),
            self.longest_step_ms[1],
            self.longest_step_ms[0],
            self.throughput,
            self.different,
            self.losses
        )
    }
}

impl With<'_> {
    /// Trains every model.
    ///
    /// # Errors
    /// When a training fails, or a move does.
    pub(super) fn train(&self, way: Way, quick: bool) -> Result<Vec<Trained>> {
        if !self.equipment.can_train() {
            return Ok(Vec::new());
        }
        let mut trained = Vec::new();
        for model in MODELS {
            trained.push(self.moved(model, way, quick)?);
        }
        self.compare(&mut trained)?;
        trained.iter().for_each(|(trained, _)| println!("{}", trained.line()));
        Ok(trained.into_iter().map(|(trained, _)| trained).collect())
    }

    fn words(&self, model: &str, steps: Option<usize>) -> Result<Vec<PathBuf>> {
        let program = self.installation.bench_program("endless_training.py")?;
        let steps = steps.map(|steps| steps.to_string().into());
        Ok([(&self.equipment.python).into(), program, model.into()].into_iter().chain(steps).collect())
    }

    /// Trains a model and moves it meanwhile; its losses come, too.
    fn moved(&self, model: &'static str, way: Way, quick: bool) -> Result<(Trained, Vec<String>)> {
        let command = self.server.started(self.installation, &self.words(model, None)?, way, false);
        let mut program = Asked::start(command)?;
        program.ask()?;
        std::thread::sleep(ALONE);
        let alone = program.ask()?;
        let mut moves = Vec::new();
        for _ in 0..if quick { 4 } else { MOVES } {
            let (session, gpu) = self.mover.only_session()?;
            moves.push(row(&self.mover.to(session, (gpu + 1) % self.mover.gpus(), &[]).context(model)?));
        }
        let moving = program.ask()?;
        let last = program.end()?;
        let losses: Vec<String> = last.split_whitespace().skip(1).map(str::to_owned).collect();
        ensure!(last.starts_with("losses ") && !losses.is_empty(), "it told no losses: {last:.80}");
        let longest_step_ms = [alone.longest_ms, moving.longest_ms];
        let throughput = moving.rate() / alone.rate();
        let trained =
            Trained { model, moves, longest_step_ms, throughput, losses: losses.len(), different: 0, limits: !quick };
        Ok((trained, losses))
    }

    /// Has every model trained natively, side by side, for as many steps, and counts the losses that differ.
    fn compare(&self, trained: &mut [(Trained, Vec<String>)]) -> Result<()> {
        let mut natives = Vec::new();
        for (trained, losses) in trained.iter() {
            let words = self.words(trained.model, Some(losses.len()))?;
            let command = self.server.started(self.installation, &words, Way::Native, false);
            natives.push(Asked::start(command)?);
        }
        for ((trained, losses), native) in trained.iter_mut().zip(natives) {
            let last = native.end()?;
            let expected: Vec<&str> = last.split_whitespace().skip(1).collect();
            ensure!(expected.len() == losses.len(), "the unmoved training told {} losses", expected.len());
            trained.different = losses.iter().zip(expected).filter(|(found, wanted)| found != wanted).count();
        }
        Ok(())
    }
}

fn row(made: &Made) -> Row {
    Row { pause: made.pause_ms, drain: made.phase("drain"), total: made.total_ms(), copied_bytes: made.bytes }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_that_differs_is_over_every_limit_also_in_a_quick_run() {
        let row = Row { pause: 60.0, drain: 10.0, total: 900.0, copied_bytes: 0 };
        assert!(row.is_over() && !Row { drain: 21.0, ..row }.is_over());
        let trained = |limits, different| Trained {
            model: "gpt",
            moves: vec![Row { pause: 60.0, drain: 10.0, total: 900.0, copied_bytes: 0 }],
            longest_step_ms: [1.0, 61.0],
            throughput: 0.9,
            losses: 9,
            different,
            limits,
        };
        assert_eq!(
            [trained(true, 1), trained(true, 0), trained(false, 3), trained(false, 0)].map(|one| one.over()),
            [2, 1, 1, 0]
        );
    }
}
