//! One side of a pair of rings: what it writes the other reads, and the other way round.
//! In: bytes and threads that wait; that the other side is gone, from whoever notices. Out: bytes copied, threads woken.
//! One thread at a time writes, one reads; any number may wait. The order of the bytes is theirs, not kept here.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::fs::{FallocateFlags, fallocate};

use crate::line::{self, BadIndex, End, Line, Reader, Writer};
use crate::memory::{Memory, Words};
use crate::seal::{demand_memory, sealed_memory};

/// The fewest bytes of one direction: a page.
pub const LEAST_BYTES: usize = 4 << 10;
/// The most bytes of one direction: beyond what a processor keeps near, more only costs memory.
pub const MOST_BYTES: usize = 16 << 20;
/// How long who ends the rings waits for threads that have not noticed.
const NOTICED: Duration = Duration::from_micros(50);

/// One side of a pair of rings.
#[derive(Debug)]
pub struct Ring {
    memory: Memory,
    capacity: u64,
    /// Which direction this side writes.
    writes: usize,
    writer: Mutex<Writer>,
    reader: Mutex<Reader>,
    /// How far this side's ends have come, for threads that wait: the other side can change what is in the memory.
    written: AtomicU64,
    taken: AtomicU64,
    over: AtomicBool,
    /// Threads of this side that sleep, or are about to.
    sleepers: AtomicU32,
}

/// One direction, as this side sees it.
struct Direction<'a> {
    ring: &'a Ring,
    number: usize,
}

impl Ring {
    /// Rings of `bytes` (a power of two) in each direction, in memory of their own, whose descriptor the other side takes.
    ///
    /// # Errors
    /// The system's own, where there is no such memory.
    ///
    /// # Panics
    /// When the number of bytes is none of a ring's.
    pub fn offer(bytes: usize) -> io::Result<(Self, OwnedFd)> {
        assert!(is_size(bytes), "no size of a ring: {bytes}");
        let whole = Memory::bytes(bytes) as u64;
        let file = sealed_memory("floe-rings", whole)?;
        // Memory that is not there ends a process that touches it.
        fallocate(&file, FallocateFlags::empty(), 0, whole)?;
        Ok((Self::new(Memory::map(file.as_fd(), bytes)?, bytes, 0), file))
    }

    /// The other side of rings that were offered with `bytes` in each direction.
    ///
    /// # Errors
    /// `InvalidInput` where the descriptor is not of such memory, or the bytes are no size of a ring; the system's own.
    pub fn take(file: impl AsFd, bytes: u64) -> io::Result<Self> {
        let wrong = |words: String| io::Error::new(io::ErrorKind::InvalidInput, words);
        let size = usize::try_from(bytes).ok().filter(|bytes| is_size(*bytes));
        let size = size.ok_or_else(|| wrong(format!("no size of a ring: {bytes}")))?;
        demand_memory(&file, Memory::bytes(size) as u64).map_err(|error| wrong(error.to_string()))?;
        Ok(Self::new(Memory::map(file.as_fd(), size)?, size, 1))
    }

    fn new(memory: Memory, bytes: usize, writes: usize) -> Self {
        Self {
            memory,
            capacity: bytes as u64,
            writes,
            writer: Mutex::default(),
            reader: Mutex::default(),
            written: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            over: AtomicBool::new(false),
            sleepers: AtomicU32::new(0),
        }
    }

    /// Copies in as many of the bytes as there is room for, up to some limit; how many. 0: there is no room.
    ///
    /// # Errors
    /// [`BadIndex`] when the other side is where it cannot be.
    pub fn write(&self, bytes: &[u8]) -> Result<usize, BadIndex> {
        let mut writer = lock(&self.writer);
        let count = writer.write(&self.outgoing(), bytes)?;
        self.written.store(writer.written(), Ordering::Release);
        Ok(count)
    }

    /// As [`Ring::write`], but all of the bytes or none.
    ///
    /// # Errors
    /// As [`Ring::write`].
    #[inline]
    pub fn write_whole(&self, bytes: &[u8]) -> Result<usize, BadIndex> {
        let mut writer = lock(&self.writer);
        let count = writer.write_whole(&self.outgoing(), bytes)?;
        self.written.store(writer.written(), Ordering::Release);
        Ok(count)
    }

    /// Copies out as many bytes as there are, up to some limit; how many. 0: there are none.
    ///
    /// # Errors
    /// [`BadIndex`] when the other side is where it cannot be.
    pub fn read(&self, target: &mut [u8]) -> Result<usize, BadIndex> {
        let mut reader = lock(&self.reader);
        let count = reader.read(&self.incoming(), target)?;
        self.taken.store(reader.taken(), Ordering::Release);
        Ok(count)
    }

    /// Whether there are bytes to read, or the other side is where it cannot be.
    #[must_use]
    pub fn has_bytes(&self) -> bool {
        line::has_bytes(&self.incoming(), self.taken.load(Ordering::Acquire))
    }

    /// Whether half of the ring is free to write to, or the other side is where it cannot be.
    #[must_use]
    pub fn has_room(&self) -> bool {
        line::has_room(&self.outgoing(), self.written.load(Ordering::Acquire))
    }

    /// Sleeps until there are bytes, the rings are over, or `time` is; it may return too early.
    pub fn sleep_for_bytes(&self, time: Option<Duration>) {
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        line::sleep_for_bytes(&self.incoming(), self.taken.load(Ordering::Acquire), time);
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }

    /// Sleeps until half of the ring is free, the rings are over, or `time` is; it may return too early.
    pub fn sleep_for_room(&self, time: Option<Duration>) {
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        line::sleep_for_room(&self.outgoing(), self.written.load(Ordering::Acquire), time);
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }

    /// Whether the rings are over. What has been written can still be read.
    #[must_use]
    #[inline]
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    /// The other side is gone, or this side goes: nobody sleeps here any more, and everybody who did is awake on return.
    pub fn end(&self) {
        self.over.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        loop {
            line::ring(&self.incoming(), End::Reader);
            line::ring(&self.outgoing(), End::Writer);
            if self.sleepers.load(Ordering::SeqCst) == 0 {
                return;
            }
            // Awake and about to say so, or fooled by what the other side made of the alarms: then it is rung again.
            std::thread::sleep(NOTICED);
        }
    }

    #[inline]
    fn outgoing(&self) -> Direction<'_> {
        Direction { ring: self, number: self.writes }
    }

    fn incoming(&self) -> Direction<'_> {
        Direction { ring: self, number: 1 - self.writes }
    }
}

impl Direction<'_> {
    #[inline]
    fn words(&self) -> &Words {
        self.ring.memory.words(self.number)
    }
}

impl Line for Direction<'_> {
    #[inline]
    fn capacity(&self) -> u64 {
        self.ring.capacity
    }

    #[inline]
    fn index(&self, end: End) -> u64 {
        self.words().index(end)
    }

    #[inline]
    fn set_index(&self, end: End, index: u64) {
        self.words().set_index(end, index);
    }

    #[inline]
    fn fence(&self) {
        fence(Ordering::SeqCst);
    }

    #[inline]
    fn alarm(&self, end: End) -> u32 {
        self.words().alarm(end).load(Ordering::Relaxed)
    }

    fn set_alarm(&self, end: End, bits: u32) -> u32 {
        self.words().alarm(end).fetch_or(bits, Ordering::SeqCst)
    }

    fn replace_alarm(&self, end: End, is: u32, becomes: u32) {
        // What it was instead is of no use.
        let _ = self.words().alarm(end).compare_exchange(is, becomes, Ordering::SeqCst, Ordering::Relaxed);
    }

    fn sleep(&self, end: End, alarm: u32, time: Option<Duration>) {
        self.words().sleep(end, alarm, time);
    }

    fn wake(&self, end: End) {
        self.words().wake(end);
    }

    #[inline]
    fn is_over(&self) -> bool {
        self.ring.is_over()
    }

    #[inline]
    fn put(&self, at: usize, bytes: &[u8]) {
        self.ring.memory.put(self.number, at, bytes);
    }

    #[inline]
    fn get(&self, at: usize, bytes: &mut [u8]) {
        self.ring.memory.get(self.number, at, bytes);
    }
}

fn is_size(bytes: usize) -> bool {
    bytes.is_power_of_two() && (LEAST_BYTES..=MOST_BYTES).contains(&bytes)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
