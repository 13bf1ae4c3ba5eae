//! The work of graph nodes, as the driver's structs have it.
//! In: checked numbers. Out: calls of the library.
//! Pitches of a single row are left out: drivers refuse long ones although nothing is stepped over.

use floe_abi::{Context, CudaResult, DevicePtr, Graph, GraphExec, GraphNode, Memcpy3d, MemsetNodeParams, memory_type};

use super::numbers::size;
use crate::Driver;
use crate::requests::{Conditional, NodeBodies, NodeCopy, NodeEdge, NodeWork, Pattern};

/// Pitch and rows per slice of one end.
fn steps(copy: &NodeCopy, pitch: u64, slice: u64) -> CudaResult<(usize, usize)> {
    if copy.height <= 1 && copy.depth <= 1 {
        return Ok((0, 0));
    }
    let rows = if copy.depth <= 1 { copy.height } else { slice.checked_div(pitch).unwrap_or(0) };
    Ok((size(pitch)?, size(rows)?))
}

fn box_of(copy: &NodeCopy) -> CudaResult<Memcpy3d> {
    let (source_pitch, source_height) = steps(copy, copy.from_pitch, copy.from_slice)?;
    let (destination_pitch, destination_height) = steps(copy, copy.to_pitch, copy.to_slice)?;
    Ok(Memcpy3d {
        source_memory_type: memory_type::DEVICE,
        source_device: copy.from.0,
        source_pitch,
        source_height,
        destination_memory_type: memory_type::DEVICE,
        destination_device: copy.to.0,
        destination_pitch,
        destination_height,
        width_bytes: size(copy.width)?,
        height: size(copy.height)?,
        depth: size(copy.depth)?,
        ..Memcpy3d::default()
    })
}

fn fill(at: DevicePtr, pattern: &Pattern) -> CudaResult<MemsetNodeParams> {
    Ok(MemsetNodeParams {
        at,
        pitch: if pattern.height <= 1 { 0 } else { size(pattern.pitch)? },
        value: pattern.value,
        element: pattern.element,
        width: size(pattern.width)?,
        height: size(pattern.height)?,
    })
}

/// Adds a node; an edge that waits for all of its node is a plain dependency, others are added behind it.
pub(super) fn add(
    driver: &Driver,
    context: Context,
    graph: Graph,
    after: &[NodeEdge],
    work: &NodeWork<'_>,
) -> CudaResult<GraphNode> {
    let whole = whole(after);
    let node = match work {
        NodeWork::Empty => driver.graph_add_empty(graph, &whole),
        NodeWork::Kernel(work, attributes) => driver.graph_add_kernel(graph, &whole, work, attributes),
        NodeWork::Copy(work) => driver.graph_add_copy(graph, &whole, &box_of(work)?, context),
        NodeWork::Fill(at, pattern) => driver.graph_add_fill(graph, &whole, &fill(*at, pattern)?, context),
        NodeWork::Words(operations) => driver.graph_add_words(graph, &whole, operations, context),
    }?;
    add_edges(driver, graph, after, node)?;
    Ok(node)
}

/// Adds a conditional node, behind others as any.
pub(super) fn add_conditional(
    driver: &Driver,
    context: Context,
    graph: Graph,
    after: &[NodeEdge],
    node: &Conditional,
) -> CudaResult<NodeBodies> {
    let (node, bodies) = driver.graph_add_conditional(graph, &whole(after), node, context)?;
    add_edges(driver, graph, after, node)?;
    Ok((node, bodies))
}

/// The nodes all of which is waited for.
fn whole(after: &[NodeEdge]) -> Vec<GraphNode> {
    after.iter().filter(|edge| edge.is_whole()).map(|edge| edge.from).collect()
}

/// Adds the edges that wait for part of a node.
fn add_edges(driver: &Driver, graph: Graph, after: &[NodeEdge], node: GraphNode) -> CudaResult<()> {
    for edge in after.iter().filter(|edge| !edge.is_whole()) {
        let data = floe_abi::GraphEdge { from_port: edge.port, kind: edge.kind, ..floe_abi::GraphEdge::default() };
        driver.graph_add_edge(graph, edge.from, node, data)?;
    }
    Ok(())
}

/// Changes what a node of an instantiated graph does.
pub(super) fn set(
    driver: &Driver,
    context: Context,
    exec: GraphExec,
    node: GraphNode,
    work: &NodeWork<'_>,
) -> CudaResult<()> {
    match work {
        NodeWork::Empty => Ok(()),
        NodeWork::Kernel(work, _) => driver.graph_exec_set_kernel(exec, node, work),
        NodeWork::Copy(work) => driver.graph_exec_set_copy(exec, node, &box_of(work)?, context),
        NodeWork::Fill(at, pattern) => driver.graph_exec_set_fill(exec, node, &fill(*at, pattern)?, context),
        NodeWork::Words(operations) => driver.graph_exec_set_words(exec, node, operations, context),
    }
}
