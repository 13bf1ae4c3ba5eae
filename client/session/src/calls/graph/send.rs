//! Parts of a graph on their way to the server: nodes are posted, an instantiation or an update is waited for. Work comes
//! in checked; what the server refuses leaves nothing behind there.

use std::sync::Arc;

use floe_abi::{CudaError, CudaResult};
use floe_surface::CopyPlace;
use floe_surface::graph::{CopyWork, FillWork, KernelWork, Plan, Work};
use floe_wire::{
    AddGraphConditional, AddGraphCopy, AddGraphEmpty, AddGraphFill, AddGraphKernel, AddGraphWords, Call as _,
    CreateGraph, DestroyGraph, GraphCopy, GraphEdge, GraphFill, GraphId, InstantiateGraph, KernelId, SetGraphCopy,
    SetGraphFill, SetGraphKernel, SetGraphWords,
};

use crate::client::Client;
use crate::objects::parts::{NodeLocation, Part, Parts};
use crate::vgpu::Vgpu;
use crate::vgpu::attributes::Attributes;

/// The dependencies of a node within its part; what other parts do is over before this one starts.
fn edges(plan: &Plan, parts: &Parts, index: usize) -> Vec<GraphEdge> {
    let Some(NodeLocation::Node { graph: own, .. }) = parts.places.get(index) else {
        return Vec::new();
    };
    let edge = |edge: &floe_surface::graph::PlanEdge| match parts.places[edge.from] {
        NodeLocation::Node { graph, node } if graph == *own => {
            Some(GraphEdge { from: node, port: edge.data.from_port, kind: edge.data.kind })
        }
        _ => None,
    };
    plan.nodes[index].after.iter().filter_map(edge).collect()
}

fn copy_on_wire(copy: &CopyWork) -> CudaResult<GraphCopy> {
    let copy = &copy.copy;
    let (CopyPlace::Device(from, _), CopyPlace::Device(to, _)) = (copy.source.place, copy.destination.place) else {
        return Err(CudaError::INVALID_VALUE);
    };
    Ok(GraphCopy {
        to,
        to_pitch: copy.destination.pitch as u64,
        to_slice: copy.destination.slice as u64,
        from,
        from_pitch: copy.source.pitch as u64,
        from_slice: copy.source.slice as u64,
        width: copy.width as u64,
        height: copy.height as u64,
        depth: copy.depth as u64,
    })
}

fn fill_on_wire(fill: &FillWork) -> GraphFill {
    GraphFill {
        at: fill.fill.at,
        pitch: fill.fill.pitch as u64,
        element: fill.fill.element,
        value: fill.fill.value,
        width: fill.fill.width as u64,
        height: fill.fill.height as u64,
    }
}

impl Client {
    /// Posts all nodes of all parts.
    pub(super) fn send_nodes(&self, parts: &mut Parts, plan: &Plan, vgpu: &Arc<Vgpu>) -> CudaResult<()> {
        for part in &parts.list {
            let Part::Device { graph, nodes } = part else { continue };
            let graph = GraphId(*graph);
            // A graph with conditional handles is there since the first.
            if !plan.has_conditions() {
                vgpu.connection.post(&CreateGraph { graph })?;
            }
            self.send_graph(vgpu, parts, plan, graph, nodes)?;
        }
        parts.bodies.iter().try_for_each(|body| self.send_graph(vgpu, parts, plan, GraphId(body.graph), &body.nodes))
    }

    /// Posts the nodes of one graph of the server's.
    fn send_graph(
        &self,
        vgpu: &Arc<Vgpu>,
        parts: &Parts,
        plan: &Plan,
        graph: GraphId,
        nodes: &[usize],
    ) -> CudaResult<()> {
        for index in nodes {
            let (after, work) = (edges(plan, parts, *index), &plan.nodes[*index].work);
            if let Work::Conditional(work) = work {
                let (handle, kind, bodies) = (work.handle(), work.kind(), parts.bodies_of(*index));
                vgpu.connection.post(&AddGraphConditional { graph, after, handle, kind, bodies })?;
            } else {
                self.send_node(vgpu, graph, after, work)?;
            }
        }
        Ok(())
    }

    fn send_node(&self, vgpu: &Arc<Vgpu>, graph: GraphId, after: Vec<GraphEdge>, work: &Work) -> CudaResult<()> {
        let connection = &vgpu.connection;
        match work {
            Work::Kernel(kernel) => self.send_kernel(vgpu, graph, after, kernel).map(drop),
            Work::Copy(copy) => connection.post(&AddGraphCopy { graph, after, copy: copy_on_wire(copy)? }).map(drop),
            Work::Fill(fill) => connection.post(&AddGraphFill { graph, after, fill: fill_on_wire(fill) }).map(drop),
            Work::Words(words) if !words.operations.is_empty() => {
                let operations = self.words_on_wire(words, vgpu)?;
                connection.post(&AddGraphWords { graph, after, operations }).map(drop)
            }
            _ => connection.post(&AddGraphEmpty { graph, after }).map(drop),
        }
    }

    fn send_kernel(
        &self,
        vgpu: &Arc<Vgpu>,
        graph: GraphId,
        after: Vec<GraphEdge>,
        work: &KernelWork,
    ) -> CudaResult<u64> {
        let function = self.function_on(work.function, vgpu)?;
        let attributes = Attributes::of_node(&work.attributes)?;
        let ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]) = (work.grid, work.block);
        vgpu.connection.post(&AddGraphKernel {
            graph,
            after,
            kernel: KernelId(function.id()),
            grid_x,
            grid_y,
            grid_z,
            block_x,
            block_y,
            block_z,
            shared: work.shared_bytes,
            parameters: work.parameters.bytes(),
            attributes: attributes.on_wire(),
        })
    }

    /// Sends all parts and waits until each can be launched.
    pub(super) fn send_parts(&self, parts: &mut Parts, plan: &Plan, vgpu: &Arc<Vgpu>, flags: u64) -> CudaResult<u64> {
        let mut handle = 0;
        let instantiate = |graph| {
            let answer = vgpu.call(&InstantiateGraph { graph, flags })?;
            handle = vgpu.connection.read(InstantiateGraph::decode_reply(&answer.body))?.handle;
            Ok(())
        };
        let sent = self.send_nodes(parts, plan, vgpu).and_then(|()| parts.graphs().try_for_each(instantiate));
        if sent.is_err() {
            // Those not made yet are made and go again: ids are never used twice.
            for graph in parts.graphs() {
                let _ = vgpu.connection.post(&DestroyGraph { graph });
            }
        }
        sent.map(|()| handle)
    }

    /// One node of an instantiated graph does something else from the next launch on.
    pub(super) fn send_change(&self, vgpu: &Arc<Vgpu>, graph: GraphId, node: u32, work: &Work) -> CudaResult<()> {
        let connection = &vgpu.connection;
        match work {
            Work::Kernel(work) => {
                let function = self.function_on(work.function, vgpu)?;
                let ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]) = (work.grid, work.block);
                connection.post(&SetGraphKernel {
                    graph,
                    node,
                    kernel: KernelId(function.id()),
                    grid_x,
                    grid_y,
                    grid_z,
                    block_x,
                    block_y,
                    block_z,
                    shared: work.shared_bytes,
                    parameters: work.parameters.bytes(),
                })
            }
            Work::Copy(copy) => connection.post(&SetGraphCopy { graph, node, copy: copy_on_wire(copy)? }),
            Work::Fill(fill) => connection.post(&SetGraphFill { graph, node, fill: fill_on_wire(fill) }),
            Work::Words(words) if !words.operations.is_empty() => {
                let operations = self.words_on_wire(words, vgpu)?;
                connection.post(&SetGraphWords { graph, node, operations })
            }
            _ => return Ok(()),
        }
        .map(drop)
    }
}
