//! The source of settings: the environment and the files of this process, or those that a test makes up.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// An environment and a file system.
pub trait Source: fmt::Debug {
    /// An environment variable.
    fn variable(&self, name: &str) -> Option<String>;

    /// An environment variable that names a folder, byte for byte.
    fn folder(&self, name: &str) -> Option<PathBuf> {
        self.variable(name).map(PathBuf::from)
    }

    /// A file's text.
    ///
    /// # Errors
    /// The file system's; `NotFound` if the file does not exist.
    fn file(&self, path: &Path) -> io::Result<String>;
}

/// This process's environment and file system.
#[derive(Debug, Clone, Copy)]
pub struct ProcessSource;

impl Source for ProcessSource {
    // A value that is not UTF-8 is kept, so that its reader reports it instead of taking the default.
    fn variable(&self, name: &str) -> Option<String> {
        std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
    }

    // A home folder whose name is no UTF-8 has a file of settings all the same.
    fn folder(&self, name: &str) -> Option<PathBuf> {
        std::env::var_os(name).map(PathBuf::from)
    }

    fn file(&self, path: &Path) -> io::Result<String> {
        std::fs::read_to_string(path)
    }
}
