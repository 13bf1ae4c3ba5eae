//! Bounded fuzzing of what decodes foreign bytes: the targets of `fuzz/`, by cargo-fuzz.
//! In: seconds per target. Out: a failure with cargo-fuzz's own report when a target finds something.
//! cargo-fuzz itself is installed into the cache folder when it is not there.

use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::dist::{cargo, run};
use crate::toolchain::{self, repository};

/// Seconds per target in `cargo xtask test`: a guard against regressions; real fuzzing runs for hours.
pub(crate) const SECONDS_IN_CI: u32 = 20;

/// The version of cargo-fuzz that is installed.
const CARGO_FUZZ: &str = "0.13.2";

/// Fuzzes every target for that many seconds.
pub(crate) fn fuzz(seconds: u32) -> Result<()> {
    let tool = installed()?;
    for target in targets()? {
        eprintln!("floe fuzz: {target}, {seconds} s");
        // Coverage by stable flags and no sanitizer: so the stable toolchain suffices; `--sanitizer address` with a
        // nightly one is for long runs.
        run(std::process::Command::new(&tool)
            .current_dir(repository())
            .args(["fuzz", "run", "--release", "--sanitizer", "none", "--fuzz-dir", "fuzz", &target, "--"])
            .arg(format!("-max_total_time={seconds}"))
            .args(["-rss_limit_mb=2048", "-timeout=10", "-verbosity=0", "-print_final_stats=1"])
            .env("RUSTC_BOOTSTRAP", "1"))?;
    }
    Ok(())
}

/// The names of the files in `fuzz/fuzz_targets`.
fn targets() -> Result<Vec<String>> {
    let folder = repository().join("fuzz/fuzz_targets");
    let mut names: Vec<String> = std::fs::read_dir(&folder)
        .with_context(|| format!("{} cannot be read", folder.display()))?
        .filter_map(|entry| Some(entry.ok()?.path().file_stem()?.to_str()?.to_owned()))
        .collect();
    names.sort();
    Ok(names)
}

/// The path of cargo-fuzz in the cache folder, installed when missing.
fn installed() -> Result<PathBuf> {
    let root = toolchain::cache_folder()?.join("cargo-fuzz");
    let tool = root.join("bin/cargo-fuzz");
    if !tool.is_file() {
        eprintln!("floe fuzz: installing cargo-fuzz {CARGO_FUZZ} into {}", root.display());
        run(cargo(&["install", "--quiet", "--locked", "cargo-fuzz", "--version", CARGO_FUZZ, "--root"]).arg(&root))?;
    }
    Ok(tool)
}
