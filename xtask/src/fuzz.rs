//! Fuzzing of what decodes, lowers and runs foreign bytes: the targets of `fuzz/`, by cargo-fuzz.
//! In: seconds, and which targets. Out: a failure with cargo-fuzz's own report when a target finds something.
//! cargo-fuzz itself is installed into the cache folder when it is missing.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::dist::{cargo, run};
use crate::toolchain::{self, repository};

/// Seconds per target in `cargo xtask test`, those that run kernels first: a guard against regressions; real fuzzing runs
/// for hours.
const SECONDS_IN_CI: [(&str, u32); 2] = [("ptx_execute", 12), ("ptx_lanes", 12)];
/// Of the others.
const OTHERS_IN_CI: u32 = 3;

/// The version of cargo-fuzz that is installed.
const CARGO_FUZZ: &str = "0.13.2";

/// Most memory of a target: what its inputs may make it take, and with a sanitizer what that adds.
const MEGABYTES: [u32; 2] = [2048, 4096];

/// The targets, and how long each runs.
pub(crate) struct Fuzzing {
    /// Seconds for each target.
    pub(crate) seconds: u32,
    /// Only these targets; all when there are none.
    pub(crate) targets: Vec<String>,
    /// Whether accesses outside of what was allocated are found by the address sanitizer.
    pub(crate) address: bool,
}

/// Fuzzes every target for the time it has in `cargo xtask test`.
pub(crate) fn in_ci() -> Result<()> {
    demand_lock_file()?;
    let tool = installed()?;
    for target in targets()? {
        let given = SECONDS_IN_CI.iter().find(|(name, _)| *name == target);
        fuzz_target(&tool, &target, given.map_or(OTHERS_IN_CI, |(_, seconds)| *seconds), false)?;
    }
    Ok(())
}

/// Demands that the targets' own lock file holds all that they need: cargo-fuzz would write what it lacks, and say
/// nothing.
fn demand_lock_file() -> Result<()> {
    let arguments = ["metadata", "--locked", "--format-version", "1", "--manifest-path", "fuzz/Cargo.toml"];
    let output = cargo(&arguments).output().context("cannot start cargo")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "fuzz/Cargo.lock lacks what the fuzz targets need\n{}", said.trim_end());
    Ok(())
}

/// Fuzzes the targets one after the other, all of them also where one finds something.
pub(crate) fn fuzz(fuzzing: &Fuzzing) -> Result<()> {
    let (tool, known) = (installed()?, targets()?);
    for target in &fuzzing.targets {
        ensure!(known.contains(target), "no such target: {target}\nthere are: {}", known.join(", "));
    }
    let chosen = if fuzzing.targets.is_empty() { &known } else { &fuzzing.targets };
    let mut found = Vec::new();
    for target in chosen {
        if let Err(error) = fuzz_target(&tool, target, fuzzing.seconds, fuzzing.address) {
            eprintln!("floe fuzz: {target}: {error:#}");
            found.push(target.as_str());
        }
    }
    ensure!(found.is_empty(), "targets that found something: {}\ntheir inputs lie in fuzz/artifacts", found.join(", "));
    Ok(())
}

/// Coverage by stable flags: so the stable toolchain suffices, also with the sanitizer.
fn fuzz_target(tool: &Path, target: &str, seconds: u32, address: bool) -> Result<()> {
    eprintln!("floe fuzz: {target}, {seconds} s");
    let folder = repository().join("fuzz");
    let corpus = folder.join("corpus").join(target);
    std::fs::create_dir_all(&corpus).with_context(|| format!("{} cannot be made", corpus.display()))?;
    let sanitizer = if address { "address" } else { "none" };
    let mut command = std::process::Command::new(tool);
    command.current_dir(repository());
    command.args(["fuzz", "run", "--release", "--sanitizer", sanitizer, "--fuzz-dir", "fuzz", target]).arg(&corpus);
    let seeds = folder.join("seeds").join(target);
    if seeds.is_dir() {
        command.arg(&seeds);
    }
    // Names of the interpreter's opcodes are made once and never given back.
    command.args(["--", "-timeout=10", "-verbosity=0", "-print_final_stats=1", "-detect_leaks=0"]);
    command.arg(format!("-max_total_time={seconds}")).arg(format!("-rss_limit_mb={}", MEGABYTES[usize::from(address)]));
    let words = folder.join("words").join(format!("{target}.dict"));
    if words.is_file() {
        command.arg(format!("-dict={}", words.display()));
    }
    run(command.env("RUSTC_BOOTSTRAP", "1"))
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
        // It only starts others: its own speed is nothing, the time it takes to build is.
        run(cargo(&["install", "--debug", "--quiet", "--locked", "cargo-fuzz", "--version", CARGO_FUZZ, "--root"])
            .arg(&root))?;
    }
    Ok(tool)
}
