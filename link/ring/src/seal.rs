//! Memory of a fixed size behind a descriptor: made here, or checked in a descriptor of another process.
//! In: a number of bytes, or an untrusted descriptor. Out: a descriptor, or what is wrong with it. Touching mapped
//! memory that has shrunk ends the process, so it refuses memory that could shrink where this process touches it.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, MemfdFlags, SealFlags, StatxFlags};
use rustix::fs::{fcntl_add_seals, fcntl_get_seals, fstat, fstatfs, ftruncate, memfd_create, statx};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use thiserror::Error;

/// `TMPFS_MAGIC`: the file system of memory behind a descriptor, when its pages are ordinary ones.
const MEMORY_FILE: u64 = 0x0102_1994;

/// Why a descriptor is refused as memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NotMemory {
    /// The kernel does not describe it.
    #[error("the descriptor cannot be examined: {0}")]
    Silent(#[from] Errno),
    /// It is a file, a socket, or memory of unusual pages.
    #[error("the descriptor is not memory")]
    Other,
    /// It has fewer bytes.
    #[error("{said} bytes do not fit memory of: {is}")]
    Short {
        /// The announced bytes.
        said: u64,
        /// The actual bytes.
        is: u64,
    },
    /// It may shrink.
    #[error("the memory could shrink while it is mapped")]
    Shrinks,
}

/// Makes memory of so many bytes, which can neither shrink nor grow. It is sparse: touching a page when the kernel has
/// none left ends the process. A caller that cannot risk that allocates the pages first (`fallocate`).
///
/// # Errors
/// `FBIG` for more than [`most_memory`]; the system's own.
pub fn sealed_memory(name: &str, bytes: u64) -> Result<OwnedFd, Errno> {
    if bytes > most_memory() {
        return Err(Errno::FBIG);
    }
    let file = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&file, bytes)?;
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok(file)
}

/// The most bytes of one memory: the kernel ends a process that exceeds its limit of file sizes.
#[must_use]
pub fn most_memory() -> u64 {
    getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX)
}

/// Checks that a descriptor is memory of `bytes` that cannot disappear while it is mapped.
///
/// # Errors
/// [`NotMemory`] with the reason.
pub fn demand_memory(file: impl AsFd, bytes: u64) -> Result<(), NotMemory> {
    let is = demand_memory_file(&file)?;
    if is < bytes {
        return Err(NotMemory::Short { said: bytes, is });
    }
    let seals = fcntl_get_seals(&file)?;
    if seals.contains(SealFlags::SHRINK) { Ok(()) } else { Err(NotMemory::Shrinks) }
}

/// Checks that a descriptor is a file of ordinary pages in memory, and returns its present size. It may shrink, so the
/// caller never touches its pages. No other file system answers page faults: one that does could hold up the process.
/// For the same reason no other is asked about the file: that of a peer answers when the peer likes.
///
/// # Errors
/// [`NotMemory`] with the reason.
pub fn demand_memory_file(file: impl AsFd) -> Result<u64, NotMemory> {
    // Only memory has seals, and the kernel knows that by itself.
    fcntl_get_seals(&file).map_err(|error| if error == Errno::INVAL { NotMemory::Other } else { error.into() })?;
    let stat = fstat(&file)?;
    let kind = fstatfs(&file)?.f_type;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile || u64::try_from(kind) != Ok(MEMORY_FILE) {
        return Err(NotMemory::Other);
    }
    Ok(u64::try_from(stat.st_size).unwrap_or(0))
}

/// Whether a descriptor is a character device, without asking its file system.
pub fn is_character_device(file: impl AsFd) -> bool {
    let stat = statx(file, "", AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC, StatxFlags::TYPE);
    stat.is_ok_and(|stat| FileType::from_raw_mode(stat.stx_mode.into()) == FileType::CharacterDevice)
}
