//! Pages that have been written, as the kernel knows them. Ranges come in; the pages written since they were last protected
//! go out. Protected anew, the kernel notes writes from the same moment on. No page is ever closed: no thread faults, and
//! no system call of the program fails.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::mem::size_of_val;
use std::ops::Range;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::span::PAGE;

/// `UFFD_API`.
const API: u64 = 0xaa;
/// `UFFD_USER_MODE_ONLY`: what a process may have without privileges. The kernel settles all faults itself here.
const USER_MODE_ONLY: libc::c_int = 1;
/// `UFFD_FEATURE_PAGEFAULT_FLAG_WP`, `…_WP_HUGETLBFS_SHMEM`, `…_WP_UNPOPULATED`, `…_WP_ASYNC`.
const FEATURES: u64 = 1 | 1 << 12 | 1 << 13 | 1 << 15;
/// `UFFDIO_API`, `UFFDIO_REGISTER`, `UFFDIO_UNREGISTER`.
const TALK: libc::c_ulong = 0xc018_aa3f;
const REGISTER: libc::c_ulong = 0xc020_aa00;
const UNREGISTER: libc::c_ulong = 0x8010_aa01;
/// `UFFDIO_REGISTER_MODE_WP`.
const WRITES: u64 = 2;
/// `PAGEMAP_SCAN`.
const SCAN: libc::c_ulong = 0xc060_6610;
/// `PM_SCAN_CHECK_WPASYNC`: refuse memory that is not noted.
const NOTED_ONLY: u64 = 2;
/// `PM_SCAN_WP_MATCHING`: protect what is found, and so begin anew for it.
const ANEW: u64 = 1;
/// `PAGE_IS_WRITTEN`.
const IS_WRITTEN: u64 = 2;
/// Ranges of one question; more are asked for again.
const MOST: usize = 64;

/// `struct pm_scan_arg`.
#[repr(C)]
#[derive(Default)]
struct Scan {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    regions: u64,
    count: u64,
    most_pages: u64,
    inverted: u64,
    all_of: u64,
    any_of: u64,
    returned: u64,
}

/// `struct page_region`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Region {
    start: u64,
    end: u64,
    categories: u64,
}

/// The kernel's two ends.
struct Kernel {
    faults: OwnedFd,
    pages: File,
    process: u32,
}

/// The process's; `None` where the kernel (before 6.7) or its operator has none.
fn kernel() -> Option<&'static Kernel> {
    static KERNEL: OnceLock<Option<Kernel>> = OnceLock::new();
    let own = KERNEL.get_or_init(|| {
        let flags = libc::O_CLOEXEC | libc::O_NONBLOCK | USER_MODE_ONLY;
        // SAFETY: makes a descriptor, and touches no memory of ours.
        let made = unsafe { libc::syscall(libc::SYS_userfaultfd, flags) };
        let number = i32::try_from(made).ok().filter(|number| *number >= 0)?;
        // SAFETY: the kernel has just made it for us alone.
        let faults = unsafe { OwnedFd::from_raw_fd(number) };
        let mut talk = [API, FEATURES, 0];
        // SAFETY: the three words are `struct uffdio_api`, which the kernel reads and writes.
        let talked = unsafe { libc::ioctl(faults.as_raw_fd(), TALK, talk.as_mut_ptr()) };
        let pages = File::open("/proc/self/pagemap").ok()?;
        (talked == 0).then(|| Kernel { faults, pages, process: std::process::id() })
    });
    // A forked process would ask about its parent's memory.
    own.as_ref().filter(|kernel| kernel.process == std::process::id())
}

/// Ranges that are noted, by first address: two users of one page would each take what the other has to see.
static NOTED: Mutex<BTreeMap<u64, u64>> = Mutex::new(BTreeMap::new());

/// Whether nobody but this process writes these pages, and by no other address: the kernel notes writes by the page table of
/// one mapping, not those of other processes, other mappings or system calls on a shared file.
fn is_own(pages: &Range<u64>) -> bool {
    let Ok(maps) = fs::read_to_string("/proc/self/maps") else { return false };
    let mut at = pages.start;
    for (addresses, is_own) in maps.lines().filter_map(mapping) {
        if addresses.contains(&at) && is_own {
            at = addresses.end;
        }
    }
    at >= pages.end
}

/// A line of the maps: its addresses, and whether they are private memory without a file.
fn mapping(line: &str) -> Option<(Range<u64>, bool)> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let access = words.next()?;
    let inode = words.nth(2)?;
    let hex = |text| u64::from_str_radix(text, 16).ok();
    Some((hex(start)?..hex(end)?, access.as_bytes().get(3) == Some(&b'p') && inode == "0"))
}

/// Whether a device or the kernel may write to pages that this process had pinned long ago, as RDMA, io_uring and drivers in
/// user space have: such writes are not noted. Also where the kernel does not say. It may count pages shortly after they are
/// pinned. That takes longer than asking for written pages.
#[must_use]
pub fn devices_may_write() -> bool {
    static STATUS: OnceLock<Option<(File, u32)>> = OnceLock::new();
    let open = || Some((File::open("/proc/self/status").ok()?, std::process::id()));
    // A forked process would ask about its parent.
    let own = STATUS.get_or_init(open).as_ref().filter(|(_, process)| *process == std::process::id());
    let (Some((status, _)), mut words) = (own, [0; 4096]) else { return true };
    let read = status.read_at(&mut words, 0).unwrap_or_default();
    let words = String::from_utf8_lossy(words.get(..read).unwrap_or_default());
    // RDMA and io_uring count as pinned, drivers by VFIO as locked.
    let is_none = |line: &&str| line.split_ascii_whitespace().nth(1) == Some("0");
    let counts = words.lines().filter(|line| line.starts_with("VmPin:") || line.starts_with("VmLck:"));
    counts.filter(is_none).count() != 2
}

/// Pages whose writes the kernel notes until this is dropped.
#[derive(Debug)]
pub struct Written {
    pages: Range<u64>,
}

impl Written {
    /// Has the kernel note writes to the whole pages around a range. `None` where it cannot, and for memory that others may
    /// write: then nothing has changed. All pages count as written at first.
    #[must_use]
    pub fn note(range: &Range<u64>) -> Option<Self> {
        let pages = range.start - range.start % PAGE..range.end.checked_next_multiple_of(PAGE)?;
        let kernel = kernel()?;
        let mut noted = NOTED.lock().unwrap_or_else(PoisonError::into_inner);
        if pages.is_empty()
            || !is_own(&pages)
            || noted.range(..pages.end).next_back().is_some_and(|(_, end)| *end > pages.start)
        {
            return None;
        }
        let mut register = [pages.start, pages.end - pages.start, WRITES, 0];
        // SAFETY: the four words are `struct uffdio_register`. Contents and access of the pages stay as they are.
        let done = unsafe { libc::ioctl(kernel.faults.as_raw_fd(), REGISTER, register.as_mut_ptr()) };
        if done != 0 {
            return None;
        }
        noted.insert(pages.start, pages.end);
        drop(noted);
        let written = Self { pages };
        // A kernel that cannot say which pages were written is of no use.
        written.scan(written.pages.start, NOTED_ONLY).map(|_| written)
    }

    /// The pages around the range.
    #[must_use]
    pub fn pages(&self) -> &Range<u64> {
        &self.pages
    }

    /// The pages written since they were last protected, whoever wrote them. They are in the next answer, too.
    /// `None` where the kernel does not say, since the program has mapped something else there: then all may be written.
    #[must_use]
    pub fn peek(&self) -> Option<Vec<Range<u64>>> {
        self.ask(NOTED_ONLY)
    }

    /// The same, and protects them in the same moment: what is written from now on is in the next answer.
    /// `None` leaves some of them protected, perhaps.
    #[must_use]
    pub fn take(&self) -> Option<Vec<Range<u64>>> {
        self.ask(NOTED_ONLY | ANEW)
    }

    /// The written pages.
    fn ask(&self, flags: u64) -> Option<Vec<Range<u64>>> {
        let (mut at, mut all) = (self.pages.start, Vec::new());
        while at < self.pages.end {
            let (found, walked) = self.scan(at, flags)?;
            all.extend(found);
            if walked <= at {
                return None;
            }
            at = walked;
        }
        Some(all)
    }

    /// One question, from an address on: written pages, and how far the kernel has looked.
    fn scan(&self, from: u64, flags: u64) -> Option<(Vec<Range<u64>>, u64)> {
        let mut regions = [Region::default(); MOST];
        let mut scan = Scan {
            flags,
            start: from,
            end: self.pages.end,
            regions: regions.as_mut_ptr() as u64,
            count: MOST as u64,
            all_of: IS_WRITTEN,
            returned: IS_WRITTEN,
            ..Scan::default()
        };
        scan.size = size_of_val(&scan) as u64;
        // SAFETY: `scan` is `struct pm_scan_arg`, and names `regions`, which outlives the call, with its length. The pages'
        // contents and access stay as they are.
        let found = unsafe { libc::ioctl(kernel()?.pages.as_raw_fd(), SCAN, &raw mut scan) };
        let found = regions.get(..usize::try_from(found).ok()?)?;
        Some((found.iter().map(|region| region.start..region.end).collect(), scan.walk_end))
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        let mut noted = NOTED.lock().unwrap_or_else(PoisonError::into_inner);
        noted.remove(&self.pages.start);
        let Some(kernel) = kernel() else { return };
        let mut range = [self.pages.start, self.pages.end - self.pages.start];
        // SAFETY: the two words are `struct uffdio_range`. Pages that are not noted any more lose nothing by it.
        let _ = unsafe { libc::ioctl(kernel.faults.as_raw_fd(), UNREGISTER, range.as_mut_ptr()) };
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::fd::AsFd as _;

    use floe_surface::HostBlock;

    use super::*;

    const BYTES: usize = 200 * 4096;

    fn range(block: &HostBlock) -> Range<u64> {
        block.pointer().0..block.pointer().0 + BYTES as u64
    }

    #[test]
    fn pages_written_by_threads_and_system_calls_are_said_once() {
        let block = HostBlock::new(BYTES).expect("memory");
        // Where the kernel cannot, the caller compares.
        let Some(written) = Written::note(&range(&block)) else { return };
        assert!(Written::note(&range(&block)).is_none(), "noted already");
        let _ = written.take().expect("noted");
        assert_eq!((written.peek(), written.take()), (Some(vec![]), Some(vec![])));
        let start = block.pointer().0;
        block.range().sub(5 * 4096 + 7, 1).expect("inside").write(&[1]).expect("fits");
        // A system call writes to a page that is noted, and does not fail.
        let page = block.range().sub(9 * 4096, 4096).expect("inside");
        let mut zero = File::open("/dev/zero").expect("there");
        page.lend(&mut |bytes| zero.read_exact(bytes)).expect("read");
        let pages = [5, 9].map(|page| start + page * 4096..start + (page + 1) * 4096);
        for _ in 0..2 {
            assert_eq!(written.peek(), Some(pages.to_vec()), "not taken yet");
        }
        assert_eq!(written.take(), Some(pages.to_vec()));
        assert_eq!((written.peek(), written.take()), (Some(vec![]), Some(vec![])));
        // More ranges than fit one question.
        for page in (0..200).step_by(2) {
            block.range().sub(page * 4096, 1).expect("inside").write(&[2]).expect("fits");
        }
        assert_eq!(written.peek().map(|pages| pages.len()), Some(100));
        assert_eq!(written.take().map(|pages| pages.len()), Some(100));
        drop(written);
        assert!(Written::note(&range(&block)).is_some(), "free again");
    }

    #[test]
    fn memory_that_others_may_write_is_not_noted() {
        let file = rustix::fs::memfd_create("floe-written", rustix::fs::MemfdFlags::CLOEXEC).expect("made");
        rustix::fs::ftruncate(&file, BYTES as u64).expect("sized");
        let mapped = |at| HostBlock::shared(floe_abi::HostPointer(at), BYTES, file.as_fd(), 0).expect("mapped");
        let (block, same) = (mapped(0x6d00_0000_0000), mapped(0x6d10_0000_0000));
        let noted = Written::note(&range(&block));
        if let Some(written) = &noted {
            let _ = written.take();
            same.range().sub(0, 1).expect("inside").write(&[1]).expect("fits");
            assert_eq!(written.take().map(|pages| pages.len()), Some(1), "the same page, by another address");
        }
        assert!(noted.is_none());
    }

    #[test]
    fn locked_memory_is_a_devices_perhaps() {
        let block = HostBlock::new(4096).expect("memory");
        assert!(!devices_may_write());
        // SAFETY: the page is the block's, and stays as it is.
        let locked = unsafe { libc::mlock(block.pointer().0 as *const libc::c_void, 4096) };
        if locked == 0 {
            assert!(devices_may_write());
            // SAFETY: as above.
            let unlocked = unsafe { libc::munlock(block.pointer().0 as *const libc::c_void, 4096) };
            assert_eq!((unlocked, devices_may_write()), (0, false));
        }
    }

    #[test]
    fn memory_that_is_mapped_anew_is_not_known() {
        let block = HostBlock::new(BYTES).expect("memory");
        let range = range(&block);
        let Some(written) = Written::note(&range) else { return };
        drop(block);
        let _other = HostBlock::at(floe_abi::HostPointer(range.start), BYTES);
        assert_eq!((written.peek(), written.take()), (None, None));
    }
}
