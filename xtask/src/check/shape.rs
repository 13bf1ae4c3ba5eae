//! The shape of the repository: its sources come in, what is over a limit and what grew go out.
//! The limits hold for hand-written code of libraries and programs. Test code and generated code are not measured; a
//! file's tests do not count as its lines. It never changes a file but the list, and that only to smaller numbers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::crates::{Crate, crates};
use super::finding::Finding;
use super::listed::{Listed, Sizes};
use super::modules::Modules;
use super::pages::{self, Missing};
use super::syntax::{GENERATED, is_generated};
use super::tangle::Tangle;
use super::tree::Tree;

/// Most lines of a function's body.
const FUNCTION: usize = 60;
/// Most lines of a file.
const FILE: usize = 500;
/// Most entries of a folder of a `src` tree.
const FOLDER: usize = 20;

/// The repository as it is.
pub(crate) struct Shape {
    /// Everything over a limit.
    pub(crate) now: Listed,
    /// The circles, by crate.
    tangles: BTreeMap<String, Tangle>,
    /// The first line of unsafe code, by file.
    unsafe_at: BTreeMap<String, usize>,
    /// The roots of crates that hold no unsafe code and do not forbid it.
    unforbidden: Vec<String>,
    /// Missing names of pages.
    missing: Vec<Missing>,
    /// Number of files that were read.
    files: usize,
}

impl Shape {
    /// Measures a repository.
    ///
    /// # Errors
    /// When a source cannot be read or parsed, or cargo does not understand a manifest.
    pub(crate) fn read(repository: &Path, tree: &Tree) -> Result<Self> {
        let mut shape = Self {
            now: Listed { folders: large_folders(tree), ..Listed::default() },
            tangles: BTreeMap::new(),
            unsafe_at: BTreeMap::new(),
            unforbidden: Vec::new(),
            missing: pages::missing(repository, tree)?,
            files: 0,
        };
        for missing in &shape.missing {
            shape.now.pages.insert(format!("{}: {}", missing.page, missing.what));
        }
        for each in crates(repository)? {
            shape.measure(repository, &each)?;
        }
        Ok(shape)
    }

    fn measure(&mut self, repository: &Path, each: &Crate) -> Result<()> {
        let modules = Modules::read(&each.roots)?;
        let name = |file: &Path| file.strip_prefix(repository).unwrap_or(file).display().to_string();
        for (file, facts) in modules.files.iter().zip(&modules.facts) {
            self.files += 1;
            if let Some(line) = facts.unsafe_at {
                self.unsafe_at.insert(name(file), line);
                let listed = self.now.r#unsafe.entry(each.folder.clone()).or_default();
                listed.insert(name(&entry(&repository.join(&each.folder), file)));
            }
            if is_generated(file) {
                continue;
            }
            keep_over(FILE, &mut self.now.files, name(file), facts.lines);
            for (function, lines) in &facts.functions {
                keep_over(FUNCTION, &mut self.now.functions, format!("{}: {function}", name(file)), *lines);
            }
        }
        self.unforbidden.extend(unforbidden(each, &modules).iter().map(|root| name(root)));
        let tangle = Tangle::of(repository, each, &modules);
        keep_over(1, &mut self.now.circles, each.folder.clone(), tangle.largest());
        self.tangles.insert(each.folder.clone(), tangle);
        Ok(())
    }

    /// The excess over the list: larger than listed, not listed, and listed but gone.
    pub(crate) fn against(&self, listed: &Listed) -> Vec<Finding> {
        let mut found = grown(&listed.functions, &self.now.functions, |name, lines, grew| {
            Finding::new(format!("function over {FUNCTION} lines{grew}: {name}: {lines}"), "make its steps functions")
        });
        found.extend(grown(&listed.files, &self.now.files, |name, lines, grew| {
            Finding::new(
                format!("file over {FILE} lines without its tests{grew}: {name}: {lines}"),
                "split it by subject",
            )
        }));
        found.extend(grown(&listed.folders, &self.now.folders, |name, entries, grew| {
            let advice = "group its files by role in folders of their own";
            Finding::new(format!("folder over {FOLDER} entries{grew}: {name}: {entries}"), advice)
        }));
        found.extend(grown(&listed.circles, &self.now.circles, |name, files, grew| {
            let told = self.tangles.get(name).map(Tangle::largest_told).unwrap_or_default();
            let advice = format!("{told}see each arrow: cargo xtask check shape --circles {name}");
            Finding::new(format!("files that use each other in a circle{grew}: {name}: {files}"), advice)
        }));
        found.extend(self.unlisted_unsafe(listed));
        found.extend(self.unforbidden.iter().map(|root| {
            Finding::new(
                format!("crate without unsafe code that does not forbid it: {root}"),
                "add #![forbid(unsafe_code)]",
            )
        }));
        let is_new = |missing: &&Missing| !listed.pages.contains(&format!("{}: {}", missing.page, missing.what));
        found.extend(self.missing.iter().filter(is_new).map(|Missing { page, line, what }| {
            Finding::new(format!("{page}:{line} names a missing item: {what}"), "name what took its place")
        }));
        found.extend(listed.stale(&self.now));
        found
    }

    fn unlisted_unsafe(&self, listed: &Listed) -> Vec<Finding> {
        let new = |(of, files): (&String, &std::collections::BTreeSet<String>)| -> Vec<Finding> {
            let is_new = |file: &&String| listed.r#unsafe.get(of).is_none_or(|known| !known.contains(*file));
            let finding = |file: &String| {
                let at = self.unsafe_at.get(file).map_or(String::new(), |line| format!(":{line}"));
                let advice = format!("move it to a listed file, or list the file by hand in {}", super::listed::FILE);
                Finding::new(format!("unsafe code in an unlisted file: {file}{at}"), advice)
            };
            files.iter().filter(is_new).map(finding).collect()
        };
        self.now.r#unsafe.iter().flat_map(new).collect()
    }

    /// The measurements and the listed exceptions, in a line.
    pub(crate) fn told(&self) -> String {
        let Listed { circles, functions, files, folders, pages, r#unsafe } = &self.now;
        format!(
            "crates: {}, files: {}; listed: {} circles, {} functions, {} files, {} folders, {} names on pages, \
             {} files with unsafe code",
            self.tangles.len(),
            self.files,
            circles.len(),
            functions.len(),
            files.len(),
            folders.len(),
            pages.len(),
            r#unsafe.values().map(std::collections::BTreeSet::len).sum::<usize>()
        )
    }
}

/// Keeps the largest of a name where it is over a limit.
fn keep_over(limit: usize, sizes: &mut Sizes, name: String, size: usize) {
    if size > limit {
        let kept = sizes.entry(name).or_default();
        *kept = size.max(*kept);
    }
}

/// Measurements that are larger than listed, with their excess in words.
fn grown(listed: &Sizes, now: &Sizes, finding: impl Fn(&str, usize, String) -> Finding) -> Vec<Finding> {
    let grown = |(name, size): (&String, &usize)| match listed.get(name) {
        Some(known) if known >= size => None,
        Some(known) => Some(finding(name, *size, format!(", listed as {known}"))),
        None => Some(finding(name, *size, String::new())),
    };
    now.iter().filter_map(grown).collect()
}

/// The folders of `src` trees that have too many entries.
fn large_folders(tree: &Tree) -> Sizes {
    let is_source = |name: &str| name.split('/').any(|part| part == "src") && !is_generated(Path::new(name));
    tree.folders.iter().filter(|(name, entries)| *entries > FOLDER && is_source(name)).cloned().collect()
}

/// How a file stands in the list of unsafe files: by its folder where that is generated.
fn entry(of: &Path, file: &Path) -> PathBuf {
    let is_folder = |folder: &&Path| folder.starts_with(of) && folder.file_name().is_some_and(|name| name == GENERATED);
    file.ancestors().skip(1).find(is_folder).unwrap_or(file).to_path_buf()
}

/// The roots of targets that hold no unsafe code and do not forbid it; libraries of C names may deny it.
fn unforbidden<'a>(each: &Crate, modules: &'a Modules) -> Vec<&'a Path> {
    let roots = modules.modules.iter().enumerate().filter(|(_, module)| module.parent.is_none());
    let lacks = |(root, module): &(usize, &super::modules::Module)| {
        let facts = &modules.facts[module.file];
        let holds = |part: &super::modules::Module| part.root == *root && modules.facts[part.file].unsafe_at.is_some();
        let keeps_out = facts.forbids_unsafe || each.exports_c && facts.denies_unsafe;
        !keeps_out && !facts.has_no_main && !modules.modules.iter().any(holds)
    };
    roots.filter(lacks).map(|(_, module)| modules.files[module.file].as_path()).collect()
}
