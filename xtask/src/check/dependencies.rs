//! Rules of dependencies: `deny.toml` and cargo's resolved graph come in, violations go out. The tool cargo-deny reads
//! the same file and checks more. Where it is not installed, this checks licences, registries, and crates in several
//! versions. It never asks for known weaknesses, whose list lies outside of the registries.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::finding::Finding;
use super::licence;
use crate::dist::{cargo, run};
use crate::toolchain;

/// The rules.
const RULES: &str = "deny.toml";
/// The version of cargo-deny that is installed. A build of it takes two cores 100 s: a night has them, a test has not.
const CARGO_DENY: &str = "0.20.2";
/// The registry that crates come from.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Checks the dependencies, by cargo-deny where it is installed.
pub(crate) fn check(repository: &Path, installs: bool) -> Result<()> {
    if let Some(tool) = tool(installs)? {
        // Named by what is asked for: `all` would ask for weaknesses, too.
        let mut deny = Command::new(tool);
        return run(deny.current_dir(repository).args([
            "--log-level",
            "error",
            "check",
            "bans",
            "licenses",
            "sources",
        ]));
    }
    eprintln!(
        "cargo-deny is not installed: only licences, registries and versions are checked\ninstall it: cargo xtask check dependencies --install"
    );
    let rules = std::fs::read_to_string(repository.join(RULES)).with_context(|| format!("cannot read: {RULES}"))?;
    let rules: Rules = toml::from_str(&rules).with_context(|| format!("cannot parse: {RULES}"))?;
    let mut found = rules.broken_by(&built(repository, &rules.graph.targets)?);
    let lock = std::fs::read_to_string(repository.join("Cargo.lock")).context("cannot read: Cargo.lock")?;
    found.extend(
        foreign(&lock)?
            .iter()
            .map(|what| Finding::new(format!("crate that is not from the registry: {what}"), "take a release")),
    );
    for finding in &found {
        eprintln!("{finding}");
    }
    ensure!(found.is_empty(), "dependencies break the rules of {RULES}, places: {}", found.len());
    Ok(())
}

/// cargo-deny in the cache folder or on the path.
fn tool(installs: bool) -> Result<Option<PathBuf>> {
    let root = toolchain::cache_folder()?.join("cargo-deny");
    let cached = root.join("bin/cargo-deny");
    if cached.is_file() {
        return Ok(Some(cached));
    }
    if installs {
        eprintln!("installing cargo-deny {CARGO_DENY} into {}", root.display());
        run(cargo(&["install", "--debug", "--quiet", "--locked", "cargo-deny", "--version", CARGO_DENY, "--root"])
            .arg(&root))?;
        return Ok(Some(cached));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    Ok(std::env::split_paths(&path).map(|folder| folder.join("cargo-deny")).find(|tool| tool.is_file()))
}

/// The rules that are understood here.
#[derive(Deserialize)]
struct Rules {
    graph: Graph,
    licenses: Licences,
    bans: Bans,
}

#[derive(Deserialize)]
struct Graph {
    targets: Vec<String>,
}

#[derive(Deserialize)]
struct Licences {
    allow: BTreeSet<String>,
}

#[derive(Deserialize)]
struct Bans {
    #[serde(default)]
    skip: Vec<Skip>,
    #[serde(default)]
    deny: Vec<Skip>,
}

/// A crate, as `name` or `name@version`.
#[derive(Deserialize)]
struct Skip {
    #[serde(rename = "crate")]
    name: String,
}

/// A package of the build.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Package {
    name: String,
    version: String,
    /// As it declares it; empty where it does not.
    licence: String,
    /// Whether only tests need it.
    of_tests: bool,
}

/// The packages that are built for some targets.
fn built(repository: &Path, targets: &[String]) -> Result<Vec<Package>> {
    let shipped = tree(repository, targets, "normal,build")?;
    let tested = tree(repository, targets, "normal,build,dev")?;
    let package = |line: &String| Package::of(line, !shipped.contains(line));
    Ok(tested.iter().filter_map(package).collect())
}

/// Lines of `name version …|licence`, of dependencies of some kinds.
fn tree(repository: &Path, targets: &[String], kinds: &str) -> Result<BTreeSet<String>> {
    let mut command = cargo(&["tree", "--locked", "--workspace", "--prefix", "none", "--format", "{p}|{l}", "--edges"]);
    command.current_dir(repository).arg(kinds);
    for target in targets {
        command.args(["--target", target]);
    }
    let output = command.output().context("cannot start cargo")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "cargo does not resolve the dependencies\n{}", said.trim_end());
    let lines = String::from_utf8_lossy(&output.stdout);
    Ok(lines.lines().map(|line| line.trim_end_matches(" (*)").to_owned()).filter(|line| !line.is_empty()).collect())
}

impl Package {
    /// Reads a line of [`tree`].
    fn of(line: &str, of_tests: bool) -> Option<Self> {
        let (package, licence) = line.rsplit_once('|')?;
        let mut words = package.split(' ');
        let (name, version) = (words.next()?, words.next()?.strip_prefix('v')?);
        let [name, version, licence] = [name, version, licence].map(str::to_owned);
        Some(Self { name, version, licence, of_tests })
    }
}

/// Packages of `Cargo.lock` that do not come from the registry, as `name version: source`.
fn foreign(lock: &str) -> Result<Vec<String>> {
    let lock: Lock = toml::from_str(lock).context("cannot understand: Cargo.lock")?;
    let foreign = |entry: LockEntry| {
        let source = entry.source.filter(|source| source != REGISTRY)?;
        Some(format!("{} {}: {source}", entry.name, entry.version))
    };
    Ok(lock.package.into_iter().filter_map(foreign).collect())
}

#[derive(Deserialize)]
struct Lock {
    package: Vec<LockEntry>,
}

#[derive(Deserialize)]
struct LockEntry {
    name: String,
    version: String,
    source: Option<String>,
}

impl Rules {
    /// The violations.
    fn broken_by(&self, packages: &[Package]) -> Vec<Finding> {
        let mut found = Vec::new();
        let mut versions: BTreeMap<&str, Vec<&Package>> = BTreeMap::new();
        for package in packages {
            versions.entry(&package.name).or_default().push(package);
            let name = format!("{} {}", package.name, package.version);
            if !licence::is_allowed(&package.licence, &self.licenses.allow) {
                let advice = format!("replace it, or allow its licence in {RULES}");
                found.push(Finding::new(format!("licence that is not allowed: {name}: {}", package.licence), advice));
            }
            if self.bans.deny.iter().any(|rule| rule.means(package)) {
                found.push(Finding::new(
                    format!("crate that {RULES} denies: {name}"),
                    "cargo tree --invert says who brings it",
                ));
            }
        }
        for (name, of_name) in versions {
            let counted: Vec<&str> = of_name
                .iter()
                .filter(|package| !package.of_tests && !self.bans.skip.iter().any(|rule| rule.means(package)))
                .map(|package| package.version.as_str())
                .collect();
            if counted.len() > 1 {
                let advice = format!("raise who brings the older one, or list it in {RULES} under skip");
                found.push(Finding::new(format!("crate in several versions: {name}: {}", counted.join(", ")), advice));
            }
        }
        found
    }
}

impl Skip {
    /// Whether it means a package: its name, and the beginning of its version up to a point.
    fn means(&self, package: &Package) -> bool {
        let (name, version) = self.name.split_once('@').unwrap_or((&self.name, ""));
        let rest = package.version.strip_prefix(version);
        name == package.name && rest.is_some_and(|rest| version.is_empty() || rest.is_empty() || rest.starts_with('.'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: &str = "[graph]\ntargets = []\n[licenses]\nallow = [\"MIT\"]\n\
                         [bans]\nskip = [{ crate = \"old@1\" }]\ndeny = [{ crate = \"openssl\" }]\n";

    fn package(line: &str) -> Package {
        Package::of(line, false).expect("a line of cargo tree")
    }

    fn broken(lines: &[&str]) -> Vec<String> {
        let rules: Rules = toml::from_str(RULES).expect("rules");
        let packages: Vec<Package> = lines.iter().map(|line| package(line)).collect();
        let first = |finding: &Finding| finding.to_string().lines().next().unwrap_or_default().to_owned();
        rules.broken_by(&packages).iter().map(first).collect()
    }

    #[test]
    fn each_rule_finds_what_breaks_it() {
        for (lines, expected) in [
            (&["a v1.0.0|GPL-3.0"][..], "licence that is not allowed: a 1.0.0: GPL-3.0"),
            (&["a v1.0.0 (proc-macro)|"], "licence that is not allowed: a 1.0.0: "),
            (&["openssl v0.10.0|MIT"], "crate that deny.toml denies: openssl 0.10.0"),
            (&["a v1.0.0|MIT", "a v2.0.0|MIT"], "crate in several versions: a: 1.0.0, 2.0.0"),
        ] {
            assert_eq!(broken(lines), [expected]);
        }
        let lock = format!(
            "[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nsource = \"git+https://host/a\"\n\
             [[package]]\nname = \"b\"\nversion = \"1.0.0\"\nsource = \"{REGISTRY}\"\n\
             [[package]]\nname = \"ours\"\nversion = \"0.1.0\"\n"
        );
        assert_eq!(foreign(&lock).expect("a lock file"), ["a 1.0.0: git+https://host/a"]);
    }

    #[test]
    fn allowed_crates_and_listed_versions_pass() {
        assert_eq!(broken(&["old v1.9.0|MIT", "old v2.0.0|MIT OR GPL-3.0", "a v1.0.0 (/here)|MIT"]), [""; 0]);
        assert!(!Skip { name: "old@1".to_owned() }.means(&package("old v10.0.0|MIT")));
    }
}
