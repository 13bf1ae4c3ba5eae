//! The crates of the repository: cargo's own description comes in, folders and roots of targets go out.
//! The fuzz targets are a workspace of their own and are asked for as well. It never resolves a dependency, so that it
//! needs no network and no lock file.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

/// The workspaces of the repository.
const WORKSPACES: [&str; 2] = ["Cargo.toml", "fuzz/Cargo.toml"];
/// The kinds of targets that are no part of a product: what they hold is test code.
const OF_TESTS: [&str; 4] = ["test", "bench", "example", "custom-build"];

/// A crate of the repository, which is a folder with a manifest.
#[derive(Debug)]
pub(crate) struct Crate {
    /// The folder, from the repository's root.
    pub(crate) folder: String,
    /// The roots of its library and its programs, absolute.
    pub(crate) roots: Vec<PathBuf>,
    /// Whether it is a library of C names, which macros make: each is unsafe code, and none stands in its files.
    pub(crate) exports_c: bool,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    manifest_path: PathBuf,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Target {
    kind: Vec<String>,
    src_path: PathBuf,
}

/// All crates of the repository, by folder.
///
/// # Errors
/// When cargo does not understand a manifest.
pub(crate) fn crates(repository: &Path) -> Result<Vec<Crate>> {
    let mut crates = Vec::new();
    for manifest in WORKSPACES.iter().map(|name| repository.join(name)).filter(|manifest| manifest.is_file()) {
        for package in described(&manifest)?.packages {
            crates.push(package.in_repository(repository)?);
        }
    }
    crates.sort_by(|one, other| one.folder.cmp(&other.folder));
    Ok(crates)
}

/// cargo's description of a workspace, without its dependencies.
fn described(manifest: &Path) -> Result<Metadata> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["metadata", "--no-deps", "--offline", "--format-version", "1", "--manifest-path"]).arg(manifest);
    let output = cargo.output().context("cannot start cargo")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "cargo does not understand: {}\n{}", manifest.display(), said.trim_end());
    serde_json::from_slice(&output.stdout).context("cargo describes the workspace in an unknown form")
}

impl Package {
    fn in_repository(self, repository: &Path) -> Result<Crate> {
        let folder = self.manifest_path.parent().unwrap_or(repository);
        let folder = folder.strip_prefix(repository).with_context(|| format!("not here: {}", folder.display()))?;
        let is = |target: &Target, kinds: &[&str]| target.kind.iter().any(|kind| kinds.contains(&kind.as_str()));
        let exports_c = self.targets.iter().any(|target| is(target, &["cdylib"]));
        let products = self.targets.into_iter().filter(|target| !is(target, &OF_TESTS));
        let roots = products.map(|target| target.src_path).collect();
        Ok(Crate { folder: folder.display().to_string(), roots, exports_c })
    }
}
