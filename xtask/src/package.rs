//! A Debian package of an installation: programs, libraries, the systemd unit, completions, the manual. A Python wheel of one:
//! programs and libraries.
//! In: an installation, the files of `xtask/package`, and what the installed `floe` prints of itself. Out: a `.deb` in
//! `target/package`, packed by `dpkg-deb`, or a `.whl`, packed by Python.
//! The installation stays one folder, `/usr/lib/floe`, since its programs look for their files beside themselves.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::dist::{FILES, place_links, run, target_folder};
use crate::toolchain::repository;

/// Where an installation lies.
const HOME: &str = "usr/lib/floe";
/// Programs that are on the path.
const ON_PATH: [&str; 2] = ["floe", "floed"];
/// Scripts of shells: the shell, whether they are floed's, and the file.
const COMPLETIONS: [(&str, bool, &str); 6] = [
    ("bash", false, "usr/share/bash-completion/completions/floe"),
    ("bash", true, "usr/share/bash-completion/completions/floed"),
    ("zsh", false, "usr/share/zsh/vendor-completions/_floe"),
    ("zsh", true, "usr/share/zsh/vendor-completions/_floed"),
    ("fish", false, "usr/share/fish/vendor_completions.d/floe.fish"),
    ("fish", true, "usr/share/fish/vendor_completions.d/floed.fish"),
];
/// Further files: in the repository, in the package, and whether they are run.
const OTHERS: [(&str, &str, bool); 6] = [
    ("server/daemon/floed.service", "usr/lib/systemd/system/floed.service", false),
    ("xtask/package/sysusers.conf", "usr/lib/sysusers.d/floe.conf", false),
    ("LICENSE-APACHE", "usr/share/doc/floe/LICENSE-APACHE", false),
    ("LICENSE-MIT", "usr/share/doc/floe/LICENSE-MIT", false),
    ("xtask/package/postinst", "DEBIAN/postinst", true),
    ("xtask/package/prerm", "DEBIAN/prerm", true),
];

/// Packs an installation. Returns the package's path.
pub(crate) fn package(installation: &Path) -> Result<PathBuf> {
    let folder = target_folder().join("package");
    let root = folder.join("root");
    if root.exists() {
        fs::remove_dir_all(&root).with_context(|| format!("cannot remove: {}", root.display()))?;
    }
    for (_, place) in FILES {
        copy(&installation.join(place), &root.join(HOME).join(place), None)?;
    }
    place_links(&root.join(HOME))?;
    for program in ON_PATH {
        let link = root.join("usr/bin").join(program);
        make_folder_of(&link)?;
        symlink(format!("../lib/floe/bin/{program}"), &link)?;
    }
    for (from, to, is_run) in OTHERS {
        copy(&repository().join(from), &root.join(to), Some(if is_run { 0o755 } else { 0o644 }))?;
    }
    let floe = installation.join("bin/floe");
    complete(&floe, &root)?;
    manual(&floe, &root)?;
    fs::write(root.join("DEBIAN/control"), control(&glibc()?))?;
    let package = folder.join(format!("floe_{}_amd64.deb", env!("CARGO_PKG_VERSION")));
    run(Command::new("dpkg-deb").args(["--root-owner-group", "--build"]).arg(&root).arg(&package))?;
    Ok(package)
}

/// Packs an installation as a wheel. Returns its path.
pub(crate) fn wheel(installation: &Path) -> Result<PathBuf> {
    let folder = target_folder().join("package");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make: {}", folder.display()))?;
    let mut python = Command::new("python3");
    python.arg(repository().join("xtask/package/wheel.py")).arg(installation).arg(&folder);
    python.args([env!("CARGO_PKG_VERSION"), &glibc()?]);
    let output = python.args(["LICENSE-APACHE", "LICENSE-MIT"].map(|name| repository().join(name))).output();
    let output = output.context("python3 does not start")?;
    ensure!(output.status.success(), "{python:?} failed: {}", String::from_utf8_lossy(&output.stderr).trim_end());
    Ok(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()))
}

fn make_folder_of(path: &Path) -> Result<()> {
    let folder = path.parent().expect("a file of a package lies in a folder");
    fs::create_dir_all(folder).with_context(|| format!("cannot make: {}", folder.display()))
}

/// Copies a file, with this mode if one is given.
fn copy(from: &Path, to: &Path, mode: Option<u32>) -> Result<()> {
    make_folder_of(to)?;
    fs::copy(from, to).with_context(|| format!("cannot copy: {}", from.display()))?;
    if let Some(mode) = mode {
        fs::set_permissions(to, fs::Permissions::from_mode(mode))?;
    }
    Ok(())
}

fn complete(floe: &Path, root: &Path) -> Result<()> {
    for (shell, is_of_floed, place) in COMPLETIONS {
        let mut command = Command::new(floe);
        command.args(["completions", shell]).args(is_of_floed.then_some("--floed"));
        let output = command.output().with_context(|| format!("{command:?} does not start"))?;
        ensure!(output.status.success(), "{command:?} failed: {}", output.status);
        make_folder_of(&root.join(place))?;
        fs::write(root.join(place), output.stdout)?;
    }
    Ok(())
}

/// The pages of the manual, each in its section's folder and compressed, as Debian has them.
fn manual(floe: &Path, root: &Path) -> Result<()> {
    let all = root.join("usr/share/man/all");
    run(Command::new(floe).arg("man").arg(&all))?;
    for page in fs::read_dir(&all)? {
        let page = page?.path();
        let section = page.extension().and_then(|section| section.to_str()).context("a page has a section")?;
        let place = root.join(format!("usr/share/man/man{section}")).join(page.file_name().context("a name")?);
        make_folder_of(&place)?;
        fs::rename(&page, &place)?;
        // Without a time of its own, so that two packages of one commit are equal.
        run(Command::new("gzip").args(["--best", "--no-name"]).arg(&place))?;
    }
    Ok(fs::remove_dir(&all)?)
}

/// The version of this machine's C library, which the programs need.
fn glibc() -> Result<String> {
    let output = Command::new("getconf").arg("GNU_LIBC_VERSION").output().context("getconf does not start")?;
    let words = String::from_utf8_lossy(&output.stdout).into_owned();
    words.split_whitespace().last().map(str::to_owned).context("getconf names no version of glibc")
}

fn control(glibc: &str) -> String {
    format!(
        "Package: floe\nVersion: {}\nArchitecture: amd64\nSection: net\nPriority: optional\n\
         Maintainer: the authors of floe <root@localhost>\nDepends: libc6 (>= {glibc}), libgcc-s1\n\
         Recommends: systemd\nDescription: GPUs that float over a cluster\n \
         A CUDA program, unmodified, uses GPUs of other machines as if they were its own.\n \
         The service floed offers this machine's; it is not enabled by installing it.\n",
        env!("CARGO_PKG_VERSION")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_control_file_has_what_dpkg_asks_for() {
        let control = control("2.36");
        for field in ["Package: floe\n", "Version: 0.", "Architecture: amd64\n", "libc6 (>= 2.36)", "\nDescription: "] {
            assert!(control.contains(field), "{field}: {control}");
        }
        assert!(control.ends_with('\n') && !control.contains("\n\n"), "{control}");
    }

    #[test]
    fn every_file_of_the_package_is_in_the_repository() {
        for (from, ..) in OTHERS {
            assert!(repository().join(from).is_file(), "{from}");
        }
    }
}
