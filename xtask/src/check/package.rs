//! The packages in a Debian 12 of their own, where systemd is process 1: each is installed by the system's own tool, serves, is
//! upgraded, and is removed. In: an installation, or a package. Out: the steps with their times, and what did not hold. It needs
//! root and Debian's archive. As a step of `cargo xtask test` it says what is missing, and passes.

mod debian;
mod groups;
mod machine;
mod steps;
mod system;

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use crate::dist::{dist, target_folder};
use crate::package;
use crate::toolchain::repository;
use machine::Machine;
use steps::STEPS;
use system::{System, Tool};

/// Checks this package, or both that are made of `cargo xtask dist`.
pub(super) fn check(package: Option<&Path>) -> Result<()> {
    let Some(package) = package else {
        package::for_tests(&dist()?)?;
        let folder = package::tested();
        return both(&target_folder().join("dist"), prepare(&folder)?);
    };
    let package = package.canonicalize().with_context(|| format!("no such package: {}", package.display()))?;
    let folder = package.parent().context("a package lies in a folder")?;
    try_out(prepare(folder)?.1, &package)
}

/// Checks both packages of the installation that the tests have, where this machine can.
pub(super) fn check_where_possible() -> Result<()> {
    match prepare(&package::tested()) {
        Ok(prepared) => both(&target_folder().join("bench"), prepared),
        Err(error) => {
            eprintln!("no package is tried in a Debian 12 of its own: {error:#}");
            Ok(())
        }
    }
}

/// Makes a Debian 12, and starts a first machine with it. What fails here is for want of something that is no part of floe.
fn prepare(packages: &Path) -> Result<(PathBuf, Machine)> {
    let user = std::fs::metadata("/proc/self").context("cannot look at: /proc/self")?.uid();
    ensure!(user == 0, "only root can start a machine");
    for tool in ["apt-get", "dpkg-deb", "unshare", "nsenter", "setpriv"] {
        Command::new(tool).arg("--version").output().with_context(|| format!("there is no {tool}"))?;
    }
    std::fs::create_dir_all(packages).with_context(|| format!("cannot make: {}", packages.display()))?;
    let debian = debian::debian()?;
    let root = root();
    debian::copy(&debian, &root)?;
    let machine = Machine::boot(&root, packages).context("systemd does not start as process 1 of a container")?;
    Ok((debian, machine))
}

/// Tries the Debian package of an installation that is there, and the RPM package, which is made for it.
fn both(installation: &Path, (debian, machine): (PathBuf, Machine)) -> Result<()> {
    let folder = package::tested();
    let deb = folder.join(package::DEBIAN_NAME);
    try_out(machine, &deb)?;
    let root = root();
    debian::copy(&debian, &root)?;
    let begin = Instant::now();
    let rpmbuild = debian::command(&root, [&folder, &repository().join("xtask/package")], package::RPM_BUILD);
    let rpm = package::rpm(installation, &folder, rpmbuild)?;
    eprintln!("  made, in {:.1} s: {}", begin.elapsed().as_secs_f64(), rpm.display());
    try_out(Machine::boot(&root, &folder)?, &rpm)
}

/// Takes a package through its life.
fn try_out(machine: Machine, package: &Path) -> Result<()> {
    let name = package.file_name().and_then(|name| name.to_str()).context("a package has a name")?;
    ensure!(package.is_file(), "there is no package: {}", package.display());
    let mut system = System::new(machine, Tool::of(name)?, name);
    for (what, step) in STEPS {
        let begin = Instant::now();
        step(&mut system).with_context(|| format!("{name}: {what}\n{}", system.journal()))?;
        eprintln!("  {name}: {what}: {:.1} s", begin.elapsed().as_secs_f64());
    }
    system.end()?;
    debian::remove(&root())
}

/// Where a machine's files are.
fn root() -> PathBuf {
    target_folder().join("machine/root")
}
