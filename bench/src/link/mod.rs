//! `floe bench link`: the cost of the link to a GPU. In: servers, an emulated network. Out: latencies and curves of
//! every way, on stdout, and as JSON and SVG where files are named. A GPU of this machine is also measured natively and
//! through its sockets alone. Each measurement runs in a process of its own, which uses `libcuda.so.1` as any program
//! does.

mod arguments;
mod bulk_connections;
mod curves;
mod picture;
mod probe;
mod ratios;
mod raw;
mod routes;
mod stream;
mod terminal;
mod timing;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use indicatif::{ProgressBar, ProgressStyle};

pub use arguments::Arguments;
pub use probe::{ProbeArguments, probe};

use crate::installation::Installation;
use crate::machine;
use crate::program;
use crate::server::Server;
use curves::{Copy, Curves, Finding};
use ratios::Ratio;

/// A measuring process that says nothing for so long is stuck.
const PATIENCE: Duration = Duration::from_secs(120);

/// Measures and reports.
///
/// # Errors
/// When a server cannot be reached or a measuring process fails, with its words.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let installation = Installation::of_this_executable()?;
    let folder = tempfile::tempdir().context("no temporary folder")?;
    let server = if arguments.on.is_empty() {
        Some(Server::start(&installation, &arguments.device_library, folder.path())?)
    } else {
        None
    };
    let routes = routes::routes(arguments, &installation, server.as_ref())?;
    let all: usize =
        routes.iter().map(|route| if route.is_of_steps { OF_STEPS } else { points(arguments.largest) }).sum();
    let progress = ProgressBar::new(all as u64)
        .with_style(ProgressStyle::with_template("{msg:24} {bar:40} {pos}/{len}").context("the style of a bar")?);
    let mut ways = Vec::new();
    for route in routes {
        progress.set_message(route.name.clone());
        let log = folder.path().join(format!("{}.log", ways.len()));
        let mut measured = Curves::new(&route.name);
        let ending = program::run(route.command, &log, PATIENCE, |heard| {
            if let Ok(finding) = serde_json::from_str::<Finding>(&heard.text) {
                progress.inc(u64::from(finding.is_of_copies()));
                measured.take(finding);
            }
        })?;
        ensure!(ending.success, "measuring {} failed: {}\n{}", route.name, ending.how, ending.said);
        ways.push(measured);
    }
    progress.finish_and_clear();
    for way in ways.iter().filter(|way| way.lacks_ceiling()) {
        eprintln!("floe: cannot count the connections that carry large copies, so nothing is compared: {}", way.way);
    }
    let ratios = ratios::ratios(&ways);
    println!("{}", terminal::show(&ways, &ratios));
    write_files(arguments, &ways, &ratios)
}

/// Findings of a way of which only steps are measured: the device, two steps.
const OF_STEPS: usize = 3;

/// Findings of one way: the launch, too, and four copies of each size.
fn points(largest: u64) -> usize {
    OF_STEPS + 1 + Copy::ALL.len() * probe::sizes(largest).count()
}

fn write_files(arguments: &Arguments, ways: &[Curves], ratios: &[Ratio]) -> Result<ExitCode> {
    if let Some(path) = &arguments.svg {
        picture::draw(ways, path)?;
    }
    if let Some(path) = &arguments.json {
        let said = serde_json::json!({
            "version": machine::version(),
            "date": machine::date(),
            "machine": machine::description(),
            "ways": ways,
            "ratios": ratios,
        });
        std::fs::write(path, serde_json::to_vec_pretty(&said)?)
            .with_context(|| format!("cannot be written: {}", path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}
