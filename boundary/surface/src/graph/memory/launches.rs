//! Effects of launches on memory of graphs: which allocations live afterwards, which are freed, and which launches are
//! refused because one still lives. Instantiated graphs and frees outside of graphs come in. Order on the device is the
//! launches' own.

use super::{Accounts, Range, Reserved};
use crate::graph::exec::Exec;
use crate::graph::handles::{Kind, id};
use crate::graph::plan::Plan;
use crate::graph::store::{Graphs, State};
use crate::graph::work::Work;
use floe_abi::{CudaError, CudaResult, DevicePtr, Graph};
use std::collections::BTreeSet;

/// Effects of one launch of a plan on memory: allocations by their nodes.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    /// The ranges its allocations are in, each once.
    memory: Vec<Reserved>,
    /// Allocations that outlive it.
    leaves: Vec<u64>,
    /// Allocations of other graphs it frees.
    frees: Vec<u64>,
}

impl Effects {
    /// Whether a launch leaves memory alone.
    pub(in crate::graph) fn is_none(&self) -> bool {
        self.memory.is_empty() && self.frees.is_empty()
    }

    /// The memory its allocations are in.
    pub(crate) fn memory(&self) -> &[Reserved] {
        &self.memory
    }
}

impl Accounts {
    /// The effects of a launch of a plan.
    ///
    /// # Errors
    /// INVALID_VALUE where memory it is to use is gone.
    pub(in crate::graph) fn effects(&self, plan: &Plan) -> CudaResult<Effects> {
        let (mut effects, mut own, mut ranges) = (Effects::default(), BTreeSet::new(), BTreeSet::new());
        for node in &plan.nodes {
            match &node.work {
                Work::Alloc(_) => {
                    let allocation = id(Kind::Node, node.node.0)?;
                    let memory = self.range_of(allocation)?.memory;
                    own.insert(allocation);
                    if ranges.insert(memory.address.0) {
                        effects.memory.push(memory);
                    }
                }
                Work::Free(free) => effects.frees.push(free.allocation),
                _ => {}
            }
        }
        let freed: BTreeSet<u64> = effects.frees.iter().copied().collect();
        effects.leaves = own.difference(&freed).copied().collect();
        effects.frees.retain(|allocation| !own.contains(allocation));
        Ok(effects)
    }

    /// The range, if it is still the one that was known.
    fn same(&self, memory: &Reserved) -> Option<&Range> {
        self.ranges.get(&memory.address.0).filter(|range| range.memory == *memory)
    }

    /// An instantiated graph uses its ranges.
    pub(in crate::graph) fn hold(&mut self, effects: &Effects) {
        for memory in &effects.memory {
            self.change(memory.address.0, |range| range.execs += 1);
        }
    }

    /// An instantiated graph is gone.
    pub(in crate::graph) fn let_go(&mut self, effects: &Effects) {
        for memory in &effects.memory {
            if self.same(memory).is_some() {
                self.change(memory.address.0, |range| range.execs -= 1);
            }
        }
    }

    fn check(&self, effects: &Effects, auto_free: bool) -> CudaResult<()> {
        for memory in &effects.memory {
            if self.same(memory).is_none_or(|range| range.alive.is_some() && !auto_free) {
                return Err(CudaError::INVALID_VALUE);
            }
        }
        for allocation in &effects.frees {
            if self.range_of(*allocation)?.alive != Some(*allocation) {
                return Err(CudaError::INVALID_VALUE);
            }
        }
        Ok(())
    }

    fn launched(&mut self, effects: &Effects) {
        for memory in &effects.memory {
            if self.same(memory).is_some_and(|range| range.alive.is_some()) {
                self.change(memory.address.0, |range| range.alive = None);
            }
        }
        let lives = effects.leaves.iter().map(|allocation| (allocation, Some(*allocation)));
        for (allocation, alive) in effects.frees.iter().map(|allocation| (allocation, None)).chain(lives) {
            if let Some(at) = self.allocations.get(allocation).map(|allocation| allocation.at) {
                self.change(at, |range| range.alive = alive);
            }
        }
    }
}

impl State {
    /// Whether a graph, or one within it, allocates or frees memory: it then stays as it is, one of its kind.
    pub(in crate::graph) fn has_memory(&self, graph: Graph) -> CudaResult<bool> {
        let body = self.body(graph)?;
        if body.has_memory {
            return Ok(true);
        }
        for node in &body.nodes {
            if let Work::Child(child) = node.work
                && self.has_memory(child)?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Refuses what cannot be done with a graph that allocates or frees memory.
    ///
    /// # Errors
    /// NOT_SUPPORTED for such a graph, INVALID_VALUE for none.
    pub(in crate::graph) fn refuse_memory(&self, graph: Graph) -> CudaResult<()> {
        if self.has_memory(graph)? { Err(CudaError::NOT_SUPPORTED) } else { Ok(()) }
    }
}

impl Graphs {
    /// Asked before a launch: whether memory allows it. What the implementation has it is asked itself.
    ///
    /// # Errors
    /// INVALID_VALUE where an allocation of an earlier launch still lives and no flag says that a launch frees
    /// it. Also where an allocation to be freed does not live, or its memory is gone.
    pub(crate) fn check_launch(&self, exec: &Exec) -> CudaResult<()> {
        let effects = exec.effects();
        if effects.is_none() {
            return Ok(());
        }
        self.lock().memory.check(&effects, exec.flags().frees_on_launch())
    }

    /// The launch has been issued. True: the implementation may have memory to take back.
    pub(crate) fn launched(&self, exec: &Exec) -> bool {
        let effects = exec.effects();
        let touched = !effects.is_none();
        if touched {
            self.lock().memory.launched(&effects);
        }
        touched
    }

    /// The program frees an address outside of graphs, where the implementation has the memory of this serial. False: it
    /// is no memory of a graph's, and the implementation frees it.
    ///
    /// # Errors
    /// INVALID_VALUE for memory of a graph in which nothing lives since a launch.
    pub fn free(&self, address: DevicePtr, serial: u64) -> CudaResult<bool> {
        let mut state = self.lock();
        let Some(range) = state.memory.ranges.get(&address.0).filter(|range| range.memory.serial == serial) else {
            return Ok(false);
        };
        if range.alive.is_none() {
            return Err(CudaError::INVALID_VALUE);
        }
        state.memory.change(address.0, |range| range.alive = None);
        Ok(true)
    }
}

/// Gives the implementation back what no graph can need any more, and says which graphs with conditional handles are gone. Called behind all that may end a graph, an instantiated
/// graph or an allocation.
pub fn settle<D: crate::GraphCalls + crate::GraphMemoryCalls>(driver: &D) {
    let over = std::mem::take(&mut driver.graphs().lock().memory.over);
    for memory in over {
        driver.graph_memory_release(&memory);
    }
    let gone = std::mem::take(&mut driver.graphs().lock().gone);
    for graph in gone {
        driver.graph_conditions_end(graph);
    }
}
