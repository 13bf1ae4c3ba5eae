//! `floe-bench moves`: how long a program stands while its session moves, as the program itself sees it.
//! In: cases of so much memory of which so much changes. Out: a table, a JSON file where a folder is named, and an exit code:
//! 0 when no pause was over its limit and all memory was right.

mod training;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use serde_json::json;

use crate::bars::Way;
use crate::installation::{Equipment, Installation};
use crate::machine;
use crate::moving::{Made, Mover};
use crate::program::asked::Asked;
use crate::server::Server;

/// Moves of a case.
const MOVES: u64 = 4;
/// The program runs so long between two questions.
const ALONE: Duration = Duration::from_millis(500);
/// A quick run has so much less memory.
const QUICK: f64 = 1.0 / 64.0;

/// Flags of `floe-bench moves`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The way of floe
    #[arg(long, value_name = "WAY", default_value = "unix", value_parser = crate::speed::way)]
    way: Way,
    /// A 64th of the memory, and no limits
    #[arg(long)]
    quick: bool,
    /// What to move: memory, training [default: both]
    #[arg(long, value_name = "WHAT,…", value_delimiter = ',')]
    only: Vec<What>,
    /// Write moves.json into this folder
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    #[command(flatten)]
    equipment: Equipment,
}

/// What is moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum What {
    /// A program that never rests, with much memory.
    Memory,
    /// PyTorch that trains.
    Training,
}

/// What moves, and how.
#[derive(Debug, Clone, Copy)]
struct Case {
    title: &'static str,
    gib: f64,
    /// The share of the memory that changes all the time.
    changes: f64,
    same_gpu: bool,
    flags: &'static [&'static str],
    /// The longest pause, in milliseconds.
    limit: Option<f64>,
}

const CASES: [Case; 6] = [
    Case { title: "4 GiB", gib: 4.0, changes: 0.0, same_gpu: false, flags: &[], limit: Some(40.0) },
    Case { title: "4 GiB, all changes", gib: 4.0, changes: 1.0, same_gpu: false, flags: &[], limit: Some(40.0) },
    Case { title: "32 GiB, 5 % changes", gib: 32.0, changes: 0.05, same_gpu: false, flags: &[], limit: Some(60.0) },
    Case { title: "32 GiB, all changes", gib: 32.0, changes: 1.0, same_gpu: false, flags: &[], limit: Some(145.0) },
    Case {
        title: "16 GiB, stop and copy",
        gib: 16.0,
        changes: 0.05,
        same_gpu: false,
        flags: &["--stop-and-copy"],
        limit: None,
    },
    Case { title: "16 GiB, same GPU", gib: 16.0, changes: 0.05, same_gpu: true, flags: &[], limit: Some(25.0) },
];

/// One move of a case.
#[derive(Debug, Serialize)]
struct Row {
    case: &'static str,
    /// The program's longest time between two steps, less its longest without a move.
    gap_ms: f64,
    pause_ms: f64,
    drain_ms: f64,
    finish_ms: f64,
    copied_gb: f64,
    limit_ms: Option<f64>,
}

impl Row {
    fn is_over(&self) -> bool {
        self.limit_ms.is_some_and(|limit| self.gap_ms - self.drain_ms > limit)
    }
}

/// Moves the program of every case.
///
/// # Errors
/// When nothing could be run, or a program's memory was wrong.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let installation = Installation::of_this_executable()?;
    let folder = tempfile::tempdir().context("no temporary folder")?;
    let server = Server::start(&installation, &arguments.equipment.device_library, folder.path())?;
    let (gpu, mover) = (server.gpu(&installation)?, Mover::new(&installation, &server)?);
    if arguments.quick {
        println!("a 64th of the memory that is named, without limits");
    }
    let is_wanted = |what| arguments.only.is_empty() || arguments.only.contains(&what);
    let mut rows = Vec::new();
    for case in CASES.into_iter().filter(|_| is_wanted(What::Memory)) {
        if mover.gpus() == 1 && !case.same_gpu {
            println!("{}: there is no other GPU", case.title);
            continue;
        }
        let case = if arguments.quick { Case { gib: case.gib * QUICK, limit: None, ..case } } else { case };
        let program = steady(&installation, &server, arguments.way, case)?;
        rows.extend(moved(program, &mover, case)?);
    }
    let with =
        training::With { installation: &installation, server: &server, mover: &mover, equipment: &arguments.equipment };
    let trained = if is_wanted(What::Training) { with.train(arguments.way, arguments.quick)? } else { Vec::new() };
    if let Some(out) = &arguments.out {
        let mut record = machine::heading(&gpu.name);
        record.insert("moves".to_owned(), json!(rows));
        record.insert("training".to_owned(), json!(trained));
        machine::write_record(&out.join("moves.json"), &record)?;
    }
    let over =
        rows.iter().filter(|row| row.is_over()).count() + trained.iter().map(training::Trained::over).sum::<usize>();
    println!(
        "{} moves, {over} over their limit",
        rows.len() + trained.iter().map(training::Trained::moves).sum::<usize>()
    );
    Ok(if over == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Moves a program to and fro.
fn moved(mut program: Asked, mover: &Mover<'_>, case: Case) -> Result<Vec<Row>> {
    let alone = longest(&mut program, ALONE)?;
    let mut rows = Vec::new();
    for _ in 0..MOVES {
        let (session, gpu) = mover.only_session()?;
        let to = if case.same_gpu { gpu } else { (gpu + 1) % mover.gpus() };
        let made = mover.to(session, to, case.flags).with_context(|| case.title)?;
        let row = row(case, &made, longest(&mut program, ALONE)? - alone);
        println!(
            "{}: gap {:.1} ms, pause {:.1} ms (drain {:.1}, finish {:.1}), {:.1} GB copied{}",
            row.case,
            row.gap_ms,
            row.pause_ms,
            row.drain_ms,
            row.finish_ms,
            row.copied_gb,
            if row.is_over() { ", OVER ITS LIMIT" } else { "" }
        );
        rows.push(row);
    }
    let last = program.end()?;
    ensure!(last.starts_with("right "), "its memory was not right: {last}");
    Ok(rows)
}

fn row(case: Case, made: &Made, gap_ms: f64) -> Row {
    #[allow(clippy::cast_precision_loss, reason = "a table shows three digits")]
    let copied_gb = made.bytes as f64 / 1e9;
    Row {
        case: case.title,
        gap_ms,
        pause_ms: made.pause_ms,
        drain_ms: made.phase("drain"),
        finish_ms: made.phase("finish"),
        copied_gb,
        limit_ms: case.limit,
    }
}

/// Starts the program that never rests.
fn steady(installation: &Installation, server: &Server, way: Way, case: Case) -> Result<Asked> {
    let words = [installation.bench_program("steady")?, case.gib.to_string().into(), case.changes.to_string().into()];
    Asked::start(server.started(installation, &words, way, false))
}

/// Its longest time between two steps since the last question, in milliseconds, when it has run for a while.
fn longest(program: &mut Asked, run: Duration) -> Result<f64> {
    std::thread::sleep(run);
    Ok(program.ask()?.longest_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_drains_is_the_programs_own_and_not_over_a_limit() {
        let row = |gap_ms, drain_ms| Row {
            case: "",
            gap_ms,
            pause_ms: gap_ms,
            drain_ms,
            finish_ms: 0.0,
            copied_gb: 0.0,
            limit_ms: Some(40.0),
        };
        assert!(!row(45.0, 6.0).is_over() && row(45.0, 4.0).is_over());
        assert!(!Row { limit_ms: None, ..row(1e9, 0.0) }.is_over());
    }
}
