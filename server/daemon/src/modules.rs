//! Contents of modules that outlive sessions: the cache on disk, and each session's access to it.
//! In: hashes and contents. Out: read-only files that the daemon has hashed.
//! It believes no worker about a content's hash.

pub(crate) mod module_cache;
pub(crate) mod module_keeper;
pub(crate) mod shelf;
