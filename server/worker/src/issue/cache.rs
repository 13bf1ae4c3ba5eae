//! Contents of modules that the daemon keeps from session to session.
//! In: hashes, and bytes that have been checked against theirs. Out: the bytes of a hash, mapped from a file that only the
//! daemon can change, or nothing.
//! It opens no file itself, and never gives out bytes of another hash.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;

use floe_device::Content;

use crate::daemon::cache_channel::{CacheAnswer, CacheEnd, CacheRequest};

pub(crate) use crate::daemon::cache_channel::Hash;

/// The daemon's cache, as one session reaches it.
#[derive(Debug)]
pub struct Cache {
    daemon: CacheEnd,
}

/// The hash of bytes.
pub(crate) fn hash_of(bytes: &[u8]) -> Hash {
    *blake3::hash(bytes).as_bytes()
}

impl Cache {
    /// The cache behind a way that the daemon has given.
    #[must_use]
    pub fn new(daemon: CacheEnd) -> Self {
        Self { daemon }
    }

    /// The content of this hash and size; a file that holds anything else is reported and not used.
    pub(crate) fn find(&self, hash: &Hash, bytes: u64) -> Option<Content> {
        let (CacheAnswer::Here, Some(file)) = self.ask(CacheRequest::Find(*hash, bytes)).ok()? else {
            return None;
        };
        let file = File::from(file);
        // Read, not looked at through the mapping: what the driver never looks at then takes none of our memory.
        let mut hasher = blake3::Hasher::new();
        let whole = hasher.update_reader(&file).is_ok_and(|hasher| *hasher.finalize().as_bytes() == *hash);
        let content = if whole { Content::of_file(&file, bytes).ok() } else { None };
        if content.is_none() {
            // The client sends it again in any case.
            let _ = self.ask(CacheRequest::Damaged(*hash));
        }
        content
    }

    /// Has the daemon keep bytes, whose hash the caller has checked, and gives them back as its file has them.
    ///
    /// # Errors
    /// The system's; the daemon's words where it does not keep them.
    pub(crate) fn store(&self, hash: &Hash, bytes: &[u8]) -> io::Result<Content> {
        let length = bytes.len() as u64;
        match self.ask(CacheRequest::Store(*hash, length))? {
            (CacheAnswer::Write, Some(memory)) => File::from(memory).write_all_at(bytes, 0)?,
            (answer, _) => return Err(refused(answer)),
        }
        match self.ask(CacheRequest::Written)? {
            (CacheAnswer::Here, Some(file)) => Content::of_file(&File::from(file), length),
            (answer, _) => Err(refused(answer)),
        }
    }

    /// The machine code that was noted under this name, as the daemon has it.
    pub(crate) fn compiled(&self, name: &Hash) -> Option<Content> {
        match self.ask(CacheRequest::Compiled(*name)).ok()? {
            (CacheAnswer::Compiled(hash, bytes), _) => self.find(&hash, bytes),
            _ => None,
        }
    }

    /// Has the daemon keep machine code, and note it under this name; gives it back as its file has it.
    ///
    /// # Errors
    /// As of `store`.
    pub(crate) fn keep_compiled(&self, name: &Hash, code: &[u8]) -> io::Result<Content> {
        let hash = hash_of(code);
        let content = self.store(&hash, code)?;
        match self.ask(CacheRequest::Note(*name, hash, code.len() as u64))? {
            (CacheAnswer::Noted, _) => Ok(content),
            (answer, _) => Err(refused(answer)),
        }
    }

    fn ask(&self, request: CacheRequest) -> io::Result<(CacheAnswer, Option<OwnedFd>)> {
        self.daemon.ask(request)?;
        self.daemon.answered()?.ok_or_else(|| io::ErrorKind::BrokenPipe.into())
    }
}

fn refused(answer: CacheAnswer) -> io::Error {
    io::Error::other(match answer {
        CacheAnswer::Refused(words) => words,
        answer => format!("the daemon answers: {answer:?}"),
    })
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use std::collections::HashMap;
    use std::os::fd::AsFd as _;

    use super::*;
    use crate::daemon::cache_channel::cache_ends;

    /// A daemon for tests: it keeps all contents that it is sent, by hash.
    pub(crate) fn believing_daemon(mut kept: HashMap<Hash, Vec<u8>>) -> Cache {
        let (daemon, worker) = cache_ends().unwrap();
        let answer = move |hash: &Hash, kept: &HashMap<Hash, Vec<u8>>| match kept.get(hash) {
            Some(bytes) => {
                let file = tempfile::tempfile().unwrap();
                file.write_all_at(bytes, 0).unwrap();
                (CacheAnswer::Here, Some(file))
            }
            None => (CacheAnswer::Missing, None),
        };
        std::thread::spawn(move || {
            let (mut memory, mut notes) = (None, HashMap::new());
            while let Ok(Some(request)) = daemon.request() {
                let (word, file) = match request {
                    CacheRequest::Store(hash, bytes) => {
                        let file = tempfile::tempfile().unwrap();
                        memory = Some((hash, bytes, file.try_clone().unwrap()));
                        (CacheAnswer::Write, Some(file))
                    }
                    CacheRequest::Written => {
                        let (hash, bytes, file) = memory.take().unwrap();
                        let mut content = vec![0; usize::try_from(bytes).unwrap()];
                        file.read_exact_at(&mut content, 0).unwrap();
                        kept.insert(hash, content);
                        answer(&hash, &kept)
                    }
                    CacheRequest::Find(hash, _) | CacheRequest::Damaged(hash) => answer(&hash, &kept),
                    CacheRequest::Note(name, hash, bytes) => {
                        notes.insert(name, (hash, bytes));
                        (CacheAnswer::Noted, None)
                    }
                    CacheRequest::Compiled(name) => match notes.get(&name) {
                        Some((hash, bytes)) => (CacheAnswer::Compiled(*hash, *bytes), None),
                        None => (CacheAnswer::Missing, None),
                    },
                };
                daemon.answer(&word, file.as_ref().map(|file| file.as_fd())).unwrap();
            }
        });
        Cache::new(worker)
    }

    #[test]
    fn kept_contents_are_found_and_stored_memory_is_mapped() {
        let cache = believing_daemon(HashMap::new());
        let hash = hash_of(b"content");
        assert!(cache.find(&hash, 7).is_none());
        assert_eq!(*cache.store(&hash, b"content").unwrap(), *b"content");
        assert_eq!(*cache.find(&hash, 7).unwrap(), *b"content");
    }

    #[test]
    fn content_with_another_hash_or_size_is_never_given_out() {
        let hash = hash_of(b"content");
        for wrong in [&b"cOntent"[..], b"conten", b"", b"content and more"] {
            let cache = believing_daemon(HashMap::from([(hash, wrong.to_vec())]));
            assert!(cache.find(&hash, 7).is_none());
        }
    }

    #[test]
    fn a_daemon_that_is_gone_has_nothing_and_keeps_nothing() {
        let (daemon, worker) = cache_ends().unwrap();
        drop(daemon);
        let cache = Cache::new(worker);
        assert!(cache.find(&hash_of(b"x"), 1).is_none());
        assert!(cache.store(&hash_of(b"x"), b"x").is_err());
    }
}
