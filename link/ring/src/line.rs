//! One direction of a ring: who may copy what, and who wakes whom. Pure: memory, atomics and sleep are a trait's.
//! In: bytes to be written, room to read into, the two indices both sides share. Out: bytes copied, sleepers woken.
//!
//! Each side counts the bytes it has gone through and tells the other by its index; the two differ by what lies in the ring.
//! A side remembers its own index and only ever reads the other's, which it checks, for the other side may write anything.
//!
//! Whoever sleeps marks the alarm of what it waits for and looks once more; whoever moves its index looks at the alarm
//! afterwards. Between each two stands a fence, so at least one of them sees the other. An alarm counts its rings, and a
//! sleeper names the count it has marked: one that was rung before its sleep began does not begin it.

use std::time::Duration;

use thiserror::Error;

/// The most bytes copied between two moves of an index, so that both sides copy at the same time.
const STRIDE: usize = 64 << 10;

/// The part of an alarm that says that somebody sleeps; the rest counts its rings.
const MARK: u32 = 1;

/// One of the two who use a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Who copies bytes in; as an alarm: wakes who waits for room.
    Writer,
    /// Who copies bytes out; as an alarm: wakes who waits for bytes.
    Reader,
}

/// The other side says that it is where it cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the other side of a ring of {capacity} bytes says it has gone through {said} bytes, this side through: {own}")]
pub struct BadIndex {
    /// Bytes of the ring.
    pub capacity: u64,
    /// What the other side says.
    pub said: u64,
    /// What this side knows of itself.
    pub own: u64,
}

/// What two ends share, and how this process sleeps.
pub(crate) trait Line {
    /// Bytes of the ring, a power of two.
    fn capacity(&self) -> u64;
    /// How many bytes an end has gone through, as it says; acquires what it did before it said so.
    fn index(&self, end: End) -> u64;
    /// Says so, releasing what was done before.
    fn set_index(&self, end: End, index: u64);
    /// What is stored before is seen before what is loaded after, by everybody: a sequentially consistent fence.
    fn fence(&self);
    /// The alarm that wakes this end.
    fn alarm(&self, end: End) -> u32;
    /// Sets these bits of it; what it was before. Sequentially consistent.
    fn set_alarm(&self, end: End, bits: u32) -> u32;
    /// Replaces it, if it is still what is said. Sequentially consistent.
    fn replace_alarm(&self, end: End, is: u32, becomes: u32);
    /// Sleeps, if the alarm is still what is said, until somebody wakes or `time` is over.
    fn sleep(&self, end: End, alarm: u32, time: Option<Duration>);
    /// Wakes everybody who sleeps by this alarm.
    fn wake(&self, end: End);
    /// Whether this side has given the line up.
    fn is_over(&self) -> bool;
    /// Copies bytes in; they do not reach beyond the end.
    fn put(&self, at: usize, bytes: &[u8]);
    /// Copies bytes out; they do not reach beyond the end.
    fn get(&self, at: usize, bytes: &mut [u8]);
}

/// The end that copies bytes in.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    written: u64,
    /// How far the reader has come, as seen last.
    taken: u64,
}

impl Writer {
    /// Copies in what there is room for, a stride at most; how many bytes. 0: there is no room.
    ///
    /// # Errors
    /// [`BadIndex`] when the reader is where it cannot be.
    pub(crate) fn write(&mut self, line: &impl Line, bytes: &[u8]) -> Result<usize, BadIndex> {
        let wish = bytes.len().min(STRIDE);
        // Whether there is or not, it is known now how much there is.
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

    /// Copies all of the bytes in, or none: 0 where there is no room for them or they are more than a stride.
    ///
    /// # Errors
    /// [`BadIndex`] when the reader is where it cannot be.
    #[inline]
    pub(crate) fn write_whole(&mut self, line: &impl Line, bytes: &[u8]) -> Result<usize, BadIndex> {
        if bytes.is_empty() || bytes.len() > STRIDE || !self.has_room_for(line, bytes.len())? {
            return Ok(0);
        }
        self.copy_in(line, bytes);
        Ok(bytes.len())
    }

    /// How many bytes have been copied in.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Whether there is room for so many bytes; asks the reader only where there was not.
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
    /// How far the writer has come, as seen last.
    written: u64,
}

impl Reader {
    /// Copies out what is there, a stride at most; how many bytes. 0: there is nothing.
    ///
    /// # Errors
    /// [`BadIndex`] when the writer is where it cannot be.
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
        // Woken for a little room, the writer would sleep again after it.
        if is_marked(line, End::Writer) && there - count as u64 <= line.capacity() / 2 {
            ring(line, End::Writer);
        }
        Ok(count)
    }

    /// How many bytes have been copied out.
    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }
}

/// Whether a reader that has `taken` so many bytes finds something.
pub(crate) fn has_bytes(line: &impl Line, taken: u64) -> bool {
    line.index(End::Writer) != taken
}

/// Whether a writer that has `written` so many bytes finds half of the ring free. Nonsense of the reader is found, too.
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

/// Wakes everybody who sleeps for this end, or is about to.
pub(crate) fn ring(line: &impl Line, end: End) {
    let marked = line.alarm(end) | MARK;
    // Whoever else changes it meanwhile rings it too, or marks what is marked.
    line.replace_alarm(end, marked, marked.wrapping_add(1));
    line.wake(end);
}

fn mark(line: &impl Line, end: End) -> u32 {
    line.set_alarm(end, MARK) | MARK
}

fn is_marked(line: &impl Line, end: End) -> bool {
    line.alarm(end) & MARK != 0
}

/// What the other side says, if there lie as many bytes between the two as the ring has, at most.
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
