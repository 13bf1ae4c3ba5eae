//! Chunks in the order in which they leave.
//! In: transfers, in the order of their commands. Out: one chunk after the other. It writes nothing and never waits.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use floe_wire::chunk_bytes;

use crate::pipes::borrowed::{BorrowedBuffer, SendMode};

/// A borrowed buffer that several connections carry. Its owner must not change it before this is dropped. That happens
/// when the last byte is at a socket, copied, or abandoned.
pub struct Load {
    borrowed: Box<dyn BorrowedBuffer + Sync>,
    counts: Arc<Counts>,
}

/// Counts the chunks of a load. It outlives the load, so the thread that reads zero left holds the last reference to
/// the load.
#[derive(Debug, Default)]
struct Counts {
    /// Queued chunks.
    waiting: AtomicUsize,
    /// Chunks that are queued, being copied, or held by a connection.
    left: AtomicUsize,
}

impl Load {
    /// Data to be carried.
    #[must_use]
    pub fn new(borrowed: Box<dyn BorrowedBuffer + Sync>) -> Arc<Self> {
        Arc::new(Self { borrowed, counts: Arc::default() })
    }

    /// How a socket is given them.
    pub(super) fn send_mode(&self) -> SendMode {
        self.borrowed.send_mode()
    }

    /// Its length in bytes.
    pub(super) fn len(&self) -> usize {
        self.borrowed.len()
    }

    /// Whether any of its chunks are queued.
    pub(super) fn waits(&self) -> bool {
        self.counts.waiting.load(Ordering::Acquire) > 0
    }

    /// Whether none of its chunks are queued or held by a connection.
    pub(super) fn is_gone(&self) -> bool {
        self.counts.left.load(Ordering::Acquire) == 0
    }
}

impl std::fmt::Debug for Load {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Load").field("counts", &self.counts).finish_non_exhaustive()
    }
}

/// A part of a transfer.
#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) transfer: u64,
    /// Its place in the transfer, in bytes.
    pub(super) offset: usize,
    /// The load that holds its bytes.
    pub(super) load: Arc<Load>,
    pub(super) place: Range<usize>,
}

impl Chunk {
    /// Gives the chunk back when no connection needs it. Returns whether it was the last of its load.
    pub(super) fn give_back(self) -> bool {
        let counts = Arc::clone(&self.load.counts);
        drop(self);
        counts.left.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Calls `see` with its bytes.
    pub(super) fn show(&self, see: &mut dyn FnMut(&[u8])) {
        self.load.borrowed.with_bytes(&mut |all| see(&all[self.place.clone()]));
    }
}

#[derive(Debug)]
struct Transfer {
    id: u64,
    load: Arc<Load>,
    place: Range<usize>,
    /// Bytes already handed out as chunks.
    done: usize,
}

impl Transfer {
    /// The size of its next chunk, in bytes.
    fn next_bytes(&self) -> usize {
        chunk_bytes(self.place.len()).min(self.place.len() - self.done)
    }
}

/// Transfers whose chunks have not all been handed out.
#[derive(Debug, Default)]
pub(super) struct Queue {
    line: VecDeque<Transfer>,
    chunks: usize,
}

impl Queue {
    /// Appends a transfer of the bytes at `place`, which is not empty.
    pub(super) fn push(&mut self, id: u64, load: &Arc<Load>, place: Range<usize>) {
        let chunks = place.len().div_ceil(chunk_bytes(place.len()));
        load.counts.waiting.fetch_add(chunks, Ordering::AcqRel);
        load.counts.left.fetch_add(chunks, Ordering::AcqRel);
        self.chunks += chunks;
        self.line.push_back(Transfer { id, load: Arc::clone(load), place, done: 0 });
    }

    /// The next chunk.
    pub(super) fn pop(&mut self) -> Option<Chunk> {
        let first = self.line.front_mut()?;
        let (offset, bytes) = (first.done, first.next_bytes());
        first.done += bytes;
        let start = first.place.start + offset;
        let (transfer, place, is_last) = (first.id, start..start + bytes, first.done == first.place.len());
        let load = if is_last { self.line.pop_front()?.load } else { Arc::clone(&first.load) };
        load.counts.waiting.fetch_sub(1, Ordering::AcqRel);
        self.chunks -= 1;
        Some(Chunk { transfer, offset, load, place })
    }

    /// The load of the next chunk, and the chunk's size in bytes.
    pub(super) fn first(&self) -> Option<(&Load, usize)> {
        self.line.front().map(|first| (&*first.load, first.next_bytes()))
    }

    /// The number of queued chunks.
    pub(super) fn chunks(&self) -> usize {
        self.chunks
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use floe_wire::CHUNK_BYTES;

    use super::*;

    struct Bytes(Vec<u8>, Arc<Mutex<bool>>);

    impl BorrowedBuffer for Bytes {
        fn len(&self) -> usize {
            self.0.len()
        }
        fn with_bytes(&self, write: &mut dyn FnMut(&[u8])) {
            write(&self.0);
        }
    }

    impl Drop for Bytes {
        fn drop(&mut self) {
            *self.1.lock().expect("no test panics with it") = true;
        }
    }

    #[test]
    fn transfers_are_cut_in_order_and_the_data_go_back_with_their_last_chunk() {
        let gone = Arc::new(Mutex::new(false));
        let data: Vec<u8> = (0..3 * CHUNK_BYTES).map(|index| (index / 1000).to_le_bytes()[0]).collect();
        let (load, mut queue) = (Load::new(Box::new(Bytes(data.clone(), Arc::clone(&gone)))), Queue::default());
        queue.push(7, &load, 10..CHUNK_BYTES + 11);
        queue.push(9, &load, CHUNK_BYTES..2 * CHUNK_BYTES);
        assert_eq!(queue.chunks(), 3);
        drop(load);
        let mut seen = Vec::new();
        while let Some(chunk) = queue.pop() {
            chunk.show(&mut |bytes| assert_eq!(bytes, &data[chunk.place.clone()]));
            assert!(!*gone.lock().expect("no test panics with it"));
            seen.push((chunk.transfer, chunk.offset, chunk.place.clone()));
            let (load, is_last) = (Arc::downgrade(&chunk.load), chunk.transfer == 9);
            chunk.give_back();
            assert_eq!(load.upgrade().is_none_or(|load| load.is_gone()), is_last);
        }
        let expected = [
            (7, 0, 10..10 + CHUNK_BYTES),
            (7, CHUNK_BYTES, 10 + CHUNK_BYTES..11 + CHUNK_BYTES),
            (9, 0, CHUNK_BYTES..2 * CHUNK_BYTES),
        ];
        assert_eq!(seen, expected);
        assert_eq!((queue.chunks(), *gone.lock().expect("no test panics with it")), (0, true));
    }
}
