//! A Debian or RPM package of an installation: programs, libraries, the systemd units, completions, the manual. A Python wheel of
//! one: programs and libraries.
//! In: an installation, the files of `xtask/package`, and what the installed `floe` prints of itself. Out: a `.deb` in
//! `target/package`, packed by `dpkg-deb`, a `.rpm`, packed by `rpmbuild`, or a `.whl`, packed by Python.
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
/// Scripts of shells: the shell, whether they are floed's, and the file. Distributions differ in the folder `ZSH`.
const COMPLETIONS: [(&str, bool, &str); 6] = [
    ("bash", false, "usr/share/bash-completion/completions/floe"),
    ("bash", true, "usr/share/bash-completion/completions/floed"),
    ("zsh", false, "usr/share/zsh/ZSH/_floe"),
    ("zsh", true, "usr/share/zsh/ZSH/_floed"),
    ("fish", false, "usr/share/fish/vendor_completions.d/floe.fish"),
    ("fish", true, "usr/share/fish/vendor_completions.d/floed.fish"),
];
/// Further files: in the repository, and in the package.
const OTHERS: [(&str, &str); 5] = [
    ("server/daemon/floed.service", "usr/lib/systemd/system/floed.service"),
    ("server/daemon/floed.socket", "usr/lib/systemd/system/floed.socket"),
    ("xtask/package/sysusers.conf", "usr/lib/sysusers.d/floe.conf"),
    ("LICENSE-APACHE", "usr/share/doc/floe/LICENSE-APACHE"),
    ("LICENSE-MIT", "usr/share/doc/floe/LICENSE-MIT"),
];
/// What a Debian package does when it is installed and removed.
const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];
/// The file's name of a Debian package.
pub(crate) const DEBIAN_NAME: &str = concat!("floe_", env!("CARGO_PKG_VERSION"), "_amd64.deb");
/// The program that makes RPM packages, which Debian has in its package `rpm`.
pub(crate) const RPM_BUILD: &str = "rpmbuild";

/// The kinds of packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A `.deb`.
    Debian,
    /// A `.rpm`.
    Rpm,
    /// A `.whl`.
    Wheel,
}

/// Packs an installation. Returns the package's path.
pub(crate) fn package(installation: &Path, kind: Kind) -> Result<PathBuf> {
    let folder = target_folder().join("package");
    match kind {
        Kind::Debian => debian(installation, &folder),
        Kind::Rpm => rpm(installation, &folder, Command::new(RPM_BUILD)),
        Kind::Wheel => wheel(installation, &folder),
    }
}

/// Packs the Debian package that a test tries, where there is `dpkg-deb`. One to ship stays where it is.
pub(crate) fn for_tests(installation: &Path) -> Result<()> {
    if Command::new("dpkg-deb").arg("--version").output().is_err() {
        eprintln!("no package is made and tried: there is no dpkg-deb");
        return Ok(());
    }
    debian(installation, &tested()).map(drop)
}

/// The folder of packages that are tried.
pub(crate) fn tested() -> PathBuf {
    target_folder().join("tested-package")
}

/// Makes the tree of all files of a package.
fn tree(installation: &Path, root: &Path, zsh: &str) -> Result<()> {
    if root.exists() {
        fs::remove_dir_all(root).with_context(|| format!("cannot remove: {}", root.display()))?;
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
    for (from, to) in OTHERS {
        copy(&repository().join(from), &root.join(to), Some(0o644))?;
    }
    let floe = installation.join("bin/floe");
    complete(&floe, root, zsh)?;
    manual(&floe, root)
}

fn debian(installation: &Path, folder: &Path) -> Result<PathBuf> {
    let root = folder.join("root");
    tree(installation, &root, "vendor-completions")?;
    for script in SCRIPTS {
        copy(&repository().join("xtask/package").join(script), &root.join("DEBIAN").join(script), Some(0o755))?;
    }
    fs::write(root.join("DEBIAN/control"), control(&glibc()?, kibibytes(&root.join("usr"))?))?;
    // Images are built from the folder.
    copy(&repository().join("xtask/package/Containerfile"), &folder.join("Containerfile"), None)?;
    fs::write(folder.join(".containerignore"), "root\n")?;
    let package = folder.join(DEBIAN_NAME);
    set_modes(&root)?;
    run(Command::new("dpkg-deb").args(["--root-owner-group", "--build"]).arg(&root).arg(&package))?;
    Ok(package)
}

/// By a command that is [`RPM_BUILD`], or has it run elsewhere with this folder and the repository's.
pub(crate) fn rpm(installation: &Path, folder: &Path, mut build: Command) -> Result<PathBuf> {
    let (root, top) = (folder.join("rpm-root"), folder.join("rpm"));
    tree(installation, &root, "site-functions")?;
    set_modes(&root)?;
    let version = env!("CARGO_PKG_VERSION");
    let defined = [
        ("_topdir", top.display().to_string()),
        ("_rpmdir", folder.display().to_string()),
        ("_rpmfilename", "%{NAME}-%{VERSION}-%{RELEASE}.%{ARCH}.rpm".to_owned()),
        ("floe_version", version.to_owned()),
        ("floe_glibc", glibc()?),
        ("floe_root", root.display().to_string()),
    ];
    build.args(["-bb", "--quiet", "--target", "x86_64"]);
    for (name, value) in defined {
        build.arg("--define").arg(format!("{name} {value}"));
    }
    run(build.arg(repository().join("xtask/package/floe.spec")))?;
    Ok(folder.join(format!("floe-{version}-1.x86_64.rpm")))
}

fn wheel(installation: &Path, folder: &Path) -> Result<PathBuf> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make: {}", folder.display()))?;
    let mut python = Command::new("python3");
    python.arg(repository().join("xtask/package/wheel.py")).arg(installation).arg(folder);
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

fn complete(floe: &Path, root: &Path, zsh: &str) -> Result<()> {
    for (shell, is_of_floed, place) in COMPLETIONS {
        let place = place.replace("ZSH", zsh);
        let mut command = Command::new(floe);
        command.args(["completions", shell]).args(is_of_floed.then_some("--floed"));
        let output = command.output().with_context(|| format!("{command:?} does not start"))?;
        ensure!(output.status.success(), "{command:?} failed: {}", output.status);
        make_folder_of(&root.join(&place))?;
        fs::write(root.join(&place), output.stdout)?;
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

/// Gives a folder and all in it the modes of a package, whatever this process gives to what it makes.
fn set_modes(folder: &Path) -> Result<()> {
    let set = |path: &Path, mode| {
        let set = fs::set_permissions(path, fs::Permissions::from_mode(mode));
        set.with_context(|| format!("cannot change: {}", path.display()))
    };
    set(folder, 0o755)?;
    for entry in fs::read_dir(folder).with_context(|| format!("cannot list: {}", folder.display()))? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        if metadata.is_dir() {
            set_modes(&entry.path())?;
        } else if metadata.is_file() {
            let runs = metadata.permissions().mode() & 0o100 != 0;
            set(&entry.path(), if runs { 0o755 } else { 0o644 })?;
        }
    }
    Ok(())
}

/// What files take, each in whole KiB, as Debian counts.
fn kibibytes(folder: &Path) -> Result<u64> {
    let mut total = 1;
    for entry in fs::read_dir(folder).with_context(|| format!("cannot list: {}", folder.display()))? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        total += match metadata.file_type() {
            kind if kind.is_dir() => kibibytes(&entry.path())?,
            kind if kind.is_file() => metadata.len().div_ceil(1024),
            _ => 1,
        };
    }
    Ok(total)
}

/// `passwd` makes the user where there is no systemd.
fn control(glibc: &str, kibibytes: u64) -> String {
    format!(
        "Package: floe\nVersion: {}\nArchitecture: amd64\nSection: net\nPriority: optional\n\
         Installed-Size: {kibibytes}\n\
         Maintainer: the authors of floe <root@localhost>\nDepends: libc6 (>= {glibc}), libgcc-s1, passwd\n\
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
        let control = control("2.36", 12_345);
        for field in [
            "Installed-Size: 12345\n",
            "Package: floe\n",
            "Version: 0.",
            "Architecture: amd64\n",
            "libc6 (>= 2.36)",
            "\nDescription: ",
        ] {
            assert!(control.contains(field), "{field}: {control}");
        }
        assert!(control.ends_with('\n') && !control.contains("\n\n"), "{control}");
    }

    #[test]
    fn a_package_can_be_read_by_everybody_and_written_by_root_whoever_makes_it() {
        let root = tempfile::tempdir().expect("a folder");
        let (folder, program, text) = (root.path().join("bin"), root.path().join("bin/floe"), root.path().join("page"));
        fs::create_dir(&folder).expect("made");
        symlink("floe", folder.join("link")).expect("linked");
        for file in [&program, &text] {
            fs::write(file, "").expect("written");
        }
        for (path, mode) in [(&program, 0o700), (&text, 0o666), (&folder, 0o770)] {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("changed");
        }
        set_modes(root.path()).expect("changed");
        for (path, wanted) in [(&program, 0o755), (&text, 0o644), (&folder, 0o755), (&root.path().to_owned(), 0o755)] {
            let mode = fs::metadata(path).expect("there").permissions().mode() & 0o7777;
            assert_eq!(mode, wanted, "{}", path.display());
        }
    }

    #[test]
    fn every_file_of_the_package_is_in_the_repository() {
        let scripts = SCRIPTS.map(|script| format!("xtask/package/{script}"));
        for from in OTHERS.iter().map(|(from, _)| *from).chain(scripts.iter().map(String::as_str)) {
            assert!(repository().join(from).is_file(), "{from}");
        }
    }

    /// The manual's pages are named by patterns.
    #[test]
    fn the_rpm_lists_every_file_and_no_other() {
        let spec = fs::read_to_string(repository().join("xtask/package/floe.spec")).expect("it is there");
        let listed = spec.lines().filter_map(|line| line.strip_prefix('/')).filter(|line| !line.contains("/man/"));
        let mut listed: Vec<String> = listed.map(str::to_owned).collect();
        let of_doc = |to: &str| if to.contains("/doc/") { "usr/share/doc/floe".to_owned() } else { to.to_owned() };
        let mut wanted: Vec<String> = OTHERS.iter().map(|(_, to)| of_doc(to)).collect();
        wanted.extend(COMPLETIONS.iter().map(|(.., place)| place.replace("ZSH", "site-functions")));
        wanted.extend(ON_PATH.iter().map(|program| format!("usr/bin/{program}")).chain([HOME.to_owned()]));
        for list in [&mut listed, &mut wanted] {
            list.sort();
            list.dedup();
        }
        assert_eq!(listed, wanted);
    }
}
