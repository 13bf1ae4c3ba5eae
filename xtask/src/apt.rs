//! Debian's packages, unpacked without installing them: a package's name comes in, its files go out into a folder.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::dist::run;

/// Fetches a package with `apt-get download`, which needs no root, and unpacks it.
pub(crate) fn fetch(name: &str, folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make: {}", folder.display()))?;
    run(Command::new("apt-get").current_dir(folder).args(["download", name]))?;
    let files = std::fs::read_dir(folder).with_context(|| format!("cannot list: {}", folder.display()))?;
    let package = files.flatten().map(|file| file.path()).find(|path| path.extension().is_some_and(|end| end == "deb"));
    let package = package.context("apt-get downloaded no package")?;
    run(Command::new("dpkg").arg("-x").args([&package, &folder.to_path_buf()]))
}
