//! One vGPU's part of the program's own virtual memory: reserved addresses in the window's upper half, physical memory, and what is
//! mapped where. It is an account: nothing here is sent.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use floe_abi::{CudaError, CudaResult, MemAllocationProperties, access_flags};

use crate::memory::addresses::Addresses;
use crate::memory::peers::Exporter;
use crate::memory::peers::piece::Piece;

/// Physical memory the program made or imported.
#[derive(Debug, Clone)]
pub(crate) struct Physical {
    pub(crate) bytes: u64,
    /// Where it is from, if it is another program's.
    pub(crate) origin: Option<(Exporter, u64)>,
    pub(crate) properties: MemAllocationProperties,
    /// References: one per `cuMemCreate` and `cuMemRetainAllocationHandle` that was not released.
    pub(crate) handles: u32,
    pub(crate) mappings: u32,
}

/// One mapping, of memory of whatever vGPU.
#[derive(Debug, Clone)]
pub(crate) struct Mapping {
    pub(crate) bytes: u64,
    /// The ordinal of the vGPU that has the memory.
    pub(crate) owner: u8,
    /// Its id there.
    pub(crate) physical: u64,
    /// Where that has it from, if it is another program's.
    pub(crate) origin: Option<(Exporter, u64)>,
    /// Which vGPUs the program has given access, by ordinal.
    pub(crate) access: BTreeMap<u8, u32>,
    /// It holds what was opened of other processes: the program has only the allocations that it opened in it.
    pub(crate) is_of_opened: bool,
}

impl Mapping {
    /// Memory of a vGPU, which nobody has access to.
    pub(crate) fn of(owner: u8, physical: u64, memory: &Physical) -> Self {
        Self {
            bytes: memory.bytes,
            owner,
            physical,
            origin: memory.origin.clone(),
            access: BTreeMap::new(),
            is_of_opened: false,
        }
    }

    /// The access that the program has given a vGPU.
    pub(crate) fn access_of(&self, ordinal: u8) -> u32 {
        self.access.get(&ordinal).copied().unwrap_or(access_flags::NONE)
    }

    fn is_accessible(&self) -> bool {
        self.access.values().any(|access| *access != access_flags::NONE)
    }

    /// The same as a block that is mapped at an address.
    pub(crate) fn piece(&self, at: u64) -> Piece {
        Piece { at, bytes: self.bytes, owner: self.owner, block: self.physical, origin: self.origin.clone() }
    }
}

/// One vGPU's reservations, physical memory and mappings.
#[derive(Debug)]
pub(crate) struct VirtualMemory {
    pub(crate) granularity: u64,
    pub(crate) reserved: Addresses,
    whole: Range<u64>,
    pub(crate) physical: HashMap<u64, Physical>,
    /// By first address.
    pub(crate) mappings: BTreeMap<u64, Mapping>,
}

impl VirtualMemory {
    /// Nothing reserved in `window`.
    pub(crate) fn new(window: Range<u64>, granularity: u64) -> Self {
        Self {
            granularity,
            reserved: Addresses::new(window.clone()),
            whole: window,
            physical: HashMap::new(),
            mappings: BTreeMap::new(),
        }
    }

    /// Forgets everything: the server has.
    pub(crate) fn clear(&mut self) {
        *self = Self::new(self.whole.clone(), self.granularity);
    }

    /// Whether the program has reserved addresses or has physical memory.
    pub(crate) fn is_used(&self) -> bool {
        self.reserved.is_used() || !self.physical.is_empty()
    }

    /// Whether `at..end` is mapped by the program and accessible, possibly by several mappings side by side.
    pub(crate) fn covers(&self, mut at: u64, end: u64) -> bool {
        while at < end {
            match self.programs_mapping(at) {
                Some((range, mapping)) if mapping.is_accessible() => at = range.end,
                _ => return false,
            }
        }
        true
    }

    /// The blocks that make up a range, if all of it is mapped.
    pub(crate) fn pieces(&self, range: &Range<u64>) -> Option<Vec<Piece>> {
        let (mut pieces, mut at) = (Vec::new(), range.start);
        while at < range.end {
            let (found, mapping) = self.mapping_entry(at)?;
            pieces.push(mapping.piece(found.start));
            at = found.end;
        }
        Some(pieces)
    }

    /// The program's own mapping that holds this address.
    pub(crate) fn programs_mapping(&self, at: u64) -> Option<(Range<u64>, &Mapping)> {
        self.mapping_entry(at).filter(|(_, mapping)| !mapping.is_of_opened)
    }

    /// The mapping that holds this address, also one of opened memory.
    pub(crate) fn mapping_entry(&self, at: u64) -> Option<(Range<u64>, &Mapping)> {
        let (start, mapping) = self.mappings.range(..=at).next_back()?;
        let range = *start..start + mapping.bytes;
        range.contains(&at).then_some((range, mapping))
    }

    /// Whole mappings of the program's that make up exactly `range`, without gaps, with their first addresses.
    pub(crate) fn exactly(&self, range: &Range<u64>) -> CudaResult<Vec<(u64, Mapping)>> {
        let mut found = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let mapping = self.mappings.get(&at).filter(|it| !it.is_of_opened).ok_or(CudaError::INVALID_VALUE)?;
            found.push((at, mapping.clone()));
            at += mapping.bytes;
        }
        if at == range.end { Ok(found) } else { Err(CudaError::INVALID_VALUE) }
    }

    /// The program's mappings within a range that is reserved, with their first addresses: none, or some with gaps.
    ///
    /// # Errors
    /// INVALID_VALUE where the range is not of one reservation, or cuts a mapping, or has one that was opened.
    pub(crate) fn within(&self, range: &Range<u64>) -> CudaResult<Vec<(u64, Mapping)>> {
        let reserved = self.reserved.find(range.start).filter(|reserved| range.end <= reserved.end);
        let before = self.mappings.range(..range.start).next_back();
        let is_cut = before.is_some_and(|(start, mapping)| start + mapping.bytes > range.start);
        let found: Vec<_> = self.mappings.range(range.clone()).map(|(start, it)| (*start, it.clone())).collect();
        let is_whole = |(start, mapping): &(u64, Mapping)| start + mapping.bytes <= range.end && !mapping.is_of_opened;
        let is_right = reserved.is_some() && !is_cut && found.iter().all(is_whole);
        if is_right { Ok(found) } else { Err(CudaError::INVALID_VALUE) }
    }

    /// The same, which are none any more.
    pub(crate) fn remove_within(&mut self, range: &Range<u64>) -> CudaResult<Vec<(u64, Mapping)>> {
        let found = self.within(range)?;
        found.iter().for_each(|(start, _)| drop(self.mappings.remove(start)));
        Ok(found)
    }

    /// Whether a range is reserved and nothing is mapped in it.
    pub(crate) fn is_free(&self, range: &Range<u64>) -> bool {
        let inside = self.reserved.find(range.start).is_some_and(|reserved| range.end <= reserved.end);
        let before = self.mappings.range(..range.end).next_back();
        inside && before.is_none_or(|(start, mapping)| start + mapping.bytes <= range.start)
    }

    /// The program has given a vGPU access to the mapping that begins here, or taken it.
    pub(crate) fn note_access(&mut self, start: u64, ordinal: u8, access: u32) {
        if let Some(mapping) = self.mappings.get_mut(&start) {
            mapping.access.insert(ordinal, access);
        }
    }

    /// Whether a size or address can be mapped.
    pub(crate) fn is_aligned(&self, value: u64) -> bool {
        value.is_multiple_of(self.granularity)
    }

    /// Drops physical memory nothing refers to; `true` where it is gone.
    pub(crate) fn drop_unused(&mut self, id: u64) -> bool {
        let unused = self.physical.get(&id).is_some_and(|physical| physical.handles == 0 && physical.mappings == 0);
        if unused {
            self.physical.remove(&id);
        }
        unused
    }
}
