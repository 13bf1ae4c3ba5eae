//! `floe demo`: a user's first minute. It runs a real CUDA program through client, daemon and worker, and reports each
//! step.
//! In: nothing. Out: progress, results and their meaning on stdout, or the result alone as JSON. The program itself compares
//! its results with the CPU's.

use std::fmt::Display;
use std::process::{ExitCode, ExitStatus, Stdio};
use std::time::Instant;

use anyhow::{Context, Result};
use floe_emulation::Network;
use serde::{Deserialize, Serialize};

use crate::install::Installation;
use crate::{private, run, servers, table};

/// Flags of `floe demo`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The device to use: HOST:GPU [default: the best of this machine]
    #[arg(long, value_name = "HOST:GPU")]
    on: Option<String>,
    /// Print all counters of the client library, too.
    #[arg(long, conflicts_with = "json")]
    stats: bool,
    /// Print the result as JSON, and all else on stderr
    #[arg(long)]
    json: bool,
}

/// The result.
#[derive(Debug, Serialize)]
struct Outcome {
    /// Whether all results were right.
    passed: bool,
    seconds: f64,
    /// The place of the GPU.
    device: String,
    #[serde(flatten)]
    counts: Option<Counts>,
}

/// What the program did. Where it failed nobody knows.
#[derive(Debug, Serialize)]
struct Counts {
    /// CUDA calls that it made.
    calls: u64,
    /// Those of them that waited for the server.
    waits: u64,
    bytes_to_device: u64,
    bytes_from_device: u64,
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

/// Where the demo's lines go: stdout, or stderr where a program reads stdout.
#[derive(Debug, Clone, Copy)]
struct Lines {
    on_stderr: bool,
}

impl Lines {
    fn say(self, line: impl Display) {
        if self.on_stderr {
            eprintln!("{line}");
        } else {
            // Its results are what counts, whether somebody reads the lines or not.
            let _ = table::print_line(line);
        }
    }
}

/// Runs the demo. The exit code says whether all results were right.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let installation = Installation::of_this_executable()?;
    let (start, lines) = (Instant::now(), Lines { on_stderr: arguments.json });
    lines.say("floe demo: a CUDA program, unmodified, on a GPU that is not in its process");
    let device = match &arguments.on {
        Some(device) => device.clone(),
        None => start_server(&installation, lines)?,
    };
    lines.say(format!("  client   {}", installation.client_library_folder()?.join("libcuda.so.1").display()));
    let ran = run_program(&installation, &device, lines)?;
    let seconds = start.elapsed().as_secs_f64();
    let counts = match ran {
        Ok(text) => {
            if arguments.stats {
                lines.say(text.trim_end());
            }
            let counts = serde_json::from_str::<Counters>(&text)?.counts();
            lines.say(summary(&counts, seconds));
            Some(counts)
        }
        Err(status) => {
            lines.say(format!(
                "floe demo: failed after {seconds:.2} s ({status})\n  run `floe doctor` to find the cause"
            ));
            None
        }
    };
    let outcome = Outcome { passed: counts.is_some(), seconds, device, counts };
    if arguments.json {
        table::print_json(&outcome)?;
    }
    Ok(if outcome.passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The counters of the client library, or how the program failed.
fn run_program(installation: &Installation, device: &str, lines: Lines) -> Result<Result<String, ExitStatus>> {
    let program = installation.executable("floe-demo")?.display().to_string();
    let counters = tempfile::NamedTempFile::new().context("cannot make a temporary file for the counters")?;
    let run = run::Arguments {
        flags: run::ClientFlags::on(device.to_owned()),
        device_library: None,
        no_check: false,
        network: Network::default(),
        program: vec![program],
    };
    let mut command = run::prepare(&run, installation)?;
    if lines.on_stderr {
        command.stdout(Stdio::from(std::io::stderr()));
    }
    command.env("FLOE_STATS", format!("json:{}", counters.path().display()));
    let status = command.status().context("cannot start the demo program")?;
    if !status.success() {
        return Ok(Err(status));
    }
    std::fs::read_to_string(counters.path()).context("cannot read the client library's counters").map(Ok)
}

impl Counters {
    /// Their sums.
    fn counts(&self) -> Counts {
        let classes = [&self.local, &self.post, &self.call];
        Counts {
            calls: classes.iter().map(|class| class.made).sum(),
            waits: classes.iter().map(|class| class.waited).sum(),
            bytes_to_device: self.bytes_to_device,
            bytes_from_device: self.bytes_from_device,
        }
    }
}

/// The summary and the next step, in three lines.
fn summary(counts: &Counts, seconds: f64) -> String {
    let Counts { calls, waits, .. } = counts;
    let [sent, fetched] = [counts.bytes_to_device, counts.bytes_from_device].map(servers::size);
    format!(
        "floe demo: passed in {seconds:.2} s\n  \
         what happened: the program made {calls} CUDA calls, and {waits} of them waited for the server; {sent} went to its \
         GPU, {fetched} came back\n  \
         what is next: floe run -- PROGRAM, here; floe run --on HOST:0 -- PROGRAM, on the GPU of a machine where floe serve runs"
    )
}

/// Starts a private daemon for the demo and prints its first GPU.
fn start_server(installation: &Installation, lines: Lines) -> Result<String> {
    let began = Instant::now();
    let address = private::start(installation, None)?;
    let gpus = servers::gpus_of(&address)?;
    let gpu = gpus.first().context("this machine offers no device\n  run `floe doctor` to find the cause")?;
    let what = if gpu.kind == "cpu" { "no GPU here: the CPU executes the kernels" } else { "this machine's GPU" };
    lines.say(format!("  server   floed at {address}, {:.0} ms", began.elapsed().as_secs_f64() * 1e3));
    lines.say(format!("           {} ({what})", gpu.name));
    Ok(format!("{address}:{}", gpu.index))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_three_lines_for_a_newcomer() {
        let class = |made, waited| Class { made, waited };
        let counters = Counters {
            local: class(160, 0),
            post: class(70, 2),
            call: class(10, 10),
            bytes_to_device: 8 << 20,
            bytes_from_device: 4 << 20,
        };
        let summary = summary(&counters.counts(), 0.25);
        assert_eq!(summary.lines().count(), 3, "{summary}");
        assert!(
            summary.contains("passed in 0.25 s") && summary.contains("240 CUDA calls, and 12 of them"),
            "{summary}"
        );
        assert!(summary.contains("8 MiB went to its GPU, 4 MiB came back"), "{summary}");
    }
}
