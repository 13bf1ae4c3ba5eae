//! Blocks that a move stages: each mapped once more, at an address that nothing else has.
//! In: handles of blocks and where they are staged. Out: their addresses and hashes. It copies nothing.
//! A block that the program has not mapped, or gave nobody access to, can be read here. What is staged stays on the device
//! until it is let go, also where the program has released it meanwhile.

use std::collections::BTreeMap;
use std::sync::Arc;

use floe_abi::{CudaError, CudaResult, MemHandle};
use floe_device::{Device, HASH_UNIT, HashKey, UnitHash};
use floe_wire::DevicePtr;

use crate::life::moving::differing::{joined, together};

/// Where a worker stages blocks of the session that leaves: its own, or imported ones.
pub(crate) const SOURCE: u64 = 0x5000_0000_0000;
/// Where the worker that it goes to stages its own.
pub(crate) const TARGET: u64 = 0x5100_0000_0000;
/// Bytes of both: more than a GPU has. What a device needs for hashes lies behind.
pub(crate) const BYTES: u64 = (1 << 40) - (1 << 30);
/// Read and write.
const ACCESS: u32 = 3;

/// Blocks side by side.
pub(crate) struct Staging<D: Device> {
    device: Arc<D>,
    base: u64,
    is_reserved: bool,
    /// By offset.
    staged: BTreeMap<u64, Staged>,
    /// Mapped still, and otherwise gone.
    aside: Vec<(u64, Staged)>,
}

/// A staged block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Staged {
    pub(crate) block: u64,
    pub(crate) bytes: u64,
    pub(crate) memory: MemHandle,
}

impl<D: Device> Staging<D> {
    /// Nothing yet, from this address on.
    pub(crate) fn new(device: &Arc<D>, base: u64) -> Self {
        Self { device: Arc::clone(device), base, is_reserved: false, staged: BTreeMap::new(), aside: Vec::new() }
    }

    /// Maps a block.
    pub(crate) fn add(&mut self, offset: u64, staged: Staged) -> CudaResult<()> {
        let end = offset.checked_add(staged.bytes).filter(|end| *end <= BYTES).ok_or(CudaError::OUT_OF_MEMORY)?;
        if staged.bytes == 0 || !staged.bytes.is_multiple_of(HASH_UNIT) || !self.is_free(offset, end) {
            return Err(CudaError::INVALID_VALUE);
        }
        self.reserve()?;
        let at = DevicePtr(self.base + offset);
        self.device.map(at, staged.bytes, 0, staged.memory)?;
        if let Err(error) = self.device.set_access(at, staged.bytes, ACCESS) {
            // The first error is the one to tell.
            let _ = self.device.unmap(at, staged.bytes);
            return Err(error);
        }
        self.staged.insert(offset, staged);
        Ok(())
    }

    fn is_free(&self, offset: u64, end: u64) -> bool {
        let before = self.staged.range(..end).next_back();
        before.is_none_or(|(start, staged)| start + staged.bytes <= offset)
    }

    fn reserve(&mut self) -> CudaResult<()> {
        if self.is_reserved {
            return Ok(());
        }
        let at = self.device.reserve(BYTES, DevicePtr(self.base))?;
        if at.0 != self.base {
            let _ = self.device.free_addresses(at, BYTES);
            return Err(CudaError::OUT_OF_MEMORY);
        }
        self.is_reserved = true;
        Ok(())
    }

    /// The block that is staged there.
    pub(crate) fn get(&self, offset: u64) -> Option<&Staged> {
        self.staged.get(&offset)
    }

    /// Its address.
    pub(crate) fn at(&self, offset: u64) -> DevicePtr {
        DevicePtr(self.base + offset)
    }

    /// Everything that is staged, with its offset.
    pub(crate) fn all(&self) -> impl Iterator<Item = (u64, Staged)> {
        self.staged.iter().map(|(offset, staged)| (*offset, *staged))
    }

    /// Bytes of everything.
    pub(crate) fn bytes(&self) -> u64 {
        self.staged.values().map(|staged| staged.bytes).sum()
    }

    /// Has a block count no longer. It stays mapped until [`Staging::let_go`]: taking a mapping away waits for the program's
    /// work, and whoever may not wait does this instead. Its place is not free before.
    pub(crate) fn set_aside(&mut self, offset: u64) {
        self.aside.extend(self.staged.remove(&offset).map(|staged| (offset, staged)));
    }

    /// Lets go what was set aside.
    pub(crate) fn let_go(&mut self) {
        for (offset, staged) in std::mem::take(&mut self.aside) {
            // On a context beyond use the driver refuses; the mapping goes with it.
            let _ = self.device.unmap(self.at(offset), staged.bytes);
        }
    }

    /// Lets a block go. Nothing reads it any more.
    pub(crate) fn remove(&mut self, offset: u64) -> Option<Staged> {
        let staged = self.staged.remove(&offset)?;
        // On a context beyond use the driver refuses; the mapping goes with it.
        let _ = self.device.unmap(self.at(offset), staged.bytes);
        Some(staged)
    }

    /// The hashes of everything, in the order of the offsets.
    pub(crate) fn hashes(&self, key: HashKey) -> CudaResult<Vec<UnitHash>> {
        let mut hashes = Vec::new();
        for (offset, bytes) in self.runs() {
            let more = self.device.hash(self.at(offset), bytes, key)?;
            // Mostly there is one run, and its hashes are megabytes.
            if hashes.is_empty() {
                hashes = more;
            } else {
                hashes.extend(more);
            }
        }
        Ok(hashes)
    }

    /// The hashes of pieces (offset, bytes) in the order of their offsets, and of what is near them: the number of the first unit,
    /// and hashes.
    pub(crate) fn hashes_of(&self, pieces: &[(u64, u64)], key: HashKey) -> CudaResult<Vec<(u64, Vec<UnitHash>)>> {
        let hash = |(offset, bytes, unit)| Ok((unit, self.device.hash(self.at(offset), bytes, key)?));
        together(&self.runs(), pieces).into_iter().map(hash).collect()
    }

    /// Neighbouring blocks together: offset and bytes.
    fn runs(&self) -> Vec<(u64, u64)> {
        joined(self.staged.iter().map(|(offset, staged)| (*offset, staged.bytes)))
    }
}

impl<D: Device> Drop for Staging<D> {
    fn drop(&mut self) {
        self.let_go();
        for offset in self.staged.keys().copied().collect::<Vec<_>>() {
            self.remove(offset);
        }
        if self.is_reserved {
            let _ = self.device.free_addresses(DevicePtr(self.base), BYTES);
        }
    }
}
