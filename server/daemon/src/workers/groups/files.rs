//! The kernel's hierarchy of control groups, which is a file system: a folder is a group, a file one of its values.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

/// The files of the kernel's hierarchy, or a stand-in's.
pub(super) trait Files: std::fmt::Debug + Send + Sync {
    /// Makes a group that nobody else looks into.
    fn make(&self, folder: &Path) -> io::Result<()>;
    fn remove(&self, folder: &Path) -> io::Result<()>;
    /// Writes a value at once, as the kernel demands.
    fn write(&self, file: &Path, value: &str) -> io::Result<()>;
    fn read(&self, file: &Path) -> io::Result<String>;
    /// The names of the groups in a group.
    fn groups(&self, folder: &Path) -> io::Result<Vec<String>>;
}

/// The running kernel's.
#[derive(Debug)]
pub(super) struct Kernel;

impl Files for Kernel {
    fn make(&self, folder: &Path) -> io::Result<()> {
        fs::DirBuilder::new().mode(0o700).create(folder)
    }

    fn remove(&self, folder: &Path) -> io::Result<()> {
        fs::remove_dir(folder)
    }

    fn write(&self, file: &Path, value: &str) -> io::Result<()> {
        OpenOptions::new().write(true).open(file)?.write_all(value.as_bytes())
    }

    fn read(&self, file: &Path) -> io::Result<String> {
        fs::read_to_string(file)
    }

    fn groups(&self, folder: &Path) -> io::Result<Vec<String>> {
        let is_group = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
        let names = fs::read_dir(folder)?.flatten().filter(is_group);
        Ok(names.filter_map(|entry| entry.file_name().into_string().ok()).collect())
    }
}
