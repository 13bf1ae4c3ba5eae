//! One direction of a ring: which bytes an end may copy, and when it wakes the other. Pure: memory, atomics and sleep
//! are a trait's.
//! In: bytes to be written, room to read into, the two indices both sides share. Out: bytes copied, sleepers woken.
//!
//! Each side counts the bytes it has copied, and publishes the count as its index. The indices differ by the bytes in
//! the ring. A side remembers its own index, and checks the other's at every read: the other side may write anything.
//!
//! A sleeper marks the alarm of its event, then checks the index once more. An end moves its index, then checks the
//! alarm. A fence separates either pair of steps, so at least one side sees the other. An alarm counts its rings, and a
//! sleeper passes the marked count to the kernel. If the alarm rang in between, the sleep does not begin.

use std::time::Duration;

use thiserror::Error;

/// The most bytes copied between two moves of an index, so that both sides copy at the same time.
const STRIDE: usize = 64 << 10;

/// The bit of an alarm that marks a sleeper; the rest counts its rings.
const MARK: u32 = 1;

/// One of the two ends of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The end that copies bytes in. Its alarm wakes threads that wait for room.
    Writer,
    /// The end that copies bytes out. Its alarm wakes threads that wait for bytes.
    Reader,
}

/// The other side's index is impossible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the index of the other side of a ring of {capacity} bytes is impossible: {said}, this side's is: {own}")]
pub struct BadIndex {
    /// Bytes of the ring.
    pub capacity: u64,
    /// The other side's index.
    pub said: u64,
    /// This side's own index.
    pub own: u64,
}

/// The memory that two ends share, and this process's way to sleep.
pub(crate) trait Line {
    /// Bytes of the ring, a power of two.
    fn capacity(&self) -> u64;
    /// An end's index, the count of the bytes it has copied. Acquires its copies before that.
    fn index(&self, end: End) -> u64;
    /// Publishes this end's index, releasing its copies before that.
    fn set_index(&self, end: End, index: u64);
    /// A sequentially consistent fence: every thread sees the stores before it before the loads behind it.
    fn fence(&self);
    /// The alarm that wakes this end.
    fn alarm(&self, end: End) -> u32;
    /// Sets these bits of it, and returns its earlier value. Sequentially consistent.
    fn set_alarm(&self, end: End, bits: u32) -> u32;
    /// Replaces it, if it still has the expected value. Sequentially consistent.
    fn replace_alarm(&self, end: End, is: u32, becomes: u32);
    /// Sleeps while the alarm has the expected value, until a wake or until `time` is over.
    fn sleep(&self, end: End, alarm: u32, time: Option<Duration>);
    /// Wakes all threads that sleep by this alarm.
    fn wake(&self, end: End);
    /// Whether this side has ended the line.
    fn is_over(&self) -> bool;
    /// Copies bytes in; they never pass the ring's end.
    fn put(&self, at: usize, bytes: &[u8]);
    /// Copies bytes out; they never pass the ring's end.
    fn get(&self, at: usize, bytes: &mut [u8]);
}

/// The end that copies bytes in.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    written: u64,
    /// The reader's index, as read last.
    taken: u64,
}

impl Writer {
    /// Goes on with a line into which this end has copied so many bytes, in another process. What the memory says of this
    /// end is not believed.
    ///
    /// # Errors
    /// [`BadIndex`] when the reader's index is impossible.
    pub(crate) fn resume(line: &impl Line, written: u64) -> Result<Self, BadIndex> {
        let taken = checked(line, line.index(End::Reader), written, |said, own| own.wrapping_sub(said))?;
        Ok(Self { written, taken })
    }

    /// Whether the memory has this end's index as it set it last.
    pub(crate) fn is_untouched(&self, line: &impl Line) -> bool {
        line.index(End::Writer) == self.written
    }

    /// Copies in as many bytes as fit, at most a stride, and returns their number. 0: there is no room.
    ///
    /// # Errors
    /// [`BadIndex`] when the reader's index is impossible.
    pub(crate) fn write(&mut self, line: &impl Line, bytes: &[u8]) -> Result<usize, BadIndex> {
        let wish = bytes.len().min(STRIDE);
        // Either way the room is known now.
        let _ = self.has_room_for(line, wish)?;
        let count = wish.min(length(self.room(line)));
        if count > 0 {
            self.copy_in(line, &bytes[..count]);
        }
        Ok(count)
    }

    /// Copies bytes in for which there is room.
    #[inline]
    fn copy_in(&mut self, line: &impl Line, bytes: &[u8]) {
        let at = place(line, self.written);
        match bytes.split_at_checked(length(line.capacity()) - at) {
            Some((first, second)) => {
                line.put(at, first);
                line.put(0, second);
            }
            None => line.put(at, bytes),
        }
        self.written = self.written.wrapping_add(bytes.len() as u64);
        line.set_index(End::Writer, self.written);
        line.fence();
        if is_marked(line, End::Reader) {
            ring(line, End::Reader);
        }
    }

    /// Copies all of the bytes in, or none. 0: there is no room for them, or they are more than a stride.
    ///
    /// # Errors
    /// [`BadIndex`] when the reader's index is impossible.
    #[inline]
    pub(crate) fn write_whole(&mut self, line: &impl Line, bytes: &[u8]) -> Result<usize, BadIndex> {
        if bytes.is_empty() || bytes.len() > STRIDE || !self.has_room_for(line, bytes.len())? {
            return Ok(0);
        }
        self.copy_in(line, bytes);
        Ok(bytes.len())
    }

    /// The number of bytes copied in.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Whether there is room for so many bytes; reads the reader's index only if there was none.
    #[inline]
    fn has_room_for(&mut self, line: &impl Line, bytes: usize) -> Result<bool, BadIndex> {
        if self.room(line) < bytes as u64 {
            self.taken = checked(line, line.index(End::Reader), self.written, |said, own| own.wrapping_sub(said))?;
        }
        Ok(self.room(line) >= bytes as u64)
    }

    fn room(&self, line: &impl Line) -> u64 {
        line.capacity() - self.written.wrapping_sub(self.taken)
    }
}

/// The end that copies bytes out.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    taken: u64,
    /// The writer's index, as read last.
    written: u64,
}

impl Reader {
    /// As [`Writer::resume`], where so many bytes have been copied out.
    ///
    /// # Errors
    /// [`BadIndex`] when the writer's index is impossible.
    pub(crate) fn resume(line: &impl Line, taken: u64) -> Result<Self, BadIndex> {
        let written = checked(line, line.index(End::Writer), taken, u64::wrapping_sub)?;
        Ok(Self { taken, written })
    }

    /// As [`Writer::is_untouched`].
    pub(crate) fn is_untouched(&self, line: &impl Line) -> bool {
        line.index(End::Reader) == self.taken
    }

    /// Copies out available bytes, at most a stride, and returns their number. 0: there are none.
    ///
    /// # Errors
    /// [`BadIndex`] when the writer's index is impossible.
    pub(crate) fn read(&mut self, line: &impl Line, target: &mut [u8]) -> Result<usize, BadIndex> {
        if self.written == self.taken {
            self.written = checked(line, line.index(End::Writer), self.taken, u64::wrapping_sub)?;
        }
        let there = self.written.wrapping_sub(self.taken);
        let count = target.len().min(STRIDE).min(length(there));
        if count == 0 {
            return Ok(0);
        }
        let at = place(line, self.taken);
        let (first, second) = target[..count].split_at_mut(count.min(length(line.capacity()) - at));
        line.get(at, first);
        line.get(0, second);
        self.taken = self.taken.wrapping_add(count as u64);
        line.set_index(End::Reader, self.taken);
        line.fence();
        // A writer woken for a little room would soon sleep again.
        if is_marked(line, End::Writer) && there - count as u64 <= line.capacity() / 2 {
            ring(line, End::Writer);
        }
        Ok(count)
    }

    /// The number of bytes copied out.
    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }
}

/// Whether a reader that has `taken` so many bytes finds something.
pub(crate) fn has_bytes(line: &impl Line, taken: u64) -> bool {
    line.index(End::Writer) != taken
}

/// Whether a writer that has `written` so many bytes finds half of the ring free, or an impossible index.
pub(crate) fn has_room(line: &impl Line, written: u64) -> bool {
    let inside = written.wrapping_sub(line.index(End::Reader));
    inside <= line.capacity() / 2 || inside > line.capacity()
}

/// Sleeps until there is something for a reader that has `taken` so many bytes; it may return too early.
pub(crate) fn sleep_for_bytes(line: &impl Line, taken: u64, time: Option<Duration>) {
    let marked = mark(line, End::Reader);
    line.fence();
    if !has_bytes(line, taken) && !line.is_over() {
        line.sleep(End::Reader, marked, time);
    }
}

/// Sleeps until half of the ring is free for a writer that has `written` so many bytes; it may return too early.
pub(crate) fn sleep_for_room(line: &impl Line, written: u64, time: Option<Duration>) {
    let marked = mark(line, End::Writer);
    line.fence();
    if !has_room(line, written) && !line.is_over() {
        line.sleep(End::Writer, marked, time);
    }
}

/// Wakes all threads that sleep for this end, or are about to.
pub(crate) fn ring(line: &impl Line, end: End) {
    let marked = line.alarm(end) | MARK;
    // Any other change meanwhile is also a ring, or sets a mark that is already set.
    line.replace_alarm(end, marked, marked.wrapping_add(1));
    line.wake(end);
}

fn mark(line: &impl Line, end: End) -> u32 {
    line.set_alarm(end, MARK) | MARK
}

fn is_marked(line: &impl Line, end: End) -> bool {
    line.alarm(end) & MARK != 0
}

/// The other side's index, if the two differ by no more bytes than the ring has.
fn checked(line: &impl Line, said: u64, own: u64, between: impl Fn(u64, u64) -> u64) -> Result<u64, BadIndex> {
    let capacity = line.capacity();
    if between(said, own) <= capacity { Ok(said) } else { Err(BadIndex { capacity, said, own }) }
}

fn place(line: &impl Line, index: u64) -> usize {
    length(index & (line.capacity() - 1))
}

fn length(bytes: u64) -> usize {
    usize::try_from(bytes).expect("a ring fits the address space")
}

#[cfg(test)]
impl Writer {
    /// As if so many bytes had been written and read.
    pub(crate) fn at(index: u64) -> Self {
        Self { written: index, taken: index }
    }
}

#[cfg(test)]
impl Reader {
    /// As if so many bytes had been written and read.
    pub(crate) fn at(index: u64) -> Self {
        Self { taken: index, written: index }
    }
}
