//! Nodes that allocate and free memory: made explicitly or recorded on a stream. A program's wishes come in, addresses
//! that stay the same for the graph's life go out. A node reuses a range that an earlier node of the graph has freed;
//! else the implementation sets memory aside.

use super::{Accounts, Allocation, Reserved};
use crate::arguments::wishes::{accessing_device, check_pool, device_of_place};
use crate::graph::capture::CaptureStream;
use crate::graph::handles::{Kind, id};
use crate::graph::store::{Edge, Graphs, State};
use crate::graph::work::Work;
use crate::process::refusals::{refused, refused_once};
use floe_abi::{
    CudaError, CudaResult, Device, DevicePtr, Graph, GraphNode, MemAccess, MemAllocNodeParams, MemLocation,
    MemPoolProperties, access_flags, allocation_type, location_type,
};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Ranges are multiples of this, as device allocations are.
const GRAIN: u64 = 512;

/// The most that a reused range may exceed an allocation, as a multiple of its size.
const MOST_SLACK: u64 = 2;

/// An allocation node's parameters, as the program gave them, and its address.
#[derive(Debug)]
pub struct AllocWork {
    asked: MemAllocNodeParams,
    access: Vec<MemAccess>,
}

impl AllocWork {
    /// The parameters as C reads them. The address of the array stays valid while the node exists.
    pub fn to_params(&self) -> MemAllocNodeParams {
        let access = if self.access.is_empty() { 0 } else { self.access.as_ptr() as u64 };
        MemAllocNodeParams { access, access_count: self.access.len(), ..self.asked }
    }

    fn device(&self) -> Device {
        Device(self.asked.pool.location.id)
    }

    fn length(&self) -> CudaResult<u64> {
        (self.asked.bytes as u64).checked_next_multiple_of(GRAIN).ok_or(CudaError::OUT_OF_MEMORY)
    }
}

/// A free node's allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreeWork {
    /// As the allocation node gave it.
    pub address: DevicePtr,
    /// The allocation, by its node.
    pub(in crate::graph) allocation: u64,
}

/// A wish for memory, checked; `address` is not known yet.
///
/// # Errors
/// INVALID_VALUE for no bytes or what is no memory of a device; NOT_SUPPORTED for memory that other processes or other
/// devices reach.
pub(crate) fn wish(asked: &MemAllocNodeParams, access: &[MemAccess]) -> CudaResult<AllocWork> {
    let (pool, own) = (&asked.pool, asked.pool.location);
    check_pool(pool)?;
    device_of_place(&own)?;
    if asked.bytes == 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    if pool.handle_types != 0 {
        let kinds = pool.handle_types;
        refused_once(format_args!(
            "memory of a graph that other processes open is not supported, kinds of handles: {kinds:#x}"
        ));
        return Err(CudaError::NOT_SUPPORTED);
    }
    for wish in access {
        let known = matches!(wish.flags, access_flags::NONE | access_flags::READ | access_flags::READWRITE);
        if accessing_device(&wish.location).is_err() || !known {
            return Err(CudaError::INVALID_VALUE);
        }
        if wish.location == own && wish.flags != access_flags::READWRITE {
            return Err(CudaError::INVALID_VALUE);
        }
        if wish.location != own && wish.flags != access_flags::NONE {
            refused(format_args!(
                "memory of a graph that other GPUs reach is not supported, device: {}",
                wish.location.id
            ));
            return Err(CudaError::NOT_SUPPORTED);
        }
    }
    Ok(AllocWork { asked: *asked, access: access.to_vec() })
}

/// The place of a new node.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target<'a> {
    /// Into a graph, behind these nodes.
    Graph(Graph, &'a [Edge]),
    /// Onto a stream that is captured.
    Stream(&'a CaptureStream),
}

impl Target<'_> {
    /// Graph and dependencies of the node.
    fn resolve(&self, state: &mut State) -> CudaResult<(Graph, Vec<Edge>)> {
        let (graph, after) = match self {
            Self::Graph(graph, after) => {
                state.check_edges(*graph, after)?;
                (*graph, after.to_vec())
            }
            Self::Stream(stream) => state.next_on(stream)?,
        };
        if state.body(graph)?.is_child() {
            return Err(CudaError::NOT_SUPPORTED);
        }
        Ok((graph, after))
    }

    fn push(&self, state: &mut State, graph: Graph, after: Vec<Edge>, work: Work) -> CudaResult<GraphNode> {
        let node = state.push(graph, work, after)?;
        if let Self::Stream(stream) = self {
            state.go_on(stream, node)?;
        }
        Ok(node)
    }
}

impl Accounts {
    /// Ranges of a graph that its nodes have freed and that fit: the node that frees each, and how long it is.
    fn freed(&self, graph: u64, device: Device, bytes: u64) -> HashMap<u64, (u64, u64)> {
        let fits = |length: u64| length >= bytes && length / MOST_SLACK <= bytes;
        let ranges = self.ranges.values();
        ranges
            .filter(|range| range.graph == Some(graph) && range.memory.device == device && fits(range.memory.bytes))
            .filter_map(|range| Some((range.freed_by?, (range.memory.bytes, range.memory.address.0))))
            .collect()
    }

    /// Gives a range to the allocation of a node.
    fn give(&mut self, at: u64, allocation: u64, graph: u64) {
        if let Some(range) = self.ranges.get_mut(&at) {
            range.given.push(allocation);
            range.freed_by = None;
            self.allocations.insert(allocation, Allocation { at, graph, freed_in: Vec::new() });
        }
    }

    /// The allocation that a graph's new node would free at this address.
    ///
    /// # Errors
    /// INVALID_VALUE where there is none, the graph frees it already, or its own graph and another would both free it.
    fn to_free(&self, address: DevicePtr, graph: u64) -> CudaResult<u64> {
        let allocation = self.ranges.get(&address.0).and_then(|range| range.given.last().copied());
        let allocation = allocation.ok_or(CudaError::INVALID_VALUE)?;
        let Allocation { graph: own, freed_in, .. } = &self.allocations[&allocation];
        let freed =
            if *own == graph { !freed_in.is_empty() } else { freed_in.contains(own) || freed_in.contains(&graph) };
        if freed { Err(CudaError::INVALID_VALUE) } else { Ok(allocation) }
    }

    fn note_free(&mut self, allocation: u64, graph: u64, node: u64) {
        let Some(known) = self.allocations.get_mut(&allocation) else { return };
        known.freed_in.push(graph);
        if known.graph == graph
            && let Some(range) = self.ranges.get_mut(&known.at)
        {
            range.freed_by = Some(node);
        }
    }
}

impl State {
    /// The smallest range that a node behind `after` may have, since a node it comes after has freed it.
    fn range_again(&self, graph: Graph, after: &[Edge], wish: &AllocWork) -> CudaResult<Option<u64>> {
        let freed = self.memory.freed(id(Kind::Graph, graph.0)?, wish.device(), wish.length()?);
        let (mut found, mut left) = (None, freed.len());
        let (mut seen, mut open) = (HashSet::new(), Vec::new());
        open.extend(after.iter().map(|edge| edge.from));
        let body = self.body(graph)?;
        while let (Some(node), true) = (open.pop(), left > 0) {
            if !seen.insert(node) {
                continue;
            }
            let node = id(Kind::Node, node.0)?;
            if let Some(range) = freed.get(&node) {
                found = Some(found.map_or(*range, |best: (u64, u64)| best.min(*range)));
                left -= 1;
            }
            open.extend(body.node(node)?.after.iter().map(|edge| edge.from));
        }
        Ok(found.map(|(_, at)| at))
    }

    /// Adds a node that allocates the range at `at`, which is `new` or one of the graph's.
    fn put_alloc(
        &mut self,
        target: &Target<'_>,
        mut wish: AllocWork,
        at: u64,
        new: Option<Reserved>,
    ) -> CudaResult<(GraphNode, DevicePtr)> {
        let (graph, after) = target.resolve(self)?;
        let owner = id(Kind::Graph, graph.0)?;
        wish.asked.address = DevicePtr(at);
        let node = target.push(self, graph, after, Work::Alloc(Arc::new(wish)))?;
        if let Some(new) = new {
            self.memory.open(new, owner);
        }
        self.memory.give(at, id(Kind::Node, node.0)?, owner);
        self.body_mut(graph)?.has_memory = true;
        Ok((node, DevicePtr(at)))
    }
}

impl Graphs {
    /// Adds a node that allocates. `reserve` is asked for memory where no range of the graph can be used again.
    ///
    /// # Errors
    /// As [`Graphs::add`] and as `reserve`; NOT_SUPPORTED for a graph within a graph.
    pub(crate) fn add_alloc(
        &self,
        target: Target<'_>,
        wish: AllocWork,
        reserve: impl FnOnce(Device, u64) -> CudaResult<Reserved>,
    ) -> CudaResult<(GraphNode, DevicePtr)> {
        let mut state = self.lock();
        let (graph, after) = target.resolve(&mut state)?;
        if let Some(at) = state.range_again(graph, &after, &wish)? {
            return state.put_alloc(&target, wish, at, None);
        }
        drop(state);
        // Setting memory aside may take a while: nobody waits for the graphs meanwhile.
        let new = reserve(wish.device(), wish.length()?)?;
        let mut state = self.lock();
        let made = state.put_alloc(&target, wish, new.address.0, Some(new));
        if made.is_err() {
            state.memory.over.push(new);
        }
        made
    }

    /// Adds a node that frees.
    ///
    /// # Errors
    /// As [`Graphs::add`]; INVALID_VALUE where no allocation node gave the address or it is freed already.
    pub(crate) fn add_free(&self, target: Target<'_>, address: DevicePtr) -> CudaResult<GraphNode> {
        let mut state = self.lock();
        let (graph, after) = target.resolve(&mut state)?;
        let owner = id(Kind::Graph, graph.0)?;
        let allocation = state.memory.to_free(address, owner)?;
        let node = target.push(&mut state, graph, after, Work::Free(FreeWork { address, allocation }))?;
        state.memory.note_free(allocation, owner, id(Kind::Node, node.0)?);
        state.body_mut(graph)?.has_memory = true;
        Ok(node)
    }

    /// Records a free on a capturing stream.
    ///
    /// # Errors
    /// As [`Graphs::record`]; INVALID_VALUE where no allocation node gave the address or it is freed already.
    pub fn record_free(&self, stream: &CaptureStream, address: DevicePtr) -> CudaResult<()> {
        self.add_free(Target::Stream(stream), address).map(drop)
    }
}

/// Records an allocation on a capturing stream.
///
/// # Errors
/// As [`Graphs::record`] and as the implementation's `graph_memory_reserve`; INVALID_VALUE for no bytes.
pub fn record_alloc<D: crate::GraphCalls + crate::GraphMemoryCalls>(
    driver: &D,
    stream: &CaptureStream,
    device: Device,
    bytes: usize,
) -> CudaResult<DevicePtr> {
    let location = MemLocation { kind: location_type::DEVICE, id: device.0 };
    let pool = MemPoolProperties { kind: allocation_type::PINNED, location, ..MemPoolProperties::default() };
    let wish = wish(&MemAllocNodeParams { pool, bytes, ..MemAllocNodeParams::default() }, &[])?;
    let reserve = |device, bytes| driver.graph_memory_reserve(device, bytes);
    let made = driver.graphs().add_alloc(Target::Stream(stream), wish, reserve);
    super::settle(driver);
    made.map(|(_, at)| at)
}
