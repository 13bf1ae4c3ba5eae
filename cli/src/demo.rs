//! `floe demo`: a user's first minute. It runs a real CUDA program through client, daemon and worker, and reports each
//! step.
//! In: nothing. Out: progress, results and their meaning on stdout. The program itself compares its results with the
//! CPU's.

use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result};
use floe_emulation::Network;
use serde::Deserialize;

use crate::install::Installation;
use crate::{private, run, servers};

/// Flags of `floe demo`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The device to use: HOST:GPU [default: the best of this machine]
    #[arg(long, value_name = "HOST:GPU")]
    on: Option<String>,
    /// Print all counters of the client library, too.
    #[arg(long)]
    stats: bool,
}

/// The counters of the client library that the summary shows; the file has more.
#[derive(Debug, Deserialize)]
struct Counters {
    local: Class,
    post: Class,
    call: Class,
    bytes_to_device: u64,
    bytes_from_device: u64,
}

#[derive(Debug, Deserialize)]
struct Class {
    made: u64,
    waited: u64,
}

/// Runs the demo. The exit code says whether all results were right.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let installation = Installation::of_this_executable()?;
    let start = Instant::now();
    println!("floe demo: a CUDA program, unmodified, on a GPU that is not in its process");
    let device = match &arguments.on {
        Some(device) => device.clone(),
        None => start_server(&installation)?,
    };
    println!("  client   {}", installation.client_library_folder()?.join("libcuda.so.1").display());
    let program = installation.executable("floe-demo")?.display().to_string();
    let counts = tempfile::NamedTempFile::new().context("cannot make a temporary file for the counters")?;
    let run = run::Arguments {
        flags: run::ClientFlags::on(device),
        device_library: None,
        no_check: false,
        network: Network::default(),
        program: vec![program],
    };
    let mut command = run::prepare(&run, &installation)?;
    command.env("FLOE_STATS", format!("json:{}", counts.path().display()));
    let status = command.status().context("cannot start the demo program")?;
    let seconds = start.elapsed().as_secs_f64();
    if !status.success() {
        println!("floe demo: failed after {seconds:.2} s ({status})\n  run `floe doctor` to find the cause");
        return Ok(ExitCode::FAILURE);
    }
    let counts = std::fs::read_to_string(counts.path()).context("cannot read the client library's counters")?;
    if arguments.stats {
        println!("{}", counts.trim_end());
    }
    println!("{}", summary(&serde_json::from_str(&counts)?, seconds));
    Ok(ExitCode::SUCCESS)
}

/// The summary and the next step, in three lines.
fn summary(counts: &Counters, seconds: f64) -> String {
    let classes = [&counts.local, &counts.post, &counts.call];
    let [made, waited] =
        [|class: &&Class| class.made, |class: &&Class| class.waited].map(|of| classes.iter().map(of).sum());
    let (made, waited): (u64, u64) = (made, waited);
    let [sent, fetched] = [counts.bytes_to_device, counts.bytes_from_device].map(servers::size);
    format!(
        "floe demo: passed in {seconds:.2} s\n  \
         what happened: the program made {made} CUDA calls, and {waited} of them waited for the server; {sent} went to its \
         GPU, {fetched} came back\n  \
         what is next: floe run -- PROGRAM, here; floe run --on HOST:0 -- PROGRAM, on the GPU of a machine where floe serve runs"
    )
}

/// Starts a private daemon for the demo and prints its first GPU.
fn start_server(installation: &Installation) -> Result<String> {
    let began = Instant::now();
    let address = private::start(installation, None)?;
    let gpus = servers::gpus_of(&address)?;
    let gpu = gpus.first().context("this machine offers no device\n  run `floe doctor` to find the cause")?;
    let what = if gpu.kind == "cpu" { "no GPU here: the CPU executes the kernels" } else { "this machine's GPU" };
    println!("  server   floed at {address}, {:.0} ms", began.elapsed().as_secs_f64() * 1e3);
    println!("           {} ({what})", gpu.name);
    Ok(format!("{address}:{}", gpu.index))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_three_lines_for_a_newcomer() {
        let class = |made, waited| Class { made, waited };
        let counts = Counters {
            local: class(160, 0),
            post: class(70, 2),
            call: class(10, 10),
            bytes_to_device: 8 << 20,
            bytes_from_device: 4 << 20,
        };
        let summary = summary(&counts, 0.25);
        assert_eq!(summary.lines().count(), 3, "{summary}");
        assert!(
            summary.contains("passed in 0.25 s") && summary.contains("240 CUDA calls, and 12 of them"),
            "{summary}"
        );
        assert!(summary.contains("8 MiB went to its GPU, 4 MiB came back"), "{summary}");
    }
}
