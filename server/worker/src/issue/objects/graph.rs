//! A graph of the program.
//! In: the client's numbers of nodes. Out: the driver's nodes, edges and executable graph, or why there is none.
//! It calls no driver.

use std::collections::BTreeMap;

use floe_abi::{CudaError, Graph, GraphExec, GraphNode, WordOperation};
use floe_device::NodeEdge;
use floe_wire::GraphEdge;

use crate::issue::fault::{Fault, violation};

/// A graph of the client's.
#[derive(Debug)]
pub(crate) struct GraphObject {
    pub(crate) graph: Graph,
    pub(crate) nodes: Vec<GraphNode>,
    pub(crate) exec: Option<GraphExec>,
    /// The nodes' operations on words of memory, by the nodes' numbers.
    pub(crate) words: BTreeMap<u32, Vec<WordOperation>>,
    /// Bytes of host memory its nodes are charged.
    pub(crate) kept: u64,
    /// The largest frame of its kernels, in bytes; charged when it is instantiated.
    pub(crate) frame: u64,
    /// Why it cannot be instantiated, or launched any more.
    pub(crate) failed: Option<CudaError>,
}

impl GraphObject {
    pub(crate) fn exec(&self) -> Result<GraphExec, Fault> {
        if let Some(error) = self.failed {
            return Err(error.into());
        }
        self.exec.map_or_else(|| violation("a graph is used that is not instantiated"), Ok)
    }

    pub(crate) fn node(&self, node: u32) -> Result<GraphNode, Fault> {
        let index = usize::try_from(node).unwrap_or(usize::MAX);
        self.nodes
            .get(index)
            .map_or_else(|| violation(format!("no node of a graph has the number: {node}")), |it| Ok(*it))
    }

    /// The driver's nodes for the client's edges, and what of each is waited for.
    pub(crate) fn edges(&self, after: &[GraphEdge]) -> Result<Vec<NodeEdge>, Fault> {
        let edge = |edge: &GraphEdge| Ok(NodeEdge { from: self.node(edge.from)?, port: edge.port, kind: edge.kind });
        after.iter().map(edge).collect()
    }

    /// The operations of a launch on words of memory.
    pub(crate) fn words(&self) -> impl Iterator<Item = &WordOperation> + Clone {
        self.words.values().flatten()
    }
}
