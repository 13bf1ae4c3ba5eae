//! Where a listed program lies: in which of the named checkouts.
//! In: programs, folders. Out: the folder whose git has the listed hash, or why there is none. It changes nothing there.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow, ensure};

use super::list::Program;

impl Program {
    /// The checkout that has what was listed, by git's hashes of its folders.
    ///
    /// # Errors
    /// When there is none; says which repository it is of.
    pub(super) fn checkout<'c>(&self, checkouts: &'c [PathBuf]) -> Result<&'c Path> {
        // The first reason is told: the same repository may be named again, of another commit.
        let mut why = None;
        for checkout in checkouts {
            let Some(found) = hash(checkout, &self.path)? else { continue };
            match self.check(checkout, &found) {
                Ok(()) => return Ok(checkout),
                Err(error) => why.get_or_insert(error),
            };
        }
        let nowhere = || anyhow!("{} is in no checkout that was named", self.path);
        Err(why.unwrap_or_else(nowhere)).with_context(|| format!("a program of {}", self.repository.origin))
    }

    /// Checks a checkout whose folder of the program has this hash.
    fn check(&self, checkout: &Path, found: &str) -> Result<()> {
        ensure!(found == self.tree, "{} is another than the listed one: {found}, listed {}", self.path, self.tree);
        for (path, tree) in &self.also {
            let found = hash(checkout, path)?;
            ensure!(found.as_ref() == Some(tree), "{path} is another than the listed one, {tree}");
        }
        let folders: Vec<&String> =
            [&self.path].into_iter().chain(self.also.keys()).chain(&self.repository.common).collect();
        let mut git = Command::new("git");
        git.arg("-C").arg(checkout).args(["diff", "--quiet", "HEAD", "--"]).args(&folders);
        let status = git.status().context("git does not start")?;
        ensure!(status.success(), "{folders:?} were changed in the checkout: {}", checkout.display());
        Ok(())
    }

    /// Where an executable that is built finds its files: in the checkout that has it, else in the first that has its folder, as
    /// one has that was copied without its git.
    ///
    /// # Errors
    /// When none has it.
    pub(super) fn files(&self, checkouts: &[PathBuf]) -> Result<PathBuf> {
        let found = self.checkout(checkouts);
        let copied = || checkouts.iter().map(PathBuf::as_path).find(|checkout| checkout.join(&self.path).is_dir());
        let checkout = found.or_else(|error| copied().ok_or(error))?;
        Ok(checkout.join(&self.path))
    }

    /// Folders of its headers.
    pub(super) fn headers(&self, checkout: &Path) -> Vec<PathBuf> {
        let own = [self.path.clone(), format!("{}/inc", self.path)];
        let all = self.repository.common.iter().chain(&own).chain(self.also.keys());
        all.map(|folder| checkout.join(folder)).collect()
    }
}

/// Git's hash of a folder of a checkout; none, where it has no such folder, or is no checkout.
fn hash(checkout: &Path, path: &str) -> Result<Option<String>> {
    let mut git = Command::new("git");
    git.arg("-C").arg(checkout).args(["rev-parse", "--verify", "--quiet"]).arg(format!("HEAD:{path}"));
    let output = git.output().context("git does not start")?;
    let found = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    Ok(Some(found).filter(|found| output.status.success() && !found.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A checkout of `one/a.cu` and `headers/a.h`.
    fn a_checkout() -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let git = |words: &[&str]| {
            let mut git = Command::new("git");
            git.arg("-C").arg(folder.path()).args(["-c", "user.name=n", "-c", "user.email=e"]).args(words);
            assert!(git.output().expect("git runs").status.success(), "{words:?}");
        };
        git(&["init", "--quiet"]);
        for (path, text) in [("one/a.cu", "int main() {}\n"), ("headers/a.h", "\n")] {
            let path = folder.path().join(path);
            std::fs::create_dir(path.parent().expect("a folder")).expect("a folder");
            std::fs::write(path, text).expect("a file");
        }
        git(&["add", "."]);
        git(&["commit", "--quiet", "--message", "one"]);
        folder
    }

    fn program(tree: &str) -> Program {
        toml::from_str(&format!("path = \"one\"\ntree = \"{tree}\"\nsources = [\"a.cu\"]")).expect("a program")
    }

    fn hash_in(checkout: &Path, path: &str) -> String {
        hash(checkout, path).expect("git runs").expect("it has the folder")
    }

    fn why(program: &Program, checkouts: &[PathBuf]) -> String {
        format!("{:#}", program.checkout(checkouts).expect_err("no checkout has it"))
    }

    #[test]
    fn a_folder_of_another_hash_is_refused() {
        let folder = a_checkout();
        let checkouts = [folder.path().to_path_buf()];
        let other = "b0c1e1a0".repeat(5);
        assert!(why(&program(&other), &checkouts).contains(&format!("listed {other}")));
        let program = program(&hash_in(folder.path(), "one"));
        assert_eq!(program.checkout(&checkouts).expect("the same"), folder.path());
        std::fs::write(folder.path().join("one/a.cu"), "int main() { return 0; }\n").expect("a file");
        assert!(why(&program, &checkouts).contains("changed"));
    }

    #[test]
    fn headers_of_another_hash_are_refused() {
        let folder = a_checkout();
        let checkouts = [folder.path().to_path_buf()];
        let mut program = program(&hash_in(folder.path(), "one"));
        program.also.insert("headers".into(), hash_in(folder.path(), "headers"));
        assert!(program.checkout(&checkouts).is_ok());
        std::fs::write(folder.path().join("headers/a.h"), "#pragma once\n").expect("a file");
        assert!(why(&program, &checkouts).contains("changed"));
        program.also.insert("headers".into(), "b0c1e1a0".repeat(5));
        assert!(why(&program, &checkouts).contains("headers is another"));
    }

    #[test]
    fn a_program_is_found_in_the_checkout_that_has_it() {
        let (empty, folder) = (tempfile::tempdir().expect("a temporary folder"), a_checkout());
        let mut program = program(&hash_in(folder.path(), "one"));
        program.repository.origin = "https://example.com/programs".into();
        let both = [empty.path().to_path_buf(), folder.path().to_path_buf()];
        assert_eq!(program.checkout(&both).expect("the second has it"), folder.path());
        let why = why(&program, &both[..1]);
        assert_eq!(why, "a program of https://example.com/programs: one is in no checkout that was named");
    }

    #[test]
    fn a_built_programs_files_are_found_without_git() {
        let (copy, folder) = (tempfile::tempdir().expect("a temporary folder"), a_checkout());
        let program = program(&hash_in(folder.path(), "one"));
        let copied = [copy.path().to_path_buf()];
        assert!(program.files(&copied).is_err());
        std::fs::create_dir(copy.path().join("one")).expect("a folder");
        assert_eq!(program.files(&copied).expect("a copy"), copy.path().join("one"));
        let both = [copy.path().to_path_buf(), folder.path().to_path_buf()];
        assert_eq!(program.files(&both).expect("the listed one comes first"), folder.path().join("one"));
    }
}
