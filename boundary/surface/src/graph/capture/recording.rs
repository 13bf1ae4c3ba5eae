//! Recording: what a captured stream is asked to do becomes a node behind what the stream's next node waits for.
//! In: a stream and its work. Out: nodes of the capture's graph. How the capture began and how it ends is not known here.

use super::CaptureStream;
use crate::graph::plan::Plan;
use crate::graph::store::{Edge, Graphs, State};
use crate::graph::work::{KernelWork, Work};
use floe_abi::{
    CudaError, CudaResult, Graph, GraphEdge, GraphNode, graph_dependency_type, graph_kernel_port, launch_attribute,
};

impl State {
    /// The place of a captured stream's next node: its graph and its dependencies.
    ///
    /// # Errors
    /// As [`Graphs::record`].
    pub(in crate::graph) fn next_on(&mut self, stream: &CaptureStream) -> CudaResult<(Graph, Vec<Edge>)> {
        let id = self.capturing(stream)?.ok_or(CudaError::ILLEGAL_STATE)?;
        let after = self.strand(id, stream)?.after.clone();
        Ok((self.captures.captures[&id].graph, after))
    }

    /// The next node recorded on a captured stream waits for this node.
    pub(in crate::graph) fn go_on(&mut self, stream: &CaptureStream, node: GraphNode) -> CudaResult<()> {
        let id = self.capturing(stream)?.ok_or(CudaError::ILLEGAL_STATE)?;
        self.strand(id, stream)?.after = vec![Edge::whole(node)];
        self.node_mut(node)?.to_join = true;
        Ok(())
    }
}

impl Graphs {
    /// Whether the stream's work is recorded. Where it is, the caller records what it was asked to do.
    ///
    /// # Errors
    /// INVALIDATED where the capture is invalid, IMPLICIT for the legacy default stream while a stream that waits for it
    /// is captured.
    pub fn is_capturing(&self, stream: &CaptureStream) -> CudaResult<bool> {
        if !self.is_watching() {
            return Ok(false);
        }
        self.lock().capturing(stream).map(|id| id.is_some())
    }

    /// Records work on a capturing stream.
    ///
    /// # Errors
    /// As [`Graphs::is_capturing`]; ILLEGAL_STATE where the stream is not captured.
    pub fn record(&self, stream: &CaptureStream, mut work: Work) -> CudaResult<()> {
        let mut state = self.lock();
        let (graph, mut after) = state.next_on(stream)?;
        if let Work::Kernel(kernel) = &mut work {
            start_early(&state, kernel, &mut after)?;
        }
        let node = state.push(graph, work, after)?;
        state.go_on(stream, node)
    }

    /// Records the launch of an instantiated graph on a capturing stream, as a child graph node.
    ///
    /// # Errors
    /// As [`Graphs::record`]; STREAM_CAPTURE_UNSUPPORTED for a graph that allocates or frees memory or has conditional
    /// nodes, which invalidates the capture.
    pub(crate) fn record_plan(&self, stream: &CaptureStream, plan: &Plan) -> CudaResult<()> {
        let mut state = self.lock();
        let (graph, after) = state.next_on(stream)?;
        if plan.has_memory() || plan.has_conditions() {
            if let Some(id) = state.captures.of(stream) {
                state.captures.invalidate(id);
            }
            return Err(CudaError::STREAM_CAPTURE_UNSUPPORTED);
        }
        let node = state.push_plan(graph, plan, after)?;
        state.go_on(stream, node)
    }

    /// Changes what a capturing stream's next node waits for. Nodes that others replace need not be joined any more, also where
    /// another stream ends with them, as an H200's driver has it.
    ///
    /// # Errors
    /// ILLEGAL_STATE where the stream is not captured, INVALIDATED, INVALID_VALUE for nodes of another graph.
    pub fn change_dependencies(&self, stream: &CaptureStream, after: &[Edge], replaces: bool) -> CudaResult<()> {
        let mut state = self.lock();
        let id = state.capturing(stream)?.ok_or(CudaError::ILLEGAL_STATE)?;
        state.check_edges(state.captures.captures[&id].graph, after)?;
        if replaces {
            for edge in std::mem::take(&mut state.strand(id, stream)?.after) {
                // The program may have destroyed it.
                let _ = state.node_mut(edge.from).map(|node| node.to_join = false);
            }
        }
        extend(&mut state.strand(id, stream)?.after, after);
        Ok(())
    }
}

/// Adds edges that are not there yet; a wait for all of a node includes any other.
pub(super) fn extend(after: &mut Vec<Edge>, more: &[Edge]) {
    for edge in more {
        match after.iter_mut().find(|known| known.from == edge.from) {
            Some(known) if edge.data == GraphEdge::default() => *known = *edge,
            Some(_) => {}
            None => after.push(*edge),
        }
    }
}

#[allow(clippy::cast_possible_truncation, reason = "the number is 1")]
const PROGRAMMATIC: u8 = graph_dependency_type::PROGRAMMATIC as u8;

/// A kernel that may start before its predecessor on the stream ends has an edge that says so, instead of the attribute.
fn start_early(state: &State, kernel: &mut KernelWork, after: &mut [Edge]) -> CudaResult<()> {
    let early = kernel.has(launch_attribute::PROGRAMMATIC_STREAM_SERIALIZATION);
    kernel.attributes.retain(|attribute| attribute.id != launch_attribute::PROGRAMMATIC_STREAM_SERIALIZATION);
    if let ([edge], true) = (after, early)
        && matches!(state.node(edge.from)?.work, Work::Kernel(_))
    {
        edge.data =
            GraphEdge { from_port: graph_kernel_port::PROGRAMMATIC, kind: PROGRAMMATIC, ..GraphEdge::default() };
    }
    Ok(())
}
