//! `cargo xtask bench --pack`: what measures floe on a machine with a GPU, in one folder that can be carried there.
//! In: the installation, nvcc, the programs of `bench/` and `tests/frameworks/`. Out: `target/bench`, stripped, which needs
//! no Rust and no network where it runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::dist::{FILES, dist, place_links, run, target_folder};
use crate::toolchain::{self, CudaHome, repository};

/// Lays the folder out and gives it.
pub(crate) fn pack() -> Result<PathBuf> {
    let installation = dist()?;
    let folder = target_folder().join("bench");
    for place in FILES.iter().map(|(_, place)| place) {
        strip(&installation.join(place), &folder.join(place))?;
    }
    place_links(&folder)?;
    let programs = folder.join("share/bench");
    copy_sources(&repository().join("bench/programs"), &programs)?;
    let home = toolchain::ensure()?;
    for program in ["driver_calls", "between_gpus", "collectives", "steady", "tenant"] {
        build(&home, &programs, program)?;
    }
    copy_sources(&repository().join("tests/frameworks"), &folder.join("share/frameworks"))?;
    Ok(folder)
}

/// Packs, then measures on this machine's GPU.
pub(crate) fn measure(arguments: &[String]) -> Result<()> {
    let folder = pack()?;
    run(Command::new(folder.join("bin/floe-bench")).arg("speed").args(arguments))
}

/// Copies an executable or a library without what only a debugger reads.
fn strip(from: &Path, to: &Path) -> Result<()> {
    let parent = to.parent().context("a file of the installation lies in a folder")?;
    fs::create_dir_all(parent).with_context(|| format!("cannot create: {}", parent.display()))?;
    run(Command::new("strip").arg("--strip-unneeded").arg("-o").arg(to).arg(from))
}

/// Builds a program that times calls. Its runtime is static: where it runs there may be no other.
fn build(home: &CudaHome, folder: &Path, program: &str) -> Result<()> {
    let mut nvcc = Command::new(home.nvcc());
    nvcc.args(["-O2", "-std=c++17", "-arch=sm_90", "-L"]).arg(home.libraries());
    run(nvcc.arg(folder.join(program).with_extension("cu")).arg("-o").arg(folder.join(program)))
}

/// Copies what is in a folder of sources, and nothing that was made from them.
fn copy_sources(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("cannot create: {}", to.display()))?;
    let entries = fs::read_dir(from).with_context(|| format!("cannot read: {}", from.display()))?;
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().context("an entry of a folder has a name")?;
        if path.is_dir() {
            if name != "__pycache__" {
                copy_sources(&path, &to.join(name))?;
            }
        } else {
            fs::copy(&path, to.join(name)).with_context(|| format!("cannot copy: {}", path.display()))?;
        }
    }
    Ok(())
}
