//! Nodes that write words of memory and wait for them: added, asked, changed, in a graph and in an instantiated one. C's
//! structs come in and go out; whether the words are there the implementation knows.

use super::exec::set;
use super::node_params as make;
use super::nodes::{add, ask};
use crate::graph::Work;
use crate::marshal::marshallers;
use crate::prelude::*;

marshallers! {
    /// `cuGraphAddBatchMemOpNode`.
    fn cuGraphAddBatchMemOpNode(
        driver, node: *mut GraphNode, graph: Graph, dependencies: *const GraphNode, dependency_count: usize,
        params: *const BatchMemOpNodeParams,
    ) {
        // SAFETY: as the program passed it.
        unsafe {
            let params = c::reference(params)?;
            add(driver, node, graph, dependencies, dependency_count, || make::words(driver, params))
        }
    }

    /// `cuGraphBatchMemOpNodeGetParams`.
    fn cuGraphBatchMemOpNodeGetParams(driver, node: GraphNode, params: *mut BatchMemOpNodeParams) {
        let read = |work: &Work| if let Work::Words(words) = work { Some(words.to_params()) } else { None };
        // SAFETY: as the program passed it.
        unsafe { ask(driver, node, params, read) }
    }

    /// `cuGraphBatchMemOpNodeSetParams`.
    fn cuGraphBatchMemOpNodeSetParams(driver, node: GraphNode, params: *const BatchMemOpNodeParams) {
        // SAFETY: as the program passed it.
        let work = unsafe { make::words(driver, c::reference(params)?) }?;
        driver.graphs().set_work(node, work)
    }

    /// `cuGraphExecBatchMemOpNodeSetParams`.
    fn cuGraphExecBatchMemOpNodeSetParams(
        driver, exec: GraphExec, node: GraphNode, params: *const BatchMemOpNodeParams,
    ) {
        // SAFETY: as the program passed it.
        let new = unsafe { make::words(driver, c::reference(params)?) }?;
        set(driver, exec, node, |_| Ok(new))
    }
}
