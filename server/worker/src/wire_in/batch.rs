//! Frames that were read together, in one piece of memory.
//! In: frames, from the reader. Out: the same frames in the same order, as commands that borrow from the batch.
//! It is filled again when its commands have been issued, so that a small command costs no memory of its own.

use floe_transport::LinkError;

use crate::memory::transfer_buffers::UploadRange;

/// Bytes from which on a batch is pushed although more has been read: the issuer begins meanwhile.
const FULL: usize = 16 << 10;
/// The most bytes a batch keeps when it is emptied: a batch that is pushed when it is full, grown by doubling.
const KEPT: usize = 4 * FULL;
/// The cost of a waiting batch beside its own memory.
const OVERHEAD: usize = 64;

/// One frame as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Command<'a> {
    pub(crate) sequence: u64,
    pub(crate) kind: u16,
    pub(crate) payload: &'a [u8],
    /// The transfer buffer's range with its data, which the payload then lacks.
    pub(crate) range: Option<UploadRange>,
}

/// Commands in the order they came.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    entries: Vec<Entry>,
    payloads: Vec<u8>,
    /// Bytes that its commands take elsewhere.
    elsewhere: usize,
}

#[derive(Debug)]
struct Entry {
    sequence: u64,
    /// The end of its payload in the batch; it begins at the end of the one before.
    end: usize,
    kind: u16,
    range: Option<UploadRange>,
}

impl Batch {
    /// Appends a command.
    pub(crate) fn push(&mut self, command: Command<'_>) {
        self.payloads.extend_from_slice(command.payload);
        self.seal(command.sequence, command.kind, command.range);
    }

    /// Appends a command whose payload is `head` and `bytes` more, which `read` writes.
    ///
    /// # Errors
    /// Those of `read`; the batch is then as it was.
    pub(crate) fn push_read(
        &mut self,
        (sequence, kind): (u64, u16),
        head: &[u8],
        bytes: usize,
        read: impl FnOnce(&mut [u8]) -> Result<(), LinkError>,
    ) -> Result<(), LinkError> {
        let begin = self.payloads.len();
        self.payloads.reserve_exact(head.len() + bytes);
        self.payloads.extend_from_slice(head);
        let data = self.payloads.len();
        self.payloads.resize(data + bytes, 0);
        let outcome = read(&mut self.payloads[data..]);
        if outcome.is_err() {
            self.payloads.truncate(begin);
        } else {
            self.seal(sequence, kind, None);
        }
        outcome
    }

    /// Appends a command whose payload is the first `bytes` bytes of `words`.
    pub(crate) fn push_words(&mut self, (sequence, kind): (u64, u16), bytes: usize, words: impl Iterator<Item = u64>) {
        let end = self.payloads.len() + bytes;
        words.for_each(|word| self.payloads.extend_from_slice(&word.to_le_bytes()));
        self.payloads.truncate(end);
        self.seal(sequence, kind, None);
    }

    /// The sequence of the first command.
    pub(crate) fn first(&self) -> Option<u64> {
        self.entries.first().map(|entry| entry.sequence)
    }

    /// The payload that was appended last ends here.
    fn seal(&mut self, sequence: u64, kind: u16, range: Option<UploadRange>) {
        self.entries.push(Entry { sequence, end: self.payloads.len(), kind, range });
    }

    /// The commands, in the order they were appended.
    pub(crate) fn commands(&self) -> impl Iterator<Item = Command<'_>> {
        let mut begin = 0;
        self.entries.iter().map(move |entry| {
            let payload = &self.payloads[begin..entry.end];
            begin = entry.end;
            Command { sequence: entry.sequence, kind: entry.kind, payload, range: entry.range }
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether it is pushed although more has been read.
    pub(crate) fn is_full(&self) -> bool {
        self.payloads.len() + self.entries.len() * size_of::<Entry>() >= FULL
    }

    /// A command of it takes so many more bytes elsewhere.
    pub(crate) fn costs(&mut self, bytes: usize) {
        self.elsewhere += bytes;
    }

    /// The memory it takes, in bytes.
    pub(crate) fn cost(&self) -> usize {
        OVERHEAD + self.elsewhere + self.payloads.capacity() + self.entries.capacity() * size_of::<Entry>()
    }

    /// The empty batch, which keeps its memory when that is not much.
    pub(crate) fn emptied(mut self) -> Self {
        self.empty();
        self
    }

    /// Takes all commands out; memory is kept when it is not much.
    pub(crate) fn empty(&mut self) {
        self.entries.clear();
        self.payloads.clear();
        self.elsewhere = 0;
        self.payloads.shrink_to(KEPT);
        self.entries.shrink_to(KEPT / size_of::<Entry>());
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;

    fn command(sequence: u64, payload: &[u8]) -> Command<'_> {
        Command { sequence, kind: 7, payload, range: None }
    }

    #[test]
    fn commands_come_out_as_they_went_in() {
        let mut batch = Batch::default();
        batch.push(command(1, b"one"));
        batch.push(command(2, b""));
        let read = |target: &mut [u8]| {
            target.copy_from_slice(b"ee");
            Ok(())
        };
        batch.push_read((3, 7), b"thr", 2, read).unwrap();
        let expected = [command(1, b"one"), command(2, b""), command(3, b"three")];
        assert_eq!(batch.commands().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn frame_that_cannot_be_read_is_not_in_the_batch() {
        let mut batch = Batch::default();
        batch.push(command(1, b"one"));
        assert!(batch.push_read((2, 7), b"head", 9, |_| Err(LinkError::Closed)).is_err());
        batch.push(command(3, b"three"));
        assert_eq!(batch.commands().collect::<Vec<_>>(), [command(1, b"one"), command(3, b"three")]);
    }

    #[test]
    fn emptied_batch_takes_as_much_again_without_more_memory_but_keeps_no_large_payload() {
        let mut batch = Batch::default();
        let fill = |batch: &mut Batch| {
            while !batch.is_full() {
                batch.push(command(1, &[0; 100]));
            }
        };
        fill(&mut batch);
        let mut batch = batch.emptied();
        let cost = batch.cost();
        fill(&mut batch);
        assert_eq!(batch.cost(), cost);
        batch.push(command(2, &[0; 4 << 20]));
        assert!(batch.cost() > 4 << 20);
        assert!(batch.emptied().cost() <= 2 * KEPT + OVERHEAD);
    }
}
