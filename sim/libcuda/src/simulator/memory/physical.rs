//! Physical memory of a device in pieces: a length comes in, backings whose sum it is go out, mapped as one range.
//! Pieces exist so that memory is exhausted exactly at its limit, however fragmented what is left may be.
//! It decides no address and waits for nobody.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use floe_machine::{Backing, Memory, MemoryError, MemoryFile, Store};

use crate::simulator::device::limits::GRANULARITY;

/// Memory of whole granules.
pub(crate) struct Physical {
    pieces: Vec<Arc<Backing>>,
    length: u64,
}

impl Physical {
    /// Takes `length` bytes, a multiple of the granularity, out of the store.
    ///
    /// # Errors
    /// `Exhausted` exactly when the store has fewer free bytes.
    pub(crate) fn create(store: &Arc<Store>, length: u64) -> Result<Self, MemoryError> {
        if length > store.capacity().saturating_sub(store.used()) {
            return Err(MemoryError::Exhausted { length });
        }
        let mut pieces = Vec::new();
        let mut missing = length;
        let mut piece = length;
        while missing > 0 {
            match store.create(piece.min(missing)) {
                Ok(backing) => {
                    missing -= backing.length();
                    pieces.push(backing);
                }
                Err(MemoryError::Exhausted { .. }) if piece > GRANULARITY => {
                    piece = (piece / 2).next_multiple_of(GRANULARITY);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Self { pieces, length })
    }

    /// Takes `length` bytes, which count in the store, in a file that other processes can map. It is said to be the
    /// device's with this number on its host.
    ///
    /// # Errors
    /// `Exhausted` as for `create`; `Descriptors`, or the system's refusal.
    pub(crate) fn exportable(store: &Arc<Store>, length: u64, device: u32) -> Result<Self, MemoryError> {
        store.create_exportable(length, device).map(Self::whole)
    }

    /// Memory that a process exported, by a descriptor that may be anything.
    ///
    /// # Errors
    /// `Foreign` where it is none; `Descriptors`, or the system's refusal.
    pub(crate) fn import(descriptor: BorrowedFd<'_>) -> Result<Self, MemoryError> {
        Backing::import(descriptor).map(Self::whole)
    }

    fn whole(backing: Arc<Backing>) -> Self {
        let length = backing.length();
        Self { pieces: vec![backing], length }
    }

    /// The file by which other processes can have it.
    pub(crate) fn file(&self) -> Option<&MemoryFile> {
        self.pieces.first()?.own_file()
    }

    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// The parts of the pieces that lie in `[offset, offset + length)`: piece, offset in it, distance from `offset`, length.
    fn parts(&self, offset: u64, length: u64) -> Vec<(&Arc<Backing>, u64, u64, u64)> {
        let end = offset + length;
        let mut start = 0;
        let mut parts = Vec::with_capacity(self.pieces.len());
        for piece in &self.pieces {
            let from = offset.max(start);
            let to = end.min(start + piece.length());
            if from < to {
                parts.push((piece, from - start, from - offset, to - from));
            }
            start += piece.length();
        }
        parts
    }

    /// Maps `length` bytes from `offset` on at `address`.
    ///
    /// # Errors
    /// The system's refusal; then nothing is mapped.
    pub(crate) fn map(&self, memory: &Memory, address: u64, offset: u64, length: u64) -> Result<(), MemoryError> {
        let parts = self.parts(offset, length);
        for (index, (piece, inside, distance, bytes)) in parts.iter().enumerate() {
            if let Err(error) = memory.map(address + distance, *bytes, piece, *inside) {
                for (_, _, distance, bytes) in &parts[..index] {
                    // A fresh mapping can be unmapped; if not, the first error says more.
                    let _ = memory.unmap(address + distance, *bytes);
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// Unmaps what `map` with the same numbers mapped. Nothing may use it any more.
    pub(crate) fn unmap(&self, memory: &Memory, address: u64, offset: u64, length: u64) -> Result<(), MemoryError> {
        for (_, _, distance, bytes) in self.parts(offset, length) {
            memory.unmap(address + distance, bytes)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(granules: u64) -> Arc<Store> {
        Store::new(granules * GRANULARITY).expect("a store")
    }

    #[test]
    fn fragmented_store_gives_everything_it_has() {
        let store = store(4);
        let blocks: Vec<_> = (0..4).map(|_| store.create(GRANULARITY).expect("room")).collect();
        let [_first, second, _third, fourth] = <[_; 4]>::try_from(blocks).expect("four");
        drop((second, fourth));
        let physical = Physical::create(&store, 2 * GRANULARITY).expect("two granules are free");
        assert_eq!(physical.pieces.len(), 2);
        assert!(matches!(Physical::create(&store, GRANULARITY), Err(MemoryError::Exhausted { .. })));
    }

    #[test]
    fn parts_of_a_range_follow_each_other() {
        let store = store(4);
        let blocks: Vec<_> = (0..4).map(|_| store.create(GRANULARITY).expect("room")).collect();
        let [_first, second, _third, fourth] = <[_; 4]>::try_from(blocks).expect("four");
        drop((second, fourth));
        let physical = Physical::create(&store, 2 * GRANULARITY).expect("two granules are free");
        let parts: Vec<_> =
            physical.parts(GRANULARITY, GRANULARITY).into_iter().map(|part| (part.1, part.2, part.3)).collect();
        assert_eq!(parts, [(0, 0, GRANULARITY)]);
        assert_eq!(physical.parts(0, 2 * GRANULARITY).len(), 2);
    }
}
