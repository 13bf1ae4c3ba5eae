//! One session's access to the cache of modules.
//! In: requests of a worker that an attacker may control. Out: answers, with memory to write to and files for reading.
//! Requests and stored bytes of a session are limited, and no answer waits for its worker. So a session can cost the
//! others only room in the cache.

use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::sync::Arc;

use floe_worker::cache_channel::{CacheAnswer, CacheEnd, CacheRequest, Hash};

use super::module_cache;
use super::module_cache::{ModuleCache, NOTE_BYTES};
use super::shelf::{Notes, Shelf};
use crate::warn;

/// The most requests of one session: several for each module of the largest programs.
const REQUESTS: u32 = 1 << 20;
/// How often one session may make this process read a file again.
const COMPLAINTS: u32 = 64;

/// A session's share of the cache.
pub(crate) struct ModuleKeeper {
    session: u64,
    cache: Arc<ModuleCache>,
    shelf: Shelf,
    notes: Notes,
    /// Bytes it may still store. It begins with half of the folder, so that no session evicts all of the others'
    /// contents.
    may_store: u64,
    may_ask: u32,
    may_complain: u32,
    /// The memory that it was given for a content of this hash and size.
    given: Option<(Hash, u64, File)>,
}

impl ModuleKeeper {
    /// The keeper of a session that has this shelf, and these notes.
    pub(crate) fn new(session: u64, cache: Arc<ModuleCache>, shelf: Shelf, notes: Notes) -> Self {
        let may_store = (cache.limit() / 2).max(1);
        Self { session, cache, shelf, notes, may_store, may_ask: REQUESTS, may_complain: COMPLAINTS, given: None }
    }

    /// Answers on a thread of its own, until the worker has ended.
    pub(crate) fn start(mut self, worker: CacheEnd) -> io::Result<()> {
        let run = move || {
            let session = self.session;
            if let Err(error) = self.serve(&worker) {
                warn(format_args!("session {session}: its modules are no longer cached: {error}"));
            }
        };
        std::thread::Builder::new().name("modules".into()).spawn(run).map(drop)
    }

    fn serve(&mut self, worker: &CacheEnd) -> io::Result<()> {
        while let Some(request) = worker.request()? {
            self.may_ask = self.may_ask.checked_sub(1).ok_or_else(|| io::Error::other("too many requests"))?;
            let (answer, file) = self.handle(request);
            match worker.answer(&answer, file.as_ref().map(|file| file.as_fd())) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Err(io::Error::other("the worker does not read its answers"));
                }
                // The worker ended before it had the answer.
                Err(_) => break,
                Ok(()) => {}
            }
        }
        Ok(())
    }

    fn handle(&mut self, request: CacheRequest) -> (CacheAnswer, Option<File>) {
        match request {
            CacheRequest::Find(hash, bytes) => match self.cache.find(self.shelf.content(&hash), bytes) {
                Some(file) => (CacheAnswer::Here, Some(file)),
                None => (CacheAnswer::Missing, None),
            },
            CacheRequest::Store(hash, bytes) => answered(CacheAnswer::Write, self.give(hash, bytes)),
            CacheRequest::Written => answered(CacheAnswer::Here, self.keep()),
            CacheRequest::Damaged(hash) => {
                if let Some(left) = self.may_complain.checked_sub(1) {
                    self.may_complain = left;
                    self.cache.look_again(self.shelf.content(&hash));
                }
                (CacheAnswer::Missing, None)
            }
            CacheRequest::Compiled(name) => match self.cache.noted(&self.notes.name(&name)) {
                Some((hash, bytes)) => (CacheAnswer::Compiled(hash, bytes), None),
                None => (CacheAnswer::Missing, None),
            },
            CacheRequest::Note(name, hash, bytes) => match self.note(&name, &hash, bytes) {
                Ok(()) => (CacheAnswer::Noted, None),
                Err(error) => (CacheAnswer::Refused(error.to_string()), None),
            },
        }
    }

    /// Notes machine code, which counts against the session's limit.
    fn note(&mut self, name: &Hash, hash: &Hash, bytes: u64) -> io::Result<()> {
        self.spend(NOTE_BYTES)?;
        self.cache.note(&self.notes.name(name), hash, bytes)
    }

    fn spend(&mut self, bytes: u64) -> io::Result<()> {
        let bytes = module_cache::counted(bytes);
        let stored = || io::Error::other("the session has used up its share of the cache");
        self.may_store = self.may_store.checked_sub(bytes).ok_or_else(stored)?;
        Ok(())
    }

    /// Memory for a content. Its size counts against the session's limit, whether the content is kept or not.
    fn give(&mut self, hash: Hash, bytes: u64) -> io::Result<File> {
        self.spend(bytes)?;
        let memory = module_cache::memory(bytes)?;
        let its = memory.try_clone()?;
        self.given = Some((hash, bytes, memory));
        Ok(its)
    }

    /// Keeps the content of the memory that was given last.
    fn keep(&mut self) -> io::Result<File> {
        let nothing = || io::Error::other("the worker was given no memory to write to");
        let (hash, bytes, memory) = self.given.take().ok_or_else(nothing)?;
        self.cache.store(self.shelf.content(&hash), bytes, &memory)
    }
}

fn answered(word: CacheAnswer, file: io::Result<File>) -> (CacheAnswer, Option<File>) {
    match file {
        Ok(file) => (word, Some(file)),
        Err(error) => (CacheAnswer::Refused(error.to_string()), None),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt as _;

    use floe_worker::cache_channel::cache_ends;

    use super::*;

    fn started(limit: u64) -> (tempfile::TempDir, CacheEnd) {
        let (folder, [worker]) = started_for([Shelf::Common], limit);
        (folder, worker)
    }

    /// The ends of workers with these shelves, of one cache.
    fn started_for<const N: usize>(shelves: [Shelf; N], limit: u64) -> (tempfile::TempDir, [CacheEnd; N]) {
        let folder = tempfile::tempdir().expect("a folder");
        let cache = Arc::new(ModuleCache::open(&folder.path().join("modules"), limit).expect("opened"));
        let start = |shelf| {
            let (daemon, worker) = cache_ends().expect("a socket");
            let user = if let Shelf::Of(user) = shelf { user } else { None };
            let notes = Notes { user, driver: "580.1".into() };
            ModuleKeeper::new(1, Arc::clone(&cache), shelf, notes).start(daemon).expect("a thread");
            worker
        };
        (folder, shelves.map(start))
    }

    fn ask(worker: &CacheEnd, request: CacheRequest) -> (CacheAnswer, Option<File>) {
        worker.ask(request).expect("sent");
        let (answer, file) = worker.answered().expect("an answer").expect("an answer");
        (answer, file.map(File::from))
    }

    fn hash_of(bytes: &[u8]) -> Hash {
        *blake3::hash(bytes).as_bytes()
    }

    /// Says that it stores `bytes` and writes `written`.
    fn store(worker: &CacheEnd, bytes: &[u8], written: &[u8]) -> CacheAnswer {
        match ask(worker, CacheRequest::Store(hash_of(bytes), bytes.len() as u64)) {
            (CacheAnswer::Write, Some(memory)) => memory.write_all_at(written, 0).expect("written"),
            (answer, _) => return answer,
        }
        ask(worker, CacheRequest::Written).0
    }

    #[test]
    fn a_session_stores_half_of_the_folder_at_most() {
        let (_folder, worker) = started(3 * module_cache::counted(40));
        assert_eq!(store(&worker, &[1; 40], &[1; 40]), CacheAnswer::Here);
        // However small it is, it takes a file.
        assert!(matches!(store(&worker, &[2; 20], &[2; 20]), CacheAnswer::Refused(_)));
        assert!(matches!(ask(&worker, CacheRequest::Store([0; 32], u64::MAX)).0, CacheAnswer::Refused(_)));
        assert_eq!(ask(&worker, CacheRequest::Find(hash_of(&[1; 40]), 40)).0, CacheAnswer::Here);
        assert_eq!(ask(&worker, CacheRequest::Find(hash_of(&[2; 20]), 20)).0, CacheAnswer::Missing);
    }

    #[test]
    fn a_user_finds_nothing_of_anothers_and_takes_nothing_away() {
        let user = |text| Shelf::Of(Some(floe_users::Name::new(text).expect("a name")));
        let shelves = [user("alice"), user("alice"), user("bob"), Shelf::Of(None)];
        let (folder, [alice, again, bob, nobody]) = started_for(shelves, 1 << 20);
        assert_eq!(store(&alice, b"content", b"content"), CacheAnswer::Here);
        let hash = hash_of(b"content");
        let file = std::fs::read_dir(folder.path().join("modules")).expect("readable").next();
        let name = file.expect("kept").expect("kept").file_name().into_string().expect("text");
        let name = *blake3::Hash::from_hex(name).expect("a hash").as_bytes();
        for hash in [hash, name] {
            for other in [&bob, &nobody] {
                assert_eq!(ask(other, CacheRequest::Find(hash, 7)).0, CacheAnswer::Missing);
                assert_eq!(ask(other, CacheRequest::Damaged(hash)).0, CacheAnswer::Missing);
            }
        }
        assert_eq!(store(&bob, b"content", b"content"), CacheAnswer::Here);
        for worker in [&again, &bob] {
            assert_eq!(ask(worker, CacheRequest::Find(hash, 7)).0, CacheAnswer::Here);
        }
    }

    #[test]
    fn what_was_compiled_is_found_by_its_user_alone_and_counts() {
        let user = |text| Shelf::Of(Some(floe_users::Name::new(text).expect("a name")));
        let shelves = [user("alice"), user("alice"), user("bob"), Shelf::Of(None)];
        let (_folder, [alice, again, bob, nobody]) = started_for(shelves, 4 * module_cache::counted(NOTE_BYTES));
        let (name, code) = ([7; 32], hash_of(b"code"));
        let compiled = |worker: &CacheEnd| ask(worker, CacheRequest::Compiled(name)).0;
        assert_eq!(compiled(&alice), CacheAnswer::Missing);
        assert_eq!(ask(&alice, CacheRequest::Note(name, code, 4)).0, CacheAnswer::Noted);
        for worker in [&alice, &again] {
            assert_eq!(compiled(worker), CacheAnswer::Compiled(code, 4));
        }
        for other in [&bob, &nobody] {
            assert_eq!(compiled(other), CacheAnswer::Missing);
        }
        assert_eq!(ask(&bob, CacheRequest::Note(name, [1; 32], 5)).0, CacheAnswer::Noted);
        assert_eq!(compiled(&alice), CacheAnswer::Compiled(code, 4), "another's note is another");
        assert_eq!(ask(&alice, CacheRequest::Note(name, code, 6)).0, CacheAnswer::Noted);
        assert_eq!(compiled(&again), CacheAnswer::Compiled(code, 6));
        assert!(matches!(ask(&alice, CacheRequest::Note([8; 32], code, 4)).0, CacheAnswer::Refused(_)), "half is used");
    }

    #[test]
    fn lies_are_refused_and_the_way_stays_open() {
        let (_folder, worker) = started(1 << 20);
        assert!(matches!(ask(&worker, CacheRequest::Written).0, CacheAnswer::Refused(_)), "nothing was given");
        assert!(matches!(store(&worker, b"content", b"cOntent"), CacheAnswer::Refused(_)), "another hash");
        assert!(matches!(ask(&worker, CacheRequest::Written).0, CacheAnswer::Refused(_)), "it is given once");
        for _ in 0..2 * COMPLAINTS {
            assert_eq!(ask(&worker, CacheRequest::Damaged(hash_of(b"content"))).0, CacheAnswer::Missing);
        }
        assert_eq!(ask(&worker, CacheRequest::Find([0; 32], 7)).0, CacheAnswer::Missing);
        assert_eq!(store(&worker, b"content", b"content"), CacheAnswer::Here);
    }

    #[test]
    fn memory_that_was_given_keeps_its_size_and_may_change_without_harm() {
        let (_folder, worker) = started(1 << 20);
        let (answer, memory) = ask(&worker, CacheRequest::Store(hash_of(b"content"), 7));
        assert_eq!(answer, CacheAnswer::Write);
        let memory = memory.expect("with the answer");
        assert!(memory.set_len(0).is_err() && memory.set_len(1 << 20).is_err());
        memory.write_all_at(b"content", 0).expect("written");
        let (answer, file) = ask(&worker, CacheRequest::Written);
        assert_eq!(answer, CacheAnswer::Here);
        memory.write_all_at(b"CONTENT", 0).expect("it is the worker's");
        let mut kept = [0; 7];
        file.expect("with the answer").read_exact_at(&mut kept, 0).expect("readable");
        assert_eq!(&kept, b"content");
    }

    #[test]
    fn a_worker_that_takes_no_answer_has_no_keeper_any_more() {
        let (_folder, worker) = started(1 << 20);
        // None is read: the way is full after some, and ends.
        while worker.ask(CacheRequest::Find([0; 32], 7)).is_ok() {}
        let (mut answers, mut resets) = (0, 0);
        loop {
            match worker.answered() {
                Ok(Some(_)) => answers += 1,
                // The keeper left requests unread: the system reports it once, ahead of the answers.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset && resets == 0 => resets = 1,
                _ => break,
            }
        }
        assert!(answers > 0);
    }
}
