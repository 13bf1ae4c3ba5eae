//! A copy cut into pieces, which several threads take one after the other. Bytes come in, places in the copy go out; who
//! called waits until every piece that was taken is done. Nothing is copied here.

use std::sync::{Condvar, Mutex, PoisonError};

use floe_transport::Spin;

use crate::table::lock;

/// The shortest piece: shorter ones cost more to hand over than to copy.
const SHORTEST: usize = 128 << 10;
/// Pieces of each thread, so that one that is held up is not waited for.
const EACH: usize = 4;
/// Pieces start at pages, for the device's sake.
const STEP: usize = 4096;

/// The pieces of one copy.
#[derive(Debug)]
pub(super) struct Pieces {
    bytes: usize,
    length: usize,
    state: Mutex<State>,
    over: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Where the next piece begins.
    next: usize,
    /// Pieces that are taken and not done.
    open: usize,
    closed: bool,
}

/// A piece's place in the copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) offset: usize,
    pub(super) bytes: usize,
}

impl Pieces {
    /// Pieces for so many threads, none longer than `longest`.
    pub(super) fn new(bytes: usize, threads: usize, longest: usize) -> Self {
        let even = (bytes / (threads * EACH)).next_multiple_of(STEP);
        let length = even.clamp(SHORTEST, longest);
        Self { bytes, length, state: Mutex::default(), over: Condvar::new() }
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.bytes.div_ceil(self.length)
    }

    /// Whether there is one to take.
    pub(super) fn are_left(&self) -> bool {
        let state = lock(&self.state);
        !state.closed && state.next < self.bytes
    }

    /// The next piece. Whoever takes it says [`Pieces::is_done`] in the end.
    pub(super) fn take(&self) -> Option<Piece> {
        let mut state = lock(&self.state);
        if state.closed || state.next >= self.bytes {
            return None;
        }
        let piece = Piece { offset: state.next, bytes: self.length.min(self.bytes - state.next) };
        state.next += piece.bytes;
        state.open += 1;
        Some(piece)
    }

    /// A piece that was taken is done.
    pub(super) fn is_done(&self) {
        let mut state = lock(&self.state);
        state.open -= 1;
        if state.open == 0 && state.closed {
            drop(state);
            self.over.notify_all();
        }
    }

    /// Gives out no more pieces and waits until those given out are done. How many bytes they have from the beginning on.
    pub(super) fn close(&self, spin: Spin) -> usize {
        lock(&self.state).closed = true;
        let _ = spin.look(|| (lock(&self.state).open == 0).then_some(()));
        let mut state = lock(&self.state);
        while state.open > 0 {
            state = self.over.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(pieces: &Pieces) -> Vec<usize> {
        std::iter::from_fn(|| pieces.take()).map(|piece| piece.bytes).collect()
    }

    #[test]
    fn pieces_cover_the_copy_and_suit_the_threads() {
        for (bytes, threads, most, expected) in [
            (1, 1, 1 << 20, vec![1]),
            (200 << 10, 4, 1 << 20, vec![128 << 10, 72 << 10]),
            (4 << 20, 4, 1 << 20, vec![256 << 10; 16]),
            ((4 << 20) + 1, 1, 1 << 20, vec![1 << 20, 1 << 20, 1 << 20, 1 << 20, 1]),
        ] {
            let pieces = Pieces::new(bytes, threads, most);
            assert_eq!(pieces.count(), expected.len());
            assert_eq!(lengths(&pieces), expected);
            assert!(!pieces.are_left());
        }
    }

    #[test]
    fn who_closes_waits_for_what_was_taken_and_hears_how_much_that_is() {
        let pieces = Pieces::new(8 << 20, 1, 1 << 20);
        assert_eq!(pieces.take(), Some(Piece { offset: 0, bytes: 1 << 20 }));
        assert_eq!(pieces.take(), Some(Piece { offset: 1 << 20, bytes: 1 << 20 }));
        pieces.is_done();
        std::thread::scope(|scope| {
            let closing = scope.spawn(|| pieces.close(Spin::default()));
            // Some are left, until it closes.
            while pieces.are_left() {
                std::thread::yield_now();
            }
            assert!(!closing.is_finished());
            assert_eq!(pieces.take(), None);
            pieces.is_done();
            assert_eq!(closing.join().unwrap(), 2 << 20);
        });
    }
}
