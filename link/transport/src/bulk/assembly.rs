//! Which chunks of one transfer have come.
//! In: chunks as an untrusted peer places them. Out: whether each chunk fits, and when all have arrived.
//! Chunks never overlap, so the thread that claimed a chunk writes its bytes without a lock.

use floe_wire::{PIECE_BYTES, chunk_bytes};

/// A transfer's chunks, one bit for each.
#[derive(Debug)]
pub(super) struct Assembly {
    bytes: usize,
    claimed: u8,
    /// Chunks that have not arrived.
    left: u32,
}

/// A chunk was claimed, and is to be completed once.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Claimed(());

impl Assembly {
    /// A transfer of `bytes`, of which nothing has arrived. `None`: it is empty or too large.
    pub(super) fn new(bytes: usize) -> Option<Self> {
        let chunks = u32::try_from(bytes.div_ceil(chunk_bytes(bytes))).ok();
        let left = chunks.filter(|_| (1..=PIECE_BYTES).contains(&bytes))?;
        Some(Self { bytes, claimed: 0, left })
    }

    /// Claims a chunk that begins to arrive; `Err` says what is wrong with it.
    pub(super) fn claim(&mut self, offset: u64, bytes: usize) -> Result<Claimed, &'static str> {
        let offset =
            usize::try_from(offset).ok().filter(|offset| *offset < self.bytes).ok_or("it begins behind the end")?;
        let step = chunk_bytes(self.bytes);
        if !offset.is_multiple_of(step) {
            return Err("no chunk begins there");
        }
        if bytes != step.min(self.bytes - offset) {
            return Err("its length is not that of the chunk there");
        }
        let chunk = 1 << (offset / step);
        if self.claimed & chunk != 0 {
            return Err("it has arrived before");
        }
        self.claimed |= chunk;
        Ok(Claimed(()))
    }

    /// The chunk has arrived. Returns whether all have.
    pub(super) fn complete(&mut self, _claimed: Claimed) -> bool {
        self.left -= 1;
        self.left == 0
    }
}

#[cfg(test)]
mod tests {
    use floe_wire::CHUNK_BYTES;

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
    fn chunks_that_do_not_fit_are_refused() {
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
    fn transfers_have_up_to_four_chunks_which_are_the_longer_the_longer_they_are() {
        let fits = |bytes: usize| Assembly::new(bytes).is_some();
        assert_eq!([0, 1, PIECE_BYTES, PIECE_BYTES + 1].map(fits), [false, true, true, false]);
        for (bytes, step) in [(1, 1), (4, 1), (5, 2), (8, 2), (9, 3), (16, 4)] {
            let (bytes, step) = (bytes * CHUNK_BYTES, step * CHUNK_BYTES);
            let mut assembly = Assembly::new(bytes).expect("a transfer");
            assert!(step == CHUNK_BYTES || assembly.claim(CHUNK_BYTES as u64, step).is_err(), "{bytes}");
            let starts = (0..bytes).step_by(step);
            let claims: Vec<_> = starts.map(|at| assembly.claim(at as u64, step.min(bytes - at))).collect();
            assert!(claims.len() <= 4 && claims.iter().all(Result::is_ok), "{bytes}");
            let whole = claims.into_iter().map(|claim| assembly.complete(claim.expect("it is in order")));
            assert_eq!(whole.filter(|whole| *whole).count(), 1, "{bytes}");
        }
    }
}
