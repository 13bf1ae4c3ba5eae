//! Memory behind a descriptor that stays as large as it is: made here, and demanded of somebody else's.
//! In: a number of bytes, or a descriptor nobody vouches for. Out: a descriptor, or what is wrong with it.
//! Reading mapped memory that has shrunk ends a process, so memory that could shrink is refused.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{FileType, MemfdFlags, SealFlags};
use rustix::fs::{fcntl_add_seals, fcntl_get_seals, fstat, fstatfs, ftruncate, memfd_create};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use thiserror::Error;

/// `TMPFS_MAGIC`: what memory behind a descriptor says it is, when its pages are ordinary ones.
const MEMORY_FILE: u64 = 0x0102_1994;

/// Why a descriptor is not taken for memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NotMemory {
    /// The system does not say what it is.
    #[error("a descriptor that says nothing of itself: {0}")]
    Silent(#[from] Errno),
    /// It is a file, a socket, pages of an unusual size.
    #[error("the descriptor is of no memory")]
    Other,
    /// There is less of it.
    #[error("{said} bytes are said to be in memory of: {is}")]
    Short {
        /// What was said.
        said: u64,
        /// What there is.
        is: i64,
    },
    /// Nothing forbids it to shrink.
    #[error("the memory could shrink while it is mapped")]
    Shrinks,
}

/// Memory of so many bytes, which can neither shrink nor grow. It is sparse: a page that is touched where the system has
/// none left ends the process, so who can take no such risk has the system provide it first (`fallocate`).
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

/// The most bytes there may be of one memory: the system ends a process that asks for more than its limit of files.
#[must_use]
pub fn most_memory() -> u64 {
    getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX)
}

/// Demands that `bytes` behind a descriptor are memory that is there for as long as it is mapped.
///
/// # Errors
/// [`NotMemory`] saying what it is instead.
pub fn demand_memory(file: impl AsFd, bytes: u64) -> Result<(), NotMemory> {
    let stat = fstat(&file)?;
    let kind = fstatfs(&file)?.f_type;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile || u64::try_from(kind) != Ok(MEMORY_FILE) {
        return Err(NotMemory::Other);
    }
    if u64::try_from(stat.st_size).unwrap_or(0) < bytes {
        return Err(NotMemory::Short { said: bytes, is: stat.st_size });
    }
    let seals = fcntl_get_seals(&file)?;
    if seals.contains(SealFlags::SHRINK) { Ok(()) } else { Err(NotMemory::Shrinks) }
}
