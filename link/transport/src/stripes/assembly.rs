//! Which chunks of one transfer have come.
//! In: chunks as a peer that is not trusted places them. Out: whether each has its place, and when all have come.
//! No byte has two chunks: who has claimed one may write its place without a lock.

use floe_wire::CHUNK_BYTES;

/// The most chunks of one transfer.
const MOST_CHUNKS: usize = u64::BITS as usize;

/// A transfer's chunks, one bit for each.
#[derive(Debug)]
pub(super) struct Assembly {
    bytes: usize,
    claimed: u64,
    /// How many have not come.
    left: u32,
}

/// A chunk was claimed, and is to be completed once.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Claimed(());

impl Assembly {
    /// A transfer of `bytes`, of which nothing has come. `None`: it has none, or too many.
    pub(super) fn new(bytes: usize) -> Option<Self> {
        let chunks = bytes.div_ceil(CHUNK_BYTES);
        let left = u32::try_from(chunks).ok().filter(|_| (1..=MOST_CHUNKS).contains(&chunks))?;
        Some(Self { bytes, claimed: 0, left })
    }

    /// A chunk begins to come; `Err` says what is wrong with it.
    pub(super) fn claim(&mut self, offset: u64, bytes: usize) -> Result<Claimed, &'static str> {
        let offset = usize::try_from(offset).ok().filter(|offset| *offset < self.bytes).ok_or("it begins behind it")?;
        if !offset.is_multiple_of(CHUNK_BYTES) {
            return Err("no chunk begins there");
        }
        if bytes != CHUNK_BYTES.min(self.bytes - offset) {
            return Err("it is not as long as the chunk there");
        }
        let chunk = 1 << (offset / CHUNK_BYTES);
        if self.claimed & chunk != 0 {
            return Err("it has come before");
        }
        self.claimed |= chunk;
        Ok(Claimed(()))
    }

    /// The chunk has come; whether all have.
    pub(super) fn complete(&mut self, _claimed: Claimed) -> bool {
        self.left -= 1;
        self.left == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_come_in_any_order_and_the_last_makes_it_whole() {
        let bytes = 2 * CHUNK_BYTES + 5;
        let mut assembly = Assembly::new(bytes).expect("a transfer");
        let tail = assembly.claim(2 * CHUNK_BYTES as u64, 5).expect("the tail");
        let first = assembly.claim(0, CHUNK_BYTES).expect("the first");
        assert!(!assembly.complete(tail));
        let second = assembly.claim(CHUNK_BYTES as u64, CHUNK_BYTES).expect("the second");
        assert!(!assembly.complete(second));
        assert!(assembly.complete(first));
    }

    #[test]
    fn what_has_no_place_is_refused() {
        let bytes = CHUNK_BYTES + 5;
        let mut assembly = Assembly::new(bytes).expect("a transfer");
        let chunk = CHUNK_BYTES as u64;
        assert!(assembly.claim(0, CHUNK_BYTES).is_ok());
        for (offset, bytes) in [
            (0, CHUNK_BYTES),
            (0, 5),
            (1, CHUNK_BYTES),
            (chunk, CHUNK_BYTES),
            (chunk, 4),
            (chunk, 0),
            (2 * chunk, 0),
            (2 * chunk, 5),
            (u64::MAX, 5),
            (u64::MAX - chunk + 1, CHUNK_BYTES),
        ] {
            assert!(assembly.claim(offset, bytes).is_err(), "{bytes} at {offset}");
        }
        assert!(assembly.claim(chunk, 5).is_ok());
    }

    #[test]
    fn transfers_have_between_one_and_sixty_four_chunks() {
        let fits = |bytes: usize| Assembly::new(bytes).is_some();
        assert_eq!([0, 1, 64 * CHUNK_BYTES, 64 * CHUNK_BYTES + 1].map(fits), [false, true, true, false]);
        let mut largest = Assembly::new(64 * CHUNK_BYTES).expect("a transfer");
        assert!(largest.claim(63 * CHUNK_BYTES as u64, CHUNK_BYTES).is_ok());
    }
}
