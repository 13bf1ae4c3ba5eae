//! Memory that graphs allocate and free: the ranges that an implementation set aside, their allocations, and whether
//! these outlive a launch. Nodes, launches and frees come in; ranges that nothing can need any more go out. Memory is
//! set aside when a node is made. It stays until graph, instantiated graph and allocation are all gone. Within a graph,
//! a range serves several allocations one after another, as far as the graph's order allows.

mod launches;
mod nodes;
#[cfg(test)]
mod tests;

pub use launches::settle;
pub use nodes::{AllocWork, FreeWork, record_alloc};
pub(crate) use nodes::{Target, wish};

pub(crate) use launches::Effects;

use super::store::Graphs;
use floe_abi::{CudaError, CudaResult, Device, DevicePtr, graph_memory_attribute as ask};
use std::collections::{BTreeMap, HashMap};

/// Memory an implementation has set aside for graphs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reserved {
    /// The device whose memory it is.
    pub device: Device,
    /// Its first byte.
    pub address: DevicePtr,
    /// Its length.
    pub bytes: u64,
    /// A number that no other memory at this address has or had.
    pub serial: u64,
}

/// All memory of graphs of a process.
#[derive(Debug, Default)]
pub(super) struct Accounts {
    /// By first address.
    ranges: BTreeMap<u64, Range>,
    /// By allocation node.
    allocations: HashMap<u64, Allocation>,
    meters: HashMap<i32, Meter>,
    /// Ranges that nobody can need any more, until the implementation has taken them back.
    over: Vec<Reserved>,
}

/// One range of memory.
#[derive(Debug)]
struct Range {
    memory: Reserved,
    /// The graph whose allocations it serves, while that exists.
    graph: Option<u64>,
    /// The allocations it was given to, one after the other.
    given: Vec<u64>,
    /// The graph's node that frees the last of them.
    freed_by: Option<u64>,
    /// Instantiated graphs that use it.
    execs: usize,
    /// The allocation that lives in it since a launch, until it is freed.
    alive: Option<u64>,
}

/// An allocation node's memory.
#[derive(Debug)]
struct Allocation {
    /// First address of its range.
    at: u64,
    graph: u64,
    /// The graphs that free it.
    freed_in: Vec<u64>,
}

/// A device's bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Meter {
    used: Level,
    reserved: Level,
}

/// A number of bytes and the highest it has been.
#[derive(Clone, Copy, Debug, Default)]
struct Level {
    now: u64,
    high: u64,
}

impl Level {
    fn rise(&mut self, bytes: u64) {
        self.now += bytes;
        self.high = self.high.max(self.now);
    }

    fn fall(&mut self, bytes: u64) {
        self.now -= bytes;
    }
}

impl Range {
    fn is_used(&self) -> bool {
        self.execs > 0 || self.alive.is_some()
    }

    fn is_over(&self) -> bool {
        !self.is_used() && self.graph.is_none()
    }
}

impl Accounts {
    /// The range an allocation is in.
    fn range_of(&self, allocation: u64) -> CudaResult<&Range> {
        let found = self.allocations.get(&allocation).and_then(|allocation| self.ranges.get(&allocation.at));
        found.ok_or(CudaError::INVALID_VALUE)
    }

    /// Takes a new range in, for a graph.
    fn open(&mut self, memory: Reserved, graph: u64) {
        // The implementation has lost what it had there, as with a reset of its context.
        self.close(memory.address.0);
        self.meters.entry(memory.device.0).or_default().reserved.rise(memory.bytes);
        let range = Range { memory, graph: Some(graph), given: Vec::new(), freed_by: None, execs: 0, alive: None };
        self.ranges.insert(memory.address.0, range);
    }

    /// Takes a range out, with the allocations it was given to.
    fn close(&mut self, at: u64) -> Option<Reserved> {
        let range = self.ranges.remove(&at)?;
        let meter = self.meters.entry(range.memory.device.0).or_default();
        meter.reserved.fall(range.memory.bytes);
        if range.is_used() {
            meter.used.fall(range.memory.bytes);
        }
        for allocation in range.given {
            self.allocations.remove(&allocation);
        }
        Some(range.memory)
    }

    /// Changes a range, counts what that comes to, and gives the range up where nobody needs it any more.
    fn change(&mut self, at: u64, change: impl FnOnce(&mut Range)) {
        let Some(range) = self.ranges.get_mut(&at) else { return };
        let before = range.is_used();
        change(range);
        let (after, over, memory) = (range.is_used(), range.is_over(), range.memory);
        let used = &mut self.meters.entry(memory.device.0).or_default().used;
        match (before, after) {
            (false, true) => used.rise(memory.bytes),
            (true, false) => used.fall(memory.bytes),
            _ => {}
        }
        if over {
            self.close(at);
            self.over.push(memory);
        }
    }

    /// The graph of an allocation node is gone.
    pub(super) fn disown(&mut self, allocation: u64) {
        if let Some(at) = self.allocations.get(&allocation).map(|allocation| allocation.at) {
            self.change(at, |range| range.graph = None);
        }
    }

    /// A graph that freed an allocation of another is gone.
    pub(super) fn forget_free(&mut self, allocation: u64, graph: u64) {
        if let Some(allocation) = self.allocations.get_mut(&allocation).filter(|known| known.graph != graph) {
            allocation.freed_in.retain(|other| *other != graph);
        }
    }
}

impl Graphs {
    /// One of `graph_memory_attribute`, in bytes: used is what instantiated graphs and living allocations have, reserved
    /// what is set aside for any graph.
    ///
    /// # Errors
    /// INVALID_VALUE for another attribute.
    pub fn memory_attribute(&self, device: Device, attribute: u32) -> CudaResult<u64> {
        let meter = self.lock().memory.meters.get(&device.0).copied().unwrap_or_default();
        match attribute {
            ask::USED_MEM_CURRENT => Ok(meter.used.now),
            ask::USED_MEM_HIGH => Ok(meter.used.high),
            ask::RESERVED_MEM_CURRENT => Ok(meter.reserved.now),
            ask::RESERVED_MEM_HIGH => Ok(meter.reserved.high),
            _ => Err(CudaError::INVALID_VALUE),
        }
    }

    /// Resets a high mark of bytes; no other attribute and no other value can be set.
    ///
    /// # Errors
    /// INVALID_VALUE.
    pub fn set_memory_attribute(&self, device: Device, attribute: u32, value: u64) -> CudaResult<()> {
        let mut state = self.lock();
        let meter = state.memory.meters.entry(device.0).or_default();
        let level = match attribute {
            ask::USED_MEM_HIGH => &mut meter.used,
            ask::RESERVED_MEM_HIGH => &mut meter.reserved,
            _ => return Err(CudaError::INVALID_VALUE),
        };
        if value != 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        level.high = level.now;
        Ok(())
    }
}
