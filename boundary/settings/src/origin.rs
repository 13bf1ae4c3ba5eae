//! The origin of a value, which a message names before the value.

use std::path::PathBuf;

/// The origin of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// On the command line, as `--grace`.
    Flag(String),
    /// In the environment, as `FLOE_GRACE`.
    Variable(&'static str),
    /// In the TOML file.
    File {
        /// The file's path.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// The key, with its table before it.
        key: String,
    },
}

impl std::fmt::Display for Origin {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Flag(flag) => write!(formatter, "--{flag}"),
            Self::Variable(name) => formatter.write_str(name),
            Self::File { path, line, key } => write!(formatter, "{}:{line}: {key}", path.display()),
        }
    }
}
