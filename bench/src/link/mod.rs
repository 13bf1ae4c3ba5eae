//! `floe bench link`: what the way to a GPU costs. In: servers, an emulated network. Out: latencies and curves of every
//! way, natively too where the GPU is this machine's, and of the sockets alone where they are; on stdout, and as JSON and
//! SVG where files are named.
//! It measures in processes of their own, which use `libcuda.so.1` as any program does.

mod bulk_connections;
mod curves;
mod picture;
mod probe;
mod ratios;
mod raw;
mod routes;
mod stream;
mod terminal;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use floe_emulation::Network;
use indicatif::{ProgressBar, ProgressStyle};

pub use probe::{ProbeArguments, probe};

use crate::installation::Installation;
use crate::program;
use crate::server::Server;
use crate::{machine, record};
use curves::{Copy, Curves, Finding};
use ratios::Ratio;

/// A measuring process that says nothing for so long is stuck.
const PATIENCE: Duration = Duration::from_secs(120);

/// Flags of `floe bench link`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// A GPU to reach: tcp://HOST[:PORT][:GPU] (or clear://, tls://) or unix:///PATH[:GPU]; may be given several times. Without
    /// it: a server of this command's own on this machine, by every transport, over TCP in the clear, sealed and by TLS
    #[arg(long, value_name = "ADDRESS")]
    on: Vec<String>,
    #[command(flatten)]
    network: Network,
    /// The largest copy: bytes, or with K, M, G; with --quick 256M is the default
    #[arg(
        long,
        value_name = "BYTES",
        default_value = "1G",
        default_value_if("quick", "true", "256M"),
        value_parser = bytes
    )]
    largest: u64,
    /// Keep each measurement short: about a minute and a half in all
    #[arg(long)]
    quick: bool,
    /// Leave out the measurement without floe
    #[arg(long)]
    no_native: bool,
    /// Draw the curves into this file, as SVG
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Write what was measured into this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// What a server of this command's own drives: auto, nvidia, cpu, or the path of a libcuda.so.1
    #[arg(long, value_name = "LIBRARY", default_value = "auto")]
    device_library: String,
}

fn bytes(text: &str) -> Result<u64, String> {
    floe_size::bytes(text).ok_or_else(|| "bytes, or with K, M, G, T".to_owned())
}

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
    let progress = ProgressBar::new((routes.len() * points(arguments.largest)) as u64)
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
        eprintln!(
            "floe: how many connections carry large copies cannot be seen here, so nothing is compared: {}",
            way.way
        );
    }
    let ratios = ratios::ratios(&ways);
    println!("{}", terminal::show(&ways, &ratios));
    write_files(arguments, &ways, &ratios)
}

/// Findings of one way: the device, the launch, four copies of each size.
fn points(largest: u64) -> usize {
    2 + Copy::ALL.len() * probe::sizes(largest).count()
}

fn write_files(arguments: &Arguments, ways: &[Curves], ratios: &[Ratio]) -> Result<ExitCode> {
    if let Some(path) = &arguments.svg {
        picture::draw(ways, path)?;
    }
    if let Some(path) = &arguments.json {
        let said = serde_json::json!({
            "version": record::version(),
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

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        arguments: Arguments,
    }

    #[test]
    fn a_quick_measurement_ends_with_smaller_copies_unless_others_are_asked_for() {
        let largest = |flags: &[&str]| {
            let flags = std::iter::once("link").chain(flags.iter().copied());
            Command::try_parse_from(flags).map(|command| command.arguments.largest).expect("known flags")
        };
        assert_eq!(largest(&[]), 1 << 30);
        assert_eq!(largest(&["--quick"]), 256 << 20);
        assert_eq!(largest(&["--quick", "--largest", "64K"]), 64 << 10);
    }
}
