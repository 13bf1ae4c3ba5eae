//! The program of `floe run`, before it has a process.
//! In: its name, as `execvp` takes it. Out: nothing, or why it cannot start, with the exit code of a shell.
//! It starts nothing.

use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

/// Why a program does not start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProgramError {
    /// No program has this name.
    #[error("program not found: {0}\n  write its path, or a name that is on PATH")]
    NotFound(String),
    /// The file exists, but cannot be executed.
    #[error("not an executable program: {0}\n  chmod +x makes a file executable")]
    NotExecutable(String),
    /// The system refuses for another reason.
    #[error("cannot start the program: {name}: {reason}")]
    Refused {
        /// The name that the user gave.
        name: String,
        /// The system's words.
        reason: String,
    },
}

impl ProgramError {
    /// The exit code of `env`, `timeout` and shells.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::NotFound(_) => 127,
            Self::NotExecutable(_) | Self::Refused { .. } => 126,
        }
    }

    /// The meaning of a failed `execvp`.
    pub(crate) fn of(name: &str, error: &io::Error) -> Self {
        let enoexec = rustix::io::Errno::NOEXEC.raw_os_error();
        match error.kind() {
            io::ErrorKind::NotFound => Self::NotFound(name.to_owned()),
            io::ErrorKind::PermissionDenied => Self::NotExecutable(name.to_owned()),
            _ if error.raw_os_error() == Some(enoexec) => Self::NotExecutable(name.to_owned()),
            _ => Self::Refused { name: name.to_owned(), reason: floe_transport::plain(error) },
        }
    }
}

/// Checks whether `execvp` would find an executable of this name.
pub(crate) fn check(name: &str) -> Result<(), ProgramError> {
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    check_in(name, &std::env::split_paths(&path).collect::<Vec<_>>())
}

fn check_in(name: &str, folders: &[PathBuf]) -> Result<(), ProgramError> {
    let places: Vec<PathBuf> =
        if name.contains('/') { vec![name.into()] } else { folders.iter().map(|folder| folder.join(name)).collect() };
    if !name.is_empty() && places.iter().any(|place| is_executable(place)) {
        return Ok(());
    }
    let is_there = !name.is_empty() && places.iter().any(|place| place.exists());
    let name = name.to_owned();
    Err(if is_there { ProgramError::NotExecutable(name) } else { ProgramError::NotFound(name) })
}

fn is_executable(path: &Path) -> bool {
    path.is_file() && access(path, Access::EXEC_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_program_is_found_on_the_path_or_by_its_own_path() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (empty, place) = (folder.path().join("empty"), folder.path().join("bin"));
        let [yes, no] = ["yes", "no"].map(|name| place.join(name));
        std::fs::create_dir(&place).expect("made");
        for (file, mode) in [(&yes, 0o755), (&no, 0o644)] {
            std::fs::write(file, "#!/bin/sh\n").expect("written");
            std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode)).expect("set");
        }
        let path = [empty, place.clone()];
        let code = |name: &str| check_in(name, &path).map_or_else(|error| error.code(), |()| 0);
        let codes = ["yes", "no", "other", "", "./yes"].map(code);
        assert_eq!(codes, [0, 126, 127, 127, 127]);
        let codes = [&yes, &no, &place].map(|file| code(&file.display().to_string()));
        assert_eq!(codes, [0, 126, 126]);
    }
}
