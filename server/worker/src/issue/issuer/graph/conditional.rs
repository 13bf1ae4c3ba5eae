//! Conditional nodes: handles that a graph has, and nodes with bodies, which are filled as any graph and go with theirs.
//! In: handles and ids that are the client's words. Out: the driver's nodes, with a graph per body.
//! A handle is the driver's own number, which kernels are given; a client names only those that it was told.

use std::collections::BTreeSet;

use floe_abi::CudaError;
use floe_device::{Conditional as Node, Device, NodeBodies, NodeEdge};
use floe_wire::{AddGraphConditional, CreateGraphCondition, CreateGraphConditionReply, GraphId};

use super::super::{Answer, Issuer, body};
use super::NODES;
use crate::issue::fault::{Fault, violation};
use crate::issue::objects::graph::{Conditional, GraphObject};
use crate::memory::budget::cost;

/// More bodies of one node than a client of ours sends.
const BODIES: usize = 4096;
/// More handles of one graph than any program's has.
const HANDLES: usize = 1 << 16;
/// Conditional nodes within one another: as many as a client of ours sends.
const DEEPEST: usize = 65;
/// The flag of a handle: each launch begins with its value.
const FLAGS: u32 = 1;
/// The last of `graph_conditional_type`.
const LAST_KIND: u32 = 2;

impl<D: Device> Issuer<D> {
    pub(super) fn create_condition(&mut self, message: CreateGraphCondition) -> Result<Answer, Fault> {
        if message.flags & !FLAGS != 0 {
            return violation(format!("unknown flags of a conditional handle: {:#x}", message.flags));
        }
        let object = self.graphs.get(message.graph.0)?;
        object.check_own()?;
        if object.exec.is_some() || object.conditional.handles.len() >= HANDLES {
            return violation("a conditional handle for a graph that takes none");
        }
        self.allowance.budget.take(cost::NODE)?;
        let made = self.device().graph_condition(object.graph, message.value, message.flags);
        let budget = self.allowance.budget.clone();
        let object = self.graphs.get_mut(message.graph.0)?;
        match made {
            Ok(handle) => {
                object.kept += cost::NODE;
                object.conditional.has_handles = true;
                object.conditional.handles.insert(handle);
                body(&CreateGraphConditionReply { handle })
            }
            Err(error) => {
                budget.give(cost::NODE);
                Err(error.into())
            }
        }
    }

    pub(super) fn add_conditional(&mut self, message: &AddGraphConditional) -> Result<Answer, Fault> {
        let AddGraphConditional { graph: id, after, handle, kind, bodies } = message;
        let room = self.check_bodies(*kind, bodies)?;
        let object = match self.graphs.get(id.0) {
            Err(Fault::Program(error)) => {
                self.bind_failed(bodies, error)?;
                return Ok(Answer::Nothing);
            }
            object => object?,
        };
        let (root, depth) = (object.conditional.root.unwrap_or(id.0), object.conditional.depth + 1);
        let (graph, failed, edges) = (object.graph, object.failed, object.edges(after)?);
        if object.nodes.len() >= NODES || depth > DEEPEST || self.graphs.get(root)?.exec.is_some() {
            return violation("a node for a graph that takes none");
        }
        let owner = self.graphs.get_mut(root)?;
        if !owner.conditional.handles.remove(handle) {
            return violation(format!("no conditional handle of the graph is free: {handle:#x}"));
        }
        owner.conditional.bodies.extend(bodies.iter().map(|body| body.0));
        let size = u32::try_from(bodies.len()).unwrap_or(u32::MAX);
        let node = Node { handle: *handle, kind: *kind, size };
        let kept = self.node_cost(0, edges.len())?;
        let room = if kept == cost::FAILED { Err(CudaError::OUT_OF_MEMORY) } else { room };
        let made = failed.map_or(room, Err).and_then(|()| self.make_conditional(graph, &edges, &node));
        let object = self.graphs.get_mut(id.0)?;
        object.kept += kept;
        object.nodes.push(made.as_ref().map(|made| made.0).unwrap_or_default());
        object.failed = object.failed.or(made.as_ref().err().copied());
        match made {
            Ok((_, graphs)) => {
                for (body, graph) in bodies.iter().zip(graphs) {
                    let within = Conditional { root: Some(root), depth, ..Conditional::default() };
                    self.graphs.bind(body.0, Ok(GraphObject::new(graph, within)));
                }
            }
            Err(error) => self.bind_failed(bodies, error)?,
        }
        Ok(Answer::Nothing)
    }

    /// The driver's node, with as many bodies as were asked for.
    fn make_conditional(
        &self,
        graph: floe_abi::Graph,
        edges: &[NodeEdge],
        node: &Node,
    ) -> Result<NodeBodies, CudaError> {
        let made = self.device().add_conditional(graph, edges, node)?;
        if made.1.len() == node.size as usize { Ok(made) } else { Err(CudaError::UNKNOWN) }
    }

    /// Whether these ids may be a node's bodies, and whether there is host memory for them.
    fn check_bodies(&self, kind: u32, bodies: &[GraphId]) -> Result<Result<(), CudaError>, Fault> {
        let distinct: BTreeSet<u64> = bodies.iter().map(|body| body.0).collect();
        if kind > LAST_KIND || bodies.is_empty() || bodies.len() > BODIES || distinct.len() != bodies.len() {
            return violation("a conditional node that no client of ours sends");
        }
        for body in bodies {
            match self.graphs.check_new(body.0) {
                Err(Fault::ProtocolViolation(words)) => return violation(words),
                Err(Fault::Program(error) | Fault::Explained(error, _)) => return Ok(Err(error)),
                Ok(()) => {}
            }
        }
        let (budget, all) = (&self.allowance.budget, cost::GRAPH * bodies.len() as u64);
        Ok(budget.take(all).map(|()| budget.give(all)).map_err(|_| CudaError::OUT_OF_MEMORY))
    }

    /// Bodies of a node that could not be made: each is the failure.
    fn bind_failed(&mut self, bodies: &[GraphId], error: CudaError) -> Result<(), Fault> {
        for body in bodies {
            match self.graphs.check_posted(body.0) {
                Ok(()) => self.graphs.bind(body.0, Err(error)),
                Err(Fault::ProtocolViolation(words)) => return violation(words),
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// Nodes and the largest frame of a graph with all its bodies.
    ///
    /// # Errors
    /// Why it cannot be instantiated.
    pub(super) fn whole_graph(&self, id: u64) -> Result<(u64, u64), Fault> {
        let object = self.graphs.get(id)?;
        let (mut nodes, mut frame, mut failed) = (object.nodes.len() as u64, object.frame, object.failed);
        for body in &object.conditional.bodies {
            match self.graphs.get(*body) {
                Ok(body) => {
                    nodes += body.nodes.len() as u64;
                    frame = frame.max(body.frame);
                    failed = failed.or(body.failed);
                }
                Err(Fault::Program(error)) => failed = failed.or(Some(error)),
                Err(fault) => return Err(fault),
            }
        }
        failed.map_or(Ok((nodes, frame)), |error| Err(error.into()))
    }

    /// The bodies of a graph that is gone are gone with it.
    pub(super) fn drop_bodies(&mut self, object: &GraphObject) -> Result<(), Fault> {
        for body in &object.conditional.bodies {
            if let Some(body) = self.graphs.remove(*body)? {
                self.allowance.budget.give(body.kept);
            }
        }
        Ok(())
    }

    /// Whether values decide in a graph of the session's.
    pub(in crate::issue::issuer) fn has_conditions(&self) -> bool {
        self.graphs.values().any(|graph| graph.conditional.has_handles)
    }
}
