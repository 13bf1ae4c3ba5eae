//! `floe bench`: starts the `floe-bench` beside this executable, as `git` and `cargo` start their commands.
//! In: that program's arguments, unread. Out: its exit code, since it takes this process's place.
//! It measures nothing itself.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};

/// Arguments of `floe bench`.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Arguments {
    /// Arguments of floe-bench: `floe bench --help` lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Becomes `floe-bench`. Returns only when that fails.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let executable = std::env::current_exe().context("cannot find this executable")?;
    let bench = executable.with_file_name("floe-bench");
    if !bench.is_file() {
        bail!("no floe-bench beside this executable: {}\n  build it with: cargo xtask dist", bench.display());
    }
    let error = Command::new(&bench).args(&arguments.arguments).exec();
    Err(error).with_context(|| format!("cannot start: {}", bench.display()))
}
