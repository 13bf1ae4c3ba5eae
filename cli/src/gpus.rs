//! `floe gpus`: what servers offer.

use std::process::ExitCode;

use anyhow::Result;

use crate::{servers, table};

/// Flags of `floe gpus`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Servers to ask: HOST[,HOST…] [default: those of the settings, else this machine's daemon]
    #[arg(long, value_name = "HOST,…", value_delimiter = ',')]
    on: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Prints one row per GPU; fails when no server answers.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let (rows, code) = servers::each(&servers::named(&arguments.on)?, servers::gpus_of);
    let headings = ["DEVICE", "NAME", "KIND", "COMPUTE", "DRIVER", "MEMORY", "FREE", "SESSIONS"];
    table::print(&rows, arguments.json, &headings, |gpu| {
        vec![
            format!("{}:{}", gpu.server, gpu.index),
            gpu.name.clone(),
            gpu.kind.clone(),
            gpu.compute_capability.clone(),
            gpu.driver.clone(),
            servers::size(gpu.memory),
            servers::size(gpu.free),
            gpu.sessions.to_string(),
        ]
    })?;
    Ok(code)
}
