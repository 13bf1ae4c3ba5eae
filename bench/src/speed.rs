//! `floe-bench speed`: from flags to the table. In: programs and sections. Out: the table on stdout, and files where a
//! folder is named. Files are written after each round, so that an interrupted run leaves its measurements. The exit
//! code is 0 when every limit held, every result agreed and nothing failed.

mod compare;
mod findings;
mod line;
mod plot;
mod record;
mod rounds;
mod series;
mod table;
mod together;
mod turns;
mod workload;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, anyhow};

use crate::bars::Way;
use crate::installation::{Equipment, Installation};
use crate::server::Server;
use compare::{Agreed, Agreement, Row};
use findings::Findings;
use record::Run;
use rounds::Bench;

/// Flags of `floe-bench speed`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Programs or sections to measure: driver_calls (launches, events, allocations, copies), between_gpus (peers,
    /// servers), collectives (one_process, two_processes), first_result (start), inference (encoder, eager, matmul, sum, graph), training (resnet18, gpt_bf16, gpt_fp16, memory)
    /// [default: all; on a CPU device: driver_calls]
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    only: Vec<String>,
    /// Number of rounds; each measures everything by every way
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=50))]
    rounds: u8,
    /// Ways of floe: shm, unix, tcp
    #[arg(long, value_name = "WAY,…", value_delimiter = ',', default_value = "shm,unix,tcp", value_parser = way)]
    ways: Vec<Way>,
    /// Keep each measurement short
    #[arg(long)]
    quick: bool,
    /// Leave programs on the processors they are on, instead of timing each turn on two others
    #[arg(long)]
    no_rotate: bool,
    /// Write results.json, table.txt, ratios.svg (after each round) and the programs' stderr into this folder
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    #[command(flatten)]
    equipment: Equipment,
}

/// Reads a way of floe.
pub(crate) fn way(text: &str) -> Result<Way, String> {
    let ways = [Way::Shm, Way::Unix, Way::Tcp];
    ways.into_iter().find(|way| way.name() == text).ok_or_else(|| "one of shm, unix, tcp".to_owned())
}

/// Measures and reports.
///
/// # Errors
/// When nothing could be measured: no installation, no device, a program that does not start.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let began = Instant::now();
    let installation = Installation::of_this_executable()?;
    let folder = tempfile::tempdir().context("no temporary folder")?;
    let logs = arguments.out.as_ref().map_or_else(|| folder.path().to_path_buf(), |out| out.join("logs"));
    std::fs::create_dir_all(&logs).with_context(|| format!("cannot be made: {}", logs.display()))?;
    let library = &arguments.equipment.device_library;
    let nccl = arguments.equipment.nccl();
    let nccl: Vec<&str> = nccl.iter().map(String::as_str).collect();
    let [server, second] = Server::start_two(&installation, library, folder.path(), &nccl)?;
    let gpu = server.gpu(&installation)?;
    let bench = Bench {
        installation: &installation,
        server: &server,
        second: &second,
        cpu_device: gpu.kind == "cpu",
        python: &arguments.equipment.python,
        quick: arguments.quick,
        rotate: !arguments.no_rotate,
        logs: &logs,
    };
    let mut ways = vec![Way::Native];
    ways.extend(&arguments.ways);
    let run = Run { device: gpu.name, rounds: 0, asked: arguments.rounds.into(), quick: arguments.quick };
    let report = measure(&bench, arguments, &ways, run)?;
    print!("{}", report.text);
    eprintln!("floe-bench: {:.0} s in all", began.elapsed().as_secs_f64());
    Ok(if report.good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The report on the rounds so far.
#[derive(Debug, Default)]
struct Report {
    /// The heading and the table.
    text: String,
    /// Whether every limit held, every result agreed and nothing failed.
    good: bool,
}

fn measure(bench: &Bench<'_>, arguments: &Arguments, ways: &[Way], mut run: Run) -> Result<Report> {
    let mut only = arguments.only.clone();
    if only.is_empty() && bench.cpu_device {
        // The CPU device interprets kernels at a thousandth of a GPU's speed: it would train a network for hours.
        only.push("driver_calls".to_owned());
    }
    let chosen = workload::chosen(&only).map_err(|name| anyhow!("there is no such program or section: {name}"))?;
    let mut last = Report::default();
    bench.measure(&chosen, ways, run.asked, &mut |round, findings| {
        run.rounds = round;
        last = report(arguments.out.as_deref(), &run, findings)?;
        Ok(())
    })?;
    Ok(last)
}

/// Brings together what was found, and writes it where a folder is named.
fn report(out: Option<&Path>, run: &Run, findings: &Findings) -> Result<Report> {
    let rows = compare::rows(findings);
    let results = compare::agreements(findings);
    let record = record::new(run, findings, &rows, &results);
    let text = format!("{}\n{}", record.heading(), table::text(&rows, &results, &findings.failures));
    if let Some(out) = out {
        record::put(&out.join("results.json"), |path| record.write(path))?;
        record::put(&out.join("table.txt"), |path| std::fs::write(path, &text).context("the table cannot be written"))?;
        record::put(&out.join("ratios.svg"), |path| plot::draw(&rows, path))?;
    }
    let good = findings.failures.is_empty() && all_hold(&rows) && all_agree(&results);
    Ok(Report { text, good })
}

fn all_hold(rows: &[Row]) -> bool {
    let cells = rows.iter().flat_map(|row| [row.shm, row.unix, row.tcp].into_iter().flatten());
    cells.filter_map(|cell| cell.holds()).all(|holds| holds)
}

fn all_agree(results: &[Agreed]) -> bool {
    !results.iter().any(|agreed| matches!(agreed.agreement, Agreement::Differ { .. }))
}
