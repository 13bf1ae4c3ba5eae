//! Memory files of their own, by which processes share a device's memory.
//! In: a length, or a descriptor that another process sent. Out: a file whose length can never change, and its descriptors.
//! It never believes a descriptor: the kernel vouches for seals and length, and what the file says of itself decides
//! nothing but a name.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{MemfdFlags, OFlags, SealFlags};
use rustix::process::Resource;

use super::space::{GRANULE, MemoryError};

/// Seals of every such file: its length is final, and no seal can be added that would keep somebody from writing.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);
/// Seals that keep a file from being mapped for writing.
const READ_ONLY: SealFlags = SealFlags::WRITE.union(SealFlags::FUTURE_WRITE);
/// `TMPFS_MAGIC`: files of large pages have seals too, but a touch may end the process where the host has none left.
const PLAIN_MEMORY: i64 = 0x0102_1994;
/// Begins the last granule of a file, behind the memory itself; the device's number on its host follows.
const MARK: [u8; 8] = *b"floemem1";
/// Part of the descriptors that a process may have, which files may take: a worker has 1,024 for everything.
const SHARE: u64 = 2;

/// Descriptors held by all files of this process.
static HELD: AtomicU64 = AtomicU64::new(0);

/// Tells one file from another, whichever descriptor names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileIdentity {
    device: u64,
    inode: u64,
}

/// Memory of a device in a file of its own. The file is one granule longer than the memory: its last granule is the mark.
#[derive(Debug)]
pub struct MemoryFile {
    file: File,
    length: u64,
    device: u32,
    identity: FileIdentity,
}

impl MemoryFile {
    /// Makes `length` bytes of zeros, a multiple of [`GRANULE`], of the device with this number on its host.
    ///
    /// # Errors
    /// [`MemoryError::Descriptors`] where too many of the process's descriptors are taken, or the system's refusal.
    pub(super) fn create(length: u64, device: u32) -> Result<Self, MemoryError> {
        let whole = length
            .checked_add(GRANULE)
            .filter(|_| length > 0 && length.is_multiple_of(GRANULE))
            .ok_or(MemoryError::Length { length })?;
        let held = Hold::take()?;
        let file = rustix::fs::memfd_create("floe-memory", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
            .map_err(|cause| MemoryError::system("memfd_create", cause))?;
        rustix::fs::ftruncate(&file, whole).map_err(|cause| MemoryError::system("ftruncate", cause))?;
        let file = File::from(file);
        let mut mark = [0; 12];
        mark[..8].copy_from_slice(&MARK);
        mark[8..].copy_from_slice(&device.to_le_bytes());
        file.write_all_at(&mark, length).map_err(|cause| MemoryError::System { call: "pwrite", cause })?;
        rustix::fs::fcntl_add_seals(&file, SEALS).map_err(|cause| MemoryError::system("fcntl", cause))?;
        Self::held(file, length, device, held)
    }

    /// Takes a descriptor of such a file, made by any process. It may be anything: a file whose length could change would
    /// end this process with a signal, so the kernel is asked.
    ///
    /// # Errors
    /// [`MemoryError::Foreign`] for every descriptor of something else; [`MemoryError::Descriptors`] as above.
    pub(super) fn accept(descriptor: BorrowedFd<'_>) -> Result<Self, MemoryError> {
        let foreign = |what| MemoryError::Foreign { what };
        let seals = rustix::fs::fcntl_get_seals(descriptor).map_err(|_| foreign("no memory file"))?;
        if !seals.contains(SEALS) || seals.intersects(READ_ONLY) {
            return Err(foreign("a memory file with other seals"));
        }
        let system = rustix::fs::fstatfs(descriptor).map_err(|_| foreign("of no file system"))?;
        if system.f_type != PLAIN_MEMORY {
            return Err(foreign("of large pages"));
        }
        let flags = rustix::fs::fcntl_getfl(descriptor).map_err(|_| foreign("no open file"))?;
        if flags & OFlags::RWMODE != OFlags::RDWR {
            return Err(foreign("not open for reading and writing"));
        }
        let held = Hold::take()?;
        let file = descriptor
            .try_clone_to_owned()
            .map_err(|cause| MemoryError::System { call: "fcntl", cause })
            .map(File::from)?;
        let whole = file.metadata().map_err(|_| foreign("of no size"))?.len();
        let length = whole
            .checked_sub(GRANULE)
            .filter(|length| *length > 0 && length.is_multiple_of(GRANULE))
            .ok_or(foreign("of a size that no memory has"))?;
        let mut mark = [0; 12];
        file.read_exact_at(&mut mark, length).map_err(|_| foreign("not readable"))?;
        let (magic, device) = mark.split_at(8);
        let device = device.try_into().map(u32::from_le_bytes).map_err(|_| foreign("not marked"))?;
        if magic != MARK {
            return Err(foreign("not marked as a device's memory"));
        }
        Self::held(file, length, device, held)
    }

    fn held(file: File, length: u64, device: u32, held: Hold) -> Result<Self, MemoryError> {
        let status = file.metadata().map_err(|cause| MemoryError::System { call: "fstat", cause })?;
        let identity = FileIdentity { device: status.dev(), inode: status.ino() };
        held.keep();
        Ok(Self { file, length, device, identity })
    }

    /// Another descriptor of the file.
    ///
    /// # Errors
    /// The system's, where the process may have no more descriptors.
    pub fn duplicate(&self) -> std::io::Result<OwnedFd> {
        self.file.as_fd().try_clone_to_owned()
    }

    /// Bytes of memory, a multiple of [`GRANULE`].
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The number on its host of the device it is said to belong to.
    pub fn device(&self) -> u32 {
        self.device
    }

    /// Which file it is.
    pub fn identity(&self) -> FileIdentity {
        self.identity
    }

    pub(super) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for MemoryFile {
    fn drop(&mut self) {
        HELD.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A descriptor that is counted, until it is clear whether a file comes of it.
struct Hold;

impl Hold {
    fn take() -> Result<Self, MemoryError> {
        let most = rustix::process::getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX) / SHARE;
        let taken = HELD.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |held| (held < most).then_some(held + 1));
        taken.map(|_| Self).map_err(|held| MemoryError::Descriptors { held })
    }

    fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        HELD.fetch_sub(1, Ordering::Relaxed);
    }
}
