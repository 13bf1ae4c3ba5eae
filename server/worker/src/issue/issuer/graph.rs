//! Graphs: filled node by node, instantiated, launched, changed.
//! In: nodes whose kernels, addresses and dependencies are the client's words. Out: the driver's graphs, launches in stream
//! order. A node names only earlier ones, so no client can tie a circle; a node that cannot be fails its graph and nothing
//! else.

mod conditional;

use floe_abi::{CudaError, GraphExec, GraphNode};
use floe_device::{Device, GraphKernel, NodeCopy, NodeEdge, NodeWork, Pattern};
use floe_wire::{
    AddGraphConditional, AddGraphCopy, AddGraphEmpty, AddGraphFill, AddGraphKernel, AddGraphWords, CreateGraph,
    CreateGraphCondition, DestroyGraph, EnableGraphNode, GraphEdge, GraphId, GraphRequests, InstantiateGraph,
    InstantiateGraphReply, KernelId, LaunchGraph, SetGraphCopy, SetGraphFill, SetGraphKernel, SetGraphWords,
    UpdateGraph, UploadGraph,
};

use super::launch::plain_attributes;
use super::stream_memory::{Batch, WordWork};
use super::{Answer, Issuer, body};
use crate::issue::fault::{Fault, violation};
use crate::issue::objects::graph::{Conditional, GraphObject};
use crate::memory::budget::cost;

/// More nodes of one graph than any program's has.
const NODES: usize = 1 << 20;
/// A flag of instantiation: kernels may launch the graph.
const FOR_KERNELS: u64 = 4;
/// Flags that a client may send: that, and kernels keep their nodes' priorities.
const FLAGS: u64 = FOR_KERNELS | 8;
/// Launch attributes a node cannot have: programmatic stream serialization is an edge, events are for streams.
const STREAM_ATTRIBUTES: [u32; 3] = [6, 7, 12];

impl<D: Device> GraphRequests for Issuer<D> {
    fn create_graph(&mut self, message: CreateGraph) -> Result<Answer, Fault> {
        self.graphs.check_posted(message.graph.0)?;
        let created = self.device().create_graph();
        let object = created.map(|graph| GraphObject::new(graph, Conditional::default()));
        self.graphs.bind(message.graph.0, object);
        Ok(Answer::Nothing)
    }

    fn add_graph_kernel(&mut self, message: &AddGraphKernel<'_>) -> Result<Answer, Fault> {
        let mut attributes = Vec::new();
        let passed = plain_attributes(&message.attributes, &mut attributes);
        if attributes.iter().any(|it| STREAM_ATTRIBUTES.contains(&it.id)) {
            return violation("a launch attribute that no node can have");
        }
        let sizes = Sizes {
            grid: [message.grid_x, message.grid_y, message.grid_z],
            block: [message.block_x, message.block_y, message.block_z],
            shared_bytes: message.shared,
        };
        let kernel = passed.and_then(|()| self.node_kernel(message.kernel, &sizes, message.parameters));
        let frame = kernel.as_ref().map_or(0, |(_, frame)| *frame);
        let work = kernel.map(|(kernel, _)| NodeWork::Kernel(kernel, &attributes));
        let answer = self.add_node(message.graph, &message.after, message.parameters.len(), work)?;
        // A graph whose creation failed takes none.
        if let Ok(object) = self.graphs.get_mut(message.graph.0) {
            object.frame = object.frame.max(frame);
        }
        Ok(answer)
    }

    fn add_graph_copy(&mut self, message: &AddGraphCopy) -> Result<Answer, Fault> {
        self.add_node(message.graph, &message.after, 0, node_copy(&message.copy).map(NodeWork::Copy))
    }

    fn add_graph_fill(&mut self, message: &AddGraphFill) -> Result<Answer, Fault> {
        self.add_node(message.graph, &message.after, 0, node_fill(&message.fill))
    }

    fn add_graph_empty(&mut self, message: &AddGraphEmpty) -> Result<Answer, Fault> {
        self.add_node(message.graph, &message.after, 0, Ok(NodeWork::Empty))
    }

    fn instantiate_graph(&mut self, message: InstantiateGraph) -> Result<Answer, Fault> {
        if message.flags & !FLAGS != 0 {
            return violation(format!("unknown flags of an instantiation: {:#x}", message.flags));
        }
        let object = self.graphs.get(message.graph.0)?;
        object.check_own()?;
        if object.exec.is_some() {
            return violation("a graph is instantiated twice");
        }
        let graph = object.graph;
        let (nodes, frame) = self.whole_graph(message.graph.0)?;
        self.takes_frame(frame)?;
        let kept = nodes * cost::INSTANTIATED_NODE;
        self.allowance.ledger.nodes(nodes)?;
        let made = self.allowance.budget.take(kept);
        let made = made.and_then(|()| match self.device().instantiate(graph, message.flags) {
            Ok(exec) => Ok(exec),
            Err(error) => {
                self.allowance.budget.give(kept);
                Err(error.into())
            }
        });
        if made.is_err() {
            self.allowance.ledger.nodes_end(nodes);
        }
        let object = self.graphs.get_mut(message.graph.0)?;
        let exec = made?;
        object.exec = Some(exec);
        object.for_kernels = message.flags & FOR_KERNELS != 0;
        object.kept += kept;
        object.conditional.nodes = nodes;
        body(&InstantiateGraphReply { handle: if object.for_kernels { exec.0 } else { 0 } })
    }

    fn launch_graph(&mut self, message: LaunchGraph) -> Result<Answer, Fault> {
        let sequence = self.sequence;
        let stream = self.use_stream(message.stream)?;
        let object = self.graphs.get(message.graph.0)?;
        let exec = object.exec()?;
        if !object.words.is_empty() {
            let place = WordWork { sequence, id: message.stream, stream };
            return self.issue_words(place, object.words(), |device| device.graph_launch(exec, stream));
        }
        self.device().graph_launch(exec, stream)?;
        Ok(Answer::Nothing)
    }

    fn upload_graph(&mut self, message: UploadGraph) -> Result<Answer, Fault> {
        let stream = self.use_stream(message.stream)?;
        let exec = self.graphs.get(message.graph.0)?.exec()?;
        self.device().graph_upload(exec, stream)?;
        Ok(Answer::Nothing)
    }

    fn set_graph_kernel(&mut self, message: SetGraphKernel<'_>) -> Result<Answer, Fault> {
        let sizes = Sizes {
            grid: [message.grid_x, message.grid_y, message.grid_z],
            block: [message.block_x, message.block_y, message.block_z],
            shared_bytes: message.shared,
        };
        let kernel = self.node_kernel(message.kernel, &sizes, message.parameters);
        let kernel = kernel.and_then(|(kernel, frame)| self.takes_frame(frame).map(|()| kernel));
        self.set_node(message.graph, message.node, kernel.map(|kernel| NodeWork::Kernel(kernel, &[])))
    }

    fn set_graph_copy(&mut self, message: &SetGraphCopy) -> Result<Answer, Fault> {
        self.set_node(message.graph, message.node, node_copy(&message.copy).map(NodeWork::Copy))
    }

    fn set_graph_fill(&mut self, message: &SetGraphFill) -> Result<Answer, Fault> {
        self.set_node(message.graph, message.node, node_fill(&message.fill))
    }

    fn enable_graph_node(&mut self, message: EnableGraphNode) -> Result<Answer, Fault> {
        let (root, exec, node) = self.instantiated(message.graph, message.node)?;
        if let Err(error) = self.device().graph_node_set_enabled(exec, node, message.enabled.into()) {
            self.graphs.get_mut(root)?.failed = Some(error);
            return Err(error.into());
        }
        Ok(Answer::Nothing)
    }

    fn update_graph(&mut self, message: UpdateGraph) -> Result<Answer, Fault> {
        let exec = self.graphs.get(message.graph.0)?.exec()?;
        let decides = |graph: &GraphObject| graph.conditional.root.is_some() || graph.conditional.has_handles;
        if decides(self.graphs.get(message.graph.0)?) || self.graphs.get(message.new.0).is_ok_and(decides) {
            return violation("a graph in which values decide is updated as a whole");
        }
        let Some(new) = self.graphs.remove(message.new.0)? else {
            return Err(CudaError::GRAPH_EXEC_UPDATE_FAILURE.into());
        };
        if new.exec.is_some() {
            return violation("a graph is updated by one that is instantiated");
        }
        let takes = new.failed.map_or_else(|| self.takes_frame(new.frame), |error| Err(error.into()));
        let updated = takes.and_then(|()| Ok(self.device().graph_exec_update(exec, new.graph).map(drop)?));
        self.drop_graph(&new)?;
        updated?;
        self.graphs.get_mut(message.graph.0)?.words = new.words;
        body(&())
    }

    fn destroy_graph(&mut self, message: DestroyGraph) -> Result<Answer, Fault> {
        if let Ok(object) = self.graphs.get(message.graph.0) {
            object.check_own()?;
        }
        if let Some(object) = self.graphs.remove(message.graph.0)? {
            self.drop_bodies(&object)?;
            self.drop_graph(&object)?;
        }
        Ok(Answer::Nothing)
    }

    fn create_graph_condition(&mut self, message: CreateGraphCondition) -> Result<Answer, Fault> {
        self.create_condition(message)
    }

    fn add_graph_conditional(&mut self, message: &AddGraphConditional) -> Result<Answer, Fault> {
        self.add_conditional(message)
    }

    fn add_graph_words(&mut self, message: &AddGraphWords) -> Result<Answer, Fault> {
        if let Ok(object) = self.graphs.get(message.graph.0) {
            object.check_own()?;
        }
        let batch = Batch::read(&message.operations)?;
        let (work, bytes) = (NodeWork::Words(&batch.operations), size_of_val(&*batch.operations));
        let answer = self.add_node(message.graph, &message.after, bytes, Ok(work))?;
        // A graph whose creation failed takes none.
        if let Ok(object) = self.graphs.get_mut(message.graph.0) {
            let node = u32::try_from(object.nodes.len().saturating_sub(1)).unwrap_or(u32::MAX);
            object.words.insert(node, batch.words);
        }
        Ok(answer)
    }

    fn set_graph_words(&mut self, message: &SetGraphWords) -> Result<Answer, Fault> {
        let batch = Batch::read(&message.operations)?;
        let answer = self.set_node(message.graph, message.node, Ok(NodeWork::Words(&batch.operations)))?;
        self.graphs.get_mut(message.graph.0)?.words.insert(message.node, batch.words);
        Ok(answer)
    }
}

impl<D: Device> Issuer<D> {
    /// Adds a node whose work is `bytes` of its message; one that cannot be added leaves a gap that fails the graph.
    fn add_node(
        &mut self,
        id: GraphId,
        after: &[GraphEdge],
        bytes: usize,
        work: Result<NodeWork<'_>, Fault>,
    ) -> Result<Answer, Fault> {
        // The instantiation reports the creation's own failure.
        let object = match self.graphs.get(id.0) {
            Err(Fault::Program(_)) => return Ok(Answer::Nothing),
            object => object?,
        };
        let root = object.conditional.root.map_or(Ok(object), |root| self.graphs.get(root))?;
        if root.exec.is_some() || object.nodes.len() >= NODES {
            return violation("a node for a graph that takes none");
        }
        let edges = object.edges(after)?;
        let work = match work {
            Err(Fault::ProtocolViolation(words)) => return violation(words),
            Err(Fault::Program(error) | Fault::Explained(error, _)) => Err(error),
            Ok(work) => Ok(work),
        };
        let failed = object.failed.map_or(Ok(()), Err);
        let graph = object.graph;
        let kept = self.node_cost(bytes, edges.len())?;
        let room = if kept == cost::FAILED { Err(CudaError::OUT_OF_MEMORY) } else { Ok(()) };
        let added = failed.and(room).and(work).and_then(|work| self.device().add_node(graph, &edges, &work));
        let object = self.graphs.get_mut(id.0)?;
        object.nodes.push(added.unwrap_or_default());
        object.kept += kept;
        object.failed = object.failed.or(added.err());
        Ok(Answer::Nothing)
    }

    /// Takes host memory for a node: what it costs, else what a gap costs; where there is not even that, the session ends.
    /// By the message alone: a kernel that is gone makes a gap that costs as much, so a replay, which adds nodes when other
    /// kernels are there, takes the same.
    fn node_cost(&self, bytes: usize, edges: usize) -> Result<u64, Fault> {
        let bytes = cost::NODE + bytes as u64 + edges as u64 * size_of::<NodeEdge>() as u64;
        let budget = &self.allowance.budget;
        if budget.take(bytes).is_ok() {
            return Ok(bytes);
        }
        budget.take_for_failure(cost::FAILED).map(|()| cost::FAILED).or_else(|fault| violation(fault.to_string()))
    }

    /// A kernel as a node's work, and its frame.
    fn node_kernel<'a>(
        &mut self,
        kernel: KernelId,
        sizes: &Sizes,
        parameters: &'a [u8],
    ) -> Result<(GraphKernel<'a>, u64), Fault> {
        let kernel = self.kernels.get(kernel.0)?;
        if let Some(bytes) = kernel.parameter_bytes.filter(|bytes| *bytes != parameters.len()) {
            return violation(format!("a parameter block of {bytes} bytes was sent with: {}", parameters.len()));
        }
        let Sizes { grid, block, shared_bytes } = *sizes;
        Ok((GraphKernel { function: kernel.function, grid, block, shared_bytes, parameters }, kernel.frame))
    }

    /// Charges the device memory that a launched kernel with this frame may need.
    pub(super) fn takes_frame(&mut self, frame: u64) -> Result<(), Fault> {
        let ledger = &mut self.allowance.ledger;
        if ledger.is_larger(frame) { ledger.frame(frame) } else { Ok(()) }
    }

    /// Changes a node. If that fails, the graph would do something else than the program asked for.
    fn set_node(&mut self, id: GraphId, node: u32, work: Result<NodeWork<'_>, Fault>) -> Result<Answer, Fault> {
        let (root, exec, node) = self.instantiated(id, node)?;
        let set = work.and_then(|work| Ok(self.device().set_node(exec, node, &work)?));
        if let Err(Fault::Program(error) | Fault::Explained(error, _)) = set {
            self.graphs.get_mut(root)?.failed = Some(error);
        }
        set.map(|()| Answer::Nothing)
    }

    /// A node of an instantiated graph or of a body of one: the graph that was instantiated, and both as the driver has them.
    fn instantiated(&self, id: GraphId, node: u32) -> Result<(u64, GraphExec, GraphNode), Fault> {
        let object = self.graphs.get(id.0)?;
        let root = object.conditional.root.unwrap_or(id.0);
        Ok((root, self.graphs.get(root)?.exec()?, object.node(node)?))
    }

    fn drop_graph(&mut self, object: &GraphObject) -> Result<(), CudaError> {
        self.allowance.budget.give(object.kept);
        if object.exec.is_some() {
            self.allowance.ledger.nodes_end(object.conditional.nodes);
        }
        let launched = object.exec.map_or(Ok(()), |exec| self.device().graph_exec_destroy(exec));
        launched.and(self.device().graph_destroy(object.graph))
    }

    /// Destroys all graphs; errors of a context beyond use do not matter, they go with it.
    pub(super) fn drop_graphs(&mut self) {
        let objects: Vec<GraphObject> = self.graphs.drain().collect();
        for object in &objects {
            // A body is the driver's as long as its node.
            if object.conditional.root.is_some() {
                self.allowance.budget.give(object.kept);
            } else {
                let _ = self.drop_graph(object);
            }
        }
    }
}

/// Extent of a launch.
struct Sizes {
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
}

fn node_copy(copy: &floe_wire::GraphCopy) -> Result<NodeCopy, Fault> {
    let slices = |slice: u64, pitch: u64| {
        let whole = copy.depth <= 1 || pitch != 0 && slice.is_multiple_of(pitch);
        if whole { Ok(()) } else { violation(format!("a slice of {slice} bytes is not made of rows of: {pitch}")) }
    };
    slices(copy.to_slice, copy.to_pitch)?;
    slices(copy.from_slice, copy.from_pitch)?;
    Ok(NodeCopy {
        to: copy.to,
        to_pitch: copy.to_pitch,
        to_slice: copy.to_slice,
        from: copy.from,
        from_pitch: copy.from_pitch,
        from_slice: copy.from_slice,
        width: copy.width,
        height: copy.height,
        depth: copy.depth,
    })
}

fn node_fill(fill: &floe_wire::GraphFill) -> Result<NodeWork<'static>, Fault> {
    let floe_wire::GraphFill { at, pitch, element, value, width, height } = *fill;
    if !matches!(element, 1 | 2 | 4) {
        return violation(format!("not the size of an element: {element}"));
    }
    Ok(NodeWork::Fill(at, Pattern { element, value, width, height, pitch }))
}
