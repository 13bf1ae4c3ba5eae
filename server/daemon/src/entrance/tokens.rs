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

/// The tokens of users. Without a key there are none.
#[derive(Debug, Default)]
pub(crate) struct UserTokens {
    place: Option<(PathBuf, ServerKey)>,
    known: Mutex<Arc<Known>>,
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
        let key = server_key(&folder)?;
        Ok(Self { place: key.map(|key| (folder, key)), known: Mutex::default() })
    }

    /// Reads the list, as the user that the server stays.
    ///
    /// # Errors
    /// [`FileError`].
    pub(crate) fn read(&self) -> Result<(), FileError> {
        let Some((folder, key)) = &self.place else { return Ok(()) };
        let stamp = self.stamp();
        let tokens = Tokens::read(folder)?;
        let secrets = tokens.secrets(key);
        log(format_args!("tokens of users: {} of {} let somebody in", secrets.len(), tokens.0.len()));
        *lock(&self.known) = Arc::new(Known { tokens, secrets, stamp });
        Ok(())
    }

    /// Reads the list again if it has changed.
    pub(crate) fn look(&self) {
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

    fn stamp(&self) -> Option<Stamp> {
        let (folder, _) = self.place.as_ref()?;
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
