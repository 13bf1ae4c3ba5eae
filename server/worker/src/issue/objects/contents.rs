//! Contents of libraries: what a library is made of, from the parts that came or from the cache.
//! In: parts, hashes. Out: bytes that have the hashes they were asked by, or which of them are missing.
//! Knowing a content's hash is taken as having the content; no content is given out under another hash than its own.

use std::collections::{BTreeMap, HashMap};

use floe_device::Content;
use floe_wire::{LibraryId, LibraryPart};

use crate::issue::cache::{Cache, Hash, hash_of};
use crate::issue::fault::{Fault, violation};
use crate::life::log::Log;
use crate::memory::budget::Budget;

/// The most bytes of one library's contents.
const LIBRARY_BYTES: u64 = 1 << 30;
/// The most contents of one library.
const CONTENTS: usize = 4096;

/// Limits of a search through a library: all that one may have.
pub(crate) const LIMITS: floe_image::Limits =
    floe_image::Limits { image_bytes: 1 << 30, entry_bytes: 1 << 28, entries: 4096 };

/// Bytes of host memory of a part, beside its own.
const PART: u64 = 128;

/// The contents a session sends and asks for.
#[derive(Debug)]
pub(crate) struct Contents {
    cache: Option<Cache>,
    /// Parts of libraries that are not loaded yet, by library and content.
    parts: HashMap<u64, BTreeMap<u32, Vec<u8>>>,
    pending: u64,
    /// Contents that another worker has given.
    supplied: Vec<(Hash, Content)>,
    /// The budget to which they are charged.
    budget: Budget,
    log: Log,
    cache_failed: bool,
}

/// The contents of a library.
#[derive(Debug)]
pub(crate) enum Gathered {
    /// All of it.
    All(Vec<Content>),
    /// These indices are neither here nor in the cache.
    Missing(Vec<u32>),
}

impl Contents {
    pub(crate) fn new(cache: Option<Cache>, log: Log, budget: &Budget) -> Self {
        Self {
            cache,
            parts: HashMap::new(),
            pending: 0,
            supplied: Vec::new(),
            budget: budget.clone(),
            log,
            cache_failed: false,
        }
    }

    /// The next bytes of a content.
    pub(crate) fn part(&mut self, message: LibraryPart<'_>) -> Result<(), Fault> {
        let LibraryPart { library, content, bytes } = message;
        let parts = self.parts.entry(library.0).or_default();
        let more = bytes.len() as u64;
        let present: u64 = parts.values().map(|part| part.len() as u64).sum();
        if present + more > LIBRARY_BYTES {
            return violation(format!("parts of library {} are over the limit: {LIBRARY_BYTES}", library.0));
        }
        if parts.len() >= CONTENTS && !parts.contains_key(&content) {
            return violation(format!("more contents of library {} than: {CONTENTS}", library.0));
        }
        let more = more + if parts.contains_key(&content) { 0 } else { PART };
        if let Err(fault) = self.budget.take(more) {
            return violation(format!("parts of library {}: {fault}", library.0));
        }
        parts.entry(content).or_default().extend_from_slice(bytes);
        self.pending += more;
        Ok(())
    }

    /// The contents a library is made of; its parts are used up.
    pub(crate) fn gather(&mut self, library: LibraryId, wanted: &[floe_wire::Content<'_>]) -> Result<Gathered, Fault> {
        let mut parts = self.parts.remove(&library.0).unwrap_or_default();
        let bytes = parts.values().map(|part| part.len() as u64 + PART).sum();
        self.pending -= bytes;
        self.budget.give(bytes);
        let total = wanted.iter().try_fold(0_u64, |total, content| total.checked_add(content.bytes));
        if wanted.is_empty() || wanted.len() > CONTENTS || total.is_none_or(|total| total > LIBRARY_BYTES) {
            return violation(format!("library {} has none, or too many contents: {}", library.0, wanted.len()));
        }
        let (mut contents, mut missing) = (Vec::with_capacity(wanted.len()), Vec::new());
        for (content, index) in wanted.iter().zip(0u32..) {
            let Ok(hash) = Hash::try_from(content.hash) else {
                return violation(format!("not a hash: {} bytes", content.hash.len()));
            };
            let found = match parts.remove(&index) {
                Some(bytes) if bytes.len() as u64 == content.bytes && hash_of(&bytes) == hash => {
                    Some(self.store(&hash, &bytes))
                }
                Some(bytes) => {
                    return violation(format!("content {index} has another hash than was said: {} bytes", bytes.len()));
                }
                None => self.supplied(&hash).or_else(|| self.cache.as_ref()?.find(&hash, content.bytes)),
            };
            match found {
                Some(content) => contents.push(content),
                None => missing.push(index),
            }
        }
        match parts.keys().next() {
            Some(index) => violation(format!("a part of no content: {index}")),
            None if missing.is_empty() => Ok(Gathered::All(contents)),
            None => Ok(Gathered::Missing(missing)),
        }
    }

    /// Takes contents that another worker gives, for loads until `supply_nothing`. Those of another hash are left.
    pub(crate) fn supply(&mut self, hash: Hash, content: Content) {
        if hash_of(&content) == hash {
            self.supplied.push((hash, content));
        }
    }

    pub(crate) fn supply_nothing(&mut self) {
        self.supplied.clear();
    }

    fn supplied(&self, hash: &Hash) -> Option<Content> {
        self.supplied.iter().find(|(its, _)| its == hash).map(|(_, content)| content.clone())
    }

    /// Whether contents are in the cache.
    pub(crate) fn has(&self, hash: &Hash, bytes: u64) -> bool {
        self.cache.as_ref().is_some_and(|cache| cache.find(hash, bytes).is_some())
    }

    /// Whether parts of libraries have come that are not loaded yet.
    pub(crate) fn is_pending(&self) -> bool {
        !self.parts.is_empty()
    }

    /// Drops the contents that have arrived of libraries that are not loaded.
    pub(crate) fn clear(&mut self) {
        self.parts.clear();
        self.budget.give(std::mem::take(&mut self.pending));
    }

    /// Whether machine code can be kept.
    pub(crate) fn keeps(&self) -> bool {
        self.cache.is_some()
    }

    /// The machine code that was kept under this name, else what `compile` makes, if it can be kept from then on.
    pub(crate) fn compiled(&mut self, name: &Hash, compile: impl FnOnce() -> Option<Vec<u8>>) -> Option<Content> {
        let cache = self.cache.as_ref()?;
        if let Some(content) = cache.compiled(name) {
            return Some(content);
        }
        if self.cache_failed {
            // What is not kept is compiled by the driver's own load.
            return None;
        }
        let code = compile()?;
        let kept = cache.keep_compiled(name, &code);
        kept.inspect_err(|error| self.note_failure(code.len(), error)).ok()
    }

    /// The bytes as the cache has them now, or in memory where it cannot.
    fn store(&mut self, hash: &Hash, bytes: &[u8]) -> Content {
        match self.cache.as_ref().map(|cache| cache.store(hash, bytes)) {
            Some(Ok(content)) => content,
            Some(Err(error)) => {
                self.note_failure(bytes.len(), &error);
                Content::from(bytes)
            }
            None => Content::from(bytes),
        }
    }

    /// Tells of the first content that the cache did not keep.
    fn note_failure(&mut self, bytes: usize, error: &std::io::Error) {
        if !std::mem::replace(&mut self.cache_failed, true) {
            self.log.line(format_args!("a module is not cached: {bytes} bytes: {error}"));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;
    use crate::issue::cache::tests::believing_daemon;

    fn part(contents: &mut Contents, library: u64, content: u32, bytes: &[u8]) {
        contents.part(LibraryPart { library: LibraryId(library), content, bytes }).unwrap();
    }

    fn gather(contents: &mut Contents, library: u64, wanted: &[&[u8]]) -> Result<Gathered, Fault> {
        let hashes: Vec<Hash> = wanted.iter().map(|bytes| hash_of(bytes)).collect();
        let wanted = wanted.iter().zip(&hashes);
        let wanted = wanted.map(|(bytes, hash)| floe_wire::Content { hash, bytes: bytes.len() as u64 });
        contents.gather(LibraryId(library), &wanted.collect::<Vec<_>>())
    }

    fn all(gathered: Result<Gathered, Fault>) -> Vec<Vec<u8>> {
        match gathered.unwrap() {
            Gathered::All(contents) => contents.iter().map(|content| content.to_vec()).collect(),
            Gathered::Missing(missing) => panic!("missing: {missing:?}"),
        }
    }

    #[test]
    fn without_a_cache_everything_is_missing_each_time() {
        let mut contents = Contents::new(None, Log::nowhere(), &Budget::default());
        for library in [1, 3] {
            let first = gather(&mut contents, library, &[b"ab", b"c"]).unwrap();
            assert!(matches!(first, Gathered::Missing(missing) if missing == [0, 1]));
            part(&mut contents, library + 1, 1, b"c");
            part(&mut contents, library + 1, 0, b"a");
            part(&mut contents, library + 1, 0, b"b");
            assert_eq!(all(gather(&mut contents, library + 1, &[b"ab", b"c"])), [b"ab".to_vec(), b"c".to_vec()]);
        }
        assert_eq!(contents.pending, 0);
    }

    #[test]
    fn with_a_cache_only_new_contents_are_missing() {
        let mut first = Contents::new(Some(believing_daemon(HashMap::new())), Log::nowhere(), &Budget::default());
        part(&mut first, 1, 0, b"ab");
        all(gather(&mut first, 1, &[b"ab"]));
        assert_eq!(all(gather(&mut first, 1, &[b"ab"])), [b"ab"]);
        let kept = HashMap::from([(hash_of(b"ab"), b"ab".to_vec())]);
        let mut second = Contents::new(Some(believing_daemon(kept)), Log::nowhere(), &Budget::default());
        assert_eq!(all(gather(&mut second, 1, &[b"ab"])), [b"ab"]);
        assert!(matches!(gather(&mut second, 2, &[b"ab", b"c"]), Ok(Gathered::Missing(missing)) if missing == [1]));
    }

    #[test]
    fn content_with_a_wrong_hash_ends_the_session_and_is_not_cached() {
        let mut contents = Contents::new(Some(believing_daemon(HashMap::new())), Log::nowhere(), &Budget::default());
        part(&mut contents, 1, 0, b"xy");
        assert!(matches!(gather(&mut contents, 1, &[b"ab"]), Err(Fault::ProtocolViolation(_))));
        assert!(matches!(gather(&mut contents, 2, &[b"ab"]), Ok(Gathered::Missing(_))));
    }

    #[test]
    fn sizes_and_counts_of_a_stranger_are_limited() {
        let mut contents = Contents::new(None, Log::nowhere(), &Budget::default());
        let wrong = |contents: &mut Contents, hash: &[u8], bytes| {
            let wanted = [floe_wire::Content { hash, bytes }, floe_wire::Content { hash, bytes }];
            matches!(contents.gather(LibraryId(1), &wanted), Err(Fault::ProtocolViolation(_)))
        };
        assert!(wrong(&mut contents, &[0; 32], u64::MAX));
        assert!(wrong(&mut contents, &[0; 32], LIBRARY_BYTES));
        assert!(wrong(&mut contents, &[0; 31], 1));
        assert!(matches!(contents.gather(LibraryId(1), &[]), Err(Fault::ProtocolViolation(_))));
        part(&mut contents, 1, 7, b"x");
        assert!(matches!(gather(&mut contents, 1, &[b"ab"]), Err(Fault::ProtocolViolation(_))));
        for content in 0..4096 {
            part(&mut contents, 2, content, b"");
        }
        assert!(contents.part(LibraryPart { library: LibraryId(2), content: 5000, bytes: b"" }).is_err());
    }
}
