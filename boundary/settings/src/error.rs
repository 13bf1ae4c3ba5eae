//! What is wrong with what was set: the thing, its value and the cause, each once, then what to do.

use std::io;
use std::path::{Path, PathBuf};

/// What is wrong with what was set.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
pub enum SettingsError {
    /// A flag, variable or key whose value cannot be read.
    #[error("{name}: {reason}: {value}\n  {advice}")]
    Value {
        /// The flag, the variable, or the file's path, line and key.
        name: String,
        /// What it is not.
        reason: String,
        /// What was set.
        value: String,
        /// What to write instead.
        advice: String,
    },
    /// A file that was named, or has to be read, and cannot be.
    #[error("{name}: cannot read the file: {}: {cause}\n  name a file that exists and that this user may read", path.display())]
    Unreadable {
        /// What names it.
        name: String,
        /// The file.
        path: PathBuf,
        /// The system's words.
        cause: String,
    },
    /// The TOML file does not parse, or has a key that no program knows.
    #[error("{}:{line}: {reason}\n  {advice}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong there.
        reason: String,
        /// What to write instead.
        advice: String,
    },
    /// `RCUDA_DEVICE_COUNT` promises a device that no variable describes.
    #[error(
        "RCUDA_DEVICE_COUNT is {count}, but a variable is not set: RCUDA_DEVICE_{missing}\n  set it to HOST[@PORT][:GPU]"
    )]
    MissingDevice {
        /// The promised number.
        count: usize,
        /// The first one missing.
        missing: usize,
    },
}

impl SettingsError {
    /// Why the text of a file was not read; `name` is what names the file.
    #[must_use]
    pub fn unreadable(name: &str, path: &Path, error: &io::Error) -> Self {
        let words = error.to_string();
        let cause = words.split(" (os error").next().unwrap_or_default().to_lowercase();
        Self::Unreadable { name: name.to_owned(), path: path.to_path_buf(), cause }
    }
}
