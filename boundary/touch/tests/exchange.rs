//! Private pages of a process that are exchanged for a file's and back, while its threads and its system calls use them,
//! at forks, and where a device has them. Where the kernel cannot make faults of system calls wait, nothing is exchanged.
#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::mut_from_ref,
    missing_docs,
    reason = "a test may fail"
)]

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::ops::Range;
use std::os::fd::FromRawFd as _;
use std::os::unix::fs::FileExt as _;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use floe_touch::{Exchanged, Mapping, PAGE, shared_file};

/// Private pages of the test's.
struct Pages {
    range: Range<u64>,
}

impl Pages {
    fn new(count: u64) -> Self {
        let (bytes, access) = ((count * PAGE).try_into().unwrap(), libc::PROT_READ | libc::PROT_WRITE);
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: new pages at an address of the system's choice.
        let at = unsafe { libc::mmap(ptr::null_mut(), bytes, access, kind, -1, 0) };
        assert_ne!(at, libc::MAP_FAILED);
        Self { range: at as u64..at as u64 + count * PAGE }
    }

    fn word(&self, offset: u64) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8) && self.range.start + offset < self.range.end);
        // SAFETY: inside the pages, which live as long as this; they are only used as such words.
        unsafe { &*((self.range.start + offset) as *const AtomicU64) }
    }

    fn bytes(&self, offset: u64, count: usize) -> &mut [u8] {
        assert!(self.range.start + offset + count as u64 <= self.range.end);
        // SAFETY: inside the pages, and each test uses them by one thread.
        unsafe { std::slice::from_raw_parts_mut((self.range.start + offset) as *mut u8, count) }
    }

    /// Whether they are of a file that is shared, of this process alone, or unlike each other.
    fn kind(&self) -> &'static str {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        if shared_file(&maps, &self.range).is_some() {
            return "shared";
        }
        let alone = |it: Mapping<'_>| !it.is_shared && it.inode == 0;
        if Mapping::among(&maps, &self.range).all(alone) { "private" } else { "other" }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: mapped by this, and nobody uses them any more.
        unsafe { libc::munmap(self.range.start as *mut libc::c_void, (self.range.end - self.range.start) as usize) };
    }
}

/// `None` where this machine cannot exchange pages at all.
fn exchanged(pages: &Pages) -> Option<(Exchanged, File)> {
    let exchanged = Exchanged::begin(&pages.range);
    assert!(exchanged.is_some() || !can(), "a machine that exchanges pages exchanges these");
    exchanged.map(|exchanged| {
        let file = File::from(exchanged.file().unwrap());
        (exchanged, file)
    })
}

/// Whether this machine exchanges pages, by what it does with the simplest ones.
fn can() -> bool {
    let can = Exchanged::begin(&Pages::new(1).range).is_some();
    if !can {
        eprintln!("not tested: this kernel, or its operator, exchanges no pages");
    }
    can
}

#[test]
fn what_is_written_to_exchanged_pages_is_in_the_file_and_stays_when_they_are_private_again() {
    // More than one piece, and not a whole number of them.
    let pages = Pages::new(5000);
    pages.bytes(0, 3).copy_from_slice(&[1, 2, 3]);
    pages.word(4999 * PAGE).store(77, Ordering::Relaxed);
    let Some((exchanged, file)) = exchanged(&pages) else {
        return assert_eq!(pages.word(4999 * PAGE).load(Ordering::Relaxed), 77);
    };
    assert_eq!((pages.kind(), pages.bytes(0, 3).to_vec()), ("shared", vec![1, 2, 3]));
    let mut seen = [0; 3];
    file.read_exact_at(&mut seen, 0).unwrap();
    assert_eq!(seen, [1, 2, 3]);
    pages.bytes(10 * PAGE, 1)[0] = 9;
    file.read_exact_at(&mut seen, 10 * PAGE).unwrap();
    assert_eq!(seen, [9, 0, 0]);
    file.write_all_at(&[5], 4000 * PAGE).unwrap();
    assert_eq!(pages.bytes(4000 * PAGE, 1), [5]);
    drop(exchanged);
    assert_eq!(pages.kind(), "private");
    assert_eq!(
        (pages.bytes(0, 3).to_vec(), pages.bytes(10 * PAGE, 1)[0], pages.bytes(4000 * PAGE, 1)[0]),
        (vec![1, 2, 3], 9, 5)
    );
    assert_eq!(pages.word(4999 * PAGE).load(Ordering::Relaxed), 77);
    assert!(file.write_all_at(&[6], 0).is_err(), "nobody writes there any more");
}

#[test]
fn no_write_of_threads_and_system_calls_is_lost() {
    if !can() {
        return;
    }
    let (pages, over, read) = (Pages::new(64), AtomicBool::new(false), AtomicU64::new(0));
    let (mut from, mut to) = std::io::pipe().unwrap();
    std::thread::scope(|scope| {
        let counters: Vec<_> = (0..3u64)
            .map(|thread| {
                let (pages, over) = (&pages, &over);
                scope.spawn(move || {
                    let mut count = 0;
                    while !over.load(Ordering::Relaxed) {
                        count += 1;
                        for page in 0..32 {
                            // A word that is lost, or old, is not one more than before.
                            let before = pages.word(page * PAGE + thread * 8).fetch_add(1, Ordering::Relaxed);
                            assert_eq!(before, count - 1);
                        }
                    }
                    count
                })
            })
            .collect();
        let (pages, over, read) = (&pages, &over, &read);
        scope.spawn(move || {
            for value in 0u64.. {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                to.write_all(&value.to_ne_bytes()).unwrap();
            }
        });
        let reads = scope.spawn(move || {
            // The kernel writes, across the border of two pages.
            let mut expected = 0u64;
            let word = pages.bytes(41 * PAGE - 4, 8);
            while from.read_exact(word).is_ok() {
                assert_eq!(word, expected.to_ne_bytes());
                expected += 1;
                read.store(expected, Ordering::Relaxed);
            }
            expected
        });
        let mut turns = 0;
        // On a busy machine the threads that write and read may begin late.
        while turns < 200 || (read.load(Ordering::Relaxed) == 0 && !reads.is_finished()) {
            let exchanged = Exchanged::begin(&pages.range);
            turns += u32::from(exchanged.is_some());
        }
        over.store(true, Ordering::Relaxed);
        for (thread, counter) in counters.into_iter().enumerate() {
            let count = counter.join().unwrap();
            for page in 0..32 {
                assert_eq!(pages.word(page * PAGE + thread as u64 * 8).load(Ordering::Relaxed), count);
            }
        }
        assert!(reads.join().unwrap() > 0);
    });
    assert_eq!(pages.kind(), "private");
}

/// What a forked child returns.
fn in_child(code: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child does what `code` does, which takes no lock, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let code = code();
        // SAFETY: ends the process.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: waits for the child just made.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { -libc::WTERMSIG(status) }
}

#[test]
fn a_forked_child_has_pages_of_its_own_as_they_were() {
    let pages = Pages::new(3);
    pages.word(PAGE).store(5, Ordering::Relaxed);
    let Some((exchanged, _file)) = exchanged(&pages) else { return };
    let (mut from, mut to) = std::io::pipe().unwrap();
    let (mut ready, mut tells) = std::io::pipe().unwrap();
    std::thread::scope(|scope| {
        let parents = scope.spawn(|| {
            ready.read_exact(&mut [0]).unwrap();
            pages.word(PAGE).store(6, Ordering::Relaxed);
            to.write_all(&[1]).unwrap();
        });
        let seen = in_child(|| {
            tells.write_all(&[1]).unwrap();
            from.read_exact(&mut [0]).unwrap();
            let seen = pages.word(PAGE).swap(40, Ordering::Relaxed);
            i32::try_from(seen + pages.word(PAGE).load(Ordering::Relaxed)).unwrap()
        });
        assert_eq!(seen, 45, "what was there at the fork, and then what the child wrote");
        parents.join().unwrap();
    });
    assert_eq!((pages.word(PAGE).load(Ordering::Relaxed), pages.kind()), (6, "shared"));
    drop(exchanged);
    assert_eq!(in_child(|| i32::try_from(pages.word(PAGE).load(Ordering::Relaxed)).unwrap()), 6);
}

#[test]
fn a_fork_beside_an_unmapping_ends_nobody() {
    if !can() {
        return;
    }
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let forks = scope.spawn(|| {
            let mut count = 0;
            while !over.load(Ordering::Relaxed) {
                assert_eq!(in_child(|| 3), 3);
                count += 1;
            }
            count
        });
        // A fork copies for a while what was mapped as it began.
        for _ in 0..300 {
            let pages = Pages::new(1024);
            let exchanged = Exchanged::begin(&pages.range);
            std::thread::yield_now();
            drop(pages);
            drop(exchanged);
        }
        over.store(true, Ordering::Relaxed);
        assert!(forks.join().unwrap() > 0);
    });
}

#[test]
fn what_the_program_has_mapped_elsewhere_meanwhile_is_left_alone() {
    let pages = Pages::new(4);
    let Some((exchanged, _file)) = exchanged(&pages) else { return };
    let (at, access) = ((pages.range.start + PAGE) as *mut libc::c_void, libc::PROT_READ | libc::PROT_WRITE);
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    // SAFETY: a page of the test's own.
    assert_eq!(unsafe { libc::mmap(at, 4096, access, kind, -1, 0) }, at);
    pages.word(PAGE).store(3, Ordering::Relaxed);
    assert_eq!(in_child(|| i32::try_from(pages.word(PAGE).load(Ordering::Relaxed)).unwrap()), 3);
    drop(exchanged);
    assert_eq!(pages.word(PAGE).load(Ordering::Relaxed), 3);
}

#[test]
fn memory_that_cannot_be_exchanged_stays_as_it_is() {
    let pages = Pages::new(4);
    let Range { start, end } = pages.range;
    pages.word(8).store(1, Ordering::Relaxed);
    for range in [start + 8..end, start..end - 8, start..start, start..end + (1 << 30)] {
        assert!(Exchanged::begin(&range).is_none(), "{range:x?}");
    }
    // Locked pages, and a part of the first thread's stack.
    // SAFETY: pages of the test's own.
    assert_eq!(unsafe { libc::mlock(start as *const libc::c_void, 4096) }, 0);
    assert!(Exchanged::begin(&(start..start + PAGE)).is_none());
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let stack = maps.lines().filter_map(Mapping::of_line).find(|it| it.path == "[stack]").unwrap().addresses;
    assert!(Exchanged::begin(&(stack.end - 2 * PAGE..stack.end - PAGE)).is_none());
    // The calling thread's own.
    let here = 0u8;
    let page = ptr::from_ref(&here) as u64 / PAGE * PAGE;
    assert!(Exchanged::begin(&(page..page + PAGE)).is_none());
    assert_eq!((pages.kind(), pages.word(8).load(Ordering::Relaxed)), ("private", 1));
}

/// A ring of the kernel's that has these pages for its transfers, as a network card has.
fn pin(pages: &Pages) -> Option<File> {
    let mut parameters = [0u32; 30];
    // SAFETY: `struct io_uring_params` has 120 bytes.
    let ring = unsafe { libc::syscall(libc::SYS_io_uring_setup, 4, parameters.as_mut_ptr()) };
    let ring = i32::try_from(ring).ok().filter(|ring| *ring >= 0)?;
    // SAFETY: made for us just now.
    let file = unsafe { File::from_raw_fd(ring) };
    let buffer = [pages.range.start, pages.range.end - pages.range.start];
    // SAFETY: operation 0 registers buffers, of which one `struct iovec` is given.
    let done = unsafe { libc::syscall(libc::SYS_io_uring_register, ring, 0, buffer.as_ptr(), 1) };
    (done == 0).then_some(file)
}

#[test]
fn pages_that_a_device_has_stay_where_they_are() {
    let pages = Pages::new(8);
    pages.word(0).store(1, Ordering::Relaxed);
    let Some(pinned) = pin(&pages) else { return };
    assert!(Exchanged::begin(&pages.range).is_none(), "a transfer would go elsewhere");
    assert_eq!((pages.kind(), pages.word(0).load(Ordering::Relaxed)), ("private", 1));
    drop(pinned);
    // The kernel lets go of them when the ring is really gone.
    let begun = std::time::Instant::now();
    let exchanged = loop {
        match Exchanged::begin(&pages.range) {
            None if can() && begun.elapsed().as_secs() < 30 => std::thread::yield_now(),
            done => break done,
        }
    };
    let Some(exchanged) = exchanged else { return };
    let pinned = pin(&pages).unwrap();
    drop(exchanged);
    assert_eq!((pages.kind(), pages.word(0).load(Ordering::Relaxed)), ("shared", 1), "the device has these");
    drop(pinned);
}
