//! Contents of modules on disk, each in a file named by its hash, or by that and its user; the daemon alone writes them.
//! Beside them notes: which content is the machine code of a text.
//! In: hashes, and sealed memory with contents. Out: read-only files that were hashed by this process since they last changed.
//! It believes no worker about a content, and gives out no file that another user can change. It never waits for
//! another daemon: files get their name when they are complete, and a removed file stays readable for those that have
//! it open.

use std::collections::HashMap;
use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use floe_worker::cache_channel::Hash;
use rustix::fs::{MemfdFlags, OFlags, SealFlags, fcntl_add_seals, memfd_create};

use super::shelf::Content;

/// The prefix of files that are not complete.
const UNFINISHED: &str = "unfinished-";
/// The prefix of notes.
const NOTE: &str = "compiled-";
/// Bytes of a note: the content's hash and its size.
pub(super) const NOTE_BYTES: u64 = 40;
/// Files take whole blocks of most file systems, of which there are only so many.
const BLOCK: u64 = 4 << 10;
/// A file that is not complete after this time never will be.
const ABANDONED: Duration = Duration::from_secs(3600);
/// Contents are copied and hashed in pieces of so many bytes.
const PIECE: usize = 1 << 20;

/// A folder of contents with a limit to their size.
#[derive(Debug)]
pub(crate) struct ModuleCache {
    folder: PathBuf,
    limit: u64,
    known: Mutex<Known>,
}

/// This process's knowledge of the folder.
#[derive(Debug, Default)]
struct Known {
    /// Bytes that may be added before the folder is read again.
    room: u64,
    /// Files that had the right hash when they were last read, by their names.
    whole: HashMap<Hash, Stamp>,
}

/// The metadata that change with a file's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    bytes: u64,
    changed: (i64, i64),
}

impl Stamp {
    fn of(file: &File) -> io::Result<Self> {
        let found = file.metadata()?;
        Ok(Self { inode: found.ino(), bytes: found.len(), changed: (found.ctime(), found.ctime_nsec()) })
    }
}

/// What a file counts as, of the folder and of a session's share.
pub(super) fn counted(bytes: u64) -> u64 {
    bytes.max(1).checked_next_multiple_of(BLOCK).unwrap_or(u64::MAX)
}

fn hash_of_file(file: &File) -> io::Result<Hash> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(file)?;
    Ok(*hasher.finalize().as_bytes())
}

fn name_of(hash: &Hash) -> String {
    blake3::Hash::from_bytes(*hash).to_hex().to_string()
}

fn note_of(name: &Hash) -> String {
    format!("{NOTE}{}", name_of(name))
}

/// A new file, for reading only once it is closed.
fn new_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).mode(0o400).open(path)
}

fn refused(words: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, words.into())
}

/// Opens a file that only its owner may open, and only for reading.
fn readable(path: &Path) -> io::Result<File> {
    // A worker of this user may hold a lease on the file; an open must not wait for the lease to end.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)
}

impl ModuleCache {
    /// The cache in `folder` for at most `limit` bytes. Makes the folder if it does not exist.
    ///
    /// # Errors
    /// The system's; PERMISSION_DENIED for a folder that another user owns or that others may write to.
    pub(crate) fn open(folder: &Path, limit: u64) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let found = std::fs::metadata(folder)?;
        if found.uid() != rustix::process::geteuid().as_raw() || found.mode() & 0o022 != 0 {
            let words = format!("others may write to it: owner {}, mode {:o}", found.uid(), found.mode() & 0o777);
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, words));
        }
        Ok(Self { folder: folder.to_path_buf(), limit, known: Mutex::default() })
    }

    /// The most bytes in the folder.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        floe_lock::lock(&self.known)
    }

    /// The content of this hash and size. Removes a file whose content does not have its hash.
    pub(crate) fn find(&self, content: impl Into<Content>, bytes: u64) -> Option<File> {
        let content = content.into();
        let path = self.folder.join(name_of(&content.name));
        let file = readable(&path).ok()?;
        if !self.is_whole(&content, &file) {
            // Another daemon may have removed it.
            let _ = std::fs::remove_file(&path);
            return None;
        }
        if file.metadata().ok()?.len() != bytes {
            // The worker is wrong about the size; the file is right.
            return None;
        }
        // The times show which file was used last. A file system without them only evicts less well.
        let _ = file.set_modified(SystemTime::now());
        self.remember(&content, &file);
        // A new open, since a file's position is shared by all holders of one descriptor.
        readable(&path).ok()
    }

    /// Reads a file again that a worker reports as damaged. Returns whether it was removed.
    pub(crate) fn look_again(&self, content: impl Into<Content>) -> bool {
        let content = content.into();
        self.known().whole.remove(&content.name);
        let path = self.folder.join(name_of(&content.name));
        let Ok(file) = readable(&path) else { return false };
        !self.is_whole(&content, &file) && std::fs::remove_file(&path).is_ok()
    }

    /// Whether the file has its hash. It is read only if it has changed since the last time.
    fn is_whole(&self, Content { hash, name }: &Content, file: &File) -> bool {
        let stamp = Stamp::of(file).ok();
        if stamp.is_some() && self.known().whole.get(name) == stamp.as_ref() {
            return true;
        }
        let whole = hash_of_file(file).is_ok_and(|found| found == *hash);
        // A file that changes while it is read gets another stamp, so it is read again later.
        match stamp.filter(|_| whole) {
            Some(stamp) => drop(self.known().whole.insert(*name, stamp)),
            None => drop(self.known().whole.remove(name)),
        }
        whole
    }

    fn remember(&self, content: &Content, file: &File) {
        if let Ok(stamp) = Stamp::of(file) {
            self.known().whole.insert(content.name, stamp);
        }
    }

    /// Copies a content from memory that [`memory`] made, and keeps it under its hash. The hash is computed here over
    /// the bytes written. So a worker that changes the memory meanwhile only has its content refused.
    ///
    /// # Errors
    /// The system's; FILE_TOO_LARGE for bytes that are over the limit by themselves; INVALID_DATA for another hash.
    pub(crate) fn store(&self, content: impl Into<Content>, bytes: u64, memory: &File) -> io::Result<File> {
        let content = content.into();
        self.make_room(bytes)?;
        let unfinished = self.unfinished()?;
        let path = self.folder.join(name_of(&content.name));
        let written = copy(memory, bytes, &unfinished, &content.hash).and_then(|file| {
            std::fs::rename(&unfinished, &path)?;
            self.remember(&content, &file);
            readable(&path)
        });
        written.inspect_err(|_| drop(std::fs::remove_file(&unfinished)))
    }

    /// The hash and size that were noted under this name.
    pub(crate) fn noted(&self, name: &Hash) -> Option<(Hash, u64)> {
        let file = readable(&self.folder.join(note_of(name))).ok()?;
        let (mut hash, mut bytes) = (Hash::default(), [0; 8]);
        file.read_exact_at(&mut hash, 0).and_then(|()| file.read_exact_at(&mut bytes, 32)).ok()?;
        // As of contents.
        let _ = file.set_modified(SystemTime::now());
        Some((hash, u64::from_le_bytes(bytes)))
    }

    /// Notes a content's hash and size under this name. A worker says so, and nobody can check it: the name is of its user.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn note(&self, name: &Hash, hash: &Hash, bytes: u64) -> io::Result<()> {
        self.make_room(NOTE_BYTES)?;
        let unfinished = self.unfinished()?;
        let written = new_file(&unfinished).and_then(|mut file| {
            file.write_all(&[&hash[..], &bytes.to_le_bytes()].concat())?;
            std::fs::rename(&unfinished, self.folder.join(note_of(name)))
        });
        written.inspect_err(|_| drop(std::fs::remove_file(&unfinished)))
    }

    /// A path for a file that is not complete.
    fn unfinished(&self) -> io::Result<PathBuf> {
        // A random name is unique. Process ids repeat, also on machines that share a folder.
        let mut name = [0; 16];
        getrandom::fill(&mut name).map_err(|error| io::Error::other(error.to_string()))?;
        Ok(self.folder.join(format!("{UNFINISHED}{:032x}", u128::from_ne_bytes(name))))
    }

    /// Removes the least recently used files until a file of `bytes` fits with room to spare. Daemons that share a folder do not
    /// tell each other what they add. So together they may exceed the limit for a moment, by as much as the limit
    /// leaves free.
    fn make_room(&self, bytes: u64) -> io::Result<()> {
        let bytes = counted(bytes);
        if bytes > self.limit {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let mut known = self.known();
        if known.room >= bytes {
            known.room -= bytes;
            return Ok(());
        }
        let mut files = self.files()?;
        let mut total: u64 = files.iter().map(|file| file.bytes).sum();
        if total.saturating_add(bytes) > self.limit {
            // A large part at once, so that not every new file reads the whole folder.
            let goal = (self.limit - self.limit / 8).saturating_sub(bytes);
            files.sort_by_key(|file| file.used);
            for file in files {
                if total <= goal {
                    break;
                }
                // Another daemon may have removed it.
                let _ = std::fs::remove_file(&file.path);
                known.whole.remove(&file.name);
                total -= file.bytes;
            }
        }
        known.room = self.limit.saturating_sub(total).saturating_sub(bytes) / 4;
        Ok(())
    }

    /// The complete files. Removes abandoned ones.
    fn files(&self) -> io::Result<Vec<Kept>> {
        let mut files = Vec::new();
        for entry in std::fs::read_dir(&self.folder)? {
            let entry = entry?;
            // Another daemon has evicted this one.
            let Ok(metadata) = entry.metadata() else { continue };
            let name = entry.file_name();
            let Some(name) = name.to_str().filter(|_| metadata.is_file()) else { continue };
            if name.starts_with(UNFINISHED) {
                if age(&metadata) > ABANDONED {
                    let _ = std::fs::remove_file(entry.path());
                }
            } else if let Ok(hash) = blake3::Hash::from_hex(name.strip_prefix(NOTE).unwrap_or(name)) {
                let used = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                files.push(Kept { name: *hash.as_bytes(), path: entry.path(), bytes: counted(metadata.len()), used });
            }
        }
        Ok(files)
    }
}

/// Memory for a worker to write to. Its size is sealed, so that reading it neither waits nor fails half-way.
pub(crate) fn memory(bytes: u64) -> io::Result<File> {
    let memory = File::from(memfd_create("floe-module", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?);
    memory.set_len(bytes)?;
    fcntl_add_seals(&memory, SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW)?;
    Ok(memory)
}

/// Writes the memory's bytes to a new read-only file, if they have this hash.
fn copy(memory: &File, bytes: u64, path: &Path, hash: &Hash) -> io::Result<File> {
    let mut file = new_file(path)?;
    let (mut hasher, mut piece, mut done) = (blake3::Hasher::new(), vec![0; PIECE], 0);
    while done < bytes {
        let count = usize::try_from(bytes - done).unwrap_or(PIECE).min(PIECE);
        memory.read_exact_at(&mut piece[..count], done)?;
        hasher.update(&piece[..count]);
        file.write_all(&piece[..count])?;
        done += count as u64;
    }
    // No sync to disk: after a crash the hash shows an incomplete file.
    if hasher.finalize().as_bytes() != hash {
        return Err(refused("the content does not have the hash that the worker named"));
    }
    Ok(file)
}

/// A file of the cache.
struct Kept {
    name: Hash,
    path: PathBuf,
    bytes: u64,
    used: SystemTime,
}

fn age(metadata: &Metadata) -> Duration {
    metadata.modified().ok().and_then(|time| time.elapsed().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
