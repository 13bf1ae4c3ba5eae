//! The developers' one door: every command that builds, generates or checks this repository. Arguments come in from
//! `cargo xtask`, files of the repository go out. It never runs as part of floe itself.

mod generate;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "xtask", about = "floe's developer commands")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Writes the generated code from the call table
    Gen {
        /// Only say whether the committed files are what the table gives; fails when one is stale
        #[arg(long)]
        check: bool,
    },
    /// Writes api/versions.txt from NVIDIA's public cudaTypedefs.h
    GenVersions {
        /// Path of cudaTypedefs.h
        header: std::path::PathBuf,
    },
}

fn main() -> Result<()> {
    match Arguments::parse().command {
        Command::Gen { check } => generate::run(check),
        Command::GenVersions { header } => generate::calls::versions::write(&header),
    }
}
