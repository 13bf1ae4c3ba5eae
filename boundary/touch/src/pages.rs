//! Mappings of whole pages, made, copied, put in each other's place and removed. Addresses and files come in; addresses
//! go out. It knows no reason for any of it: its callers answer for what lies there.

use std::ops::Range;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::ptr;

const OPEN: libc::c_int = libc::PROT_READ | libc::PROT_WRITE;

/// New private pages of zeros, which take memory when they are written.
pub(crate) fn private(bytes: u64) -> Option<u64> {
    map(bytes, OPEN, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
}

/// New pages of a file that see its bytes, and do not keep it from being sealed.
pub(crate) fn reading(file: BorrowedFd<'_>, offset: u64, bytes: u64) -> Option<u64> {
    map(bytes, libc::PROT_READ, libc::MAP_PRIVATE, file.as_raw_fd(), offset)
}

/// New pages that share a file's. No child has them.
pub(crate) fn shared(file: BorrowedFd<'_>, offset: u64, bytes: u64) -> Option<u64> {
    let at = map(bytes, OPEN, libc::MAP_SHARED, file.as_raw_fd(), offset)?;
    // SAFETY: mapped just now; contents and access stay as they are.
    let kept = unsafe { libc::madvise(at as *mut libc::c_void, size(bytes)?, libc::MADV_DONTFORK) };
    if kept != 0 {
        // SAFETY: as above.
        unsafe { unmap(at, bytes) };
        return None;
    }
    Some(at)
}

fn map(bytes: u64, access: libc::c_int, kind: libc::c_int, file: libc::c_int, offset: u64) -> Option<u64> {
    let offset = libc::off_t::try_from(offset).ok()?;
    // SAFETY: new pages at an address of the system's choice are nobody's.
    let at = unsafe { libc::mmap(ptr::null_mut(), size(bytes)?, access, kind, file, offset) };
    (at != libc::MAP_FAILED).then_some(at as u64)
}

/// Has all pages of a range there, as if each had been written. False where the system refuses.
pub(crate) fn populate(range: &Range<u64>) -> bool {
    let Some(bytes) = size(range.end - range.start) else { return false };
    loop {
        // SAFETY: contents and access of the pages stay as they are.
        let done = unsafe { libc::madvise(range.start as *mut libc::c_void, bytes, libc::MADV_POPULATE_WRITE) };
        if done == 0 {
            return true;
        }
        if std::io::Error::last_os_error().raw_os_error() != Some(libc::EINTR) {
            return false;
        }
    }
}

/// Copies bytes.
///
/// # Safety
/// Both ranges are mapped, the second is known to nobody else, and they do not overlap.
pub(crate) unsafe fn copy(from: u64, to: u64, bytes: u64) {
    if let Some(bytes) = size(bytes) {
        // SAFETY: passed on.
        unsafe { ptr::copy_nonoverlapping(from as *const u8, to as *mut u8, bytes) };
    }
}

/// Puts a mapping of the same length in the place of a range, in one step for all other threads. False where the system
/// refuses: then both are as before.
///
/// # Safety
/// Nobody knows the mapping's own address, and what was in the range is not needed any more.
pub(crate) unsafe fn replace(mapping: u64, range: &Range<u64>) -> bool {
    let Some(bytes) = size(range.end - range.start) else { return false };
    let how = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    let (from, to) = (mapping as *mut libc::c_void, range.start as *mut libc::c_void);
    // SAFETY: passed on.
    let at = unsafe { libc::mremap(from, bytes, bytes, how, to) };
    at != libc::MAP_FAILED
}

/// Maps the file's pages of a shared mapping a second time, at an address of the system's choice. `None` where nothing, or no
/// shared mapping, begins there by now.
pub(crate) fn again(range: &Range<u64>) -> Option<u64> {
    // SAFETY: of an old size of none, a shared mapping stays as it is, and the kernel refuses any other.
    let at = unsafe {
        libc::mremap(range.start as *mut libc::c_void, 0, size(range.end - range.start)?, libc::MREMAP_MAYMOVE)
    };
    (at != libc::MAP_FAILED).then_some(at as u64)
}

/// Removes a mapping.
///
/// # Safety
/// Nobody uses it any more.
pub(crate) unsafe fn unmap(at: u64, bytes: u64) {
    if let Some(bytes) = size(bytes) {
        // SAFETY: passed on.
        unsafe { libc::munmap(at as *mut libc::c_void, bytes) };
    }
}

fn size(bytes: u64) -> Option<usize> {
    usize::try_from(bytes).ok()
}
