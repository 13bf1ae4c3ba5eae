//! Errors of settings. A message names the setting, its value and the cause, each once, then says what to do.

use std::io;
use std::path::{Path, PathBuf};

/// An error of a setting.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
pub enum SettingsError {
    /// The value of a flag, variable or key cannot be read.
    #[error("{name}: {reason}: {value}\n  {advice}")]
    Value {
        /// The flag, the variable, or the file's path, line and key.
        name: String,
        /// The reason, such as "not a size".
        reason: String,
        /// The value.
        value: String,
        /// What the user should write instead.
        advice: String,
    },
    /// A file cannot be read.
    #[error("{name}: cannot read the file: {}: {cause}\n  name a file that exists and that this user may read", path.display())]
    Unreadable {
        /// The setting that names the file.
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
        /// The fault in that line.
        reason: String,
        /// What the user should write instead.
        advice: String,
    },
    /// `RCUDA_DEVICE_COUNT` promises a device that no variable describes.
    #[error(
        "RCUDA_DEVICE_COUNT is {count}, but a variable is not set: RCUDA_DEVICE_{missing}\n  set it to HOST[@PORT][:GPU]"
    )]
    MissingDevice {
        /// The promised number.
        count: usize,
        /// The first missing number.
        missing: usize,
    },
}

impl SettingsError {
    /// The error for a file that cannot be read; `name` is the setting that names it.
    #[must_use]
    pub fn unreadable(name: &str, path: &Path, error: &io::Error) -> Self {
        let words = error.to_string();
        let cause = words.split(" (os error").next().unwrap_or_default().to_lowercase();
        Self::Unreadable { name: name.to_owned(), path: path.to_path_buf(), cause }
    }
}
