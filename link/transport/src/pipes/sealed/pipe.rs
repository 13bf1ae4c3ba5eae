//! A pipe that seals its bytes into records, and sends these over another pipe.
//! In: a socket, a key for either direction. Out: the peer's bytes in order, or the end.
//! The pipe fails at the first byte that was changed, dropped, repeated or reordered. A cut looks like an end, since
//! every frame carries its length. It reads record by record as long as the socket may still be handed to another
//! process.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::Duration;

use rustix::io::Errno;

use super::direction::{Direction, LENGTH, RECORD, SealedKeys, Suite, TAG};
use crate::error::Failure;
use crate::pipes::pipe::{Pipe, Reach, Slot};

/// Bytes of the largest record, with its length and tag.
const LARGEST: usize = LENGTH + RECORD + TAG;
/// The most bytes of one read: two of the largest records.
const READ_AHEAD: usize = 2 * LARGEST;
/// Room at first; a connection with small records needs no more.
const FIRST_ROOM: usize = 16 << 10;

/// A connection of sealed records.
#[derive(Debug)]
pub(crate) struct Sealed {
    under: Arc<dyn Pipe>,
    sending: Mutex<Sending>,
    reading: Mutex<Reading>,
}

#[derive(Debug)]
struct Sending {
    direction: Direction,
    /// Room for the current record.
    record: Vec<u8>,
}

#[derive(Debug)]
struct Reading {
    direction: Direction,
    bytes: Vec<u8>,
    /// Opened bytes that are not yet read: `bytes[opened..until]`.
    opened: usize,
    until: usize,
    /// Bytes that are not yet opened: `bytes[start..end]`, behind the opened ones.
    start: usize,
    end: usize,
    /// Whether reads stop at the current record.
    by_record: bool,
}

/// The result of a look for bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Taken {
    Some,
    Nothing,
    Closed,
}

impl Reading {
    fn new(direction: Direction) -> Self {
        Self { direction, bytes: vec![0; FIRST_ROOM], opened: 0, until: 0, start: 0, end: 0, by_record: true }
    }

    fn has_opened(&self) -> bool {
        self.opened < self.until
    }

    /// Whether a read succeeds or fails without asking the socket.
    fn is_ready(&self) -> bool {
        self.has_opened() || !matches!(self.missing(), Ok(1..))
    }

    /// Bytes of the current record's content, once its length has arrived.
    fn content(&self) -> Result<Option<usize>, Errno> {
        let Some(length) = self.bytes[self.start..self.end].first_chunk() else { return Ok(None) };
        match usize::try_from(u32::from_le_bytes(*length)) {
            Ok(bytes @ 1..=RECORD) => Ok(Some(bytes)),
            _ => Err(Errno::BADMSG),
        }
    }

    /// Unread bytes of the current record, or of its length.
    fn missing(&self) -> Result<usize, Errno> {
        let whole = self.content()?.map_or(LENGTH, |content| LENGTH + content + TAG);
        Ok(whole.saturating_sub(self.end - self.start))
    }

    /// Makes room for so many more bytes. No opened byte may be left.
    fn make_room(&mut self, missing: usize) {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.end + missing > self.bytes.len() {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.end + missing > self.bytes.len() {
            self.bytes.resize(READ_AHEAD, 0);
        }
    }

    /// Opens the current record, which is whole, into `target` where all of it fits, and returns its size.
    fn open_into(&mut self, target: &mut [u8]) -> Result<Option<usize>, Errno> {
        let content = self.content()?.ok_or(Errno::BADMSG)?;
        let Some(target) = target.get_mut(..content) else { return Ok(None) };
        let (from, to) = (self.start + LENGTH, self.start + LENGTH + content);
        self.direction.open_into(&self.bytes[from..to + TAG], target)?;
        self.start = to + TAG;
        Ok(Some(content))
    }

    /// Reads the missing bytes of the current record by `read`, which may find nothing yet. Reads none while opened
    /// bytes are left.
    fn take_in(&mut self, mut read: impl FnMut(&mut [u8]) -> Result<Option<usize>, Failure>) -> Result<Taken, Failure> {
        while !self.has_opened() {
            let missing = self.missing()?;
            if missing == 0 {
                break;
            }
            self.make_room(missing);
            let until = if self.by_record { self.end + missing } else { self.bytes.len() };
            match read(&mut self.bytes[self.end..until])? {
                None => return Ok(Taken::Nothing),
                Some(0) => return Ok(Taken::Closed),
                Some(count) => self.end += count,
            }
        }
        Ok(Taken::Some)
    }

    /// Opens the current record, which is whole.
    fn open(&mut self) -> Result<(), Errno> {
        let content = self.content()?.ok_or(Errno::BADMSG)?;
        let (from, to) = (self.start + LENGTH, self.start + LENGTH + content);
        self.direction.open(&mut self.bytes[from..to + TAG])?;
        (self.opened, self.until, self.start) = (from, to, to + TAG);
        Ok(())
    }

    /// Hands opened bytes out.
    fn give(&mut self, target: &mut [u8]) -> usize {
        let count = target.len().min(self.until - self.opened);
        target[..count].copy_from_slice(&self.bytes[self.opened..self.opened + count]);
        self.opened += count;
        count
    }

    fn read(
        &mut self,
        target: &mut [u8],
        read: impl FnMut(&mut [u8]) -> Result<Option<usize>, Failure>,
    ) -> Result<Option<usize>, Failure> {
        match self.take_in(read)? {
            Taken::Some if self.has_opened() => {}
            Taken::Some => {
                // A large record is opened straight into its place.
                if let Some(count) = self.open_into(target)? {
                    return Ok(Some(count));
                }
                self.open()?;
            }
            Taken::Nothing => return Ok(None),
            Taken::Closed => return Ok(Some(0)),
        }
        Ok(Some(self.give(target)))
    }
}

impl Sealed {
    pub(super) fn new(under: Arc<dyn Pipe>, sending: Direction, receiving: Direction) -> Self {
        Self {
            under,
            sending: Mutex::new(Sending { direction: sending, record: Vec::new() }),
            reading: Mutex::new(Reading::new(receiving)),
        }
    }

    /// Continues a connection of another process. `None`: its cipher is unknown.
    pub(crate) fn resume(under: Arc<dyn Pipe>, keys: &SealedKeys) -> Option<Self> {
        let suite = Suite::of(keys.suite)?;
        let sending = Direction::new(suite, keys.sending, keys.sent);
        Some(Self::new(under, sending, Direction::new(suite, keys.receiving, keys.received)))
    }

    /// What another process needs to continue the socket. `None`: received bytes are still unread.
    pub(crate) fn keys(&self) -> Option<SealedKeys> {
        let (sending, reading) = (self.lock_sending(), self.lock_reading());
        if reading.has_opened() || reading.start != reading.end {
            return None;
        }
        let suite = reading.direction.suite().number();
        let ((sending, sent), (receiving, received)) = (sending.direction.state(), reading.direction.state());
        Some(SealedKeys { suite, sending, sent, receiving, received })
    }

    /// Allows reads of several records at once from here on.
    pub(crate) fn read_ahead(&self) {
        self.lock_reading().by_record = false;
    }

    fn lock_sending(&self) -> MutexGuard<'_, Sending> {
        floe_lock::lock(&self.sending)
    }

    fn lock_reading(&self) -> MutexGuard<'_, Reading> {
        floe_lock::lock(&self.reading)
    }
}

impl Pipe for Sealed {
    fn write(&self, mut head: &[u8], mut tail: &[u8]) -> Result<(), Failure> {
        let mut sending = self.lock_sending();
        let Sending { direction, record } = &mut *sending;
        while !head.is_empty() || !tail.is_empty() {
            let (first, rest) = head.split_at(head.len().min(RECORD));
            let (second, after) = tail.split_at(tail.len().min(RECORD - first.len()));
            (head, tail) = (rest, after);
            let whole = LENGTH + first.len() + second.len() + TAG;
            if record.len() < whole {
                record.resize(whole.next_power_of_two().min(LARGEST), 0);
            }
            let bytes = direction.seal(first, second, record)?;
            self.under.write(&record[..bytes], &[])?;
        }
        Ok(())
    }

    fn write_with(&self, _head: &[u8], _tail: &[u8], _descriptor: BorrowedFd<'_>) -> Result<(), Failure> {
        Err(Errno::OPNOTSUPP.into())
    }

    fn limit_writes(&self, time: Option<Duration>) -> Result<(), Failure> {
        self.under.limit_writes(time)
    }

    fn read_now(&self, target: &mut [u8], _slot: Slot<'_>) -> Result<Option<usize>, Failure> {
        self.lock_reading().read(target, |bytes| self.under.read_now(bytes, None))
    }

    fn read(&self, target: &mut [u8], _slot: Slot<'_>) -> Result<Option<usize>, Failure> {
        // Sleeping with this lock held is safe: threads that wait only try to take it.
        self.lock_reading().read(target, |bytes| self.under.read(bytes, None))
    }

    fn wait(&self, time: Option<Duration>) -> Result<bool, Failure> {
        // Where another thread reads, it takes the bytes that arrive.
        if self.is_ahead() { Ok(true) } else { self.under.wait(time) }
    }

    fn is_ahead(&self) -> bool {
        match self.reading.try_lock() {
            Ok(reading) => reading.is_ready(),
            Err(TryLockError::Poisoned(poisoned)) => poisoned.get_ref().is_ready(),
            // Another thread reads, and gives them.
            Err(TryLockError::WouldBlock) => false,
        }
    }

    fn end(&self) {
        self.under.end();
    }

    fn reach(&self) -> Reach {
        Reach::Network
    }

    fn descriptor(&self) -> Option<OwnedFd> {
        None
    }
}
