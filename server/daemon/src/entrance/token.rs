//! The shared token, which is made at the first start and never sent.
//! In: a file's path. Out: the token, and the secret that seals and proves connections.
//! It never appears in a log or in `Debug`.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use floe_transport::Secret;

use crate::error::DaemonError;

/// Random bytes in a token and in a nonce: as many as the hash gives.
pub(crate) const RANDOM_BYTES: usize = 32;
/// The least characters of a token. Nobody guesses a random one of this length, and nothing slows an attacker down.
const LEAST_CHARACTERS: usize = 32;
/// Random characters in the name of a token's draft.
const DRAFT_CHARACTERS: usize = 16;
/// The most bytes of a token's file that are read.
const MOST_BYTES: u64 = 4096;

/// The shared secret.
#[derive(Clone)]
pub(crate) struct Token(String);

impl std::fmt::Debug for Token {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Token(…)")
    }
}

/// Random bytes for a nonce.
pub(crate) fn random() -> Result<[u8; RANDOM_BYTES], DaemonError> {
    let mut bytes = [0; RANDOM_BYTES];
    getrandom::fill(&mut bytes).map_err(|error| DaemonError::Random(error.to_string()))?;
    Ok(bytes)
}

/// The file's text, owner and mode, all read from one open file, whatever happens to its name.
fn read(path: &Path) -> io::Result<(String, u32, u32)> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    let mut text = String::new();
    file.take(MOST_BYTES).read_to_string(&mut text)?;
    Ok((text, metadata.uid(), metadata.mode() & 0o777))
}

impl Token {
    /// Reads the token, or makes the file with a new one. Returns whether it was made.
    pub(crate) fn read_or_make(path: &Path) -> Result<(Self, bool), DaemonError> {
        let wrong = |source| DaemonError::Token { path: path.to_path_buf(), source };
        match Self::make(path) {
            Ok(token) => return Ok((token, true)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(wrong(error)),
        }
        let (text, owner, mode) = read(path).map_err(wrong)?;
        let path = || path.to_path_buf();
        if owner != 0 && owner != rustix::process::geteuid().as_raw() {
            return Err(DaemonError::TokenOwner { path: path(), owner });
        }
        if mode & 0o077 != 0 {
            return Err(DaemonError::TokenMode { path: path(), mode });
        }
        let token = text.trim();
        match token.chars().count() {
            0 => Err(DaemonError::TokenEmpty(path())),
            characters @ 1..LEAST_CHARACTERS => Err(DaemonError::TokenShort { path: path(), characters }),
            _ => Ok((Self(token.to_owned()), false)),
        }
    }

    /// Writes the whole file before it gets its name, so that no other daemon reads half a token.
    fn make(path: &Path) -> io::Result<Self> {
        if path.exists() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let folder = path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder)?;
        let random = random().map_err(|error| io::Error::other(error.to_string()))?;
        let token: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        // tempfile promises a random name, a new file and mode 0600.
        let mut draft = tempfile::Builder::new().prefix(".token-").rand_bytes(DRAFT_CHARACTERS).tempfile_in(folder)?;
        draft.write_all(token.as_bytes())?;
        draft.write_all(b"\n")?;
        draft.as_file().sync_all()?;
        // This fails if the name is taken, so it never replaces another daemon's token.
        draft.persist_noclobber(path)?;
        Ok(Self(token))
    }

    /// A token for a test.
    #[cfg(test)]
    pub(crate) fn of_text(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// The secret for sealing and proofs.
    pub(crate) fn secret(&self) -> Secret {
        Secret::of(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn written(text: &str, mode: u32) -> (tempfile::TempDir, Result<(Token, bool), DaemonError>) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("token");
        fs::write(&path, text).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("changed");
        let outcome = Token::read_or_make(&path);
        (folder, outcome)
    }

    #[test]
    fn a_token_is_made_once_and_for_its_owner_only() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("deep/token");
        let (first, made) = Token::read_or_make(&path).expect("it is made");
        assert!(made);
        assert_eq!(fs::metadata(&path).expect("it is there").permissions().mode() & 0o777, 0o600);
        let (second, made) = Token::read_or_make(&path).expect("it is read");
        assert!(!made);
        assert_eq!(first.0, second.0);
        assert_eq!(fs::read_dir(path.parent().expect("a folder")).expect("readable").count(), 1, "a draft is left");
    }

    #[test]
    fn a_token_others_can_read_is_refused() {
        let (_folder, outcome) = written(&"s".repeat(64), 0o644);
        assert!(matches!(outcome, Err(DaemonError::TokenMode { mode: 0o644, .. })));
    }

    #[test]
    fn a_token_of_another_users_is_refused() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("token");
        fs::write(&path, "s".repeat(64)).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("changed");
        if std::os::unix::fs::chown(&path, Some(65534), None).is_err() {
            return; // Only root gives files away.
        }
        assert!(matches!(Token::read_or_make(&path), Err(DaemonError::TokenOwner { owner: 65534, .. })));
    }

    #[test]
    fn a_token_that_can_be_guessed_is_refused_and_the_words_say_what_to_do() {
        let (_folder, outcome) = written(&"s".repeat(31), 0o600);
        let error = outcome.expect_err("31 characters");
        assert!(matches!(error, DaemonError::TokenShort { characters: 31, .. }));
        assert!(error.to_string().contains("the next start makes a new one"), "{error}");
        assert!(written(&"s".repeat(32), 0o600).1.is_ok());
        assert!(matches!(written(" \n", 0o600).1, Err(DaemonError::TokenEmpty(_))));
    }

    #[test]
    fn a_file_that_waits_for_the_draft_gets_no_token() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let waiting = folder.path().join(format!(".token-{}", std::process::id()));
        fs::write(&waiting, "").expect("written");
        let token = Token::read_or_make(&folder.path().join("token")).expect("made").0;
        assert_eq!(fs::read_to_string(&waiting).expect("it is still there"), "");
        let whole = fs::metadata(folder.path().join("token")).expect("made");
        assert_eq!((whole.nlink(), whole.mode() & 0o777), (1, 0o600));
        assert_eq!(token.0.len(), 2 * RANDOM_BYTES);
    }
}
