//! Graphs: made, copied, drawn, and the dependencies between their nodes. C's arrays come in and go out by CUDA's rules for
//! lists; the graphs themselves are the surface's own. Nodes are in `nodes` and `node_params`, those of words in `words`,
//! instantiated graphs in `exec`.

mod exec;
pub(super) mod lists;
mod node_params;
pub(super) mod nodes;
mod objects;
mod words;

pub use exec::*;
pub use nodes::*;
pub use objects::*;
pub use words::*;

use super::marshallers;
use crate::graph::settle;
use crate::prelude::*;
use lists::{answer, answer_edges, pairs};

marshallers! {
    /// `cuGraphCreate`: `flags` must be 0.
    fn cuGraphCreate(driver, graph: *mut Graph, flags: u32) {
        c::present(graph)?;
        if flags != 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        let made = driver.graphs().create();
        // SAFETY: the program's variable.
        unsafe { c::put(graph, made) };
        Ok(())
    }

    /// `cuGraphDestroy`.
    fn cuGraphDestroy(driver, graph: Graph) {
        driver.graphs().destroy(graph)?;
        settle(driver);
        Ok(())
    }

    /// `cuGraphClone`.
    fn cuGraphClone(driver, clone: *mut Graph, original: Graph) {
        c::present(clone)?;
        let made = driver.graphs().clone_graph(original)?;
        // SAFETY: the program's variable.
        unsafe { c::put(clone, made) };
        Ok(())
    }

    /// `cuGraphNodeFindInClone`.
    fn cuGraphNodeFindInClone(driver, node: *mut GraphNode, original: GraphNode, clone: Graph) {
        c::present(node)?;
        let found = driver.graphs().find_in_clone(original, clone)?;
        // SAFETY: the program's variable.
        unsafe { c::put(node, found) };
        Ok(())
    }

    /// `cuGraphGetNodes`.
    fn cuGraphGetNodes(driver, graph: Graph, nodes: *mut GraphNode, count: *mut usize) {
        let list = driver.graphs().nodes(graph)?;
        // SAFETY: as the program passed it.
        unsafe { answer(&list, nodes, count) }
    }

    /// `cuGraphGetRootNodes`.
    fn cuGraphGetRootNodes(driver, graph: Graph, nodes: *mut GraphNode, count: *mut usize) {
        let list = driver.graphs().roots(graph)?;
        // SAFETY: as the program passed it.
        unsafe { answer(&list, nodes, count) }
    }

    /// `cuGraphGetEdges_v2`.
    fn cuGraphGetEdges_v2(
        driver, graph: Graph, from: *mut GraphNode, to: *mut GraphNode, edges: *mut GraphEdge, count: *mut usize,
    ) {
        let list = driver.graphs().edges(graph)?;
        // SAFETY: as the program passed it.
        unsafe { answer_edges(&list, from, to, edges, count) }
    }

    /// `cuGraphGetEdges` before CUDA 12.3.
    fn cuGraphGetEdges(driver, graph: Graph, from: *mut GraphNode, to: *mut GraphNode, count: *mut usize) {
        // SAFETY: as the program passed it.
        unsafe { cuGraphGetEdges_v2(driver, graph, from, to, std::ptr::null_mut(), count) }
    }

    /// `cuGraphNodeGetDependencies_v2`.
    fn cuGraphNodeGetDependencies_v2(
        driver, node: GraphNode, nodes: *mut GraphNode, edges: *mut GraphEdge, count: *mut usize,
    ) {
        let list: Vec<_> = driver.graphs().dependencies(node)?.into_iter().map(|edge| (node, edge)).collect();
        // SAFETY: as the program passed it.
        unsafe { answer_edges(&list, nodes, std::ptr::null_mut(), edges, count) }
    }

    /// `cuGraphNodeGetDependencies` before CUDA 12.3.
    fn cuGraphNodeGetDependencies(driver, node: GraphNode, nodes: *mut GraphNode, count: *mut usize) {
        // SAFETY: as the program passed it.
        unsafe { cuGraphNodeGetDependencies_v2(driver, node, nodes, std::ptr::null_mut(), count) }
    }

    /// `cuGraphNodeGetDependentNodes_v2`.
    fn cuGraphNodeGetDependentNodes_v2(
        driver, node: GraphNode, nodes: *mut GraphNode, edges: *mut GraphEdge, count: *mut usize,
    ) {
        let list = driver.graphs().dependents(node)?;
        // SAFETY: as the program passed it.
        unsafe { answer_edges(&list, std::ptr::null_mut(), nodes, edges, count) }
    }

    /// `cuGraphNodeGetDependentNodes` before CUDA 12.3.
    fn cuGraphNodeGetDependentNodes(driver, node: GraphNode, nodes: *mut GraphNode, count: *mut usize) {
        // SAFETY: as the program passed it.
        unsafe { cuGraphNodeGetDependentNodes_v2(driver, node, nodes, std::ptr::null_mut(), count) }
    }

    /// `cuGraphAddDependencies_v2`.
    fn cuGraphAddDependencies_v2(
        driver, graph: Graph, from: *const GraphNode, to: *const GraphNode, edges: *const GraphEdge, count: usize,
    ) {
        // SAFETY: as the program passed it.
        let added = unsafe { pairs(from, to, edges, count) }?;
        driver.graphs().add_dependencies(graph, &added)
    }

    /// `cuGraphAddDependencies` before CUDA 12.3.
    fn cuGraphAddDependencies(
        driver, graph: Graph, from: *const GraphNode, to: *const GraphNode, count: usize,
    ) {
        // SAFETY: as the program passed it.
        unsafe { cuGraphAddDependencies_v2(driver, graph, from, to, std::ptr::null(), count) }
    }

    /// `cuGraphRemoveDependencies_v2`.
    fn cuGraphRemoveDependencies_v2(
        driver, graph: Graph, from: *const GraphNode, to: *const GraphNode, edges: *const GraphEdge, count: usize,
    ) {
        // SAFETY: as the program passed it.
        let removed = unsafe { pairs(from, to, edges, count) }?;
        driver.graphs().remove_dependencies(graph, &removed)
    }

    /// `cuGraphRemoveDependencies` before CUDA 12.3.
    fn cuGraphRemoveDependencies(
        driver, graph: Graph, from: *const GraphNode, to: *const GraphNode, count: usize,
    ) {
        // SAFETY: as the program passed it.
        unsafe { cuGraphRemoveDependencies_v2(driver, graph, from, to, std::ptr::null(), count) }
    }

    /// `cuGraphDebugDotPrint`.
    fn cuGraphDebugDotPrint(driver, graph: Graph, path: *const c_char, flags: u32) {
        // SAFETY: the program's text.
        let path = unsafe { c::text(path) }?;
        if flags & !graph_debug_flags::KNOWN != 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        // Asked for while nobody holds the graphs.
        let functions = driver.graphs().functions(graph)?.into_iter();
        let names = functions.filter_map(|function| Some((function.0, driver.func_get_name(function).ok()?))).collect();
        let drawing = driver.graphs().draw(graph, flags, &names)?;
        let path = std::path::Path::new(std::ffi::OsStr::new(path.to_str().map_err(|_| CudaError::INVALID_VALUE)?));
        std::fs::write(path, drawing).map_err(|_| CudaError::OPERATING_SYSTEM)
    }
}
