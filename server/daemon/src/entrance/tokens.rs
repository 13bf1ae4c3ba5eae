//! The tokens of users: which there are now, and whose each is.
//! In: the server's key, the list as it changes. Out: secrets of connections, holders.
//! A broken list stops a start and changes nothing later.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use floe_lock::lock;
use floe_transport::{Secret, ServerKey, TokenNumber};
use floe_users::{FileError, Name, Revoked, Tokens, server_key};

use crate::{log, warn};

/// Who a token was made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) name: Name,
    pub(crate) number: TokenNumber,
    /// The token is revoked: it begins nothing new.
    pub(crate) is_drained: bool,
}

/// The tokens of users. Without a key there are none: the first token makes it.
#[derive(Debug, Default)]
pub(crate) struct UserTokens {
    folder: Option<PathBuf>,
    key: Mutex<KeyFile>,
    known: Mutex<Arc<Known>>,
}

/// What is known of the file with the server's key.
#[derive(Debug, Default)]
enum KeyFile {
    /// There was none.
    #[default]
    Missing,
    /// It cannot be used, and the log says so.
    Useless,
    Read(ServerKey),
}

#[derive(Debug, Default)]
struct Known {
    tokens: Tokens,
    secrets: BTreeMap<TokenNumber, Secret>,
    stamp: Option<Stamp>,
}

/// What changes when a file does: it is replaced as a whole.
type Stamp = (u64, i64, i64, u64);

impl UserTokens {
    /// Reads the server's key, which only the user that starts the server may be able to read.
    ///
    /// # Errors
    /// [`FileError`].
    pub(crate) fn open(folder: Option<PathBuf>) -> Result<Self, FileError> {
        let Some(folder) = folder else { return Ok(Self::default()) };
        let key = server_key(&folder)?.map_or(KeyFile::Missing, KeyFile::Read);
        Ok(Self { folder: Some(folder), key: Mutex::new(key), known: Mutex::default() })
    }

    /// Reads the list, as the user that the server stays.
    ///
    /// # Errors
    /// [`FileError`].
    pub(crate) fn read(&self) -> Result<(), FileError> {
        let Some(folder) = &self.folder else { return Ok(()) };
        let stamp = self.stamp();
        let key = lock(&self.key);
        let KeyFile::Read(key) = &*key else { return Ok(()) };
        let tokens = Tokens::read(folder)?;
        let secrets = tokens.secrets(key);
        log(format_args!("tokens of users: {} of {} let somebody in", secrets.len(), tokens.0.len()));
        *lock(&self.known) = Arc::new(Known { tokens, secrets, stamp });
        Ok(())
    }

    /// Reads the list again if it has changed.
    pub(crate) fn look(&self) {
        self.look_for_key();
        let stamp = self.stamp();
        let known = self.known();
        if stamp == known.stamp {
            return;
        }
        if let Err(error) = self.read() {
            warn(format_args!("the tokens of users stay as they were: {error}"));
            // Said once for each change.
            let Known { tokens, secrets, .. } = &*known;
            *lock(&self.known) = Arc::new(Known { tokens: tokens.clone(), secrets: secrets.clone(), stamp });
        }
    }

    /// Reads the key if the first token was made since the start. A server that has become another user may not be able to.
    fn look_for_key(&self) {
        let mut key = lock(&self.key);
        let (Some(folder), KeyFile::Missing) = (&self.folder, &*key) else { return };
        match server_key(folder) {
            Ok(None) => {}
            Ok(Some(read)) => *key = KeyFile::Read(read),
            Err(error) => {
                warn(format_args!("tokens of users let nobody in before the server starts again: {error}"));
                *key = KeyFile::Useless;
            }
        }
    }

    fn stamp(&self) -> Option<Stamp> {
        let folder = self.folder.as_ref().filter(|_| matches!(*lock(&self.key), KeyFile::Read(_)))?;
        let file = Tokens::file(folder).metadata().ok()?;
        Some((file.ino(), file.mtime(), file.mtime_nsec(), file.len()))
    }

    fn known(&self) -> Arc<Known> {
        Arc::clone(&lock(&self.known))
    }

    /// The secret of a token that lets somebody in.
    pub(crate) fn secret(&self, number: TokenNumber) -> Option<Secret> {
        self.known().secrets.get(&number).cloned()
    }

    /// Whose a token is; `None`: nobody's.
    pub(crate) fn holder(&self, number: TokenNumber) -> Option<Holder> {
        let known = self.known();
        let entry = known.tokens.0.get(&number).filter(|entry| entry.revoked != Some(Revoked::End))?;
        Some(Holder { name: entry.user, number, is_drained: entry.revoked == Some(Revoked::Drain) })
    }
}

#[cfg(test)]
mod tests {
    use floe_users::{make, revoke};

    use super::*;

    #[test]
    fn the_first_token_of_all_lets_somebody_in_at_the_next_look() {
        let folder = tempfile::tempdir().expect("a folder");
        let tokens = UserTokens::open(Some(folder.path().join("tokens"))).expect("nothing is there");
        tokens.read().expect("no list");
        tokens.look();
        let (number, _) = make(&folder.path().join("tokens"), Name::new("alice").expect("a name")).expect("made");
        assert!(tokens.secret(number).is_none());
        tokens.look();
        assert!(tokens.secret(number).is_some() && tokens.holder(number).is_some());
    }

    #[test]
    fn a_first_key_that_cannot_be_used_lets_nobody_in() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().expect("a folder");
        let tokens = UserTokens::open(Some(folder.path().to_path_buf())).expect("nothing is there");
        let (number, _) = make(folder.path(), Name::new("alice").expect("a name")).expect("made");
        let key = folder.path().join("key");
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).expect("it is ours");
        tokens.look();
        tokens.look();
        assert!(tokens.secret(number).is_none() && tokens.holder(number).is_none());
    }

    #[test]
    fn the_list_is_read_again_when_it_changes_and_a_broken_one_changes_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = folder.path().to_path_buf();
        let name = Name::new("alice").expect("a name");
        let (first, text) = make(&place, name).expect("made");
        let tokens = UserTokens::open(Some(place.clone())).expect("a key");
        tokens.read().expect("a list");
        let holder = |number| tokens.holder(number).map(|holder| holder.is_drained);
        assert_eq!((holder(first), Secret::of(&text).number()), (Some(false), Some(first)));
        let (second, _) = make(&place, name).expect("made");
        assert!(tokens.secret(second).is_none());
        tokens.look();
        assert!(tokens.secret(second).is_some());
        revoke(&place, &first.to_string(), Revoked::Drain).expect("revoked");
        revoke(&place, &second.to_string(), Revoked::End).expect("revoked");
        tokens.look();
        assert_eq!((holder(first), tokens.secret(first).is_some()), (Some(true), true));
        assert_eq!((holder(second), tokens.secret(second).is_some()), (None, false));
        std::fs::write(Tokens::file(&place), "[tokens.x]\n").expect("written");
        tokens.look();
        tokens.look();
        assert_eq!(holder(first), Some(true));
        std::fs::remove_file(Tokens::file(&place)).expect("removed");
        tokens.look();
        assert_eq!(holder(first), None, "a token that is not on the list is nobody's");
    }
}
