//! Files in memory whose pages are mapped here, kept so that another worker can map them, too.
//! In: each file as it came, and the first address of its pages. Out: the same file. A file of which many pages are mapped
//! is kept once; a session that maps pages of too many files keeps some of them not, and cannot move.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use rustix::fs::{OFlags, fcntl_getfl, fstat};

/// The most files that are kept: each is a descriptor of this process for as long as its pages are mapped.
const MOST_FILES: usize = 256;

/// What tells files apart: where they are, and what their descriptors allow.
type Name = (u64, u64, u32);

/// The files of a session.
#[derive(Debug, Default)]
pub(crate) struct SharedFiles {
    /// With how many mappings each has.
    files: BTreeMap<Name, (OwnedFd, usize)>,
    /// By the mapping's first address.
    names: BTreeMap<u64, Name>,
}

impl SharedFiles {
    /// Pages of a file are mapped at `at`.
    pub(crate) fn keep(&mut self, at: u64, file: OwnedFd) {
        self.let_go(at);
        let (Ok(stat), Ok(flags)) = (fstat(&file), fcntl_getfl(&file)) else { return };
        let name = (stat.st_dev, stat.st_ino, (flags & OFlags::RWMODE).bits());
        let has_room = self.files.len() < MOST_FILES;
        match self.files.get_mut(&name) {
            Some((_, mappings)) => *mappings += 1,
            None if has_room => _ = self.files.insert(name, (file, 1)),
            None => return,
        }
        self.names.insert(at, name);
    }

    /// The pages at `at` are mapped no more.
    pub(crate) fn let_go(&mut self, at: u64) {
        let Some(name) = self.names.remove(&at) else { return };
        if let Some((_, mappings)) = self.files.get_mut(&name) {
            *mappings -= 1;
            if *mappings == 0 {
                self.files.remove(&name);
            }
        }
    }

    /// The file whose pages are mapped at `at`. `None`: it was not kept.
    pub(crate) fn of(&self, at: u64) -> Option<&OwnedFd> {
        self.files.get(self.names.get(&at)?).map(|(file, _)| file)
    }

    /// No pages are mapped any more.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use floe_ring::sealed_memory;

    use super::*;

    #[test]
    fn a_file_is_kept_once_and_as_long_as_pages_of_it_are_mapped() {
        let mut files = SharedFiles::default();
        let (one, other) = (sealed_memory("one", 4096).unwrap(), sealed_memory("other", 4096).unwrap());
        for at in 1..=3 {
            files.keep(at, one.try_clone().unwrap());
        }
        files.keep(9, other);
        assert_eq!(files.files.len(), 2);
        files.let_go(1);
        files.let_go(1);
        // Its place is another file's from here on.
        files.keep(2, sealed_memory("third", 4096).unwrap());
        let name = |file: &OwnedFd| fstat(file).unwrap().st_ino;
        assert_eq!(files.of(3).map(name), Some(name(&one)));
        assert!(files.of(1).is_none() && files.of(2).map(name) != Some(name(&one)));
        files.let_go(3);
        assert_eq!(files.files.len(), 2);
        files.clear();
        assert!(files.of(2).is_none() && files.files.is_empty());
    }

    #[test]
    fn no_more_files_are_kept_than_a_process_can_spare() {
        let mut files = SharedFiles::default();
        for at in 0..MOST_FILES as u64 + 10 {
            files.keep(at, sealed_memory("one of many", 4096).unwrap());
        }
        assert_eq!(files.files.len(), MOST_FILES);
        assert!(files.of(0).is_some() && files.of(MOST_FILES as u64).is_none());
    }
}
