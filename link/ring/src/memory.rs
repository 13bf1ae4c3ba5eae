//! The memory of two rings, mapped: first the indices and alarms of both directions, then the bytes of both.
//! In: a descriptor of memory that cannot shrink. Out: atomics and copies, always inside.
//! No reference into the bytes ever exists: the other side may write them at any time.
#![allow(unsafe_code, reason = "memory is mapped, and two processes copy into it and out of it, by pointer")]

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::thread::futex;

use crate::line::End;

/// Bytes before the first ring's: one page.
const HEAD: usize = 4096;
/// The kernel counts sleepers with a sign.
const EVERYBODY: u32 = u32::MAX >> 1;

/// A value alone in the memory that a processor fetches at once: two lines of 64 bytes.
#[repr(C, align(128))]
struct Alone<T>(T);

/// The indices and alarms of one direction. Any bytes are valid.
#[repr(C)]
pub(crate) struct Words {
    written: Alone<AtomicU64>,
    taken: Alone<AtomicU64>,
    for_room: Alone<AtomicU32>,
    for_bytes: Alone<AtomicU32>,
}

const _: () = assert!(2 * size_of::<Words>() <= HEAD && HEAD.is_multiple_of(align_of::<Words>()));

impl Words {
    #[inline]
    pub(crate) fn index(&self, end: End) -> u64 {
        self.place(end).load(Ordering::Acquire)
    }

    #[inline]
    pub(crate) fn set_index(&self, end: End, index: u64) {
        self.place(end).store(index, Ordering::Release);
    }

    #[inline]
    pub(crate) fn alarm(&self, end: End) -> &AtomicU32 {
        match end {
            End::Writer => &self.for_room.0,
            End::Reader => &self.for_bytes.0,
        }
    }

    pub(crate) fn sleep(&self, end: End, alarm: u32, time: Option<Duration>) {
        let time = time.and_then(|time| futex::Timespec::try_from(time).ok());
        // Rung already, interrupted or timed out: the caller checks the index itself.
        let _ = futex::wait(self.alarm(end), futex::Flags::empty(), alarm, time.as_ref());
    }

    pub(crate) fn wake(&self, end: End) {
        // A wake fails only if no thread sleeps.
        let _ = futex::wake(self.alarm(end), futex::Flags::empty(), EVERYBODY);
    }

    fn place(&self, end: End) -> &AtomicU64 {
        match end {
            End::Writer => &self.written.0,
            End::Reader => &self.taken.0,
        }
    }
}

/// The memory of both directions; unmapped when dropped.
#[derive(Debug)]
pub(crate) struct Memory {
    start: usize,
    /// Of one ring.
    capacity: usize,
}

impl Memory {
    /// The bytes of memory for rings of `capacity` bytes.
    pub(crate) fn bytes(capacity: usize) -> usize {
        HEAD + 2 * capacity
    }

    /// Maps memory of so many bytes that cannot shrink.
    pub(crate) fn map(file: BorrowedFd<'_>, capacity: usize) -> Result<Self, Errno> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: no address is requested, so the mapping replaces no other memory.
        let start = unsafe { mmap(std::ptr::null_mut(), Self::bytes(capacity), access, MapFlags::SHARED, file, 0) }?;
        Ok(Self { start: start.expose_provenance(), capacity })
    }

    /// The indices and alarms of direction 0 or 1.
    #[inline]
    pub(crate) fn words(&self, direction: usize) -> &Words {
        assert!(direction < 2, "no such direction: {direction}");
        let at = std::ptr::with_exposed_provenance::<Words>(self.start + direction * size_of::<Words>());
        // SAFETY: the page is aligned and stays mapped as long as `self`, and any bytes are valid atomics. This process
        // and the other change them atomically; a process that does not harms nothing that it could not harm anyway.
        unsafe { &*at }
    }

    /// Copies bytes to where byte `at` of a direction's ring is.
    #[inline]
    pub(crate) fn put(&self, direction: usize, at: usize, bytes: &[u8]) {
        let to = self.range(direction, at, bytes.len());
        // SAFETY: the range lies inside the mapping, into which no reference exists; the source is this process's own
        // memory.
        unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) }
    }

    /// Copies bytes from there.
    pub(crate) fn get(&self, direction: usize, at: usize, bytes: &mut [u8]) {
        let from = self.range(direction, at, bytes.len());
        // SAFETY: as in `put`; any value that the other process writes meanwhile is a valid byte.
        unsafe { from.copy_to_nonoverlapping(bytes.as_mut_ptr(), bytes.len()) }
    }

    #[inline]
    fn range(&self, direction: usize, at: usize, bytes: usize) -> *mut u8 {
        let inside = at.checked_add(bytes).is_some_and(|end| end <= self.capacity);
        assert!(direction < 2 && inside, "{bytes} bytes at {at} of a ring of: {}", self.capacity);
        std::ptr::with_exposed_provenance_mut(self.start + HEAD + direction * self.capacity + at)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: `map` mapped it, and every reference into it is borrowed from `self`.
        let _ = unsafe { munmap(std::ptr::with_exposed_provenance_mut(self.start), Self::bytes(self.capacity)) };
    }
}
