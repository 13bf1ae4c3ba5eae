//! The one descriptor that a worker may pass descriptors over: its socket to the daemon.
//! In: that socket, before the sandbox. Out: a duplicate at the highest number there can be, which no other descriptor
//! ever gets.
//! It sends nothing. Whoever closes the duplicate loses it for good.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};

use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors of a worker, at most: what the system counts by user, over all of its processes, one worker cannot use up.
const DESCRIPTORS: u64 = 4096;

/// Those that are kept for connections, imports, and the driver, where clients can make things that take one each.
const KEPT: u64 = 512;

/// A duplicate of the socket to the daemon, at a number of its own.
#[derive(Debug)]
pub struct Reserved(OwnedFd);

impl Reserved {
    /// The number, by which a filter knows it.
    pub(super) fn number(&self) -> u32 {
        self.0.as_raw_fd().unsigned_abs()
    }

    /// The duplicate.
    pub(crate) fn descriptor(&self) -> &OwnedFd {
        &self.0
    }

    /// A duplicate at any number, where no filter asks for it.
    #[cfg(test)]
    pub(crate) fn anywhere(socket: BorrowedFd<'_>) -> Self {
        Self(socket.try_clone_to_owned().expect("a descriptor"))
    }
}

/// Places a duplicate of this socket at the highest number a worker may have, and takes that number, and all above it,
/// from every later descriptor. Without a sandbox, where it need not be alone there, any number will do.
///
/// # Errors
/// When the number is taken, or the system refuses a step.
pub fn reserve(socket: BorrowedFd<'_>, is_alone: bool) -> io::Result<Reserved> {
    if !is_alone {
        return Ok(Reserved(socket.try_clone_to_owned()?));
    }
    let most = most_descriptors();
    limit_descriptors(most)?;
    let last = i32::try_from(most.saturating_sub(1)).map_err(io::Error::other)?;
    let duplicate = fcntl_dupfd_cloexec(socket.as_fd(), last)?;
    if duplicate.as_raw_fd() != last {
        return Err(io::Error::other("the highest descriptor is taken"));
    }
    limit_descriptors(most - 1)?;
    Ok(Reserved(duplicate))
}

/// Whether so few descriptors are left that a client is not to have this one, which is new: its number is the lowest that was
/// free.
pub(crate) fn is_scarce(new: &OwnedFd) -> bool {
    let most = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    u64::from(new.as_raw_fd().unsigned_abs()) >= most - (most / 4).min(KEPT)
}

/// The most descriptors that this process may have.
pub(super) fn most_descriptors() -> u64 {
    getrlimit(Resource::Nofile).maximum.map_or(DESCRIPTORS, |maximum| maximum.min(DESCRIPTORS))
}

/// Lets later descriptors have lower numbers only; there is no way back.
pub(super) fn limit_descriptors(most: u64) -> io::Result<()> {
    Ok(setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum: Some(most) })?)
}
