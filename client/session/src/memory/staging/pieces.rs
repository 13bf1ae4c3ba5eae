//! A copy cut into pieces, which several threads take one after the other. Bytes come in, pieces go out. The calling thread waits
//! until every piece that a thread took is done; nothing is copied here.

use std::sync::{Condvar, Mutex};

use floe_transport::Spin;

use floe_lock::lock;

/// The shortest piece: for a shorter one the hand-off costs more than the copy.
const SHORTEST: usize = 128 << 10;
/// Pieces start at pages, for the device's sake.
const STEP: usize = 4096;

/// The pieces of one copy.
#[derive(Debug)]
pub(super) struct Pieces {
    bytes: usize,
    threads: usize,
    longest: usize,
    state: Mutex<State>,
    over: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The offset of the next piece.
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
        Self { bytes, threads, longest, state: Mutex::default(), over: Condvar::new() }
    }

    /// The number of threads that can have a piece.
    pub(super) fn most(&self) -> usize {
        self.bytes.div_ceil(SHORTEST)
    }

    /// The length of the next piece where so many bytes are left. The last ones are short: all threads end at about the same
    /// time, and the device has little left to do then.
    fn length(&self, left: usize) -> usize {
        let even = (left / (self.threads + 1)).next_multiple_of(STEP);
        even.clamp(SHORTEST, self.longest).min(left)
    }

    /// Whether there is one to take.
    pub(super) fn are_left(&self) -> bool {
        let state = lock(&self.state);
        !state.closed && state.next < self.bytes
    }

    /// The next piece. The caller reports [`Pieces::is_done`] in the end.
    pub(super) fn take(&self) -> Option<Piece> {
        let mut state = lock(&self.state);
        if state.closed || state.next >= self.bytes {
            return None;
        }
        let piece = Piece { offset: state.next, bytes: self.length(self.bytes - state.next) };
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

    /// Gives out no more pieces and waits until those given out are done. Returns the number of bytes that they cover
    /// from the beginning.
    pub(super) fn close(&self, spin: Spin) -> usize {
        lock(&self.state).closed = true;
        let _ = spin.look(|| (lock(&self.state).open == 0).then_some(()));
        let mut state = lock(&self.state);
        while state.open > 0 {
            state = floe_lock::wait(&self.over, state);
        }
        state.next
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, mpsc};
    use std::time::{Duration, Instant};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    fn lengths(pieces: &Pieces) -> Vec<usize> {
        std::iter::from_fn(|| pieces.take()).map(|piece| piece.bytes).collect()
    }

    #[test]
    fn pieces_cover_the_copy_and_get_shorter_towards_its_end() {
        const KIB: usize = 1 << 10;
        const MIB: usize = 1 << 20;
        for (bytes, threads, expected) in [
            (1, 1, vec![1]),
            (200 * KIB, 4, vec![128 * KIB, 72 * KIB]),
            (2 * MIB, 1, vec![MIB, 512 * KIB, 256 * KIB, 128 * KIB, 128 * KIB]),
            (MIB, 3, vec![256 * KIB, 192 * KIB, 144 * KIB, 128 * KIB, 128 * KIB, 128 * KIB, 48 * KIB]),
        ] {
            let pieces = Pieces::new(bytes, threads, MIB);
            assert_eq!(lengths(&pieces), expected);
            assert!(!pieces.are_left() && pieces.most() >= expected.len());
        }
        let pieces = Pieces::new(256 * MIB + 5, 6, MIB);
        assert_eq!(lengths(&pieces).iter().sum::<usize>(), 256 * MIB + 5);
    }

    #[test]
    fn closing_waits_for_taken_pieces_and_returns_their_bytes() {
        let pieces = Arc::new(Pieces::new(8 << 20, 1, 1 << 20));
        assert_eq!(pieces.take(), Some(Piece { offset: 0, bytes: 1 << 20 }));
        assert_eq!(pieces.take(), Some(Piece { offset: 1 << 20, bytes: 1 << 20 }));
        pieces.is_done();
        let (closed, closing) = mpsc::channel();
        let closes = Arc::clone(&pieces);
        std::thread::spawn(move || closed.send(closes.close(Spin::default())));
        // Some are left, until it closes.
        let soon = Instant::now() + PATIENCE;
        while pieces.are_left() {
            assert!(Instant::now() < soon, "it does not close");
            std::thread::yield_now();
        }
        assert_eq!(closing.try_recv(), Err(mpsc::TryRecvError::Empty));
        assert_eq!(pieces.take(), None);
        pieces.is_done();
        assert_eq!(closing.recv_timeout(PATIENCE), Ok(2 << 20));
    }
}
