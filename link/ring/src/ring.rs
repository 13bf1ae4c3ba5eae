//! One side of a pair of rings: each side reads the bytes that the other writes.
//! In: bytes, threads that wait, and the caller's notice that the other side is gone. Out: bytes copied, threads woken.
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
/// The most bytes of one direction: beyond a processor's cache, more only costs memory.
pub const MOST_BYTES: usize = 16 << 20;
/// Pause between two checks whether all sleeping threads have noticed the end.
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
    /// The indices of this side's ends, for threads that wait: the other side can change those in the memory.
    written: AtomicU64,
    taken: AtomicU64,
    over: AtomicBool,
    /// Nothing is written: another process continues this side, or may.
    held: AtomicBool,
    /// Threads of this side that sleep, or are about to.
    sleepers: AtomicU32,
}

/// One direction, as this side sees it.
struct Direction<'a> {
    ring: &'a Ring,
    number: usize,
}

impl Ring {
    /// Makes rings of `bytes` (a power of two) in each direction, in memory of their own, and returns its descriptor
    /// for the other side.
    ///
    /// # Errors
    /// The system's own, where there is no such memory.
    ///
    /// # Panics
    /// When `bytes` is not a valid size of a ring.
    pub fn offer(bytes: usize) -> io::Result<(Self, OwnedFd)> {
        assert!(is_size(bytes), "no size of a ring: {bytes}");
        let whole = Memory::bytes(bytes) as u64;
        let file = sealed_memory("floe-rings", whole)?;
        // Allocates every page: touching one that the kernel cannot provide ends the process.
        fallocate(&file, FallocateFlags::empty(), 0, whole)?;
        Ok((Self::new(Memory::map(file.as_fd(), bytes)?, bytes, 0), file))
    }

    /// The other side of rings that were offered with `bytes` in each direction.
    ///
    /// # Errors
    /// `InvalidInput` where the descriptor does not name such memory, or `bytes` is not a valid size of a ring; the
    /// system's own.
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
            held: AtomicBool::new(false),
            sleepers: AtomicU32::new(0),
        }
    }

    /// Maps memory in which another process has the side that `offered` it or took it, and may be using it: nothing is
    /// written before [`Ring::resume`], and until then nothing may be read.
    ///
    /// # Errors
    /// As [`Ring::take`].
    pub fn expect(file: impl AsFd, bytes: u64, offered: bool) -> io::Result<Self> {
        let mut ring = Self::take(file, bytes)?;
        ring.writes = usize::from(!offered);
        ring.held.store(true, Ordering::SeqCst);
        Ok(ring)
    }

    /// The bytes that this side has written, and those that it has read.
    #[must_use]
    pub fn indices(&self) -> [u64; 2] {
        [lock(&self.writer).written(), lock(&self.reader).taken()]
    }

    /// Goes on where the other process of this side has stopped, which has written and read so many bytes.
    ///
    /// # Errors
    /// [`BadIndex`] when the other side's indices are impossible behind that; then nothing has changed.
    pub fn resume(&self, [written, taken]: [u64; 2]) -> Result<(), BadIndex> {
        let (mut writer, mut reader) = (lock(&self.writer), lock(&self.reader));
        let (of_writer, of_reader) =
            (Writer::resume(&self.outgoing(), written)?, Reader::resume(&self.incoming(), taken)?);
        (*writer, *reader) = (of_writer, of_reader);
        self.written.store(writer.written(), Ordering::Release);
        self.taken.store(reader.taken(), Ordering::Release);
        self.held.store(false, Ordering::SeqCst);
        Ok(())
    }

    /// Writes nothing from here on, until [`Ring::let_write`]: who writes finds no room.
    pub fn hold(&self) {
        // With the lock, nobody is about to write.
        let _writer = lock(&self.writer);
        self.held.store(true, Ordering::SeqCst);
    }

    /// Writes again, if nobody else has used this side meanwhile; whether it does.
    #[must_use]
    pub fn let_write(&self) -> bool {
        let (writer, reader) = (lock(&self.writer), lock(&self.reader));
        let is_untouched = writer.is_untouched(&self.outgoing()) && reader.is_untouched(&self.incoming());
        if is_untouched {
            self.held.store(false, Ordering::SeqCst);
        }
        drop((writer, reader));
        // Whoever waits for room looks again.
        line::ring(&self.outgoing(), End::Writer);
        is_untouched
    }

    /// Whether nothing is written now.
    #[must_use]
    #[inline]
    pub fn is_held(&self) -> bool {
        self.held.load(Ordering::SeqCst)
    }

    /// Whether this side made the memory.
    #[must_use]
    pub fn has_offered(&self) -> bool {
        self.writes == 0
    }

    /// Bytes of a ring in each direction.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.capacity
    }

    /// Wakes this side's threads that sleep for bytes, or are about to: they return too early.
    pub fn wake_readers(&self) {
        line::ring(&self.incoming(), End::Reader);
    }

    /// Copies in as many of the bytes as fit, up to some limit, and returns their number. 0: there is no room.
    ///
    /// # Errors
    /// [`BadIndex`] when the other side's index is impossible.
    pub fn write(&self, bytes: &[u8]) -> Result<usize, BadIndex> {
        let mut writer = lock(&self.writer);
        if self.held.load(Ordering::Relaxed) {
            return Ok(0);
        }
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
        if self.held.load(Ordering::Relaxed) {
            return Ok(0);
        }
        let count = writer.write_whole(&self.outgoing(), bytes)?;
        self.written.store(writer.written(), Ordering::Release);
        Ok(count)
    }

    /// Copies out the available bytes, up to some limit, and returns their number. 0: there are none.
    ///
    /// # Errors
    /// [`BadIndex`] when the other side's index is impossible.
    pub fn read(&self, target: &mut [u8]) -> Result<usize, BadIndex> {
        let mut reader = lock(&self.reader);
        let count = reader.read(&self.incoming(), target)?;
        self.taken.store(reader.taken(), Ordering::Release);
        Ok(count)
    }

    /// Whether there are bytes to read, or the other side's index is impossible.
    #[must_use]
    pub fn has_bytes(&self) -> bool {
        line::has_bytes(&self.incoming(), self.taken.load(Ordering::Acquire))
    }

    /// Whether half of the ring is free, or the other side's index is impossible.
    #[must_use]
    pub fn has_room(&self) -> bool {
        line::has_room(&self.outgoing(), self.written.load(Ordering::Acquire))
    }

    /// Sleeps until there are bytes, the rings have ended, or `time` is over; it may return too early.
    pub fn sleep_for_bytes(&self, time: Option<Duration>) {
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        line::sleep_for_bytes(&self.incoming(), self.taken.load(Ordering::Acquire), time);
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }

    /// Sleeps until half of the ring is free, the rings have ended, or `time` is over; it may return too early.
    pub fn sleep_for_room(&self, time: Option<Duration>) {
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        line::sleep_for_room(&self.outgoing(), self.written.load(Ordering::Acquire), time);
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }

    /// Whether the rings have ended. Written bytes can still be read.
    #[must_use]
    #[inline]
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    /// Ends the rings: either side is gone. From here on no thread sleeps here, and all sleepers are awake on return.
    pub fn end(&self) {
        self.over.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        loop {
            line::ring(&self.incoming(), End::Reader);
            line::ring(&self.outgoing(), End::Writer);
            if self.sleepers.load(Ordering::SeqCst) == 0 {
                return;
            }
            // The sleeper is awake and about to leave, or the other side has changed the alarm: then ring it again.
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
        // The actual value is not needed.
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
