//! All graphs of a process: made, filled with nodes, copied, taken apart. Handles and work come in, handles go out. A node
//! belongs to one graph; a graph that is a node's own lives as long as the node.

use super::capture::Captures;
use super::condition::Condition;
use super::exec::Exec;
use super::handles::{Kind, id, value};
use super::memory::Accounts;
use super::plan::Plan;
use super::user_objects::{Held, UserObjects};
use super::work::Work;
use floe_abi::{CudaError, CudaResult, Graph, GraphEdge, GraphNode, child_graph_ownership};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// A dependency as its later node has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The earlier node.
    pub from: GraphNode,
    /// The part of the earlier node that is waited for.
    pub data: GraphEdge,
}

impl Edge {
    /// A wait for all of a node.
    pub fn whole(from: GraphNode) -> Self {
        Self { from, data: GraphEdge::default() }
    }
}

/// The graphs, captures and user objects of a process.
#[derive(Debug, Default)]
pub struct Graphs {
    state: Mutex<State>,
    /// Open captures, and events last recorded in one: while there are none, streams need not ask.
    pub(super) watched: AtomicUsize,
}

#[derive(Debug, Default)]
pub(super) struct State {
    last_id: u64,
    graphs: HashMap<u64, Body>,
    /// The graph each node belongs to.
    owners: HashMap<u64, u64>,
    pub(super) execs: HashMap<u64, Arc<Exec>>,
    /// Those that kernels may launch, by the numbers that kernels have for them.
    pub(super) for_kernels: HashMap<u64, u64>,
    pub(super) captures: Captures,
    pub(super) objects: UserObjects,
    pub(super) memory: Accounts,
    /// Graphs with conditional handles that are gone, until the implementation has been told.
    pub(super) gone: Vec<Graph>,
}

/// One graph.
#[derive(Debug, Default)]
pub(super) struct Body {
    /// In the order they were made, so by rising id.
    pub(super) nodes: Vec<Node>,
    /// The node whose child graph it is, which alone may end it.
    parent: Option<u64>,
    /// User objects it keeps alive.
    pub(super) held: Held,
    /// Node by node the ids in the graph it was cloned from.
    originals: HashMap<u64, u64>,
    /// Some of its nodes allocate or free memory.
    pub(super) has_memory: bool,
    /// The instantiated graph of one that has: there is one at a time.
    pub(super) exec: Option<u64>,
    /// The conditional handles of it and of all bodies within it.
    pub(super) conditions: Vec<Condition>,
}

#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) id: u64,
    pub(super) work: Work,
    pub(super) after: Vec<Edge>,
    /// A stream's capture made it, and has to join it again before it ends.
    pub(super) to_join: bool,
}

impl Body {
    /// The node whose graph it is.
    pub(super) fn parent(&self) -> Option<u64> {
        self.parent
    }

    /// Whether it is the graph of a node.
    pub(super) fn is_child(&self) -> bool {
        self.parent.is_some()
    }

    pub(super) fn node(&self, id: u64) -> CudaResult<&Node> {
        let at = self.nodes.binary_search_by_key(&id, |node| node.id).map_err(|_| CudaError::INVALID_VALUE)?;
        Ok(&self.nodes[at])
    }

    pub(super) fn node_mut(&mut self, id: u64) -> CudaResult<&mut Node> {
        let at = self.nodes.binary_search_by_key(&id, |node| node.id).map_err(|_| CudaError::INVALID_VALUE)?;
        Ok(&mut self.nodes[at])
    }
}

impl State {
    pub(super) fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    pub(super) fn body(&self, graph: Graph) -> CudaResult<&Body> {
        self.graphs.get(&id(Kind::Graph, graph.0)?).ok_or(CudaError::INVALID_VALUE)
    }

    pub(super) fn body_mut(&mut self, graph: Graph) -> CudaResult<&mut Body> {
        self.graphs.get_mut(&id(Kind::Graph, graph.0)?).ok_or(CudaError::INVALID_VALUE)
    }

    /// The graph a node belongs to.
    pub(super) fn owner(&self, node: GraphNode) -> CudaResult<Graph> {
        let owner = self.owners.get(&id(Kind::Node, node.0)?).ok_or(CudaError::INVALID_VALUE)?;
        Ok(Graph(value(Kind::Graph, *owner)))
    }

    /// Whether this graph, or one within it, is being captured into: then none of its nodes may go.
    pub(super) fn is_captured(&self, graph: Graph) -> bool {
        self.captures.graphs().any(|inner| self.around(inner).any(|it| it == graph))
    }

    /// As an H200's driver has it.
    fn refuse_capture_into(&self, graph: Graph) -> CudaResult<()> {
        if self.is_captured(graph) { Err(CudaError::ILLEGAL_STATE) } else { Ok(()) }
    }

    /// A graph, then the one that its node is in, and so on.
    pub(super) fn around(&self, graph: Graph) -> impl Iterator<Item = Graph> {
        let around = |inner: &Graph| {
            let node = self.body(*inner).ok()?.parent?;
            self.owners.get(&node).map(|owner| Graph(value(Kind::Graph, *owner)))
        };
        std::iter::successors(Some(graph), around)
    }

    pub(super) fn node(&self, node: GraphNode) -> CudaResult<&Node> {
        self.body(self.owner(node)?)?.node(id(Kind::Node, node.0)?)
    }

    pub(super) fn node_mut(&mut self, node: GraphNode) -> CudaResult<&mut Node> {
        let owner = self.owner(node)?;
        self.body_mut(owner)?.node_mut(id(Kind::Node, node.0)?)
    }

    pub(super) fn create(&mut self, parent: Option<u64>) -> Graph {
        let id = self.next_id();
        self.graphs.insert(id, Body { parent, ..Body::default() });
        Graph(value(Kind::Graph, id))
    }

    /// Adds a node whose edges have been checked.
    pub(super) fn push(&mut self, graph: Graph, work: Work, after: Vec<Edge>) -> CudaResult<GraphNode> {
        let id = self.next_id();
        let owner = super::handles::id(Kind::Graph, graph.0)?;
        self.body_mut(graph)?.nodes.push(Node { id, work, after, to_join: false });
        self.owners.insert(id, owner);
        Ok(GraphNode(value(Kind::Node, id)))
    }

    /// Adds a node that runs a copy of a graph; the edges have been checked.
    pub(super) fn push_child(&mut self, graph: Graph, child: Graph, after: Vec<Edge>) -> CudaResult<GraphNode> {
        self.body(child)?;
        let node = self.push(graph, Work::Empty, after)?;
        let own = self.copy(child, Some(id(Kind::Node, node.0)?))?;
        self.node_mut(node)?.work = Work::Child(own);
        Ok(node)
    }

    /// Adds a node that runs what a plan does, as a graph of its own; the edges have been checked.
    pub(super) fn push_plan(&mut self, graph: Graph, plan: &Plan, after: Vec<Edge>) -> CudaResult<GraphNode> {
        let node = self.push(graph, Work::Empty, after)?;
        let own = self.create(Some(id(Kind::Node, node.0)?));
        let mut made: Vec<GraphNode> = Vec::with_capacity(plan.nodes.len());
        for step in &plan.nodes {
            let after = step.after.iter().map(|edge| Edge { from: made[edge.from], data: edge.data }).collect();
            let work = if step.enabled { step.work.clone() } else { Work::Empty };
            made.push(self.push(own, work, after)?);
        }
        self.node_mut(node)?.work = Work::Child(own);
        Ok(node)
    }

    /// A copy of all nodes, with graphs of their own where they have some.
    fn copy(&mut self, source: Graph, parent: Option<u64>) -> CudaResult<Graph> {
        let (nodes, held) = {
            let body = self.body(source)?;
            (body.nodes.clone(), body.held.clone())
        };
        let made = self.create(parent);
        let mut renamed = HashMap::new();
        for node in &nodes {
            // Edges follow when every node has its new name: an edge may lead to a node made later.
            let new = self.push(made, Work::Empty, Vec::new())?;
            renamed.insert(value(Kind::Node, node.id), new);
        }
        for node in nodes {
            let name_of = |old: u64| renamed.get(&old).copied().ok_or(CudaError::INVALID_VALUE);
            let new = name_of(value(Kind::Node, node.id))?;
            let work = match node.work {
                Work::Child(child) => Work::Child(self.copy(child, Some(id(Kind::Node, new.0)?))?),
                other => other,
            };
            let edges = node.after.iter().map(|edge| Ok(Edge { from: name_of(edge.from.0)?, ..*edge }));
            let after = edges.collect::<CudaResult<Vec<_>>>()?;
            let target = self.node_mut(new)?;
            (target.work, target.after) = (work, after);
        }
        self.objects.share(&held);
        let body = self.body_mut(made)?;
        body.held = held;
        for (old, new) in renamed {
            body.originals.insert(id(Kind::Node, old)?, id(Kind::Node, new.0)?);
        }
        Ok(made)
    }

    /// Removes a graph with all its nodes; returns the destructors of user objects that nothing holds any more.
    pub(super) fn remove(&mut self, graph: Graph) -> CudaResult<Vec<super::Destructor>> {
        let body = self.graphs.remove(&id(Kind::Graph, graph.0)?).ok_or(CudaError::INVALID_VALUE)?;
        let mut over = self.objects.release_all(&body.held);
        if !body.conditions.is_empty() {
            self.gone.push(graph);
        }
        for node in body.nodes {
            self.owners.remove(&node.id);
            match node.work {
                Work::Child(child) => over.extend(self.remove(child)?),
                Work::Conditional(work) => over.extend(self.remove_bodies(&work)?),
                Work::Alloc(_) => self.memory.disown(node.id),
                Work::Free(free) => self.memory.forget_free(free.allocation, id(Kind::Graph, graph.0)?),
                _ => {}
            }
        }
        Ok(over)
    }
}

impl Graphs {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        floe_lock::lock(&self.state)
    }

    /// Whether a stream operation has anything to ask here.
    #[inline]
    pub fn is_watching(&self) -> bool {
        self.watched.load(Ordering::Acquire) != 0
    }

    /// A graph without nodes.
    pub fn create(&self) -> Graph {
        self.lock().create(None)
    }

    /// Ends a graph.
    ///
    /// # Errors
    /// INVALID_VALUE where it is none or is a node's, ILLEGAL_STATE where it is being captured into.
    pub fn destroy(&self, graph: Graph) -> CudaResult<()> {
        let mut state = self.lock();
        if state.body(graph)?.parent.is_some() {
            return Err(CudaError::INVALID_VALUE);
        }
        state.refuse_capture_into(graph)?;
        let over = state.remove(graph)?;
        drop(state);
        over.into_iter().for_each(super::Destructor::call);
        Ok(())
    }

    /// A copy.
    ///
    /// # Errors
    /// INVALID_VALUE where there is no such graph, NOT_SUPPORTED where it allocates or frees memory or has conditional
    /// handles.
    pub fn clone_graph(&self, graph: Graph) -> CudaResult<Graph> {
        let mut state = self.lock();
        state.refuse_memory(graph)?;
        state.refuse_conditions(graph)?;
        state.copy(graph, None)
    }

    /// The node of `clone` that was copied from `node`.
    ///
    /// # Errors
    /// INVALID_VALUE where there is none.
    pub fn find_in_clone(&self, node: GraphNode, clone: Graph) -> CudaResult<GraphNode> {
        let state = self.lock();
        let body = state.body(clone)?;
        let found = *body.originals.get(&id(Kind::Node, node.0)?).ok_or(CudaError::INVALID_VALUE)?;
        body.node(found)?;
        Ok(GraphNode(value(Kind::Node, found)))
    }

    /// Adds a node.
    ///
    /// # Errors
    /// INVALID_VALUE where there is no such graph, or a dependency is not a node of it or is named twice.
    pub fn add(&self, graph: Graph, after: &[Edge], work: Work) -> CudaResult<GraphNode> {
        let mut state = self.lock();
        state.check_edges(graph, after)?;
        state.push(graph, work, after.to_vec())
    }

    /// Adds a graph as a node: a copy, or the graph itself where `ownership` says so.
    ///
    /// # Errors
    /// As [`Graphs::add`]; NOT_SUPPORTED for a copy of a graph that allocates or frees memory, and for one that has
    /// conditional handles. ILLEGAL_STATE for the graph itself while it is being captured into.
    pub fn add_child(&self, graph: Graph, after: &[Edge], child: Graph, ownership: u32) -> CudaResult<GraphNode> {
        let mut state = self.lock();
        state.check_edges(graph, after)?;
        let moves = ownership == child_graph_ownership::MOVE;
        let body = state.body(child)?;
        if moves && (body.parent.is_some() || state.around(graph).any(|it| it == child))
            || ownership > child_graph_ownership::MOVE
        {
            return Err(CudaError::INVALID_VALUE);
        }
        if moves && body.exec.is_some() {
            return Err(CudaError::NOT_SUPPORTED);
        }
        if moves {
            // Its capture may end it, and then the node would have none.
            state.refuse_capture_into(child)?;
        }
        state.refuse_conditions(child)?;
        if !moves {
            state.refuse_memory(child)?;
            return state.push_child(graph, child, after.to_vec());
        }
        let node = state.push(graph, Work::Child(child), after.to_vec())?;
        state.body_mut(child)?.parent = Some(id(Kind::Node, node.0)?);
        Ok(node)
    }

    /// Ends a node with its edges.
    ///
    /// # Errors
    /// INVALID_VALUE where it is none, ILLEGAL_STATE where its graph is being captured into; NOT_SUPPORTED where that allocates or
    /// frees memory.
    pub fn destroy_node(&self, node: GraphNode) -> CudaResult<()> {
        let mut state = self.lock();
        let graph = state.owner(node)?;
        state.refuse_capture_into(graph)?;
        state.refuse_memory(graph)?;
        let gone = id(Kind::Node, node.0)?;
        let body = state.body_mut(graph)?;
        let at = body.nodes.binary_search_by_key(&gone, |node| node.id).map_err(|_| CudaError::INVALID_VALUE)?;
        let removed = body.nodes.remove(at);
        for other in &mut body.nodes {
            other.after.retain(|edge| edge.from != node);
        }
        state.owners.remove(&gone);
        let over = match &removed.work {
            Work::Child(child) => state.remove(*child)?,
            Work::Conditional(work) => {
                state.let_condition_go(graph, gone);
                state.remove_bodies(work)?
            }
            _ => Vec::new(),
        };
        drop(state);
        over.into_iter().for_each(super::Destructor::call);
        Ok(())
    }

    /// A node's work.
    ///
    /// # Errors
    /// INVALID_VALUE where it is none.
    pub fn work(&self, node: GraphNode) -> CudaResult<Work> {
        Ok(self.lock().node(node)?.work.clone())
    }

    /// Makes a node do something else of the same kind.
    ///
    /// # Errors
    /// INVALID_VALUE where there is no such node or it is of another kind.
    pub fn set_work(&self, node: GraphNode, work: Work) -> CudaResult<()> {
        let mut state = self.lock();
        let target = state.node_mut(node)?;
        if target.work.kind() != work.kind() || matches!(work, Work::Child(_) | Work::Conditional(_)) {
            return Err(CudaError::INVALID_VALUE);
        }
        target.work = work;
        Ok(())
    }

    /// All nodes, in the order they were made.
    ///
    /// # Errors
    /// INVALID_VALUE where there is no such graph.
    pub fn nodes(&self, graph: Graph) -> CudaResult<Vec<GraphNode>> {
        Ok(self.lock().body(graph)?.nodes.iter().map(Node::handle).collect())
    }
}

impl Node {
    pub(super) fn handle(&self) -> GraphNode {
        GraphNode(value(Kind::Node, self.id))
    }
}
