//! The list of public programs: `bench/conformance/nvidia-samples.toml`, which is part of this executable.
//! In: the table, a checkout of the programs. Out: those that were chosen, in the table's order, each as the table knows it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

const TABLE: &str = include_str!("../../conformance/nvidia-samples.toml");

/// The folder of headers that the programs share.
pub(super) const COMMON: &str = "Common";

/// The table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct List {
    /// The commit that was listed.
    commit: String,
    /// Of the programs that later ones have no more.
    older_commit: String,
    program: Vec<Program>,
}

/// One program.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Program {
    path: String,
    tree: String,
    /// In its folder.
    pub(super) sources: Vec<String>,
    #[serde(default)]
    pub(super) flags: Vec<String>,
    /// NVIDIA's libraries that it is linked with.
    #[serde(default)]
    pub(super) libraries: Vec<String>,
    /// Files that it loads, and the source of each.
    #[serde(default)]
    pub(super) modules: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) args: Vec<String>,
    /// Of the older commit.
    #[serde(default)]
    older: bool,
}

impl List {
    /// The list of this executable.
    ///
    /// # Errors
    /// When it is no list.
    pub(super) fn read() -> Result<Self> {
        toml::from_str(TABLE).context("the list of programs is wrong")
    }

    /// The commits that were listed.
    pub(super) fn commits(&self) -> [String; 2] {
        [self.commit.clone(), self.older_commit.clone()]
    }

    /// The programs of these names; all, where there are none.
    ///
    /// # Errors
    /// When a name is in no list.
    pub(super) fn chosen(self, names: &[String]) -> Result<Vec<Program>> {
        if names.is_empty() {
            return Ok(self.program);
        }
        let unknown: Vec<&str> = names
            .iter()
            .filter(|name| !self.program.iter().any(|program| program.name() == **name))
            .map(String::as_str)
            .collect();
        ensure!(unknown.is_empty(), "not in the list of programs: {}", unknown.join(", "));
        Ok(self.program.into_iter().filter(|program| names.iter().any(|name| name == program.name())).collect())
    }
}

impl Program {
    /// Its name, by which it is chosen.
    pub(super) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// Its folder in a checkout.
    pub(super) fn folder(&self, checkout: &Path) -> PathBuf {
        checkout.join(&self.path)
    }

    /// The checkout that it is of: the last for those of the older commit, else the first.
    pub(super) fn checkout<'c>(&self, checkouts: &'c [PathBuf]) -> Option<&'c Path> {
        if self.older { checkouts.last() } else { checkouts.first() }.map(PathBuf::as_path)
    }

    /// Checks that the checkout has the program that was listed, by git's hash of its folder.
    ///
    /// # Errors
    /// When it has another one, or is no checkout.
    pub(super) fn check(&self, checkout: &Path) -> Result<()> {
        let mut git = Command::new("git");
        git.arg("-C").arg(checkout).args(["rev-parse", "--verify", "--quiet"]).arg(format!("HEAD:{}", self.path));
        let output = git.output().context("git does not start")?;
        let found = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if found.is_empty() {
            bail!("{} is not in the checkout: {}", self.path, checkout.display());
        }
        ensure!(found == self.tree, "{} is another than the listed one: {found}, listed {}", self.path, self.tree);
        let mut git = Command::new("git");
        git.arg("-C").arg(checkout).args(["diff", "--quiet", "HEAD", "--"]).args([&self.path, COMMON]);
        let status = git.status().context("git does not start")?;
        ensure!(status.success(), "{} or {COMMON} was changed in the checkout: {}", self.path, checkout.display());
        Ok(())
    }

    /// What an executable was made from, for whoever finds it.
    pub(super) fn stamp(&self) -> &str {
        &self.tree
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_of_the_list_has_a_name_of_its_own_and_a_hash() {
        let list = List::read().expect("a list");
        assert!(list.commits().iter().all(|commit| is_hash(commit)));
        let names: std::collections::BTreeSet<&str> = list.program.iter().map(Program::name).collect();
        assert_eq!(names.len(), list.program.len());
        for program in &list.program {
            assert!(is_hash(&program.tree) && !program.sources.is_empty(), "{}", program.path);
            let names = program.sources.iter().chain(program.modules.keys()).chain(program.modules.values());
            for name in names {
                let mut depth = 0;
                for part in program.path.split('/').chain(name.split('/')) {
                    depth += if part == ".." { -1 } else { 1 };
                    assert!(depth >= 0 && !part.is_empty(), "it leaves the checkout: {}/{name}", program.path);
                }
            }
        }
        assert!(list.chosen(&["vectorAdd".into(), "noSuchProgram".into()]).is_err());
    }

    fn is_hash(text: &str) -> bool {
        text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
    }

    #[test]
    fn a_folder_of_another_hash_is_refused() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let git = |words: &[&str]| {
            let mut git = Command::new("git");
            git.arg("-C").arg(folder.path()).args(["-c", "user.name=n", "-c", "user.email=e"]).args(words);
            assert!(git.output().expect("git runs").status.success(), "{words:?}");
        };
        git(&["init", "--quiet"]);
        std::fs::create_dir(folder.path().join("one")).expect("a folder");
        std::fs::write(folder.path().join("one/a.cu"), "int main() {}\n").expect("a file");
        git(&["add", "."]);
        git(&["commit", "--quiet", "--message", "one"]);
        let tree = "b0c1e1a0".repeat(5);
        let mut program: Program =
            toml::from_str(&format!("path = \"one\"\ntree = \"{tree}\"\nsources = [\"a.cu\"]")).expect("a program");
        let why = program.check(folder.path()).expect_err("another").to_string();
        let found = why.split(' ').find(|word| word.trim_end_matches(',').len() == 40).expect("its hash");
        program.tree = found.trim_end_matches(',').to_owned();
        program.check(folder.path()).expect("the same");
        std::fs::write(folder.path().join("one/a.cu"), "int main() { return 0; }\n").expect("a file");
        assert!(program.check(folder.path()).expect_err("changed").to_string().contains("was changed"));
        program.path = "two".into();
        assert!(program.check(folder.path()).expect_err("none").to_string().contains("is not in the checkout"));
    }
}
