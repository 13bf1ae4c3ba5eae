//! Virtual memory of the process: reserved ranges, physical memory with handles, and what of it is mapped where.
//! Requests come in, mappings of the machine's memory change accordingly or the request is refused whole.
//! Mapped memory without access is not in the machine at all, so a kernel that touches it faults. It does not wait.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use floe_abi::{CudaError, CudaResult, MemAllocationProperties};
use floe_machine::{FileIdentity, Memory, MemoryFile};

use super::physical::Physical;
use super::reservations::Reservations;
use crate::simulator::device::limits::GRANULARITY;

/// Physical memory as `cuMemCreate` made it.
#[derive(Clone)]
pub(crate) struct Created {
    physical: Arc<Physical>,
    /// Handles the program holds: one from its creation, one more for each time it was retained.
    references: u32,
    pub(crate) device: usize,
    pub(crate) properties: MemAllocationProperties,
}

impl Created {
    fn file(&self) -> Option<FileIdentity> {
        self.physical.file().map(MemoryFile::identity)
    }

    /// A descriptor by which other processes can have the memory.
    ///
    /// # Errors
    /// INVALID_VALUE where it was not made here to be exported, OPERATING_SYSTEM without descriptors.
    pub(crate) fn export(&self) -> CudaResult<OwnedFd> {
        if self.properties.requested_handle_types == 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        let file = self.physical.file().ok_or(CudaError::INVALID_VALUE)?;
        file.duplicate().map_err(|error| {
            crate::simulator::log::warn(format_args!("cannot export memory: {error}"));
            CudaError::OPERATING_SYSTEM
        })
    }
}

struct Mapped {
    length: u64,
    offset: u64,
    handle: u64,
    created: Created,
    accessible: bool,
}

/// A mapped range, as questions about an address need it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MappedRange {
    pub(crate) address: u64,
    pub(crate) length: u64,
    pub(crate) handle: u64,
    pub(crate) device: usize,
    /// Ways in which the memory can be exported.
    pub(crate) handle_types: u32,
    pub(crate) accessible: bool,
}

/// All virtual memory of the process.
pub(crate) struct VirtualMemory {
    pub(crate) reservations: Reservations,
    created: HashMap<u64, Created>,
    mapped: BTreeMap<u64, Mapped>,
}

fn on_granules(numbers: &[u64]) -> CudaResult<()> {
    if numbers.iter().all(|number| number.is_multiple_of(GRANULARITY)) { Ok(()) } else { Err(CudaError::INVALID_VALUE) }
}

impl VirtualMemory {
    pub(crate) fn new(windows: Range<u64>) -> Self {
        Self { reservations: Reservations::new(windows), created: HashMap::new(), mapped: BTreeMap::new() }
    }

    /// Gives back a reservation in which nothing is mapped.
    ///
    /// # Errors
    /// INVALID_VALUE where it is none, or something is mapped in it.
    pub(crate) fn release_range(&mut self, address: u64, length: u64) -> CudaResult<()> {
        let end = address.checked_add(length).ok_or(CudaError::INVALID_VALUE)?;
        if self.mapped.range(address..end).next().is_some() || !self.reservations.release(address, length) {
            return Err(CudaError::INVALID_VALUE);
        }
        Ok(())
    }

    pub(crate) fn add(&mut self, handle: u64, physical: Physical, device: usize, properties: MemAllocationProperties) {
        let created = Created { physical: Arc::new(physical), references: 1, device, properties };
        self.created.insert(handle, created);
    }

    /// Whether memory in this file is here already, with a handle or mapped; then `handle` is one more to it, on the
    /// device that it belongs to.
    pub(crate) fn add_again(&mut self, handle: u64, file: FileIdentity) -> bool {
        let mapped = self.mapped.values().map(|mapped| &mapped.created);
        let same = self.created.values().chain(mapped).find(|created| created.file() == Some(file));
        let Some(again) = same.map(|created| Created { references: 1, ..created.clone() }) else { return false };
        self.created.insert(handle, again);
        true
    }

    /// # Errors
    /// INVALID_VALUE for a handle that was released or never made.
    pub(crate) fn get(&self, handle: u64) -> CudaResult<&Created> {
        self.created.get(&handle).ok_or(CudaError::INVALID_VALUE)
    }

    /// One handle less; with the last, the memory goes as soon as nothing maps it.
    ///
    /// # Errors
    /// As `get`.
    pub(crate) fn release(&mut self, handle: u64) -> CudaResult<()> {
        let created = self.created.get_mut(&handle).ok_or(CudaError::INVALID_VALUE)?;
        created.references -= 1;
        if created.references == 0 {
            self.created.remove(&handle);
        }
        Ok(())
    }

    /// One more handle to the memory mapped around `address`.
    ///
    /// # Errors
    /// INVALID_VALUE where nothing is mapped.
    pub(crate) fn retain(&mut self, address: u64) -> CudaResult<u64> {
        let piece = self.mapped_range_at(address).ok_or(CudaError::INVALID_VALUE)?;
        let mapped = self.mapped.get(&piece.address).ok_or(CudaError::INVALID_VALUE)?;
        let released = Created { references: 0, ..mapped.created.clone() };
        self.created.entry(piece.handle).or_insert(released).references += 1;
        Ok(piece.handle)
    }

    /// Maps memory into a reserved range, without access: whole, as an H200's driver has it.
    ///
    /// # Errors
    /// NOT_SUPPORTED unless the range is the whole memory at a granule's address. INVALID_VALUE for no bytes, and for
    /// addresses that are not reserved or already mapped.
    pub(crate) fn map(&mut self, address: u64, length: u64, offset: u64, handle: u64) -> CudaResult<()> {
        let created = self.get(handle)?.clone();
        if length == 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        if offset != 0 || length != created.physical.length() || on_granules(&[address]).is_err() {
            return Err(CudaError::NOT_SUPPORTED);
        }
        if self.reservations.holding(address, length).is_none() {
            return Err(CudaError::INVALID_VALUE);
        }
        if let Some((&other, mapped)) = self.mapped.range(..address + length).next_back()
            && other + mapped.length > address
        {
            return Err(CudaError::INVALID_VALUE);
        }
        self.mapped.insert(address, Mapped { length, offset, handle, created, accessible: false });
        Ok(())
    }

    /// The starts of the mappings that together are exactly `[address, address + length)`.
    fn tiles(&self, address: u64, length: u64) -> CudaResult<Vec<u64>> {
        on_granules(&[address, length])?;
        let end = address.checked_add(length).ok_or(CudaError::INVALID_VALUE)?;
        let mut at = address;
        let mut tiles = Vec::new();
        for (&start, mapped) in self.mapped.range(address..end) {
            if start != at {
                return Err(CudaError::INVALID_VALUE);
            }
            tiles.push(start);
            at += mapped.length;
        }
        if at == end && length > 0 { Ok(tiles) } else { Err(CudaError::INVALID_VALUE) }
    }

    /// Unmaps the mappings within a reserved range, as many as there are. Nothing may use them any more.
    ///
    /// # Errors
    /// INVALID_VALUE where the range is empty, not of one reservation, or cuts a mapping.
    pub(crate) fn unmap(&mut self, memory: &Memory, address: u64, length: u64) -> CudaResult<()> {
        for start in self.within(address, length)? {
            self.hide(memory, start)?;
            self.mapped.remove(&start);
        }
        Ok(())
    }

    /// The starts of the mappings within a reserved range.
    fn within(&self, address: u64, length: u64) -> CudaResult<Vec<u64>> {
        if length == 0 || self.reservations.holding(address, length).is_none() {
            return Err(CudaError::INVALID_VALUE);
        }
        let end = address + length;
        let before = self.mapped.range(..address).next_back();
        let is_cut = before.is_some_and(|(start, mapped)| start + mapped.length > address)
            || self.mapped.range(address..end).next_back().is_some_and(|(start, mapped)| start + mapped.length > end);
        if is_cut {
            return Err(CudaError::INVALID_VALUE);
        }
        Ok(self.mapped.range(address..end).map(|(start, _)| *start).collect())
    }

    fn hide(&mut self, memory: &Memory, start: u64) -> CudaResult<()> {
        let Some(mapped) = self.mapped.get_mut(&start).filter(|mapped| mapped.accessible) else { return Ok(()) };
        mapped.created.physical.unmap(memory, start, mapped.offset, mapped.length).map_err(|error| {
            crate::simulator::log::warn(format_args!("cannot unmap {start:#x}: {error}"));
            CudaError::UNMAP_FAILED
        })?;
        mapped.accessible = false;
        Ok(())
    }

    fn show(&mut self, memory: &Memory, start: u64) -> CudaResult<()> {
        let Some(mapped) = self.mapped.get_mut(&start).filter(|mapped| !mapped.accessible) else { return Ok(()) };
        mapped.created.physical.map(memory, start, mapped.offset, mapped.length).map_err(|error| {
            crate::simulator::log::warn(format_args!("cannot map {start:#x}: {error}"));
            CudaError::MAP_FAILED
        })?;
        mapped.accessible = true;
        Ok(())
    }

    /// Cuts the mapping around `at` in two there, so that its parts can differ in access.
    fn cut(&mut self, memory: &Memory, at: u64) -> CudaResult<()> {
        let Some(piece) = self.mapped_range_at(at).filter(|piece| piece.address != at) else { return Ok(()) };
        self.hide(memory, piece.address)?;
        let Some(first) = self.mapped.get_mut(&piece.address) else { return Ok(()) };
        let kept = at - piece.address;
        let second = Mapped {
            length: first.length - kept,
            offset: first.offset + kept,
            handle: first.handle,
            created: first.created.clone(),
            accessible: false,
        };
        first.length = kept;
        self.mapped.insert(at, second);
        if piece.accessible {
            self.show(memory, piece.address)?;
            self.show(memory, at)?;
        }
        Ok(())
    }

    /// Whether any mapping of the range would change with this access.
    ///
    /// # Errors
    /// INVALID_VALUE where a part of the range is not mapped.
    pub(crate) fn would_change(&self, address: u64, length: u64, accessible: bool) -> CudaResult<bool> {
        on_granules(&[address, length])?;
        let end = address.checked_add(length).filter(|_| length > 0).ok_or(CudaError::INVALID_VALUE)?;
        let (mut at, mut changes) = (address, false);
        while at < end {
            let piece = self.mapped_range_at(at).ok_or(CudaError::INVALID_VALUE)?;
            changes |= piece.accessible != accessible;
            at = piece.address + piece.length;
        }
        Ok(changes)
    }

    /// Gives or takes access to a mapped range. When access is taken, nothing may use the range any more.
    ///
    /// # Errors
    /// INVALID_VALUE where a part of the range is not mapped.
    pub(crate) fn set_access(
        &mut self,
        memory: &Memory,
        address: u64,
        length: u64,
        accessible: bool,
    ) -> CudaResult<()> {
        if !self.would_change(address, length, accessible)? {
            return Ok(());
        }
        self.cut(memory, address)?;
        self.cut(memory, address + length)?;
        for start in self.tiles(address, length)? {
            if accessible {
                self.show(memory, start)?;
            } else {
                self.hide(memory, start)?;
            }
        }
        Ok(())
    }

    /// The mapping around `address`.
    pub(crate) fn mapped_range_at(&self, address: u64) -> Option<MappedRange> {
        let (&start, mapped) = self.mapped.range(..=address).next_back()?;
        (address - start < mapped.length).then_some(MappedRange {
            address: start,
            length: mapped.length,
            handle: mapped.handle,
            device: mapped.created.device,
            handle_types: mapped.created.properties.requested_handle_types,
            accessible: mapped.accessible,
        })
    }
}

#[cfg(test)]
mod tests {
    use floe_machine::Store;

    use super::*;

    // Far from the ranges of other tests of this process.
    const BASE: u64 = 0x0600_0000_0000;

    fn setup(granules: u64) -> (Arc<Memory>, VirtualMemory) {
        let memory = Memory::reserve(BASE, 64 * GRANULARITY).expect("addresses");
        let store = Store::new(granules * GRANULARITY).expect("a store");
        let mut virtual_memory = VirtualMemory::new(BASE..BASE + 64 * GRANULARITY);
        let physical = Physical::create(&store, granules * GRANULARITY).expect("memory");
        virtual_memory.add(1, physical, 0, MemAllocationProperties::default());
        virtual_memory.reservations.reserve(16 * GRANULARITY, GRANULARITY, BASE).expect("free");
        (memory, virtual_memory)
    }

    #[test]
    fn mapped_memory_is_accessible_only_after_access_was_given() {
        let (memory, mut virtual_memory) = setup(2);
        virtual_memory.map(BASE, 2 * GRANULARITY, 0, 1).expect("maps");
        assert!(!memory.is_mapped(BASE, 1));
        virtual_memory.set_access(&memory, BASE, 2 * GRANULARITY, true).expect("mapped");
        assert!(memory.is_mapped(BASE, 2 * GRANULARITY));
        virtual_memory.set_access(&memory, BASE, 2 * GRANULARITY, false).expect("mapped");
        assert!(!memory.is_mapped(BASE, 1));
    }

    #[test]
    fn the_same_handle_mapped_twice_shows_the_same_bytes() {
        let (memory, mut virtual_memory) = setup(1);
        let other = BASE + GRANULARITY;
        virtual_memory.map(BASE, GRANULARITY, 0, 1).expect("maps");
        virtual_memory.map(other, GRANULARITY, 0, 1).expect("maps");
        virtual_memory.set_access(&memory, BASE, 2 * GRANULARITY, true).expect("mapped");
        memory.write(BASE + 5, &[42]).expect("accessible");
        let mut byte = [0];
        memory.read(other + 5, &mut byte).expect("accessible");
        assert_eq!(byte, [42]);
    }

    #[test]
    fn access_can_be_taken_from_a_part() {
        let (memory, mut virtual_memory) = setup(3);
        virtual_memory.map(BASE, 3 * GRANULARITY, 0, 1).expect("maps");
        virtual_memory.set_access(&memory, BASE, 3 * GRANULARITY, true).expect("mapped");
        memory.write(BASE + 2 * GRANULARITY, &[7]).expect("accessible");
        virtual_memory.set_access(&memory, BASE + GRANULARITY, GRANULARITY, false).expect("mapped");
        assert!(memory.is_mapped(BASE, GRANULARITY));
        assert!(!memory.is_mapped(BASE + GRANULARITY, 1));
        let mut byte = [0];
        memory.read(BASE + 2 * GRANULARITY, &mut byte).expect("still accessible");
        assert_eq!(byte, [7]);
        virtual_memory.unmap(&memory, BASE, 3 * GRANULARITY).expect("the three parts are the whole");
    }

    #[test]
    fn ranges_that_do_not_fit_are_refused() {
        let (_memory, mut virtual_memory) = setup(1);
        assert_eq!(virtual_memory.map(BASE, 2 * GRANULARITY, 0, 1), Err(CudaError::NOT_SUPPORTED));
        assert_eq!(virtual_memory.map(BASE, GRANULARITY, GRANULARITY, 1), Err(CudaError::NOT_SUPPORTED));
        assert_eq!(virtual_memory.map(BASE + 1, GRANULARITY, 0, 1), Err(CudaError::NOT_SUPPORTED));
        assert_eq!(virtual_memory.map(BASE, 0, 0, 1), Err(CudaError::INVALID_VALUE));
        assert_eq!(virtual_memory.map(BASE + 32 * GRANULARITY, GRANULARITY, 0, 1), Err(CudaError::INVALID_VALUE));
        assert_eq!(virtual_memory.map(BASE, GRANULARITY, 0, 2), Err(CudaError::INVALID_VALUE));
        virtual_memory.map(BASE, GRANULARITY, 0, 1).expect("maps");
        assert_eq!(virtual_memory.map(BASE, GRANULARITY, 0, 1), Err(CudaError::INVALID_VALUE));
        assert_eq!(virtual_memory.release_range(BASE, 16 * GRANULARITY), Err(CudaError::INVALID_VALUE));
    }

    #[test]
    fn released_memory_lives_as_long_as_it_is_mapped() {
        let (memory, mut virtual_memory) = setup(1);
        virtual_memory.map(BASE, GRANULARITY, 0, 1).expect("maps");
        virtual_memory.set_access(&memory, BASE, GRANULARITY, true).expect("mapped");
        virtual_memory.release(1).expect("a handle");
        assert!(virtual_memory.get(1).is_err());
        memory.write(BASE, &[1]).expect("still there");
        assert_eq!(virtual_memory.retain(BASE + 9), Ok(1));
        assert!(virtual_memory.get(1).is_ok());
    }
}
