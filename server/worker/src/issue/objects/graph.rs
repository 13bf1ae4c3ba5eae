//! A graph of the program.
//! In: the client's numbers of nodes. Out: the driver's nodes, edges and executable graph, or why there is none.
//! It calls no driver.

use std::collections::{BTreeMap, BTreeSet};

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
    /// Whether kernels may launch it, by the driver's handle.
    pub(crate) for_kernels: bool,
    /// What conditional nodes make of it.
    pub(crate) conditional: Conditional,
    /// The nodes' operations on words of memory, by the nodes' numbers.
    pub(crate) words: BTreeMap<u32, Vec<WordOperation>>,
    /// Bytes of host memory its nodes are charged.
    pub(crate) kept: u64,
    /// The largest frame of its kernels, in bytes; charged when it is instantiated.
    pub(crate) frame: u64,
    /// Why it cannot be instantiated, or launched any more.
    pub(crate) failed: Option<CudaError>,
}

/// A graph's part in what values decide.
#[derive(Debug, Default)]
pub(crate) struct Conditional {
    /// The graph that it is a body in, however deep; `None`: it is one of its own.
    pub(crate) root: Option<u64>,
    /// How many conditional nodes it is within.
    pub(crate) depth: usize,
    /// Whether it has ever had a handle.
    pub(crate) has_handles: bool,
    /// Its handles that decide for no node yet.
    pub(crate) handles: BTreeSet<u64>,
    /// The bodies within it, all of them.
    pub(crate) bodies: Vec<u64>,
    /// The nodes with which it was instantiated, those of all bodies included.
    pub(crate) nodes: u64,
}

impl GraphObject {
    /// A graph of the driver's without nodes.
    pub(crate) fn new(graph: Graph, conditional: Conditional) -> Self {
        let (nodes, words) = (Vec::new(), BTreeMap::new());
        Self { graph, nodes, exec: None, for_kernels: false, conditional, words, kept: 0, frame: 0, failed: None }
    }

    /// A graph of its own, that no value decides for.
    pub(crate) fn check_own(&self) -> Result<(), Fault> {
        match self.conditional.root {
            Some(_) => violation("a body of a conditional node is used as a graph of its own"),
            None => Ok(()),
        }
    }

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
