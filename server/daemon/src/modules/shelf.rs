//! For whom contents of modules are kept, and notes of what was compiled: for all, or for each user alone.
//! In: hashes, users' names. Out: names of files. No user can tell whether another's content is there.
//! It opens no file.

use floe_users::Name;
use floe_worker::cache_channel::Hash;

/// The purpose of the hash that names a user's files.
const PURPOSE: &str = "floe: the name of a module's content that is kept for one user";

/// The purpose of the hash that names notes.
const NOTES: &str = "floe: the name of the note that says which machine code a user's worker compiled";

/// The contents that a session may find, and among which it stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shelf {
    /// Those of all sessions.
    Common,
    /// Those of a user, or of all who have no name.
    Of(Option<Name>),
}

/// A content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Content {
    /// The hash of its bytes.
    pub(super) hash: Hash,
    /// The name of its file.
    pub(super) name: Hash,
}

impl Shelf {
    /// The content of this hash. No session names the file of another shelf: it would have to find a hash for the name.
    pub(crate) fn content(self, hash: &Hash) -> Content {
        let Self::Of(user) = self else { return Content { hash: *hash, name: *hash } };
        let mut hasher = blake3::Hasher::new_derive_key(PURPOSE);
        hasher.update(hash).update(user.map_or("", Name::text).as_bytes());
        Content { hash: *hash, name: *hasher.finalize().as_bytes() }
    }
}

/// Whose notes a session finds and makes. A worker is believed about what it compiled, so no user finds another's.
#[derive(Clone, Debug)]
pub(crate) struct Notes {
    /// `None`: of all who have no name.
    pub(crate) user: Option<Name>,
    /// The driver whose compiler it was.
    pub(crate) driver: String,
}

impl Notes {
    /// The name of the file of the note that a worker names so.
    pub(super) fn name(&self, name: &Hash) -> Hash {
        let mut hasher = blake3::Hasher::new_derive_key(NOTES);
        hasher.update(name).update(&(self.driver.len() as u64).to_le_bytes()).update(self.driver.as_bytes());
        *hasher.update(self.user.map_or("", Name::text).as_bytes()).finalize().as_bytes()
    }
}

#[cfg(test)]
impl From<&Hash> for Content {
    fn from(hash: &Hash) -> Self {
        Shelf::Common.content(hash)
    }
}
