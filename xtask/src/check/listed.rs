//! `xtask/shape.toml`: what is over a limit today. Its text comes in and goes out; what the tree is now is held against it.
//! An entry may be made smaller or go. It never grows by itself: what is new is not written into it by any command.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::finding::Finding;

/// Its path in the repository.
pub(crate) const FILE: &str = "xtask/shape.toml";
/// The text above the entries.
const HEADER: &str = "\
# What is over the limits of `cargo xtask check shape`, and which files may hold unsafe code.
# Entries shrink and go, by `cargo xtask check shape --shrink`; none is added and none grows. What is new is mended instead.
# Only [unsafe] is kept by hand where a file is moved, and where unsafe code has a reason that a review accepts.
";

/// Sizes over a limit, by name.
pub(crate) type Sizes = BTreeMap<String, usize>;

/// Everything over a limit.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Listed {
    /// Missing names of pages, as `page: name`.
    pub(crate) pages: BTreeSet<String>,
    /// The files of the largest circle, by crate.
    pub(crate) circles: Sizes,
    /// Lines, by `path: function`.
    pub(crate) functions: Sizes,
    /// Lines, by path.
    pub(crate) files: Sizes,
    /// Entries, by path.
    pub(crate) folders: Sizes,
    /// The files that hold unsafe code, by crate; generated ones by their folder.
    pub(crate) r#unsafe: BTreeMap<String, BTreeSet<String>>,
}

impl Listed {
    /// Reads the list.
    ///
    /// # Errors
    /// When it is missing or not of this form.
    pub(crate) fn read(repository: &Path) -> Result<Self> {
        let path = repository.join(FILE);
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read: {}", path.display()))?;
        toml::from_str(&text).with_context(|| format!("cannot understand: {}", path.display()))
    }

    /// Writes the list.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn write(&self, repository: &Path) -> Result<()> {
        let path = repository.join(FILE);
        let text = format!("{HEADER}\n{}", toml::to_string_pretty(self).context("the list has no text")?);
        fs::write(&path, text).with_context(|| format!("cannot write: {}", path.display()))
    }

    /// The list without anything that is larger than measured.
    pub(crate) fn shrunk(&self, now: &Self) -> Self {
        let smaller = |listed: &Sizes, now: &Sizes| -> Sizes {
            let least = |(name, size): (&String, &usize)| Some((name.clone(), *size.min(now.get(name)?)));
            listed.iter().filter_map(least).collect()
        };
        let fewer = |(of, files): (&String, &BTreeSet<String>)| {
            let left: BTreeSet<String> = files.intersection(now.r#unsafe.get(of)?).cloned().collect();
            (!left.is_empty()).then(|| (of.clone(), left))
        };
        Self {
            circles: smaller(&self.circles, &now.circles),
            functions: smaller(&self.functions, &now.functions),
            files: smaller(&self.files, &now.files),
            folders: smaller(&self.folders, &now.folders),
            pages: self.pages.intersection(&now.pages).cloned().collect(),
            r#unsafe: self.r#unsafe.iter().filter_map(fewer).collect(),
        }
    }

    /// The entries that list more than there is.
    pub(crate) fn stale(&self, now: &Self) -> Vec<Finding> {
        let shrunk = self.shrunk(now);
        let advice = "shrink the list: cargo xtask check shape --shrink";
        let sizes = |what: &str, listed: &Sizes, left: &Sizes| -> Vec<Finding> {
            let is_stale = |(name, size): &(&String, &usize)| left.get(*name) != Some(*size);
            let finding = |(name, size): (&String, &usize)| {
                let is = left.get(name).map_or("within the limit".to_owned(), ToString::to_string);
                Finding::new(format!("{FILE} lists a {what} as {size}, and it is {is}: {name}"), advice)
            };
            listed.iter().filter(is_stale).map(finding).collect()
        };
        let mut stale = sizes("circle", &self.circles, &shrunk.circles);
        stale.extend(sizes("function", &self.functions, &shrunk.functions));
        stale.extend(sizes("file", &self.files, &shrunk.files));
        stale.extend(sizes("folder", &self.folders, &shrunk.folders));
        for name in self.pages.difference(&shrunk.pages) {
            stale.push(Finding::new(format!("{FILE} lists a name that is there, or that no page has: {name}"), advice));
        }
        for (of, files) in &self.r#unsafe {
            let none = BTreeSet::new();
            for file in files.difference(shrunk.r#unsafe.get(of).unwrap_or(&none)) {
                stale.push(Finding::new(format!("{FILE} lists a file without unsafe code: {file}"), advice));
            }
        }
        stale
    }
}
