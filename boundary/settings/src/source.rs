//! Where settings come from: the environment and the files of this process, or those that a test makes up.

use std::fmt;
use std::io;
use std::path::Path;

/// An environment and a file system.
pub trait Source: fmt::Debug {
    /// An environment variable.
    fn variable(&self, name: &str) -> Option<String>;

    /// A file's text.
    ///
    /// # Errors
    /// Those of the file system; `NotFound` where there is no such file.
    fn file(&self, path: &Path) -> io::Result<String>;
}

/// This process's environment and file system.
#[derive(Debug, Clone, Copy)]
pub struct ProcessSource;

impl Source for ProcessSource {
    // A value that is no UTF-8 is kept, so that whoever reads it names it instead of taking the default.
    fn variable(&self, name: &str) -> Option<String> {
        std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
    }

    fn file(&self, path: &Path) -> io::Result<String> {
        std::fs::read_to_string(path)
    }
}
