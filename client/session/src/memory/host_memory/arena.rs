//! Memory behind one descriptor of which pinned host memory is cut, so that a worker on the same machine can map the very
//! pages. Sizes come in, blocks at addresses nothing has had before go out; byte `n` of it lies at `PLACES + n` always. It is
//! sparse: what is not given out takes no memory, and what is freed is the system's again at once.
//!
//! A forked process has the blocks as shared memory, like memory that a driver maps: its writes are seen here. It frees
//! none: no call of CUDA's works there.

use std::ops::Range;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use floe_abi::{CudaError, CudaResult, HostPointer};
use floe_ring::{most_memory, sealed_memory};
use floe_surface::{HostBlock, PAGE};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use crate::log::log;
use crate::memory::host_memory::{PLACES, UNUSED};

/// All of it. Addresses are given out once. So this is the memory that a process can pin in its life before it falls
/// back to unshared memory.
pub(crate) const BYTES: u64 = 4 << 40;
/// Less is not worth a descriptor.
const LEAST: u64 = 1 << 30;
/// Bytes that are taken at a time: a signal makes the system give back all of one taking.
const PIECE: u64 = 16 << 20;

/// The memory.
#[derive(Debug)]
pub(crate) struct Arena {
    file: OwnedFd,
    bytes: u64,
    /// Where what has been given out ends.
    used: AtomicU64,
}

/// The process's, once it was asked for.
static OWN: OnceLock<Option<Arena>> = OnceLock::new();

/// Pages of it.
#[derive(Debug)]
pub(crate) struct ArenaBlock {
    pub(crate) block: HostBlock,
    arena: &'static Arena,
    offset: u64,
    pages: u64,
}

impl Arena {
    /// The process's; `None` where the system gives none.
    pub(crate) fn of_process() -> Option<&'static Self> {
        let made = || Self::new().inspect_err(|error| log!(Info, "pinned memory cannot be shared: {error}")).ok();
        OWN.get_or_init(made).as_ref()
    }

    fn new() -> Result<Self, Errno> {
        let limit = most_memory();
        let bytes = BYTES.min(limit - limit % PAGE as u64);
        if bytes < LEAST {
            return Err(Errno::FBIG);
        }
        let file = sealed_memory("floe-pinned", bytes)?;
        Ok(Self { file, bytes, used: AtomicU64::new(UNUSED) })
    }

    /// The descriptor of all of it.
    pub(crate) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Its bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Pages for `bytes`, in memory that is there. `None` where no address is left.
    ///
    /// # Errors
    /// OUT_OF_MEMORY.
    pub(crate) fn allocate(&'static self, bytes: usize) -> CudaResult<Option<ArenaBlock>> {
        let pages = bytes.checked_next_multiple_of(PAGE).ok_or(CudaError::OUT_OF_MEMORY)? as u64;
        let take = |used: u64| used.checked_add(pages).filter(|used| *used <= self.bytes);
        let Ok(offset) = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) else { return Ok(None) };
        let address = HostPointer(PLACES + offset);
        let Some(block) = HostBlock::shared(address, bytes, self.file(), offset) else { return Ok(None) };
        // From here on dropping it gives the memory back.
        let block = ArenaBlock { block, arena: self, offset, pages };
        match self.fill(offset, pages) {
            Ok(()) => Ok(Some(block)),
            Err(Errno::NOMEM | Errno::NOSPC) => Err(CudaError::OUT_OF_MEMORY),
            Err(_) => Ok(None),
        }
    }

    /// Takes the memory now, when it can be refused in words: touched later, it would end the program.
    fn fill(&self, offset: u64, pages: u64) -> Result<(), Errno> {
        let mut done = 0;
        while done < pages {
            let piece = PIECE.min(pages - done);
            match fallocate(&self.file, FallocateFlags::empty(), offset + done, piece) {
                Ok(()) => done += piece,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// The addresses that have been given out.
#[inline]
pub(crate) fn given_out() -> Range<u64> {
    let used = OWN.get().and_then(Option::as_ref).map_or(UNUSED, |arena| arena.used.load(Ordering::Relaxed));
    PLACES + UNUSED..PLACES + used
}

/// Whether an address may be of this memory.
pub(crate) fn is_place(address: u64) -> bool {
    given_out().contains(&address)
}

impl ArenaBlock {
    /// Bytes of its pages.
    pub(crate) fn pages(&self) -> u64 {
        self.pages
    }
}

impl Drop for ArenaBlock {
    fn drop(&mut self) {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        // If the system refuses, the memory goes back when the process ends.
        let _ = fallocate(&self.arena.file, flags, self.offset, self.pages);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_shows_the_memory_behind_the_descriptor_and_gives_it_back() {
        let arena = Arena::of_process().unwrap();
        let block = arena.allocate(5000).unwrap().unwrap();
        let at = block.block.pointer().0;
        assert!(is_place(at) && block.pages() == 8192);
        block.block.range().write(&[1, 2, 3]).unwrap();
        let mut seen = [0; 3];
        rustix::io::pread(arena.file(), &mut seen, at - PLACES).unwrap();
        assert_eq!(seen, [1, 2, 3]);
        drop(block);
        rustix::io::pread(arena.file(), &mut seen, at - PLACES).unwrap();
        assert_eq!(seen, [0; 3], "a hole");
        assert_ne!(arena.allocate(1).unwrap().unwrap().block.pointer().0, at, "never the same place twice");
    }

    #[test]
    fn more_than_there_are_addresses_is_not_given() {
        let arena = Arena::of_process().unwrap();
        assert!(arena.allocate(usize::try_from(BYTES).unwrap() + 1).unwrap().is_none());
        assert_eq!(arena.allocate(usize::MAX).unwrap_err(), CudaError::OUT_OF_MEMORY);
    }
}
