//! Graphs: made, copied, drawn, and the dependencies between their nodes. C's arrays come in and go out by CUDA's rules for
//! lists; the graphs themselves are the surface's own. Nodes are in `nodes` and `node_params`, those of words in `words`,
//! instantiated graphs in `exec`.

mod exec;
mod node_params;
mod nodes;
mod objects;
mod words;

pub use exec::*;
pub use nodes::*;
pub use objects::*;
pub use words::*;

use super::marshallers;
use crate::graph::{Edge, settle};
use crate::prelude::*;

/// Nodes of C with what of each is waited for; without edges all of it.
///
/// # Safety
/// Both arrays have `count` values or are NULL.
pub(super) unsafe fn edges(nodes: *const GraphNode, data: *const GraphEdge, count: usize) -> CudaResult<Vec<Edge>> {
    // SAFETY: our caller vouches for both.
    let nodes = unsafe { c::slice(nodes, count) }?;
    if data.is_null() {
        return Ok(nodes.iter().map(|node| Edge::whole(*node)).collect());
    }
    // SAFETY: as above.
    let data = unsafe { c::slice(data, count) }?;
    Ok(nodes.iter().zip(data).map(|(node, data)| Edge { from: *node, data: *data }).collect())
}

/// Pairs of nodes with what of the earlier is waited for.
///
/// # Safety
/// As [`edges`].
unsafe fn pairs(
    from: *const GraphNode,
    to: *const GraphNode,
    data: *const GraphEdge,
    count: usize,
) -> CudaResult<Vec<(GraphNode, Edge)>> {
    // SAFETY: our caller vouches for both.
    let (edges, to) = unsafe { (edges(from, data, count)?, c::slice(to, count)?) };
    Ok(to.iter().copied().zip(edges).collect())
}

/// Answers with a list as CUDA does: without an array only its length, else as much as fits, the rest of the array zero.
///
/// # Safety
/// `count` is the program's variable; the array has as many values as that says, or is NULL.
pub(super) unsafe fn answer<T: Copy + Default>(list: &[T], array: *mut T, count: *mut usize) -> CudaResult<()> {
    c::present(count)?;
    if !array.is_null() {
        // SAFETY: our caller vouches for both.
        let room = unsafe { c::slice_mut(array, *count) }?;
        room.fill(T::default());
        for (place, value) in room.iter_mut().zip(list) {
            *place = *value;
        }
        // SAFETY: the program's variable.
        unsafe { c::put(count, list.len().min(*count)) };
        return Ok(());
    }
    // SAFETY: the program's variable.
    unsafe { c::put(count, list.len()) };
    Ok(())
}

/// Answers with dependencies; a question without `data` is refused where that would hide something.
///
/// # Safety
/// As [`answer`], for every array.
unsafe fn answer_edges(
    list: &[(GraphNode, Edge)],
    from: *mut GraphNode,
    to: *mut GraphNode,
    data: *mut GraphEdge,
    count: *mut usize,
) -> CudaResult<()> {
    if data.is_null() && list.iter().any(|(_, edge)| edge.data != GraphEdge::default()) {
        return Err(CudaError::LOSSY_QUERY);
    }
    c::present(count)?;
    // SAFETY: the program's variable, checked.
    let room = unsafe { *count };
    // SAFETY: our caller vouches for the arrays; each is told the room anew.
    unsafe {
        let each = |length: &mut usize| {
            *length = room;
            std::ptr::from_mut(length)
        };
        let mut length = room;
        let froms: Vec<GraphNode> = list.iter().map(|(_, edge)| edge.from).collect();
        let tos: Vec<GraphNode> = list.iter().map(|(node, _)| *node).collect();
        let datas: Vec<GraphEdge> = list.iter().map(|(_, edge)| edge.data).collect();
        if !data.is_null() {
            answer(&datas, data, each(&mut length))?;
        }
        if !from.is_null() {
            answer(&froms, from, each(&mut length))?;
        }
        if !to.is_null() {
            answer(&tos, to, each(&mut length))?;
        }
        let asked_for_all = from.is_null() && to.is_null();
        c::put(count, if asked_for_all { list.len() } else { list.len().min(room) });
    }
    Ok(())
}

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
        let drawing = driver.graphs().draw(graph, flags)?;
        let path = std::path::Path::new(std::ffi::OsStr::new(path.to_str().map_err(|_| CudaError::INVALID_VALUE)?));
        std::fs::write(path, drawing).map_err(|_| CudaError::OPERATING_SYSTEM)
    }
}
