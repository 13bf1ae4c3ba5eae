//! `cargo xtask check shape`: what keeps the repository a house that others can live in.

mod arrows;
mod circles;
mod crates;
mod dependencies;
mod facts;
mod finding;
mod licence;
mod listed;
mod modules;
mod monitoring;
mod named;
mod package;
mod pages;
mod shape;
mod syntax;
mod tangle;
#[cfg(test)]
mod tests;
mod tree;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Subcommand;

use crate::toolchain;
use crates::crates;
use listed::Listed;
use modules::Modules;
use shape::Shape;
use tangle::Tangle;
use tree::Tree;

/// The checks.
#[derive(Subcommand)]
pub(crate) enum Check {
    /// Sizes, circles between files, unsafe code, and names on the pages
    Shape {
        /// Remove entries from the list of exceptions that the repository no longer needs
        #[arg(long)]
        shrink: bool,
        /// Print the circles between a crate's files (as client/session), with the lines that make them
        #[arg(long, value_name = "CRATE", conflicts_with = "shrink")]
        circles: Option<String>,
    },
    /// Alerts, dashboard and page of a server's figures, by Debian's Prometheus
    Monitoring {
        /// Fetch Debian's package into target/prometheus, for this and later checks
        #[arg(long)]
        install: bool,
    },
    /// The Debian and the RPM package in a Debian 12 of their own, where systemd is process 1 (needs root)
    Package {
        /// Only this package, instead of those of `cargo xtask dist`
        file: Option<PathBuf>,
    },
    /// Licences, registries and versions of the dependencies
    Dependencies {
        /// Install cargo-deny into the cache folder, for this and later checks
        #[arg(long)]
        install: bool,
    },
}

/// Checks.
pub(crate) fn run(check: &Check) -> Result<()> {
    let repository = repository()?;
    match check {
        Check::Shape { circles: Some(folder), .. } => print_circles(&repository, folder),
        Check::Shape { shrink: true, .. } => shrink(&repository),
        Check::Shape { .. } => shape(&repository),
        Check::Monitoring { install } => monitoring::check(&repository, *install),
        Check::Package { file } => package::check(file.as_deref()),
        Check::Dependencies { install } => dependencies::check(&repository, *install),
    }
}

/// Checks the shape of the repository that this program was built in.
pub(crate) fn shape_in_ci() -> Result<()> {
    shape(&toolchain::repository())
}

/// Checks the dependencies of that repository; installs nothing.
pub(crate) fn dependencies_in_ci() -> Result<()> {
    dependencies::check(&toolchain::repository(), false)
}

/// Checks alerts, dashboard and page where that repository's machine can.
pub(crate) fn monitoring_in_ci() -> Result<()> {
    monitoring::check_where_possible(&toolchain::repository())
}

/// Tries the packages where this machine can.
pub(crate) fn package_in_ci() -> Result<()> {
    package::check_where_possible()
}

fn shape(repository: &Path) -> Result<()> {
    let tree = Tree::read(repository)?;
    let shape = Shape::read(repository, &tree)?;
    let found = shape.against(&Listed::read(repository)?);
    for finding in &found {
        eprintln!("{finding}");
    }
    ensure!(found.is_empty(), "the repository is out of shape, places: {}", found.len());
    eprintln!("{}", shape.told());
    Ok(())
}

fn shrink(repository: &Path) -> Result<()> {
    let now = Shape::read(repository, &Tree::read(repository)?)?.now;
    Listed::read(repository)?.shrunk(&now).write(repository)
}

fn print_circles(repository: &Path, folder: &str) -> Result<()> {
    let crates = crates(repository)?;
    let known = crates.iter().map(|each| each.folder.as_str()).collect::<Vec<_>>().join(", ");
    let chosen = crates.iter().find(|each| each.folder == folder.trim_end_matches('/'));
    let chosen = chosen.with_context(|| format!("no such crate: {folder}\nthere are: {known}"))?;
    print!("{}", Tangle::of(repository, chosen, &Modules::read(&chosen.roots)?).told());
    Ok(())
}

/// The repository around the current folder, else the one this program was built in.
fn repository() -> Result<PathBuf> {
    let here = std::env::current_dir().context("there is no current folder")?;
    let found = here.ancestors().find(|folder| folder.join("xtask/Cargo.toml").is_file());
    Ok(found.map_or_else(toolchain::repository, Path::to_path_buf))
}
