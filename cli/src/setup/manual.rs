//! `floe completions` and `floe man`: what shells and `man` know of floe, made from the command line's own definition.
//! In: the commands. Out: a script on stdout; pages in a folder. Packages are made with both.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::{Args as _, Command};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::table;

/// Flags of `floe completions`.
#[derive(Debug, clap::Args)]
pub(crate) struct Completions {
    /// The shell that the script is for
    shell: Shell,
    /// Complete the flags of floed instead
    #[arg(long)]
    floed: bool,
}

/// Flags of `floe man`.
#[derive(Debug, clap::Args)]
pub(crate) struct Pages {
    /// The folder for the pages: floe.1, one for each command, and floed.8
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

/// The command line of `floed`.
fn floed() -> Command {
    let command = Command::new("floed").about(floe_daemon::ABOUT).version(crate::install::version());
    floe_daemon::Options::augment_args(command)
}

/// Prints the script of a shell.
pub(crate) fn complete(Completions { shell, floed: is_floed }: &Completions, floe: Command) -> Result<ExitCode> {
    let mut command = if *is_floed { floed() } else { floe };
    let (name, mut script) = (command.get_name().to_owned(), Vec::new());
    clap_complete::generate(*shell, &mut command, name, &mut script);
    table::print_line(String::from_utf8_lossy(&script).trim_end())?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the pages.
pub(crate) fn write(Pages { folder }: &Pages, floe: Command) -> Result<ExitCode> {
    let failed = || format!("cannot write the pages: {}", folder.display());
    std::fs::create_dir_all(folder).with_context(failed)?;
    clap_mangen::generate_to(floe, folder).with_context(failed)?;
    Man::new(floed()).section("8").generate_to(folder).with_context(failed)?;
    Ok(ExitCode::SUCCESS)
}
