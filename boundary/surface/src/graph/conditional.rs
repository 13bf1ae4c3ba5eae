//! Conditional nodes: handles whose value kernels set, and nodes that run one of their bodies as such a value says.
//! Handles as the implementation made them and the program's wishes come in; nodes with bodies go out, which the program
//! fills as any graph. A handle belongs to the outermost graph, and decides for one node.

#[cfg(test)]
mod tests;

use super::condition::{Condition, ConditionalWork};
use super::handles::{Kind, id, value};
use super::plan::{DEEPEST, Plan};
use super::store::{Edge, Graphs, State};
use super::user_objects::Destructor;
use super::work::Work;
use crate::process::refusals::refused_once;
use floe_abi::{
    ConditionalNodeParams, Context, CudaError, CudaResult, Graph, GraphNode, graph_conditional_type as kinds,
};
use std::sync::Arc;

/// More bodies than any program's node has.
const MOST_BODIES: u32 = 4096;

impl State {
    /// The outermost graph around a graph of conditional bodies alone.
    ///
    /// # Errors
    /// INVALID_VALUE for no graph, NOT_SUPPORTED for one within a child graph: no conditional node may be there.
    fn conditional_root(&self, graph: Graph) -> CudaResult<Graph> {
        self.body(graph)?;
        let mut root = graph;
        for outer in self.around(graph).skip(1) {
            if !self.is_body(root)? {
                return Err(CudaError::NOT_SUPPORTED);
            }
            root = outer;
        }
        Ok(root)
    }

    /// Whether a graph is a body of a conditional node.
    fn is_body(&self, graph: Graph) -> CudaResult<bool> {
        let Some(node) = self.body(graph)?.parent() else { return Ok(false) };
        Ok(matches!(self.node(GraphNode(value(Kind::Node, node)))?.work, Work::Conditional(_)))
    }

    /// Refuses what cannot be done with a graph that has conditional handles, or is part of one.
    pub(super) fn refuse_conditions(&self, graph: Graph) -> CudaResult<()> {
        let has_nodes = self.body(graph)?.nodes.iter().any(|node| matches!(node.work, Work::Conditional(_)));
        if has_nodes || !self.body(graph)?.conditions.is_empty() {
            return Err(CudaError::NOT_SUPPORTED);
        }
        Ok(())
    }

    /// Refuses a body of a conditional node, which is no graph of its own.
    pub(super) fn refuse_body(&self, graph: Graph) -> CudaResult<()> {
        for inner in self.around(graph) {
            if self.is_body(inner)? {
                return Err(CudaError::INVALID_VALUE);
            }
        }
        Ok(())
    }

    /// Whether a handle of a graph decides for no node.
    pub(super) fn has_unused_condition(&self, graph: Graph) -> bool {
        self.body(graph).is_ok_and(|body| body.conditions.iter().any(|condition| condition.node.is_none()))
    }

    /// The condition that a new node may have.
    ///
    /// # Errors
    /// INVALID_VALUE where the graph has no such handle, it decides for a node already, or it is of another context.
    fn condition(&mut self, root: Graph, asked: &ConditionalNodeParams) -> CudaResult<&mut Condition> {
        let found = self.body_mut(root)?.conditions.iter_mut().find(|condition| condition.handle == asked.handle);
        let found = found.filter(|condition| condition.node.is_none()).ok_or(CudaError::INVALID_VALUE)?;
        let same = asked.context.is_null() || found.context.is_null() || asked.context == found.context;
        if same { Ok(found) } else { Err(CudaError::INVALID_VALUE) }
    }

    /// A node of a graph is gone: its handle decides for none.
    pub(super) fn let_condition_go(&mut self, graph: Graph, node: u64) {
        let root = self.conditional_root(graph);
        let body = root.and_then(|root| self.body_mut(root));
        for condition in body.into_iter().flat_map(|body| &mut body.conditions) {
            condition.node = condition.node.filter(|other| *other != node);
        }
    }

    /// Removes the bodies of a node that is gone.
    pub(super) fn remove_bodies(&mut self, work: &ConditionalWork) -> CudaResult<Vec<Destructor>> {
        let mut over = Vec::new();
        for body in work.bodies() {
            let inner: Vec<u64> = self.body(*body)?.nodes.iter().map(|node| node.id).collect();
            inner.into_iter().for_each(|node| self.let_condition_go(*body, node));
            over.extend(self.remove(*body)?);
        }
        Ok(over)
    }
}

/// # Errors
/// INVALID_VALUE for no such kind of node, or a number of bodies that it does not have; NOT_SUPPORTED for too many.
fn check(asked: &ConditionalNodeParams) -> CudaResult<()> {
    let fits = match asked.kind {
        kinds::IF => matches!(asked.size, 1 | 2),
        kinds::WHILE => asked.size == 1,
        kinds::SWITCH => asked.size > 0,
        _ => false,
    };
    if !fits {
        return Err(CudaError::INVALID_VALUE);
    }
    if asked.size > MOST_BODIES {
        refused_once(format_args!("a conditional node with more than {MOST_BODIES} bodies is not supported"));
        return Err(CudaError::NOT_SUPPORTED);
    }
    Ok(())
}

impl Graphs {
    /// The graph whose handles a graph's conditional nodes have.
    ///
    /// # Errors
    /// INVALID_VALUE for no graph; NOT_SUPPORTED within a child graph, and for an instantiated graph.
    pub(crate) fn graph_for_condition(&self, graph: Graph) -> CudaResult<Graph> {
        let state = self.lock();
        let root = state.conditional_root(graph)?;
        if state.body(root)?.exec.is_some() {
            return Err(CudaError::NOT_SUPPORTED);
        }
        Ok(root)
    }

    /// The implementation has made a handle for a graph.
    ///
    /// # Errors
    /// INVALID_VALUE where the graph is gone.
    pub(crate) fn keep_condition(&self, root: Graph, handle: u64, context: Context) -> CudaResult<()> {
        let mut state = self.lock();
        match state.body_mut(root) {
            Ok(body) => body.conditions.push(Condition { handle, context, node: None }),
            Err(error) => {
                state.gone.push(root);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Adds a conditional node with empty bodies; gives its parameters with their address.
    ///
    /// # Errors
    /// As [`Graphs::add`]; INVALID_VALUE for a handle, a kind or a number that it cannot have.
    pub(crate) fn add_conditional(
        &self,
        graph: Graph,
        after: &[Edge],
        asked: &ConditionalNodeParams,
    ) -> CudaResult<(GraphNode, ConditionalNodeParams)> {
        let mut state = self.lock();
        state.check_edges(graph, after)?;
        check(asked)?;
        let root = state.conditional_root(graph)?;
        if state.around(graph).count() > DEEPEST {
            return Err(CudaError::INVALID_VALUE);
        }
        state.condition(root, asked)?;
        let node = state.push(graph, Work::Empty, after.to_vec())?;
        let number = id(Kind::Node, node.0)?;
        let bodies = (0..asked.size).map(|_| state.create(Some(number))).collect();
        let work = ConditionalWork::new(*asked, bodies);
        let told = work.to_params();
        state.node_mut(node)?.work = Work::Conditional(Arc::new(work));
        state.condition(root, asked)?.node = Some(number);
        Ok((node, told))
    }

    /// Whether a graph cannot be instantiated because a handle of it decides for no node.
    pub(crate) fn has_unused_condition(&self, graph: Graph) -> bool {
        self.lock().has_unused_condition(graph)
    }
}

impl Plan {
    /// Whether a value decides which of its nodes run.
    pub fn has_conditions(&self) -> bool {
        self.conditions.is_some()
    }

    /// Refuses what no body of a conditional node may do.
    ///
    /// # Errors
    /// NOT_SUPPORTED.
    pub(super) fn check_bodies(&self) -> CudaResult<()> {
        let allowed = |work: &Work| {
            matches!(work, Work::Empty | Work::Kernel(_) | Work::Copy(_) | Work::Fill(_) | Work::Conditional(_))
        };
        match self.nodes.iter().find(|node| node.within.is_some() && !allowed(&node.work)) {
            None => Ok(()),
            Some(node) => {
                let kind = node.work.kind();
                refused_once(format_args!(
                    "CUDA has no such node in a body of a conditional node, CUgraphNodeType: {kind}"
                ));
                Err(CudaError::NOT_SUPPORTED)
            }
        }
    }
}
