//! A range of addresses the program uses, and the same memory a second time where floe alone uses it. Addresses come in;
//! pages are closed, readable or open there, while the second place is open where pages are in use. It is sparse: what
//! nobody has written takes no memory. A process forked off this one has neither.

use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::os::fd::{AsRawFd as _, OwnedFd};

use floe_abi::HostPointer;
use floe_surface::HostRange;
use rustix::fs::{FallocateFlags, MemfdFlags, SeekFrom, fallocate, ftruncate, memfd_create, seek};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

/// Bytes of a page.
pub const PAGE: u64 = floe_surface::PAGE as u64;

/// The program's access to pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// None: a touch is a page fault.
    Closed,
    /// Reading.
    Reads,
    /// Reading and writing.
    Open,
}

impl Access {
    pub(crate) fn protection(self) -> c_int {
        match self {
            Self::Closed => libc::PROT_NONE,
            Self::Reads => libc::PROT_READ,
            Self::Open => libc::PROT_READ | libc::PROT_WRITE,
        }
    }
}

/// Memory mapped at an address of the owner's choice, and at a second place.
#[derive(Debug)]
pub struct Span {
    start: u64,
    bytes: u64,
    second: u64,
    file: OwnedFd,
}

impl Span {
    /// Takes the addresses from `start` on, all closed. Both numbers are multiples of a page.
    ///
    /// # Errors
    /// `EXIST` where any of them is taken, else the system's error.
    pub fn take(start: u64, bytes: u64) -> Result<Self, Errno> {
        if bytes == 0 || !start.is_multiple_of(PAGE) || !bytes.is_multiple_of(PAGE) {
            return Err(Errno::INVAL);
        }
        // The system ends a process that asks for more than its limit of files.
        if getrlimit(Resource::Fsize).current.is_some_and(|most| most < bytes) {
            return Err(Errno::FBIG);
        }
        let file = memfd_create("floe-managed", MemfdFlags::CLOEXEC)?;
        ftruncate(&file, bytes)?;
        let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
        let first = map(start, bytes, Access::Closed, flags | libc::MAP_FIXED_NOREPLACE, &file)?;
        // From here on dropping it gives the addresses back.
        let mut span = Self { start: first, bytes, second: 0, file };
        if first != start {
            // A kernel before 4.17 takes the address for a wish.
            return Err(Errno::EXIST);
        }
        span.second = map(0, bytes, Access::Closed, flags, &span.file)?;
        span.keep_to_process(start);
        span.keep_to_process(span.second);
        Ok(span)
    }

    /// Its addresses.
    pub fn addresses(&self) -> Range<u64> {
        self.start..self.start + self.bytes
    }

    /// From now on these pages are in use, until they are emptied: floe reaches them. Not all of a span from the start: what a
    /// process locks in memory is there as soon as it can be reached. False where the system refuses.
    pub fn begin(&self, pages: &Range<u64>) -> bool {
        self.protect(self.second, pages, Access::Open)
    }

    /// Sets the program's access to these pages. False where the system refuses, which it does when too many pages
    /// differ from their neighbours.
    pub fn allow(&self, pages: &Range<u64>, access: Access) -> bool {
        self.protect(self.start, pages, access)
    }

    /// In one of the span's places.
    fn protect(&self, place: u64, pages: &Range<u64>, access: Access) -> bool {
        let Some(bytes) = self.checked(pages) else { return false };
        let at = place + (pages.start - self.start);
        // SAFETY: the pages are this span's own mapping (checked), which holds no object of Rust's. The program touches
        // them when its contract with CUDA allows it; floe does by ranges of pages that are in use.
        unsafe { libc::mprotect(at as *mut c_void, bytes, access.protection()) == 0 }
    }

    /// The same bytes, which are in use, where floe reads and writes them, whatever the program may do; `None` outside of the
    /// span.
    pub fn behind(&self, bytes: &Range<u64>) -> Option<HostRange> {
        let length = self.checked(bytes)?;
        let second = HostPointer(self.second + (bytes.start - self.start));
        // SAFETY: the bytes are mapped as long as the span lives, whose owner makes no range outlive it, and no object of
        // Rust's lies there.
        Some(unsafe { HostRange::new(second, length) })
    }

    /// Which of these pages have been touched since they were taken or emptied.
    ///
    /// # Errors
    /// The system's error.
    pub fn touched(&self, pages: &Range<u64>) -> Result<Vec<Range<u64>>, Errno> {
        let (mut at, end) = (pages.start - self.start, pages.end - self.start);
        let mut found = Vec::new();
        while at < end {
            let data = match seek(&self.file, SeekFrom::Data(at)) {
                Ok(data) if data < end => data,
                // NXIO: no more data.
                Ok(_) | Err(Errno::NXIO) => break,
                Err(error) => return Err(error),
            };
            let hole = seek(&self.file, SeekFrom::Hole(data))?.min(end);
            found.push(self.start + data..self.start + hole);
            at = hole;
        }
        Ok(found)
    }

    /// Frees the memory of these pages: they are zero from now on, and not in use.
    pub fn empty(&self, pages: &Range<u64>) {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        if self.checked(pages).is_some() {
            // If the system refuses, the pages stay open to floe, or the memory is freed with the span.
            let _ = self.protect(self.second, pages, Access::Closed);
            let _ = fallocate(&self.file, flags, pages.start - self.start, pages.end - pages.start);
        }
    }

    fn checked(&self, range: &Range<u64>) -> Option<usize> {
        let inside = self.start <= range.start && range.start < range.end && range.end <= self.start + self.bytes;
        if inside { usize::try_from(range.end - range.start).ok() } else { None }
    }

    /// A forked child has no thread that handles faults, and its writes would be seen here. Nor do the pages belong into a core dump.
    fn keep_to_process(&self, place: u64) {
        let Ok(bytes) = usize::try_from(self.bytes) else { return };
        for advice in [libc::MADV_DONTFORK, libc::MADV_DONTDUMP] {
            // SAFETY: one of the span's own mappings, whose contents the advice leaves alone.
            let _ = unsafe { libc::madvise(place as *mut c_void, bytes, advice) };
        }
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        let Ok(bytes) = usize::try_from(self.bytes) else { return };
        for place in [self.start, self.second].into_iter().filter(|place| *place != 0) {
            // SAFETY: the span mapped these pages and is dropped once; its owner lets nobody use them any more.
            unsafe { libc::munmap(place as *mut c_void, bytes) };
        }
    }
}

fn map(wish: u64, bytes: u64, access: Access, flags: c_int, file: &OwnedFd) -> Result<u64, Errno> {
    let bytes = usize::try_from(bytes).map_err(|_| Errno::NOMEM)?;
    // SAFETY: without MAP_FIXED the kernel refuses or avoids pages that are mapped already, so no memory of anybody changes.
    let at = unsafe { libc::mmap(wish as *mut c_void, bytes, access.protection(), flags, file.as_raw_fd(), 0) };
    if at == libc::MAP_FAILED {
        return Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::NOMEM));
    }
    Ok(at as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: u64 = 0x5100_0000_0000;

    #[test]
    fn both_mappings_show_the_same_bytes_and_only_touched_pages_exist() {
        let span = Span::take(PLACE, 64 * PAGE).expect("free");
        assert_eq!(span.addresses(), PLACE..PLACE + 64 * PAGE);
        assert!(span.touched(&span.addresses()).expect("asked").is_empty());
        let third = PLACE + 3 * PAGE..PLACE + 4 * PAGE;
        assert!(span.begin(&third));
        span.behind(&third).expect("inside").write(&[7]).expect("fits");
        assert_eq!(span.touched(&span.addresses()).expect("asked"), std::slice::from_ref(&third));
        assert!(span.allow(&third, Access::Reads));
        // SAFETY: the page is readable now and nobody writes it.
        assert_eq!(unsafe { (third.start as *const u8).read_volatile() }, 7);
        span.empty(&third);
        assert!(span.begin(&third));
        assert!(span.touched(&span.addresses()).expect("asked").is_empty());
        assert_eq!(span.behind(&third).expect("inside").to_vec()[0], 0);
    }

    #[test]
    fn taken_addresses_and_ranges_outside_are_refused() {
        let start = PLACE + (1 << 32);
        let span = Span::take(start, 2 * PAGE).expect("free");
        assert_eq!(Span::take(start + PAGE, 2 * PAGE).err(), Some(Errno::EXIST));
        assert_eq!(Span::take(start + 1, PAGE).err(), Some(Errno::INVAL));
        assert!(!span.allow(&(start..start + 3 * PAGE), Access::Open));
        assert!(span.behind(&(start..start + 2 * PAGE + 1)).is_none());
        drop(span);
        assert!(Span::take(start + PAGE, 2 * PAGE).is_ok());
    }
}
