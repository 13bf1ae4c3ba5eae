//! Copy-ahead buffers: threads without a connection copy chunks into them, so that a writer hands a socket pages and
//! copies nothing.
//! In: chunks to copy. Out: memory for each, and the copies in the order of their chunks. It never waits.

use std::collections::VecDeque;

use floe_wire::{PIECE_BYTES, chunk_bytes};
use memmap2::{Advice, MmapMut};

/// The most copy-ahead buffers: as many as sockets hold until the peer acknowledges them, and a few more.
const MOST: usize = 32;
/// Bytes of each: a chunk of the largest transfers.
pub(super) const SLOT_BYTES: usize = chunk_bytes(PIECE_BYTES);

/// Memory of a chunk, unmapped on drop. The kernel does not reuse its pages while a socket holds them.
#[derive(Debug)]
pub(super) struct Slot(MmapMut);

/// A chunk that has been copied.
#[derive(Debug)]
pub(super) struct Staged {
    pub(super) transfer: u64,
    /// Its place in the transfer, in bytes.
    pub(super) offset: usize,
    bytes: usize,
    slot: Slot,
}

impl Staged {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.slot.0[..self.bytes]
    }

    /// Returns the memory, for another chunk.
    pub(super) fn into_slot(self) -> Slot {
        self.slot
    }
}

/// A chunk that is being copied.
#[derive(Debug)]
pub(super) struct Copying {
    slot: Slot,
    /// Its index.
    number: u64,
}

impl Copying {
    /// Copies the bytes of a chunk.
    pub(super) fn copy(&mut self, bytes: &[u8]) {
        self.slot.0[..bytes.len()].copy_from_slice(bytes);
    }
}

/// The copies of one session.
#[derive(Debug, Default)]
pub(super) struct Staging {
    /// Bytes of a load from which on its chunks are copied; `None`: never.
    least: Option<usize>,
    /// Used last, taken first: its bytes are in the processor's cache.
    free: Vec<Slot>,
    made: usize,
    /// In the order of their chunks; `None`: still being copied.
    line: VecDeque<Option<Staged>>,
    /// Copies that have left the queue.
    left: u64,
}

impl Staging {
    /// Turns copying ahead on for loads of at least so many bytes.
    pub(super) fn turn_on(&mut self, least: usize) {
        self.least = Some(least);
    }

    /// Whether chunks of a load of so many bytes are copied.
    pub(super) fn suits(&self, bytes: usize) -> bool {
        self.least.is_some_and(|least| bytes >= least)
    }

    /// The number of chunks that may be copied now.
    pub(super) fn room(&self) -> usize {
        self.free.len() + (MOST - self.made)
    }

    /// Starts the copy of the next chunk. `None`: no buffer is free.
    pub(super) fn begin(&mut self) -> Option<Copying> {
        let slot = self.free.pop().or_else(|| self.make())?;
        let number = self.left + self.line.len() as u64;
        self.line.push_back(None);
        Some(Copying { slot, number })
    }

    fn make(&mut self) -> Option<Slot> {
        let memory = if self.made < MOST { MmapMut::map_anon(SLOT_BYTES).ok() } else { None }?;
        // Threads that send parts of one huge page contend with each other.
        let _ = memory.advise(Advice::NoHugePage);
        self.made += 1;
        Some(Slot(memory))
    }

    /// Completes a copy of so many bytes; `offset` is the chunk's place in its transfer.
    pub(super) fn end(&mut self, copying: Copying, transfer: u64, offset: usize, bytes: usize) {
        let index = usize::try_from(copying.number - self.left).ok();
        // A copy in progress is already queued.
        if let Some(place) = index.and_then(|index| self.line.get_mut(index)) {
            *place = Some(Staged { transfer, offset, bytes, slot: copying.slot });
        }
    }

    /// The number of completed copies at the head of the queue.
    pub(super) fn ready(&self) -> usize {
        self.line.iter().take_while(|staged| staged.is_some()).count()
    }

    /// The number of queued copies.
    pub(super) fn in_line(&self) -> usize {
        self.line.len()
    }

    /// The first queued copy. `None`: there is none, or it is not complete.
    pub(super) fn next(&mut self) -> Option<Staged> {
        let staged = self.line.front_mut()?.take()?;
        self.line.pop_front();
        self.left += 1;
        Some(staged)
    }

    /// Takes back memory that no socket needs any more.
    pub(super) fn give_back(&mut self, slot: Slot) {
        self.free.push(slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_leave_in_the_order_of_their_chunks_whichever_is_ready_first() {
        let mut staging = Staging::default();
        assert!(!staging.suits(100), "nobody has turned it on");
        staging.turn_on(100);
        assert!(staging.suits(100) && !staging.suits(99));
        let mut begun: Vec<_> = (0..3).map(|_| staging.begin().expect("there is room")).collect();
        for (index, copying) in begun.iter_mut().enumerate() {
            copying.copy(&vec![index.to_le_bytes()[0]; 10 + index]);
        }
        let third = begun.pop().expect("three");
        staging.end(third, 9, 512, 12);
        assert!(staging.next().is_none() && staging.ready() == 0);
        let second = begun.pop().expect("two");
        staging.end(begun.pop().expect("one"), 7, 0, 10);
        assert_eq!((staging.ready(), staging.in_line()), (1, 3));
        let first = staging.next().expect("it is ready");
        assert_eq!((first.transfer, first.offset, first.bytes()), (7, 0, &[0; 10][..]));
        assert!(staging.next().is_none());
        staging.end(second, 7, 256, 11);
        assert_eq!(staging.ready(), 2);
        let rest = [staging.next(), staging.next()].map(|staged| staged.expect("it is ready"));
        let said = rest.iter().map(|staged| (staged.transfer, staged.offset, staged.bytes().to_vec()));
        assert!(said.eq([(7, 256, vec![1; 11]), (9, 512, vec![2; 12])]));
        assert_eq!(staging.in_line(), 0);
    }

    #[test]
    fn there_is_a_limit_and_memory_is_used_again() {
        let mut staging = Staging::default();
        for number in 0..MOST {
            assert_eq!(staging.room(), MOST - number);
            let copying = staging.begin().expect("there is room");
            staging.end(copying, 1, number * SLOT_BYTES, SLOT_BYTES);
        }
        assert!(staging.begin().is_none());
        let first = staging.next().expect("it is ready");
        let place = first.bytes().as_ptr();
        assert!(staging.begin().is_none(), "a socket has it");
        staging.give_back(first.into_slot());
        let copying = staging.begin().expect("there is room");
        assert_eq!(copying.slot.0.as_ptr(), place);
        staging.end(copying, 2, 0, 1);
        assert_eq!((staging.ready(), staging.room()), (MOST, 0));
    }
}
