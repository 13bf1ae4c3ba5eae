//! Words of mirrored memory that streams write: operations come in when they are issued and leave when they are complete.
//! Until then the client is not told of the values that they write: what their streams did before may not have been sent.
//! It is pure: it looks at no memory.

use std::ops::Range;

use floe_abi::WordOperation;

/// One word that a command writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct WordWrite {
    sequence: u64,
    at: u64,
    bytes: usize,
    value: u64,
}

/// Those that are not complete.
#[derive(Debug, Default)]
pub(super) struct WordWrites(Vec<WordWrite>);

impl WordWrites {
    /// A command writes these of the words.
    pub(super) fn add<'a>(&mut self, sequence: u64, words: impl Iterator<Item = &'a WordOperation>) {
        self.0.extend(words.filter_map(|word| match *word {
            WordOperation::Write { at, bytes, value } => {
                Some(WordWrite { sequence, at: at.0, bytes: bytes as usize, value })
            }
            _ => None,
        }));
    }

    /// A command is complete. Returns the words that it wrote, in their order.
    pub(super) fn end(&mut self, sequence: u64) -> Vec<Range<u64>> {
        let (ended, left): (Vec<_>, _) = self.0.iter().partition(|write| write.sequence == sequence);
        self.0 = left;
        ended.iter().map(|write| write.at..write.at.saturating_add(write.bytes as u64)).collect()
    }

    /// None is left: the context is another one.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Makes the words among these bytes, which begin at the address `start`, what the client has, where they are as a
    /// command writes them.
    pub(super) fn leave(&self, start: u64, known: &[u8], now: &mut [u8]) {
        let end = start + now.len() as u64;
        for WordWrite { at, bytes, value, .. } in &self.0 {
            let place = start.max(*at)..end.min(at.saturating_add(*bytes as u64));
            let offset = |from: u64| usize::try_from(place.start.checked_sub(from)?).ok();
            let Some((word, piece)) = offset(*at).zip(offset(start)).filter(|_| !place.is_empty()) else { continue };
            let length = usize::try_from(place.end - place.start).unwrap_or_default();
            let written = value.to_le_bytes();
            if now[piece..piece + length] == written[word..word + length] {
                now[piece..piece + length].copy_from_slice(&known[piece..piece + length]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use floe_abi::DevicePtr;

    use super::*;

    fn write(at: u64, bytes: u32, value: u64) -> WordOperation {
        WordOperation::Write { at: DevicePtr(at), bytes, value }
    }

    #[test]
    fn a_word_is_left_until_its_command_is_complete_and_only_as_that_writes_it() {
        let mut writes = WordWrites::default();
        writes.add(7, [write(104, 4, 0x0403_0201), write(92, 8, u64::MAX)].iter());
        let (known, word) = ([0; 16], [1, 2, 3, 4]);
        let mut now = [9; 16];
        now[4..8].copy_from_slice(&word);
        writes.leave(100, &known, &mut now);
        assert_eq!(now, [9, 9, 9, 9, 0, 0, 0, 0, 9, 9, 9, 9, 9, 9, 9, 9]);
        // Something else has written it.
        let mut now = [1, 2, 3, 5];
        writes.leave(104, &known[..4], &mut now);
        assert_eq!(now, [1, 2, 3, 5]);
        // A half of it, at the end of a piece and at the beginning of one.
        let (mut end, mut beginning) = ([9, 1, 2], [3, 4, 9]);
        writes.leave(103, &known[..3], &mut end);
        writes.leave(106, &known[..3], &mut beginning);
        assert_eq!((end, beginning), ([9, 0, 0], [0, 0, 9]));
        assert_eq!(writes.end(6), []);
        assert_eq!(writes.end(7), [104..108, 92..100]);
        let mut now = word;
        writes.leave(104, &known[..4], &mut now);
        assert_eq!(now, word);
    }

    #[test]
    fn words_at_the_end_of_all_addresses_are_no_trouble() {
        let mut writes = WordWrites::default();
        writes.add(1, [write(u64::MAX - 1, 8, 0)].iter());
        writes.leave(16, &[1; 4], &mut [0; 4]);
        assert_eq!(writes.end(1).first(), Some(&(u64::MAX - 1..u64::MAX)));
    }
}
