//! The files of the repository: its root comes in, their paths go out.
//! Hidden folders, build outputs and what fuzzing finds are left out. It never follows a link.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// Folders that are made here and not committed: cargo's, and the findings of fuzzing.
const MADE_BY_CARGO: &str = "CACHEDIR.TAG";
const FOUND_BY_FUZZING: [&str; 3] = ["fuzz/corpus", "fuzz/artifacts", "fuzz/coverage"];

/// The files and folders of the repository, from its root.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    /// Files.
    pub(crate) files: Vec<String>,
    /// Folders, each with the number of entries in it.
    pub(crate) folders: Vec<(String, usize)>,
}

impl Tree {
    /// Reads the names of all files.
    ///
    /// # Errors
    /// When a folder cannot be read.
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let mut tree = Self::default();
        tree.read_folder(root, "")?;
        tree.files.sort();
        tree.folders.sort();
        Ok(tree)
    }

    fn read_folder(&mut self, folder: &Path, name: &str) -> Result<()> {
        let cannot = || format!("cannot read: {}", folder.display());
        let mut entries = 0;
        for entry in fs::read_dir(folder).with_context(cannot)? {
            let entry = entry.with_context(cannot)?;
            let (own, kind) = (entry.file_name(), entry.file_type().with_context(cannot)?);
            let own = own.to_string_lossy();
            if own.starts_with('.') {
                continue;
            }
            let full = if name.is_empty() { own.into_owned() } else { format!("{name}/{own}") };
            if kind.is_dir() {
                if entry.path().join(MADE_BY_CARGO).is_file() || FOUND_BY_FUZZING.contains(&full.as_str()) {
                    continue;
                }
                self.read_folder(&entry.path(), &full)?;
            } else if kind.is_file() {
                self.files.push(full);
            }
            entries += 1;
        }
        if !name.is_empty() {
            self.folders.push((name.to_owned(), entries));
        }
        Ok(())
    }
}
