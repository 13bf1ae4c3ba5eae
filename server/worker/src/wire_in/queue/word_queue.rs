//! Small commands on their way from the reader to the issuer, in a queue of words that each side touches without a lock.
//! In: commands, from the one thread that writes. Out: the same in the same order, to the one that takes them.
//! A lock and a batch are costly for a dozen cache lines that both threads write. Each goes from one processor to the
//! other, one after the other, in 0.1 µs. Here only the command's lines and one index go.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::wire_in::batch::{Batch, Command};

/// Words of the queue, a power of two: as many launches as a program is ahead of a busy issuer now and then.
const WORDS: usize = 16 << 10;
/// The longest payload.
const LONGEST: usize = 1 << 10;
/// Words before a payload: its length and kind, its sequence.
const HEAD: usize = 2;

/// The state that only the writing thread writes, on cache lines of its own: two, since processors fetch pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Writer {
    /// Words it has gone through.
    index: AtomicUsize,
    /// The taker's index when the writer last looked.
    seen: AtomicUsize,
}

/// The same of the thread that takes: words it has gone through.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Taker(AtomicUsize);

/// The queue.
#[derive(Debug)]
pub(super) struct WordQueue {
    slots: Box<[AtomicU64]>,
    writer: Writer,
    taker: Taker,
}

impl WordQueue {
    pub(super) fn new() -> Self {
        Self {
            slots: (0..WORDS).map(|_| AtomicU64::new(0)).collect(),
            writer: Writer::default(),
            taker: Taker::default(),
        }
    }

    /// Writes a command. False: it is too long, or has data elsewhere, or there is no room.
    pub(super) fn write(&self, command: &Command<'_>) -> bool {
        let Command { sequence, kind, payload, range } = *command;
        if payload.len() > LONGEST || range.is_some() {
            return false;
        }
        let start = self.writer.index.load(Ordering::Relaxed);
        let end = start.wrapping_add(HEAD + payload.len().div_ceil(8));
        let is_full = |taken: usize| end.wrapping_sub(taken) > WORDS;
        if is_full(self.writer.seen.load(Ordering::Relaxed)) {
            let taken = self.taker.0.load(Ordering::Acquire);
            self.writer.seen.store(taken, Ordering::Relaxed);
            if is_full(taken) {
                return false;
            }
        }
        self.set(start, payload.len() as u64 | u64::from(kind) << 32);
        self.set(start.wrapping_add(1), sequence);
        let (whole, rest) = payload.as_chunks::<8>();
        let mut at = start.wrapping_add(HEAD);
        for word in whole {
            self.set(at, u64::from_le_bytes(*word));
            at = at.wrapping_add(1);
        }
        if !rest.is_empty() {
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            self.set(at, u64::from_le_bytes(word));
        }
        self.writer.index.store(end, Ordering::Release);
        true
    }

    /// Whether there is a command.
    pub(super) fn any(&self) -> bool {
        self.written() != self.taker.0.load(Ordering::Relaxed)
    }

    /// The writer's index; the caller sees everything that the writer did before.
    pub(super) fn written(&self) -> usize {
        self.writer.index.load(Ordering::Acquire)
    }

    /// Takes commands that lie before `end` and whose sequence is below `limit` into a batch, until that is full.
    pub(super) fn take(&self, batch: &mut Batch, end: usize, limit: u64) {
        let mut at = self.taker.0.load(Ordering::Relaxed);
        while at != end && !batch.is_full() {
            let (head, sequence) = (self.get(at), self.get(at.wrapping_add(1)));
            if sequence >= limit {
                break;
            }
            let [a, b, c, d, e, f, ..] = head.to_le_bytes();
            let (length, kind) = (u32::from_le_bytes([a, b, c, d]) as usize, u16::from_le_bytes([e, f]));
            let start = at.wrapping_add(HEAD);
            let words = (0..length.div_ceil(8)).map(|index| self.get(start.wrapping_add(index)));
            batch.push_words((sequence, kind), length, words);
            at = start.wrapping_add(length.div_ceil(8));
        }
        self.taker.0.store(at, Ordering::Release);
    }

    fn set(&self, at: usize, word: u64) {
        self.slots[at % WORDS].store(word, Ordering::Relaxed);
    }

    fn get(&self, at: usize) -> u64 {
        self.slots[at % WORDS].load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(sequence: u64, payload: &[u8]) -> Command<'_> {
        Command { sequence, kind: 7, payload, range: None }
    }

    #[test]
    fn commands_of_every_length_come_out_as_they_went_in_round_after_round() {
        let (words, mut batch) = (WordQueue::new(), Batch::default());
        let payload: Vec<u8> = (0..LONGEST).map(|index| (index % 251).to_le_bytes()[0]).collect();
        for sequence in 0..2000 {
            let payload = &payload[..usize::try_from(sequence * 37).unwrap_or_default() % (LONGEST + 1)];
            assert!(words.write(&command(sequence, payload)));
            words.take(&mut batch, words.written(), u64::MAX);
            assert!(batch.commands().eq([command(sequence, payload)]));
            batch = batch.emptied();
        }
        assert!(!words.any());
    }

    #[test]
    fn a_command_that_is_too_long_or_finds_no_room_is_refused() {
        let (words, mut batch) = (WordQueue::new(), Batch::default());
        assert!(!words.write(&command(0, &[0; LONGEST + 1])));
        let fit = (0..).take_while(|sequence| words.write(&command(*sequence, &[1; LONGEST]))).count();
        assert_eq!(fit, WORDS / (HEAD + LONGEST / 8));
        words.take(&mut batch, words.written(), 1);
        assert_eq!(batch.commands().count(), 1);
        assert!(words.write(&command(1000, &[2; LONGEST])));
        assert!(!words.write(&command(1001, &[2; LONGEST])));
    }
}
