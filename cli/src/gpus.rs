//! `floe gpus`: the GPUs that servers offer.

use std::process::ExitCode;

use anyhow::Result;
use floe_wire::ListGpus;

use crate::install::Installation;
use crate::servers::GpuRow;
use crate::{private, servers, table};

/// Flags of `floe gpus`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Servers to ask: HOST[,HOST…] [default: this machine's daemon and those of the settings; without any, this machine itself]
    #[arg(long, value_name = "HOST,…", value_delimiter = ',')]
    on: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Shown instead of a server's name for the devices that `floe run` takes without `--on`.
const NO_SERVER: &str = "(this machine)";

/// Prints one row per GPU; fails when a server that somebody has named does not answer.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let all = servers::all(&arguments.on)?;
    let (rows, code) = if all.is_own_only() {
        (of_this_machine()?, ExitCode::SUCCESS)
    } else {
        servers::each(&all, &ListGpus {}, (servers::gpu_rows, servers::MOST_GPUS))?
    };
    if rows.is_empty() && !arguments.json {
        return Ok(code);
    }
    let headings = ["DEVICE", "NAME", "KIND", "COMPUTE", "DRIVER", "MEMORY", "FREE", "GUARANTEE", "SHARE", "SESSIONS"];
    table::print(&rows, arguments.json, &headings, |gpu| {
        vec![
            if gpu.server == NO_SERVER { NO_SERVER.to_owned() } else { format!("{}:{}", gpu.server, gpu.index) },
            gpu.name.clone(),
            gpu.kind.clone(),
            gpu.compute_capability.clone(),
            gpu.driver.clone(),
            servers::size(gpu.memory),
            servers::size(gpu.free),
            servers::size(gpu.guarantee),
            floe_size::percent(gpu.share),
            gpu.sessions.to_string(),
        ]
    })?;
    Ok(code)
}

/// The GPUs of this machine's daemon. Without a daemon, the devices that `floe run` would give a program.
fn of_this_machine() -> Result<Vec<GpuRow>> {
    match servers::gpus_of(&servers::of_this_machine()) {
        Err(error) if servers::is_nobody(&error) => {
            let daemon = private::start(&Installation::of_this_executable()?, None)?;
            let mut gpus = servers::gpus_of(&daemon)?;
            gpus.iter_mut().for_each(|gpu| gpu.server = NO_SERVER.to_owned());
            Ok(gpus)
        }
        answer => answer,
    }
}
