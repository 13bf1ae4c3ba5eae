//! `cargo xtask check shape`: what keeps the repository a house that others can live in.

mod arrows;
mod circles;
mod crates;
mod modules;
mod named;
mod syntax;
mod tangle;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Subcommand;

use crate::toolchain;
use crates::crates;
use tangle::Tangle;

/// What is checked.
#[derive(Subcommand)]
pub(crate) enum Check {
    /// Sizes, circles between modules, unsafe code, and what the pages name
    Shape {
        /// Say for a crate, as client/session, which files stand in circles and by which arrows
        #[arg(long, value_name = "CRATE")]
        circles: Option<String>,
    },
}

/// Checks.
pub(crate) fn run(check: &Check) -> Result<()> {
    let repository = repository()?;
    match check {
        Check::Shape { circles: Some(folder) } => print_circles(&repository, folder),
        Check::Shape { circles: None } => {
            for each in crates(&repository)? {
                let tangle = Tangle::read(&repository, &each)?;
                println!("{}: {}", each.folder, tangle.sizes());
            }
            Ok(())
        }
    }
}

fn print_circles(repository: &Path, folder: &str) -> Result<()> {
    let crates = crates(repository)?;
    let known = crates.iter().map(|each| each.folder.as_str()).collect::<Vec<_>>().join(", ");
    let chosen = crates.iter().find(|each| each.folder == folder.trim_end_matches('/'));
    let chosen = chosen.with_context(|| format!("no such crate: {folder}\nthere are: {known}"))?;
    print!("{}", Tangle::read(repository, chosen)?.told());
    Ok(())
}

/// The repository around the current folder, else the one this program was built in.
fn repository() -> Result<PathBuf> {
    let here = std::env::current_dir().context("there is no current folder")?;
    let found = here.ancestors().find(|folder| folder.join("xtask/Cargo.toml").is_file());
    Ok(found.map_or_else(toolchain::repository, Path::to_path_buf))
}
