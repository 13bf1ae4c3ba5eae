//! Contents of modules on disk, each in a file named by its hash.
//! In: hashes, and bytes that have been checked against theirs. Out: the bytes of a hash, checked again each time, or nothing.
//! It never gives out bytes of another hash, never waits for another worker, and needs no lock: files get their name when
//! they are complete, and one that is removed stays readable for who has it open.

use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use floe_device::Content;

/// A BLAKE3 hash.
pub type Hash = [u8; 32];

/// What files are called before they are complete.
const UNFINISHED: &str = "unfinished-";
/// After this time nobody completes a file any more.
const ABANDONED: Duration = Duration::from_secs(3600);

/// A folder of contents with a limit to their size.
#[derive(Debug)]
pub struct Cache {
    folder: PathBuf,
    limit: u64,
    /// Bytes that may be added before the folder is looked at again.
    room: Mutex<u64>,
}

/// The hash of bytes.
pub(crate) fn hash_of(bytes: &[u8]) -> Hash {
    *blake3::hash(bytes).as_bytes()
}

fn hash_of_file(file: &File) -> io::Result<Hash> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(file)?;
    Ok(*hasher.finalize().as_bytes())
}

fn name_of(hash: &Hash) -> String {
    blake3::Hash::from_bytes(*hash).to_hex().to_string()
}

impl Cache {
    /// The cache in `folder`, which is made where it is not there, for at most `limit` bytes.
    ///
    /// # Errors
    /// The system's; PERMISSION_DENIED for a folder that is another user's or that others may write to.
    pub fn open(folder: &Path, limit: u64) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let found = std::fs::metadata(folder)?;
        if found.uid() != rustix::process::geteuid().as_raw() || found.mode() & 0o022 != 0 {
            let words = format!("others may write to it: owner {}, mode {:o}", found.uid(), found.mode() & 0o777);
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, words));
        }
        Ok(Self { folder: folder.to_path_buf(), limit, room: Mutex::new(0) })
    }

    /// The content of this hash and size; a file that holds anything else is removed.
    pub(crate) fn find(&self, hash: &Hash, bytes: u64) -> Option<Content> {
        let path = self.folder.join(name_of(hash));
        let file = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW).open(&path).ok()?;
        // Read, not looked at through the mapping: what the driver never looks at then takes none of our memory.
        let whole = hash_of_file(&file).is_ok_and(|found| found == *hash);
        let content = if whole { Content::of_file(&file, bytes).ok() } else { None };
        match content {
            // The times say what was used last; a file system without them only evicts less well.
            Some(_) => drop(file.set_modified(SystemTime::now())),
            None => drop(std::fs::remove_file(&path)),
        }
        content
    }

    /// Keeps bytes, whose hash the caller has checked, and gives them back as the file has them.
    ///
    /// # Errors
    /// The system's; FILE_TOO_LARGE for bytes that are over the limit by themselves.
    pub(crate) fn store(&self, hash: &Hash, bytes: &[u8]) -> io::Result<Content> {
        self.make_room(bytes.len() as u64)?;
        // A name nobody else makes: process ids repeat, also on machines that share a folder.
        let mut name = [0; 16];
        getrandom::fill(&mut name).map_err(|error| io::Error::other(error.to_string()))?;
        let unfinished = self.folder.join(format!("{UNFINISHED}{:032x}", u128::from_ne_bytes(name)));
        let written = self.write(&unfinished, bytes).and_then(|content| {
            std::fs::rename(&unfinished, self.folder.join(name_of(hash)))?;
            Ok(content)
        });
        written.inspect_err(|_| drop(std::fs::remove_file(&unfinished)))
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<Content> {
        let mut file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(bytes)?;
        // Not forced to disk: what a crash leaves incomplete is found by its hash.
        Content::of_file(&file, bytes.len() as u64)
    }

    /// Removes what was used longest ago until `bytes` fit with room to spare. Workers do not tell each other what they
    /// add, so that together they may be over the limit for a moment, by as much as the limit leaves free.
    fn make_room(&self, bytes: u64) -> io::Result<()> {
        if bytes > self.limit {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let mut room = self.room.lock().unwrap_or_else(PoisonError::into_inner);
        if *room >= bytes {
            *room -= bytes;
            return Ok(());
        }
        let mut files = self.files()?;
        let mut total: u64 = files.iter().map(|file| file.bytes).sum();
        if total.saturating_add(bytes) > self.limit {
            // A good part at once, so that not every file that comes looks at all that are there.
            let goal = (self.limit - self.limit / 8).saturating_sub(bytes);
            files.sort_by_key(|file| file.used);
            for file in files {
                if total <= goal {
                    break;
                }
                // Another worker may have removed it.
                let _ = std::fs::remove_file(&file.path);
                total -= file.bytes;
            }
        }
        *room = self.limit.saturating_sub(total).saturating_sub(bytes) / 4;
        Ok(())
    }

    /// The complete files. Those that nobody will complete are removed.
    fn files(&self) -> io::Result<Vec<Kept>> {
        let mut files = Vec::new();
        for entry in std::fs::read_dir(&self.folder)? {
            let entry = entry?;
            // One that is gone was evicted by another worker.
            let Ok(metadata) = entry.metadata() else { continue };
            let name = entry.file_name();
            let Some(name) = name.to_str().filter(|_| metadata.is_file()) else { continue };
            if name.starts_with(UNFINISHED) {
                if age(&metadata) > ABANDONED {
                    let _ = std::fs::remove_file(entry.path());
                }
            } else if blake3::Hash::from_hex(name).is_ok() {
                let used = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                files.push(Kept { path: entry.path(), bytes: metadata.len(), used });
            }
        }
        Ok(files)
    }
}

/// A file of the cache.
struct Kept {
    path: PathBuf,
    bytes: u64,
    used: SystemTime,
}

fn age(metadata: &Metadata) -> Duration {
    metadata.modified().ok().and_then(|time| time.elapsed().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn cache(limit: u64) -> (tempfile::TempDir, Cache) {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(&folder.path().join("a/modules"), limit).unwrap();
        (folder, cache)
    }

    fn path(cache: &Cache, hash: &Hash) -> PathBuf {
        cache.folder.join(name_of(hash))
    }

    fn store(cache: &Cache, bytes: &[u8]) -> Hash {
        let hash = hash_of(bytes);
        assert_eq!(*cache.store(&hash, bytes).unwrap(), *bytes);
        hash
    }

    /// Pretends that a file was used last so many seconds ago.
    fn used_ago(path: &Path, seconds: u64) {
        let file = File::options().write(true).open(path).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(seconds)).unwrap();
    }

    #[test]
    fn what_was_stored_is_found_by_another_worker_and_is_its_users_alone() {
        let (_folder, cache) = cache(1000);
        let hash = store(&cache, b"content");
        let other = Cache::open(&cache.folder, 1000).unwrap();
        assert_eq!(*other.find(&hash, 7).unwrap(), *b"content");
        assert!(other.find(&hash_of(b"another"), 7).is_none());
        assert_eq!(std::fs::metadata(path(&cache, &hash)).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::metadata(&cache.folder).unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn damaged_and_cut_files_are_removed_and_never_given_out() {
        let (_folder, cache) = cache(1000);
        for damage in [&b"cOntent"[..], b"conten", b"", b"content and more"] {
            let hash = store(&cache, b"content");
            std::fs::write(path(&cache, &hash), damage).unwrap();
            assert!(cache.find(&hash, 7).is_none());
            assert!(!path(&cache, &hash).exists());
        }
    }

    #[test]
    fn what_was_used_longest_ago_goes_first() {
        let (_folder, cache) = cache(80);
        let hashes: Vec<Hash> = (0..4_u8).map(|byte| store(&cache, &[byte; 20])).collect();
        for (hash, seconds) in hashes.iter().zip([400, 300, 200, 100]) {
            used_ago(&path(&cache, hash), seconds);
        }
        // Found, so used now.
        assert!(cache.find(&hashes[0], 20).is_some());
        let kept = cache.store(&hash_of(&[9; 20]), &[9; 20]).unwrap();
        let found: Vec<bool> = hashes.iter().map(|hash| cache.find(hash, 20).is_some()).collect();
        assert_eq!(found, [true, false, false, true]);
        assert_eq!(*kept, [9; 20]);
    }

    #[test]
    fn an_evicted_content_stays_for_who_has_it() {
        let (_folder, cache) = cache(20);
        let hash = hash_of(&[1; 20]);
        let held = cache.store(&hash, &[1; 20]).unwrap();
        store(&cache, &[2; 20]);
        assert!(cache.find(&hash, 20).is_none());
        assert_eq!(*held, [1; 20]);
    }

    #[test]
    fn what_is_over_the_limit_is_not_kept() {
        let (_folder, cache) = cache(20);
        let refused = cache.store(&hash_of(&[1; 21]), &[1; 21]).map(|_| ()).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::FileTooLarge);
    }

    #[test]
    fn unfinished_files_of_workers_that_died_are_removed_after_a_while() {
        let (_folder, cache) = cache(1000);
        let [old, new] = ["1-1", "2-1"].map(|name| cache.folder.join(format!("{UNFINISHED}{name}")));
        std::fs::write(&old, b"half").unwrap();
        std::fs::write(&new, b"half").unwrap();
        used_ago(&old, 7200);
        store(&cache, b"content");
        assert!(!old.exists() && new.exists());
    }

    #[test]
    fn workers_that_store_the_same_at_once_do_not_meet() {
        let (_folder, cache) = cache(1 << 20);
        let bytes: Vec<u8> = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
        let hash = hash_of(&bytes);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let own = Cache::open(&cache.folder, 1 << 20).unwrap();
                    for _ in 0..20 {
                        if let Some(found) = own.find(&hash, bytes.len() as u64) {
                            assert_eq!(*found, *bytes);
                        }
                        assert_eq!(*own.store(&hash, &bytes).unwrap(), *bytes);
                    }
                });
            }
        });
        assert_eq!(cache.files().unwrap().len(), 1);
    }

    #[test]
    fn folder_that_others_may_write_to_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(Cache::open(folder.path(), 1).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }
}
