//! The daemon's executable: flags to life.
#![forbid(unsafe_code)]

use std::process::{Command, ExitCode, Stdio};

use clap::Parser;
use floe_daemon::Options;

#[derive(Debug, Parser)]
#[command(name = "floed", about = floe_daemon::ABOUT, version = floe_wire::version(option_env!("FLOE_COMMIT")))]
struct Arguments {
    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    let Arguments { options } = Arguments::parse();
    let outcome = if options.private && !options.detached { detach() } else { serve(&options) };
    outcome.unwrap_or_else(|error| {
        floe_daemon::log_failure(&error);
        ExitCode::FAILURE
    })
}

fn serve(options: &Options) -> Result<ExitCode, Box<dyn std::error::Error>> {
    if options.until_exit_of.is_some() {
        // Ctrl-C is meant for the program. The daemon ends a moment after it.
        rustix::process::setsid()?;
    }
    floe_daemon::run(options)?;
    Ok(ExitCode::SUCCESS)
}

/// Starts the private daemon as no child of the process it serves. That process becomes a program, which may wait for
/// all its children and must not wait for the daemon.
fn detach() -> Result<ExitCode, Box<dyn std::error::Error>> {
    Command::new(std::env::current_exe()?)
        .args(std::env::args_os().skip(1))
        .arg("--detached")
        .stdin(Stdio::null())
        .spawn()?;
    Ok(ExitCode::SUCCESS)
}
