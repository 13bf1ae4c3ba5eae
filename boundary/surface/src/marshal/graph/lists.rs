//! CUDA's lists of nodes and edges: C's arrays come in as edges, and lists of edges go out by CUDA's rules for lengths.
//! It never looks at a graph.

use crate::graph::Edge;
use crate::prelude::*;

/// Nodes of C with what of each is waited for; without edges all of it.
///
/// # Safety
/// Both arrays have `count` values or are NULL.
pub(in crate::marshal) unsafe fn edges(
    nodes: *const GraphNode,
    data: *const GraphEdge,
    count: usize,
) -> CudaResult<Vec<Edge>> {
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
pub(super) unsafe fn pairs(
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
pub(super) unsafe fn answer_edges(
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
    // SAFETY: our caller vouches for the arrays; each gets the room as its own variable.
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
