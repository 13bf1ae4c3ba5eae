//! Dependencies between the nodes of a graph: added, removed, listed. Nodes of one graph come in; what does not fit is
//! refused and nothing changes then.

use super::handles::{Kind, id};
use super::store::{Edge, Graphs, Node, State};
use floe_abi::{CudaError, CudaResult, Graph, GraphNode, graph_dependency_type, graph_kernel_port, graph_node_type};
use std::collections::HashSet;

impl State {
    /// Whether these edges may lead to a node of this graph.
    pub(super) fn check_edges(&self, graph: Graph, after: &[Edge]) -> CudaResult<()> {
        let body = self.body(graph)?;
        let mut seen = HashSet::new();
        for edge in after {
            let from = body.node(id(Kind::Node, edge.from.0)?)?;
            check_data(edge, from)?;
            if !seen.insert(edge.from) {
                return Err(CudaError::INVALID_VALUE);
            }
        }
        Ok(())
    }
}

/// Ports are a kernel's; nothing else lets its dependents go early. A programmatic dependency leaves by a port of its own, and
/// the programmatic port is for such dependencies only.
fn check_data(edge: &Edge, from: &Node) -> CudaResult<()> {
    use graph_kernel_port::{DEFAULT, LAUNCH_ORDER, PROGRAMMATIC};
    let data = edge.data;
    let of_kernel = from.work.kind() == graph_node_type::KERNEL;
    let known = match (u32::from(data.kind), data.from_port) {
        (graph_dependency_type::DEFAULT, DEFAULT) => true,
        (graph_dependency_type::DEFAULT, LAUNCH_ORDER) => of_kernel,
        (graph_dependency_type::PROGRAMMATIC, PROGRAMMATIC | LAUNCH_ORDER) => of_kernel,
        _ => false,
    };
    if known && data.to_port == 0 && data.reserved == [0; 5] { Ok(()) } else { Err(CudaError::INVALID_VALUE) }
}

impl Graphs {
    /// Adds dependencies: each later node with its edge.
    ///
    /// # Errors
    /// INVALID_VALUE where a node is not of the graph, waits for itself, or has the dependency already.
    pub fn add_dependencies(&self, graph: Graph, added: &[(GraphNode, Edge)]) -> CudaResult<()> {
        let mut state = self.lock();
        let body = state.body(graph)?;
        let mut seen = HashSet::new();
        for (to, edge) in added {
            let later = body.node(id(Kind::Node, to.0)?)?;
            check_data(edge, body.node(id(Kind::Node, edge.from.0)?)?)?;
            let known = later.after.iter().any(|other| other.from == edge.from);
            if *to == edge.from || known || !seen.insert((*to, edge.from)) {
                return Err(CudaError::INVALID_VALUE);
            }
        }
        for (to, edge) in added {
            state.node_mut(*to)?.after.push(*edge);
        }
        Ok(())
    }

    /// Removes dependencies.
    ///
    /// # Errors
    /// INVALID_VALUE where one does not exist as it was described, NOT_SUPPORTED where the graph allocates or frees memory.
    pub fn remove_dependencies(&self, graph: Graph, removed: &[(GraphNode, Edge)]) -> CudaResult<()> {
        let mut state = self.lock();
        state.refuse_memory(graph)?;
        let body = state.body(graph)?;
        for (to, edge) in removed {
            if !body.node(id(Kind::Node, to.0)?)?.after.contains(edge) {
                return Err(CudaError::INVALID_VALUE);
            }
        }
        for (to, edge) in removed {
            state.node_mut(*to)?.after.retain(|other| other != edge);
        }
        Ok(())
    }

    /// All dependencies of a graph: the later node and its edge.
    ///
    /// # Errors
    /// INVALID_VALUE where there is no such graph.
    pub fn edges(&self, graph: Graph) -> CudaResult<Vec<(GraphNode, Edge)>> {
        let state = self.lock();
        let nodes = &state.body(graph)?.nodes;
        Ok(nodes.iter().flat_map(|node| node.after.iter().map(|edge| (node.handle(), *edge))).collect())
    }

    /// The nodes that wait for none.
    ///
    /// # Errors
    /// As [`Graphs::edges`].
    pub fn roots(&self, graph: Graph) -> CudaResult<Vec<GraphNode>> {
        let state = self.lock();
        let nodes = &state.body(graph)?.nodes;
        Ok(nodes.iter().filter(|node| node.after.is_empty()).map(Node::handle).collect())
    }

    /// The nodes that a node waits for.
    ///
    /// # Errors
    /// INVALID_VALUE where there is no such node.
    pub fn dependencies(&self, node: GraphNode) -> CudaResult<Vec<Edge>> {
        Ok(self.lock().node(node)?.after.clone())
    }

    /// The nodes that wait for a node, with their edges.
    ///
    /// # Errors
    /// INVALID_VALUE where there is no such node.
    pub fn dependents(&self, node: GraphNode) -> CudaResult<Vec<(GraphNode, Edge)>> {
        let graph = self.lock().owner(node)?;
        Ok(self.edges(graph)?.into_iter().filter(|(_, edge)| edge.from == node).collect())
    }
}
