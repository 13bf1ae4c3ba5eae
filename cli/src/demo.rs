//! `floe demo`: a newcomer's first minute. Runs a real CUDA program through client, daemon and worker, and says what happens.
//! In: nothing. Out: progress and results on stdout; the program compares its results with the CPU's itself.

use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result};
use floe_emulation::Network;

use crate::install::Installation;
use crate::{private, run, servers};

/// Flags of `floe demo`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The device to use: HOST:GPU [default: the best of this machine]
    #[arg(long, value_name = "HOST:GPU")]
    on: Option<String>,
}

/// Runs the demo; its exit code is the program's.
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
    let arguments = run::Arguments {
        on: Some(device),
        memory: None,
        stats: true,
        device_library: None,
        network: Network::default(),
        program: vec![program],
    };
    let status = run::prepare(&arguments, &installation)?.status().context("the demo program does not start")?;
    let seconds = start.elapsed().as_secs_f64();
    if status.success() {
        println!("floe demo: done in {seconds:.2} s; try it with a program of your own: floe run -- PROGRAM");
        return Ok(ExitCode::SUCCESS);
    }
    println!("floe demo: failed after {seconds:.2} s ({status}); `floe doctor` says what is wrong");
    Ok(ExitCode::FAILURE)
}

/// Starts this machine's daemon for the demo and says what it offers.
fn start_server(installation: &Installation) -> Result<String> {
    let began = Instant::now();
    let address = private::start(installation, None)?;
    let gpus = servers::gpus_of(&address)?;
    let gpu = gpus.first().context("this machine offers no device\n  `floe doctor` says why")?;
    let what = if gpu.kind == "cpu" { "no GPU here: the CPU executes the kernels" } else { "this machine's GPU" };
    println!("  server   floed at {address}, {:.0} ms", began.elapsed().as_secs_f64() * 1e3);
    println!("           {} ({what})", gpu.name);
    Ok(format!("{address}:{}", gpu.index))
}
