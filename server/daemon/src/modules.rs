//! Contents of modules that outlive sessions: on disk, and each session's way to them.
//! In: hashes and contents. Out: files for reading that were hashed here.
//! No content is taken on anybody's word.

pub(crate) mod module_cache;
pub(crate) mod module_keeper;
