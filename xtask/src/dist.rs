//! Lays an installation out: `target/dist/{bin,lib/client,lib/device}`.
//! In: the workspace. Out: release builds of every executable, both `libcuda.so.1` and the client's `libnvidia-ml.so.1`, copied to
//! where `floe` looks for them.
//! Never copies a file that is already there with the same time and size, so that it costs nothing when nothing changed.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::toolchain::repository;

/// Files of the installation: cargo's name of the file, and its path there.
pub(crate) const FILES: &[(&str, &str)] = &[
    ("floe", "bin/floe"),
    ("floed", "bin/floed"),
    ("floe-worker", "bin/floe-worker"),
    ("floe-demo", "bin/floe-demo"),
    ("floe-bench", "bin/floe-bench"),
    ("libfloe_client_cuda.so", "lib/client/libcuda.so.1"),
    ("libfloe_client_cupti.so", "lib/client/cupti/libcupti.so.13"),
    ("libfloe_client_nccl.so", "lib/client/nccl/libnccl.so.2"),
    ("libfloe_client_nvml.so", "lib/client/libnvidia-ml.so.1"),
    ("libfloe_sim_cuda.so", "lib/device/libcuda.so.1"),
];

/// Further names of libraries, which some programs ask for first: nvtop finds NVIDIA's library otherwise, Numba too.
const LINKS: &[(&str, &str)] = &[
    ("libcuda.so.1", "lib/client/libcuda.so"),
    ("libnvidia-ml.so.1", "lib/client/libnvidia-ml.so"),
    ("libcuda.so.1", "lib/device/libcuda.so"),
];

/// Cargo's target folder for this workspace.
pub(crate) fn target_folder() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository().join("target"), PathBuf::from)
}

/// Runs a command and fails with its own words when it fails.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("{command:?} does not start"))?;
    if !status.success() {
        bail!("{command:?} failed: {status}");
    }
    Ok(())
}

/// A cargo command in the repository's root.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // In every build, so that none makes another's executables stale.
    command.current_dir(repository()).args(arguments).env("FLOE_COMMIT", commit());
    command
}

/// Builds everything in release and lays it out. Returns the installation's folder.
pub(crate) fn dist() -> Result<PathBuf> {
    eprintln!("floe: building (the first time takes a few minutes)");
    run(&mut cargo(&[
        "build",
        "--release",
        "--locked",
        "--workspace",
        "--exclude",
        "xtask",
        "--exclude",
        "floe-tests",
    ]))?;
    lay_out(FILES, "release", "dist")
}

/// Builds what is given to others, by the profile for it, and lays it out. Returns the installation's folder.
pub(crate) fn ship() -> Result<PathBuf> {
    eprintln!("floe: building for shipping (takes some minutes)");
    let arguments =
        ["build", "--profile", "shipping", "--locked", "--workspace", "--exclude", "xtask", "--exclude", "floe-tests"];
    run(cargo(&arguments).env("RUSTFLAGS", without_paths_of_this_machine()))?;
    lay_out(FILES, "shipping", "shipped")
}

/// Has file names in panics and symbols begin at the repository or at cargo's folder, so that two builds can be compared.
fn without_paths_of_this_machine() -> String {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let cargo_home = std::env::var_os("CARGO_HOME").map_or_else(|| home.join(".cargo"), PathBuf::from);
    let own = std::env::var("RUSTFLAGS").unwrap_or_default();
    format!(
        "{own} --remap-path-prefix={}=floe --remap-path-prefix={}=cargo",
        repository().display(),
        cargo_home.display()
    )
}

/// Copies these files of a profile's folder to their places in an installation, and gives the installation's folder.
fn lay_out(files: &[(&str, &str)], profile: &str, installation: &str) -> Result<PathBuf> {
    let (from, to) = (target_folder().join(profile), target_folder().join(installation));
    for (name, place) in files {
        place_file(&from.join(name), &to.join(place))?;
    }
    place_links(&to)?;
    Ok(to)
}

/// The commit that is checked out, as measurements note it; empty where this is no clone.
fn commit() -> String {
    let output = Command::new("git").current_dir(repository()).args(["describe", "--always", "--dirty"]).output();
    let said = output.ok().filter(|output| output.status.success()).map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&said).trim().to_owned()
}

/// Needs of `floe demo`: its packages, and the files of the installation that they make.
const DEMO_PACKAGES: [&str; 7] = [
    "floe-cli",
    "floe-daemon",
    "floe-worker",
    "floe-demo",
    "floe-client-libcuda",
    "floe-client-libcupti",
    "floe-sim-libcuda",
];
const NOT_FOR_THE_DEMO: [&str; 3] = ["floe-bench", "libfloe_client_nvml.so", "libfloe_client_nccl.so"];

/// Builds as much of an installation as `floe demo` needs, and runs it.
pub(crate) fn demo() -> Result<()> {
    eprintln!("floe: building (the first time takes a few minutes)");
    let packages = DEMO_PACKAGES.iter().flat_map(|package| ["-p", package]);
    run(&mut cargo(&["build", "--release", "--locked"].into_iter().chain(packages).collect::<Vec<_>>()))?;
    let files: Vec<_> = FILES.iter().filter(|(name, _)| !NOT_FOR_THE_DEMO.contains(name)).copied().collect();
    let installation = lay_out(&files, "release", "dist")?;
    run(Command::new(installation.join("bin/floe")).arg("demo"))
}

/// Gives the libraries of an installation their further names.
pub(crate) fn place_links(installation: &Path) -> Result<()> {
    for (name, place) in LINKS {
        let link = installation.join(place);
        if std::fs::read_link(&link).is_ok_and(|target| target == Path::new(name)) {
            continue;
        }
        let fresh = link.with_extension("fresh");
        let _ = std::fs::remove_file(&fresh);
        std::os::unix::fs::symlink(name, &fresh)
            .and_then(|()| std::fs::rename(&fresh, &link))
            .with_context(|| format!("{} cannot be placed", link.display()))?;
    }
    Ok(())
}

fn place_file(from: &Path, to: &Path) -> Result<()> {
    let built = from.metadata().with_context(|| format!("the build did not make {}", from.display()))?;
    if let Ok(there) = to.metadata()
        && there.len() == built.len()
        && there.modified()? >= built.modified()?
    {
        return Ok(());
    }
    std::fs::create_dir_all(to.parent().expect("a file of the installation lies in a folder"))?;
    // A running floed may have the old file open: take its name away, do not write into it.
    let fresh = to.with_extension("fresh");
    std::fs::copy(from, &fresh)?;
    std::fs::rename(&fresh, to).with_context(|| format!("{} cannot be placed", to.display()))
}
