//! One vGPU's part of the program's own virtual memory: reserved addresses in the window's upper half, physical memory, and what is
//! mapped where. It is an account: nothing here is sent.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use floe_abi::{CudaError, CudaResult, MemAllocationProperties, access_flags};

use crate::memory::addresses::Addresses;

/// Physical memory the program made.
#[derive(Debug, Clone)]
pub(crate) struct Physical {
    pub(crate) bytes: u64,
    pub(crate) properties: MemAllocationProperties,
    /// References: one per `cuMemCreate` and `cuMemRetainAllocationHandle` that was not released.
    pub(crate) handles: u32,
    pub(crate) mappings: u32,
}

/// One mapping.
#[derive(Debug, Clone)]
pub(crate) struct Mapping {
    pub(crate) bytes: u64,
    pub(crate) physical: u64,
    pub(crate) access: u32,
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

    /// Whether `at..end` is mapped and accessible, possibly by several mappings side by side.
    pub(crate) fn covers(&self, mut at: u64, end: u64) -> bool {
        while at < end {
            match self.mapping_entry(at) {
                Some((range, mapping)) if mapping.access != access_flags::NONE => at = range.end,
                _ => return false,
            }
        }
        true
    }

    /// The mapping that holds this address.
    pub(crate) fn mapping(&self, at: u64) -> Option<Range<u64>> {
        self.mapping_entry(at).map(|(range, _)| range)
    }

    /// The same with all that is known of it.
    pub(crate) fn mapping_entry(&self, at: u64) -> Option<(Range<u64>, &Mapping)> {
        let (start, mapping) = self.mappings.range(..=at).next_back()?;
        let range = *start..start + mapping.bytes;
        range.contains(&at).then_some((range, mapping))
    }

    /// Whole mappings that make up exactly `range`, without gaps.
    pub(crate) fn exactly(&self, range: &Range<u64>) -> CudaResult<Vec<u64>> {
        let mut starts = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let mapping = self.mappings.get(&at).ok_or(CudaError::INVALID_VALUE)?;
            starts.push(at);
            at += mapping.bytes;
        }
        if at == range.end { Ok(starts) } else { Err(CudaError::INVALID_VALUE) }
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
