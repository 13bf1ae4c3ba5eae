//! Host memory that an implementation hands to the program: pages of their own or of a file, at an address that the
//! kernel or the caller chooses. Blocks are made and freed here; their bytes are reached through ranges.

use std::ffi::{c_int, c_void};
use std::os::fd::{AsRawFd as _, BorrowedFd, RawFd};
use std::ptr::NonNull;

use floe_abi::HostPointer;

use crate::arguments::host::HostRange;

/// Host memory the implementation itself hands to the program: zeroed, aligned to pages, freed when dropped.
#[derive(Debug)]
pub struct HostBlock {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the block is plain memory that nobody else owns; all access goes through ranges, whose users answer for it.
unsafe impl Send for HostBlock {}
// SAFETY: as above; the methods only read the address and the length.
unsafe impl Sync for HostBlock {}

impl HostBlock {
    /// Takes `len` bytes, in pages of their own; `None` where there is no memory or `len` is 0. When they are freed the system
    /// has them back, not the allocator.
    pub fn new(len: usize) -> Option<Self> {
        let (bytes, kind) = (pages(len)?, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: new pages at an address of the system's choice are nobody's.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, kind, -1, 0) };
        if start == libc::MAP_FAILED {
            return None;
        }
        Some(Self { start: NonNull::new(start.cast())?, len })
    }

    /// Takes `len` bytes at an address, a multiple of the page size; `None` where any of them is taken.
    pub fn at(address: HostPointer, len: usize) -> Option<Self> {
        Self::map(address, len, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
    }

    fn map(address: HostPointer, len: usize, kind: c_int, file: RawFd, offset: u64) -> Option<Self> {
        let (wish, bytes) = (address.0 as *mut c_void, pages(len)?);
        let (access, offset) = (libc::PROT_READ | libc::PROT_WRITE, libc::off_t::try_from(offset).ok()?);
        // SAFETY: the kernel refuses pages that are mapped already, so no memory of anybody changes.
        let start = unsafe { libc::mmap(wish, bytes, access, kind | libc::MAP_FIXED_NOREPLACE, file, offset) };
        if start == libc::MAP_FAILED {
            return None;
        }
        if start != wish {
            // A kernel before 4.17 takes the address for a wish.
            // SAFETY: mapped just now, known to nobody.
            unsafe { libc::munmap(start, bytes) };
            return None;
        }
        Some(Self { start: NonNull::new(start.cast())?, len })
    }

    /// Maps `len` bytes of a file, from `offset` on, at an address; both multiples of the page size. `None` where any page
    /// there is taken. The file must not become shorter while the block lives: what is gone cannot be touched.
    pub fn shared(address: HostPointer, len: usize, file: BorrowedFd<'_>, offset: u64) -> Option<Self> {
        Self::map(address, len, libc::MAP_SHARED, file.as_raw_fd(), offset)
    }

    /// Its first address.
    pub fn pointer(&self) -> HostPointer {
        HostPointer(self.start.as_ptr() as u64)
    }

    /// Length in bytes, as asked for.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Never: a block of no bytes is not made.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The block's whole pages, for as long as the block lives.
    pub fn pages(&self) -> HostPages {
        let start = self.pointer().0;
        HostPages { start, end: start + self.len.next_multiple_of(PAGE) as u64 }
    }

    /// The block as a range, for as long as the block lives.
    pub fn range(&self) -> HostRange {
        HostRange { address: self.pointer().0, len: self.len }
    }
}

/// Whole pages of a block: mapped by it alone, with no object of Rust's in them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostPages {
    start: u64,
    end: u64,
}

impl HostPages {
    /// Their addresses.
    pub fn addresses(&self) -> std::ops::Range<u64> {
        self.start..self.end
    }
}

impl Drop for HostBlock {
    fn drop(&mut self) {
        if let Some(bytes) = pages(self.len) {
            // SAFETY: the pages were mapped for this block, and it is dropped once.
            unsafe { libc::munmap(self.start.as_ptr().cast(), bytes) };
        }
    }
}

/// Bytes of a page.
pub const PAGE: usize = 4096;

/// Whole pages that hold `len` bytes; `None` for none.
fn pages(len: usize) -> Option<usize> {
    if len == 0 { None } else { len.checked_next_multiple_of(PAGE) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_is_aligned_to_pages_and_none_of_no_bytes() {
        let block = HostBlock::new(5000).expect("memory");
        assert_eq!((block.pointer().0 % 4096, block.len()), (0, 5000));
        assert!(HostBlock::new(0).is_none());
    }

    #[test]
    fn a_block_at_an_address_lies_exactly_there() {
        let address = HostPointer(0x6123_0000_0000);
        let block = HostBlock::at(address, 100).expect("free");
        assert_eq!(block.pointer(), address);
        block.range().write(&[7; 100]).expect("fits");
        assert!(HostBlock::at(address, 1).is_none(), "taken");
        drop(block);
        let again = HostBlock::at(address, 4097).expect("free again");
        assert_eq!(again.range().to_vec()[..2], [0, 0]);
    }
}
