//! The list of users' tokens: number, user, public key, and whether the token is revoked.
//! In: a folder with the list and the server's private key. Out: tokens that are made, listed, revoked; secrets.
//! The list holds nothing that lets its reader in. A token's text is given once and never kept.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use floe_transport::{Secret, ServerKey, TokenNumber, UserKey};
use serde::{Deserialize, Serialize};

use crate::file::{self, FileError};
use crate::name::Name;

/// The list's file, and the key's.
const LIST: &str = "tokens.toml";
const KEY: &str = "key";

/// Bytes of a list to which tokens are added. The rest is room to revoke them all, which takes a seventh more.
const MOST_OF_GOOD: u64 = file::MOST_BYTES / 4 * 3;

/// How a token is revoked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Revoked {
    /// It begins nothing new; its sessions go on.
    Drain,
    /// It is nobody's, and its sessions end.
    End,
}

/// A token as the list has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its user.
    pub user: Name,
    /// Its public key.
    pub key: UserKey,
    /// When it was made, in seconds since 1970.
    pub made: u64,
    /// Whether it is revoked.
    pub revoked: Option<Revoked>,
}

/// The list's file.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default)]
    tokens: BTreeMap<String, Row>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    user: String,
    key: String,
    made: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    revoked: Option<Revoked>,
}

/// All tokens of a server's users.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tokens(pub BTreeMap<TokenNumber, Entry>);

impl Tokens {
    /// The list's file in a folder.
    #[must_use]
    pub fn file(folder: &Path) -> PathBuf {
        folder.join(LIST)
    }

    /// Reads the list of a folder; empty where there is none.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn read(folder: &Path) -> Result<Self, FileError> {
        let path = folder.join(LIST);
        if matches!(path.symlink_metadata(), Err(error) if error.kind() == io::ErrorKind::NotFound) {
            return Ok(Self::default());
        }
        let text = file::read(&path)?;
        let written: Written = file::parse(&path, &text)?;
        let entry = |(number, row): (String, Row)| {
            let wrong = |reason: String| file::wrong(&path, &text, text.find(&number).unwrap_or(0), reason);
            let user = Name::new(&row.user).map_err(|error| wrong(error.to_string()))?;
            let key = row.key.parse().map_err(|error: floe_transport::NotAKey| wrong(error.to_string()))?;
            let of = number.parse().map_err(|error: floe_transport::NotANumber| wrong(error.to_string()))?;
            Ok((of, Entry { user, key, made: row.made, revoked: row.revoked }))
        };
        written.tokens.into_iter().map(entry).collect::<Result<_, _>>().map(Self)
    }

    /// The secrets of the tokens that let somebody in, each derived once.
    #[must_use]
    pub fn secrets(&self, key: &ServerKey) -> BTreeMap<TokenNumber, Secret> {
        let lets_in = self.0.iter().filter(|(_, entry)| entry.revoked != Some(Revoked::End));
        lets_in.filter_map(|(number, entry)| Some((*number, key.secret(*number, &entry.key)?))).collect()
    }

    /// Writes the list, if it has so many bytes at most: a longer one would not be read.
    fn write(&self, folder: &Path, most: u64) -> Result<(), FileError> {
        let row = |(number, entry): (&TokenNumber, &Entry)| {
            let Entry { user, key, made, revoked } = entry;
            (number.to_string(), Row { user: user.to_string(), key: key.to_string(), made: *made, revoked: *revoked })
        };
        let text = toml::to_string(&Written { tokens: self.0.iter().map(row).collect() });
        let text = text.map_err(|error| unwritable(folder)(io::Error::other(error)))?;
        if text.len() as u64 > most {
            return Err(unwritable(&folder.join(LIST))(io::Error::other(
                "the list is full; take tokens out that were ended",
            )));
        }
        replace(folder, LIST, &text, 0o644)
    }
}

/// Reads the server's private key; `None`: the folder has none, so there are no tokens of users.
///
/// # Errors
/// [`FileError`]: it cannot be read, is no key, or others can read it.
pub fn server_key(folder: &Path) -> Result<Option<ServerKey>, FileError> {
    let path = folder.join(KEY);
    let metadata = match path.metadata() {
        Ok(metadata) => metadata,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) => {
            return Ok(None);
        }
        Err(source) => return Err(FileError::Unreadable { path, source }),
    };
    if metadata.mode() & 0o077 != 0 {
        return Err(FileError::Readable { path, mode: metadata.mode() & 0o777 });
    }
    let text = file::read(&path)?;
    let key = text.parse().map_err(|error: floe_transport::NotAKey| file::wrong(&path, &text, 0, error.to_string()))?;
    Ok(Some(key))
}

/// Makes a token for a user, and the server's key if that is not there. Returns the token's number and its text, which is
/// kept nowhere.
///
/// # Errors
/// [`FileError`].
pub fn make(folder: &Path, user: Name) -> Result<(TokenNumber, String), FileError> {
    let _held = hold(folder)?;
    let no_random = || unwritable(folder)(io::Error::other("the system gives no random bytes"));
    let key = match server_key(folder)? {
        Some(key) => key,
        None => {
            let key = ServerKey::make().ok_or_else(no_random)?;
            replace(folder, KEY, &format!("{}\n", key.text()), 0o600)?;
            key
        }
    };
    let mut tokens = Tokens::read(folder)?;
    let token = key.make_token().ok_or_else(no_random)?;
    let made = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    tokens.0.insert(token.number, Entry { user, key: token.key, made, revoked: None });
    tokens.write(folder, MOST_OF_GOOD)?;
    Ok((token.number, token.text))
}

/// Revokes a token by its number, or all of a user. Returns the numbers; none: the list has no such token or user.
///
/// # Errors
/// [`FileError`].
pub fn revoke(folder: &Path, whom: &str, how: Revoked) -> Result<Vec<TokenNumber>, FileError> {
    let _held = hold(folder)?;
    let mut tokens = Tokens::read(folder)?;
    let mut revoked = Vec::new();
    for (number, entry) in &mut tokens.0 {
        // Who was ended is not drained again.
        if (number.to_string() == whom || entry.user.text() == whom) && entry.revoked != Some(Revoked::End) {
            entry.revoked = Some(how);
            revoked.push(*number);
        }
    }
    if !revoked.is_empty() {
        tokens.write(folder, file::MOST_BYTES)?;
    }
    Ok(revoked)
}

/// Keeps other commands from changing the folder at the same time.
fn hold(folder: &Path) -> Result<File, FileError> {
    let failed = unwritable(folder);
    if !folder.exists() {
        DirBuilder::new().recursive(true).mode(0o755).create(folder).map_err(unwritable(folder))?;
    }
    let held = File::open(folder).map_err(unwritable(folder))?;
    held.lock().map_err(failed)?;
    Ok(held)
}

/// Gives a file a new text, whole or not at all.
fn replace(folder: &Path, name: &str, text: &str, mode: u32) -> Result<(), FileError> {
    let write = || {
        let mut draft = tempfile::Builder::new().prefix(".draft-").tempfile_in(folder)?;
        draft.write_all(text.as_bytes())?;
        draft.as_file().set_permissions(std::fs::Permissions::from_mode(mode))?;
        draft.as_file().sync_all()?;
        draft.persist(folder.join(name)).map_err(|error| error.error)?;
        Ok(())
    };
    write().map_err(unwritable(&folder.join(name)))
}

fn unwritable(path: &Path) -> impl FnOnce(io::Error) -> FileError {
    let path: PathBuf = path.to_path_buf();
    move |source| FileError::Unwritable { path, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::new(text).expect("a name")
    }

    #[test]
    fn what_is_stored_of_a_token_lets_nobody_in() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = folder.path().join("tokens");
        let (number, text) = make(&place, name("alice")).expect("made");
        let list = std::fs::read_to_string(place.join(LIST)).expect("written");
        let private = &text[text.len() - 64..];
        let key = std::fs::read_to_string(place.join(KEY)).expect("written");
        assert!(!list.contains(private) && !key.contains(private), "the token's private key is kept");
        assert!(!list.contains(key.trim()), "the server's private key is in the list");
        let mode = |name| std::fs::metadata(place.join(name)).expect("there").mode() & 0o777;
        assert_eq!((mode(KEY), mode(LIST)), (0o600, 0o644));
        let secrets =
            Tokens::read(&place).expect("a list").secrets(&server_key(&place).expect("a key").expect("a key"));
        assert_eq!(secrets.keys().collect::<Vec<_>>(), [&number]);
        assert_eq!(Secret::of(&text).number(), Some(number));
    }

    #[test]
    fn tokens_are_revoked_by_number_or_by_user_and_ended_ones_have_no_secret() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = folder.path();
        let [(first, _), (second, _), (other, _)] =
            ["alice", "alice", "bob"].map(|user| make(place, name(user)).expect("made"));
        let state = || {
            let tokens = Tokens::read(place).expect("a list");
            let secrets = tokens.secrets(&server_key(place).expect("a key").expect("a key"));
            [first, second, other].map(|number| (tokens.0[&number].revoked, secrets.contains_key(&number)))
        };
        assert_eq!(revoke(place, &first.to_string(), Revoked::Drain).expect("revoked"), [first]);
        assert_eq!(state(), [(Some(Revoked::Drain), true), (None, true), (None, true)]);
        assert_eq!(revoke(place, "alice", Revoked::End).expect("revoked").len(), 2);
        assert_eq!(revoke(place, "alice", Revoked::Drain).expect("nothing to do"), []);
        assert_eq!(state(), [(Some(Revoked::End), false), (Some(Revoked::End), false), (None, true)]);
        assert_eq!(revoke(place, "carol", Revoked::End).expect("nobody"), []);
    }

    /// A list that cannot be read keeps everybody in who is in.
    #[test]
    fn a_list_takes_no_token_that_could_not_be_revoked() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = folder.path();
        make(place, name("alice")).expect("made");
        let mut tokens = Tokens::read(place).expect("good");
        let entry = Entry { user: name("a"), made: 1_234_567_890, ..tokens.0.values().next().expect("one").clone() };
        for number in 0_u64.. {
            tokens.0.insert(TokenNumber(number.to_be_bytes()), entry.clone());
            if number % 4096 == 0 && tokens.write(place, MOST_OF_GOOD).is_err() {
                break;
            }
        }
        // As many as fit, and some more.
        tokens.write(place, file::MOST_BYTES).expect("room is left");
        let said = make(place, name("bob")).expect_err("full").to_string();
        assert!(said.contains("the list is full"), "{said}");
        assert!(!revoke(place, "a", Revoked::Drain).expect("revoked").is_empty());
        Tokens::read(place).expect("it is still read");
    }

    #[test]
    fn a_list_that_is_broken_and_a_key_that_others_can_read_are_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = folder.path();
        assert_eq!(Tokens::read(place).expect("none"), Tokens::default());
        assert!(server_key(place).expect("none").is_none());
        make(place, name("alice")).expect("made");
        let list = std::fs::read_to_string(place.join(LIST)).expect("written");
        for (from, to, words) in [
            ("user = \"alice\"", "user = \"a b\"", "not a user's name"),
            ("key = \"", "key = \"0", "not a key"),
            ("[tokens.", "[tokens.0", "not a token's number"),
            ("made =", "share =", "unknown field share"),
        ] {
            std::fs::write(place.join(LIST), list.replace(from, to)).expect("written");
            let said = Tokens::read(place).expect_err("broken").to_string();
            assert!(said.contains("tokens.toml:") && said.contains(words), "{said}");
        }
        std::fs::set_permissions(place.join(KEY), std::fs::Permissions::from_mode(0o640)).expect("ours");
        let said = server_key(place).expect_err("open").to_string();
        assert!(said.contains("others can read") && said.contains("chmod 600"), "{said}");
    }
}
