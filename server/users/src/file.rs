//! Files of the operator's that say who may do what. In: a path. Out: the text, if nobody else may write it; errors with
//! file and line. It changes no file.

use std::fs::OpenOptions;
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

/// The most bytes of a file: some ten thousand users.
pub(crate) const MOST_BYTES: u64 = 4 << 20;

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It cannot be read.
    #[error("cannot read {}: {source}\n  the server's user must be able to read it", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause; a raw name, since the sentence has it already.
        r#source: io::Error,
    },
    /// Others may change it.
    #[error("others may write {} (mode {mode:o})\n  chmod go-w {}", path.display(), path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// It cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Unwritable {
        /// The file or folder.
        path: PathBuf,
        /// The cause; a raw name, since the sentence has it already.
        r#source: io::Error,
    },
    /// Others can read a secret.
    #[error("others can read {} (mode {mode:o})\n  chmod 600 {}", path.display(), path.display())]
    Readable {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// Another user owns it.
    #[error("{} belongs to another user (id {owner})\n  give it to root or to the server's user with chown", path.display())]
    Owner {
        /// The file.
        path: PathBuf,
        /// Its owner.
        owner: u32,
    },
    /// It does not say what such a file says.
    #[error("{}:{line}: {reason}\n  correct this line", path.display())]
    Wrong {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// Why, in one line.
        reason: String,
    },
}

/// Reads a file that decides who may do what. Owner, mode and text are those of one open file.
pub(crate) fn read(path: &Path) -> Result<String, FileError> {
    let failed = |source| FileError::Unreadable { path: path.to_path_buf(), source };
    // Nobody waits for who would write into a pipe.
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    let wrong = |words: &str| failed(io::Error::new(io::ErrorKind::InvalidInput, words.to_owned()));
    if !metadata.is_file() {
        return Err(wrong("not a regular file"));
    }
    let (owner, mode) = (metadata.uid(), metadata.mode() & 0o777);
    if owner != 0 && owner != rustix::process::geteuid().as_raw() {
        return Err(FileError::Owner { path: path.to_path_buf(), owner });
    }
    if mode & 0o022 != 0 {
        return Err(FileError::Open { path: path.to_path_buf(), mode });
    }
    let mut text = String::new();
    let bytes = file.take(MOST_BYTES + 1).read_to_string(&mut text).map_err(failed)?;
    if u64::try_from(bytes).is_ok_and(|bytes| bytes > MOST_BYTES) {
        return Err(wrong("longer than 4 MiB"));
    }
    Ok(text)
}

/// Parses the text of a file.
pub(crate) fn parse<T: DeserializeOwned>(path: &Path, text: &str) -> Result<T, FileError> {
    toml::from_str(text).map_err(|error: toml::de::Error| {
        let reason = error.message().split_whitespace().collect::<Vec<_>>().join(" ").replace('`', "");
        wrong(path, text, error.span().map_or(0, |span| span.start), reason)
    })
}

/// The error of a place in a text, by its byte.
pub(crate) fn wrong(path: &Path, text: &str, at: usize, reason: String) -> FileError {
    let line = text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1;
    FileError::Wrong { path: path.to_path_buf(), line, reason }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_pipe_in_a_files_place_is_refused_and_not_waited_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("policy.toml");
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).expect("made");
        let (done, is_done) = std::sync::mpsc::channel();
        std::thread::spawn(move || _ = done.send(read(&path).map_err(|error| error.to_string())));
        let said = is_done.recv_timeout(std::time::Duration::from_secs(60)).expect("nobody waits");
        assert!(said.is_err_and(|words| words.contains("not a regular file")));
    }

    #[test]
    fn a_file_that_others_may_change_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("policy.toml");
        std::fs::write(&path, "text").expect("written");
        for (mode, is_good) in [(0o600, true), (0o644, true), (0o664, false), (0o646, false)] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("changed");
            let read = read(&path);
            assert_eq!(read.is_ok(), is_good, "{mode:o}: {read:?}");
        }
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).expect("changed");
        // Only root gives files away.
        if std::os::unix::fs::chown(&path, Some(65534), None).is_ok() {
            assert!(matches!(read(&path), Err(FileError::Owner { owner: 65534, .. })));
        }
    }

    #[test]
    fn a_file_that_is_not_there_or_none_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        for path in [folder.path().to_path_buf(), folder.path().join("missing")] {
            let words = read(&path).expect_err("no file").to_string();
            assert!(words.contains(&path.display().to_string()), "{words}");
        }
    }
}
