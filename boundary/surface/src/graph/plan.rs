//! A graph as it is run: all nodes in an order in which each comes after what it waits for, graphs within it dissolved.
//! A graph comes in, a list goes out that no later change of the graph touches. It also tells whether one list may take
//! another's place in an instantiated graph.

use super::handles::{Kind, id};
use super::store::State;
use super::work::Work;
use floe_abi::{
    CudaError, CudaResult, Graph, GraphEdge, GraphNode, GraphUpdate, graph_instantiate_result as refused,
    graph_update_result as result,
};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// All nodes of a graph.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Each after all that it waits for, and after the conditional node in whose body it is. None does [`Work::Child`].
    pub nodes: Vec<PlanNode>,
    /// The graph that the conditional nodes' handles belong to, where there are some.
    pub conditions: Option<Graph>,
}

/// One node.
#[derive(Clone, Debug)]
pub struct PlanNode {
    /// The graph's node it comes from.
    pub node: GraphNode,
    /// Its work.
    pub work: Work,
    /// Its dependencies.
    pub after: Vec<PlanEdge>,
    /// Whether it does its work; where not, it is as good as empty.
    pub enabled: bool,
    /// The body that it is in; `None`: it runs at every launch.
    pub within: Option<Within>,
}

/// A body of a conditional node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Within {
    /// Place of the conditional node in the plan.
    pub node: usize,
    /// Which of its bodies.
    pub body: usize,
}

/// What a graph within another begins with.
#[derive(Clone, Copy)]
struct Entry<'a> {
    after: &'a [PlanEdge],
    within: Option<Within>,
    depth: usize,
}

/// One dependency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanEdge {
    /// Place of the earlier node in the plan.
    pub from: usize,
    /// The part of the earlier node that is waited for.
    pub data: GraphEdge,
}

impl PlanEdge {
    fn whole(from: usize) -> Self {
        Self { from, data: GraphEdge::default() }
    }
}

/// Graphs may be nested; deeper than this is a mistake.
pub(super) const DEEPEST: usize = 64;

impl Plan {
    /// The plan of a graph.
    ///
    /// # Errors
    /// INVALID_VALUE where there is no such graph or its nodes wait for one another in a circle.
    pub(super) fn new(state: &State, graph: Graph) -> CudaResult<Self> {
        let mut plan = Self::default();
        plan.append(state, graph, Entry { after: &[], within: None, depth: 0 })?;
        plan.conditions = (!state.body(graph)?.conditions.is_empty()).then_some(graph);
        Ok(plan)
    }

    /// Appends a graph whose first nodes wait for `entry`; returns what has to be waited for until all of it is over.
    fn append(&mut self, state: &State, graph: Graph, entry: Entry<'_>) -> CudaResult<Vec<usize>> {
        if entry.depth > DEEPEST {
            return Err(CudaError::INVALID_VALUE);
        }
        let nodes = &state.body(graph)?.nodes;
        let order = order(state, graph)?;
        // The last plan nodes of each node of this graph: several for a child graph with several ends.
        let mut ends: HashMap<GraphNode, Vec<usize>> = HashMap::new();
        let mut waited_for = vec![false; nodes.len()];
        for index in &order {
            let node = &nodes[*index];
            let mut after: Vec<PlanEdge> = Vec::new();
            for edge in &node.after {
                for from in &ends[&edge.from] {
                    after.push(PlanEdge { from: *from, data: edge.data });
                }
            }
            if node.after.is_empty() {
                after.extend_from_slice(entry.after);
            }
            let end = match &node.work {
                Work::Child(child) => {
                    self.append_child(state, *child, node.handle(), Entry { after: &after, ..entry })?
                }
                work => vec![self.push(node.handle(), work.clone(), after, entry.within)],
            };
            if let (Work::Conditional(work), [place]) = (&node.work, end.as_slice()) {
                for (body, graph) in work.bodies().iter().enumerate() {
                    let within = Some(Within { node: *place, body });
                    self.append(state, *graph, Entry { after: &[], within, depth: entry.depth + 1 })?;
                }
            }
            ends.insert(node.handle(), end);
        }
        for node in nodes {
            for edge in &node.after {
                let from = nodes.binary_search_by_key(&id(Kind::Node, edge.from.0)?, |other| other.id);
                waited_for[from.map_err(|_| CudaError::INVALID_VALUE)?] = true;
            }
        }
        let last = nodes.iter().zip(&waited_for).filter(|(_, waited_for)| !**waited_for);
        Ok(last.flat_map(|(node, _)| ends[&node.handle()].iter().copied()).collect())
    }

    /// A graph within a graph, closed by one empty node that also stands for it.
    fn append_child(
        &mut self,
        state: &State,
        child: Graph,
        node: GraphNode,
        entry: Entry<'_>,
    ) -> CudaResult<Vec<usize>> {
        let inner = Entry { depth: entry.depth + 1, ..entry };
        let mut ends: Vec<PlanEdge> = self.append(state, child, inner)?.into_iter().map(PlanEdge::whole).collect();
        if ends.is_empty() {
            ends = entry.after.to_vec();
        }
        Ok(vec![self.push(node, Work::Empty, ends, entry.within)])
    }

    fn push(&mut self, node: GraphNode, work: Work, after: Vec<PlanEdge>, within: Option<Within>) -> usize {
        self.nodes.push(PlanNode { node, work, after, enabled: true, within });
        self.nodes.len() - 1
    }

    /// Whether it allocates or frees memory.
    pub(crate) fn has_memory(&self) -> bool {
        self.nodes.iter().any(|node| matches!(node.work, Work::Alloc(_) | Work::Free(_)))
    }

    /// The place of a graph's node.
    ///
    /// # Errors
    /// INVALID_VALUE where the plan has none of it.
    pub fn place(&self, node: GraphNode) -> CudaResult<usize> {
        self.nodes.iter().position(|other| other.node == node).ok_or(CudaError::INVALID_VALUE)
    }

    /// Whether `other` may take this plan's place: the same nodes with the same dependencies, doing the same kinds of
    /// things. Its allocations may be others.
    ///
    /// # Errors
    /// The first node of `other` that does not fit.
    pub fn accepts(&self, other: &Self) -> Result<(), GraphUpdate> {
        let refuse = |reason, node| GraphUpdate { result: reason, error_node: node, ..GraphUpdate::default() };
        for (old, new) in self.nodes.iter().zip(&other.nodes) {
            if old.work.kind() != new.work.kind() {
                return Err(refuse(result::ERROR_NODE_TYPE_CHANGED, new.node));
            }
            if (old.within, &old.after) != (new.within, &new.after) {
                return Err(refuse(result::ERROR_TOPOLOGY_CHANGED, new.node));
            }
            if !new.work.may_replace(&old.work) {
                return Err(refuse(result::ERROR_PARAMETERS_CHANGED, new.node));
            }
        }
        if self.nodes.len() != other.nodes.len() {
            let node = other.nodes.get(self.nodes.len()).map_or(GraphNode::NULL, |node| node.node);
            return Err(refuse(result::ERROR_TOPOLOGY_CHANGED, node));
        }
        Ok(())
    }

    /// Takes over what the nodes of `other` do; the nodes keep their names, and those that are disabled stay so.
    pub(super) fn take(&mut self, other: Self) {
        for (old, new) in self.nodes.iter_mut().zip(other.nodes) {
            old.work = new.work;
        }
    }
}

/// Places of a graph's nodes, each after what it waits for, older ones first where they may choose.
fn order(state: &State, graph: Graph) -> CudaResult<Vec<usize>> {
    let nodes = &state.body(graph)?.nodes;
    let mut open = Vec::with_capacity(nodes.len());
    let mut later: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    for (index, node) in nodes.iter().enumerate() {
        open.push(node.after.len());
        for edge in &node.after {
            let from = nodes.binary_search_by_key(&id(Kind::Node, edge.from.0)?, |other| other.id);
            later[from.map_err(|_| CudaError::INVALID_VALUE)?].push(index);
        }
    }
    let mut ready: BinaryHeap<Reverse<usize>> =
        open.iter().enumerate().filter(|(_, open)| **open == 0).map(|(index, _)| Reverse(index)).collect();
    let mut order = Vec::with_capacity(nodes.len());
    while let Some(Reverse(index)) = ready.pop() {
        order.push(index);
        for next in &later[index] {
            open[*next] -= 1;
            if open[*next] == 0 {
                ready.push(Reverse(*next));
            }
        }
    }
    if order.len() == nodes.len() { Ok(order) } else { Err(CudaError::INVALID_VALUE) }
}

/// The result of `cuGraphInstantiateWithParams` for an error.
pub(crate) fn instantiate_result(error: CudaError) -> u32 {
    match error {
        CudaError::INVALID_VALUE => refused::INVALID_STRUCTURE,
        CudaError::NOT_SUPPORTED => refused::NODE_OPERATION_NOT_SUPPORTED,
        _ => refused::ERROR,
    }
}
