//! `floe serve`: the daemon, started by `floe`.

use std::process::ExitCode;

use anyhow::Result;

/// Flags of `floe serve`: those of `floed`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    options: floe_daemon::Options,
}

/// Serves until SIGTERM or Ctrl-C.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    floe_daemon::run(&arguments.options)?;
    Ok(ExitCode::SUCCESS)
}
