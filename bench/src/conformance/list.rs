//! The lists of public programs: files of `bench/conformance`, one per public repository, which are part of this executable.
//! In: the lists. Out: those programs that were chosen, in the lists' order, each as its list knows it, and what its output says.
//! Where a program lies is for `checkout` to find.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

const LISTS: [&str; 3] = [
    include_str!("../../conformance/nvidia-samples.toml"),
    include_str!("../../conformance/hecbench.toml"),
    include_str!("../../conformance/nvidia-library-samples.toml"),
];

/// One list.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    origin: String,
    /// Those that have its programs.
    commits: Vec<String>,
    common: Option<String>,
    program: Vec<Program>,
}

/// A public repository.
#[derive(Debug, Clone, Default)]
pub(super) struct Repository {
    /// Where it is cloned from.
    pub(super) origin: String,
    /// The folder of headers that its programs share.
    pub(super) common: Option<String>,
}

impl Repository {
    /// As `zjin-lcf/HeCBench`: the last two parts of its address.
    pub(super) fn name(&self) -> &str {
        let start = self.origin.rmatch_indices('/').nth(1).map_or(0, |(slash, _)| slash + 1);
        &self.origin[start..]
    }
}

/// One program.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Program {
    /// Where its folder's name says too little, or another program has it.
    name: Option<String>,
    /// Its folder in a checkout.
    pub(super) path: String,
    /// Git's hash of the folder.
    pub(super) tree: String,
    /// Other folders that it needs headers or data from, and git's hash of each.
    #[serde(default)]
    pub(super) also: BTreeMap<String, String>,
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
    /// What its output must have: its exit code alone is no verdict.
    says: Option<String>,
    /// What its output must not have.
    not: Option<String>,
    #[serde(skip)]
    pub(super) repository: Repository,
}

/// The programs of all lists.
#[derive(Debug)]
pub(super) struct Programs {
    all: Vec<Program>,
    /// Of each repository.
    commits: BTreeMap<String, Vec<String>>,
}

impl Programs {
    /// Those of this executable.
    ///
    /// # Errors
    /// When one of its lists is no list, or two programs have a name.
    pub(super) fn read() -> Result<Self> {
        let lists: Vec<List> = LISTS
            .iter()
            .map(|list| toml::from_str(list).context("a list of programs is wrong"))
            .collect::<Result<_>>()?;
        Self::of(lists)
    }

    fn of(lists: Vec<List>) -> Result<Self> {
        let mut programs = Self { all: Vec::new(), commits: BTreeMap::new() };
        for list in lists {
            let repository = Repository { origin: list.origin.clone(), common: list.common };
            programs
                .all
                .extend(list.program.into_iter().map(|program| Program { repository: repository.clone(), ..program }));
            programs.commits.insert(list.origin, list.commits);
        }
        let mut names = BTreeSet::new();
        if let Some(twice) = programs.all.iter().find(|program| !names.insert(program.name())) {
            bail!("two programs have the name {}", twice.name());
        }
        Ok(programs)
    }

    /// The commits that were listed of each repository.
    pub(super) fn commits(&self) -> &BTreeMap<String, Vec<String>> {
        &self.commits
    }

    /// The programs of these names; all, where there are none.
    ///
    /// # Errors
    /// When a name is in no list.
    pub(super) fn chosen(self, names: &[String]) -> Result<Vec<Program>> {
        if names.is_empty() {
            return Ok(self.all);
        }
        let unknown: Vec<&str> = names
            .iter()
            .filter(|name| !self.all.iter().any(|program| program.name() == **name))
            .map(String::as_str)
            .collect();
        ensure!(unknown.is_empty(), "in no list of programs: {}", unknown.join(", "));
        Ok(self.all.into_iter().filter(|program| names.iter().any(|name| name == program.name())).collect())
    }
}

impl Program {
    /// Its name, by which it is chosen.
    pub(super) fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_else(|| self.path.rsplit('/').next().unwrap_or(&self.path))
    }

    /// What an executable is made from, for whoever finds it.
    pub(super) fn stamp(&self) -> String {
        let words = [self.sources.join(" "), self.flags.join(" "), self.libraries.join(" ")];
        let also = self.also.iter().map(|(path, tree)| format!("{path} {tree}"));
        let lines: Vec<String> = [self.tree.clone()].into_iter().chain(also).chain(words).collect();
        lines.join("\n")
    }

    /// What is wrong with the output of a run whose exit code is 0.
    pub(super) fn objection(&self, output: &str) -> Option<String> {
        if let Some(word) = self.not.as_ref().filter(|word| output.contains(word.as_str())) {
            return Some(format!("says {word}"));
        }
        let missing = self.says.as_ref().filter(|word| !output.contains(word.as_str()));
        missing.map(|word| format!("does not say {word}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_of_the_lists_has_a_name_of_its_own_and_a_hash() {
        let programs = Programs::read().expect("the lists");
        assert!(programs.commits().values().flatten().all(|commit| is_hash(commit)));
        assert!(programs.commits().keys().all(|origin| origin.starts_with("https://")));
        assert!(programs.all.len() >= 170, "{}", programs.all.len());
        for program in &programs.all {
            assert!(is_hash(&program.tree) && !program.sources.is_empty(), "{}", program.path);
            assert!(program.also.values().all(|tree| is_hash(tree)), "{}", program.path);
            assert!(program.name().bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/'), "{}", program.path);
        }
        assert!(programs.chosen(&["vectorAdd".into(), "noSuchProgram".into()]).is_err());
    }

    #[test]
    fn no_program_leaves_its_checkout() {
        for program in Programs::read().expect("the lists").all {
            let files = program.sources.iter().chain(program.modules.keys()).chain(program.modules.values());
            let of_folder = files.map(|file| format!("{}/{file}", program.path));
            for path in of_folder.chain(program.also.keys().cloned()).chain(program.repository.common.clone()) {
                let mut depth = 0;
                for part in path.split('/') {
                    depth += if part == ".." { -1 } else { 1 };
                    assert!(depth >= 0 && !part.is_empty(), "it leaves the checkout: {path}");
                }
            }
        }
    }

    fn is_hash(text: &str) -> bool {
        text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
    }

    fn list(origin: &str, program: &str) -> List {
        let tree = "b0c1e1a0".repeat(5);
        let head = format!("origin = \"{origin}\"\ncommits = [\"{tree}\"]\n[[program]]\ntree = \"{tree}\"\n");
        toml::from_str(&format!("{head}sources = [\"a.cu\"]\n{program}")).expect("a list")
    }

    #[test]
    fn programs_of_all_lists_are_chosen_by_name() {
        let lists = || vec![list("https://one", "path = \"x/sum\""), list("https://two", "path = \"y/sum-cuda\"")];
        let chosen = Programs::of(lists()).expect("programs").chosen(&["sum-cuda".into()]).expect("one is chosen");
        assert_eq!(
            chosen.iter().map(|program| program.repository.origin.as_str()).collect::<Vec<_>>(),
            ["https://two"]
        );
        assert_eq!(Programs::of(lists()).expect("programs").chosen(&[]).expect("all").len(), 2);
    }

    #[test]
    fn a_repositorys_name_is_the_end_of_its_address() {
        let name = |origin: &str| list(origin, "path = \"sum\"");
        let programs = Programs::of(vec![name("https://github.com/zjin-lcf/HeCBench")]).expect("programs");
        assert_eq!(programs.all[0].repository.name(), "zjin-lcf/HeCBench");
    }

    #[test]
    fn a_name_that_two_programs_have_is_refused() {
        let two = |second| Programs::of(vec![list("https://one", "path = \"x/sum\""), list("https://two", second)]);
        let why = two("path = \"y/sum\"").expect_err("the same name").to_string();
        assert_eq!(why, "two programs have the name sum");
        assert!(two("path = \"y/sum\"\nname = \"y-sum\"").is_ok());
    }

    #[test]
    fn an_output_is_judged_by_what_it_must_and_must_not_say() {
        let program = |more: &str| list("https://one", &format!("path = \"sum\"\n{more}")).program.remove(0);
        assert_eq!(program("").objection("FAIL"), None);
        let judged = program("says = \"PASS\"\nnot = \"FAIL\"");
        assert_eq!(judged.objection("sum: PASS\n"), None);
        assert_eq!(judged.objection("sum: PASS\nproduct: FAIL\n").as_deref(), Some("says FAIL"));
        assert_eq!(judged.objection("sum\n").as_deref(), Some("does not say PASS"));
    }

    #[test]
    fn other_flags_and_other_headers_make_another_executable() {
        let program = |more: &str| list("https://one", &format!("path = \"sum\"\n{more}")).program.remove(0);
        let stamp = program("").stamp();
        assert_eq!(stamp, program("args = [\"1\"]").stamp());
        assert_ne!(stamp, program("flags = [\"-O3\"]").stamp());
        assert_ne!(stamp, program("also = { inc = \"0\" }").stamp());
    }
}
