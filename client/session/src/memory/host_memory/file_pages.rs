//! The file behind memory of the program, so that a worker of this machine can map its very pages. A range comes in; the
//! file's descriptor and the offset of the range's first page go out, if all of it is one shared mapping of one file in
//! memory. It never guesses: a file is taken only if device and inode are those of the mapping.

use std::fs::{self, OpenOptions};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use floe_ring::demand_memory_file;
use floe_surface::PAGE;
use floe_touch::{Exchanged, Mapping, shared_file};
use rustix::fs::{FallocateFlags, OFlags, fallocate, fcntl_getfl, fstat, major, minor};
use rustix::io::Errno;

/// Bytes of the file that are taken at a time: a signal makes the system give back all of one taking.
const PIECE: u64 = 16 << 20;

/// Pages of a file that the program has mapped and shares.
#[derive(Debug)]
pub(crate) struct FilePages {
    file: OwnedFd,
    offset: u64,
    bytes: u64,
}

/// The whole pages around a range.
pub(crate) fn pages_around(at: u64, bytes: u64) -> Range<u64> {
    let page = PAGE as u64;
    at - at % page..(at + bytes).next_multiple_of(page)
}

/// A descriptor of the file of a mapping, for reading and writing.
fn open(mapping: &Mapping<'_>) -> Option<OwnedFd> {
    // The first needs privileges, and finds every file. A file that has lost its name is found among the descriptors.
    let link = format!("/proc/self/map_files/{:x}-{:x}", mapping.addresses.start, mapping.addresses.end);
    let open = |path: &str| OpenOptions::new().read(true).write(true).open(path).ok().map(OwnedFd::from);
    let by_name = || Some(mapping.path).filter(|path| path.starts_with('/')).and_then(open);
    let is_it = |file: &OwnedFd| is_file_of(file.as_fd(), mapping);
    open(&link).filter(is_it).or_else(|| among_descriptors(mapping)).or_else(|| by_name().filter(is_it))
}

/// Whether a descriptor is of the mapping's file, and for reading and writing.
fn is_file_of(file: BorrowedFd<'_>, mapping: &Mapping<'_>) -> bool {
    let Ok(stat) = fstat(file) else { return false };
    let is_same = stat.st_ino == mapping.inode && (major(stat.st_dev), minor(stat.st_dev)) == mapping.device;
    is_same && fcntl_getfl(file).is_ok_and(|flags| flags & OFlags::ACCMODE == OFlags::RDWR)
}

/// The file, if the program still has a descriptor of it. Opening it by the descriptor's number has a descriptor of our
/// own, which the program cannot close.
fn among_descriptors(mapping: &Mapping<'_>) -> Option<OwnedFd> {
    let numbers = fs::read_dir("/proc/self/fd").ok()?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    numbers
        .filter_map(|number| {
            let path = format!("/proc/self/fd/{number}");
            // Only files in memory are opened: to open a device or a pipe may have effects.
            let target = fs::read_link(&path).ok()?;
            let name = target.to_str()?;
            let is_candidate = name.trim_end_matches(" (deleted)") == mapping.path.trim_end_matches(" (deleted)");
            let file = is_candidate.then(|| OpenOptions::new().read(true).write(true).open(&path).ok())??;
            Some(OwnedFd::from(file)).filter(|file| is_file_of(file.as_fd(), mapping))
        })
        .next()
}

impl FilePages {
    /// The file behind the whole pages around a range; `None` if it is other memory, or if nobody can open the file.
    pub(crate) fn of(at: u64, bytes: u64) -> Option<Self> {
        let pages = pages_around(at, bytes);
        let maps = fs::read_to_string("/proc/self/maps").ok()?;
        let mapping = shared_file(&maps, &pages)?;
        let file = open(&mapping)?;
        let (offset, bytes) = (mapping.offset + (pages.start - mapping.addresses.start), pages.end - pages.start);
        let is = demand_memory_file(&file).ok()?.checked_next_multiple_of(PAGE as u64)?;
        let found = Self { file, offset, bytes };
        (offset + bytes <= is && found.fill().is_ok()).then_some(found)
    }

    /// The file of pages that were exchanged for its own.
    pub(crate) fn exchanged(exchanged: &Exchanged, bytes: u64) -> Option<Self> {
        Some(Self { file: exchanged.file().ok()?, offset: 0, bytes })
    }

    /// Takes the pages now, as a registration does natively: then this process pays for them, not the worker.
    fn fill(&self) -> Result<(), Errno> {
        let mut done = 0;
        while done < self.bytes {
            let piece = PIECE.min(self.bytes - done);
            match fallocate(&self.file, FallocateFlags::KEEP_SIZE, self.offset + done, piece) {
                Ok(()) => done += piece,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    pub(crate) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// The offset of the first page.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Bytes of all pages.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use floe_abi::HostPointer;
    use floe_surface::HostBlock;
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

    use super::*;

    #[test]
    fn the_very_file_is_found_by_a_descriptor_and_others_are_not() {
        let at = HostPointer(0x6e00_0000_0000);
        let file = memfd_create("floe-found", MemfdFlags::CLOEXEC).unwrap();
        let _same_name = memfd_create("floe-found", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, 4 * PAGE as u64).unwrap();
        let block = HostBlock::shared(at, 2 * PAGE, file.as_fd(), PAGE as u64).unwrap();
        block.range().write(&[7, 8]).unwrap();
        let found = FilePages::of(at.0 + 1, PAGE as u64).expect("a shared mapping");
        assert_eq!((found.offset(), found.bytes()), (PAGE as u64, 2 * PAGE as u64));
        assert_eq!(pages_around(0x1fff, 2), 0x1000..0x3000);
        let mut seen = [0; 2];
        rustix::io::pread(found.file(), &mut seen, found.offset()).unwrap();
        assert_eq!(seen, [7, 8]);
        assert!(FilePages::of(at.0 + 2 * PAGE as u64, 1).is_none() && FilePages::of(at.0, 3 * PAGE as u64).is_none());
        // Pages behind the end of the file are nobody's.
        ftruncate(&file, PAGE as u64 + 1).unwrap();
        assert!(FilePages::of(at.0, 1).is_some() && FilePages::of(at.0, 2 * PAGE as u64).is_none());
    }

    #[test]
    fn private_memory_has_no_file() {
        let block = HostBlock::new(PAGE).unwrap();
        assert!(FilePages::of(block.pointer().0, 1).is_none());
    }
}
