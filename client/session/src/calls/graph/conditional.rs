//! Graphs in which values decide. A conditional handle is the device's own number, since kernels are given it. So such a graph
//! is made at the server when its first handle is asked for, and gets its nodes when it is instantiated, once.
//! Which handle decides for which node the surface knows.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use floe_abi::{CudaError, CudaResult, Graph};
use floe_surface::graph::{Plan, Work};
use floe_wire::{Call as _, CreateGraph, CreateGraphCondition, DestroyGraph, GraphId};

use crate::client::Client;
use crate::log::log;
use crate::objects::exec::ExecState;
use crate::objects::parts::NodeLocation;
use crate::vgpu::Vgpu;
use floe_lock::lock;

/// The server's graphs, by the program's.
pub(crate) type Homes = Mutex<HashMap<Graph, Home>>;

/// A graph of the server's that has handles.
#[derive(Debug)]
pub(crate) struct Home {
    vgpu: Arc<Vgpu>,
    /// The vGPU's epoch when it was made.
    epoch: u64,
    graph: u64,
    /// It has its nodes, and goes with the instantiated graph.
    spent: bool,
}

impl Home {
    /// The graph, while it takes handles and nodes of this vGPU.
    fn open(&self, vgpu: &Arc<Vgpu>) -> CudaResult<u64> {
        if self.epoch != self.vgpu.epoch() {
            return Err(CudaError::CONTEXT_IS_DESTROYED);
        }
        if self.spent {
            log!(Warn, "a graph with conditional nodes that is instantiated a second time is not supported");
            return Err(CudaError::NOT_SUPPORTED);
        }
        if !Arc::ptr_eq(&self.vgpu, vgpu) {
            log!(Warn, "a graph with conditional handles of several GPUs is not supported");
            return Err(CudaError::NOT_SUPPORTED);
        }
        Ok(self.graph)
    }
}

impl Client {
    /// A handle of a graph, which the server gets with its first.
    pub(super) fn create_condition(&self, graph: Graph, vgpu: &Arc<Vgpu>, value: u32, flags: u32) -> CudaResult<u64> {
        vgpu.errors.report()?;
        let known = lock(&self.homes).get(&graph).map(|home| home.open(vgpu));
        let id = match known {
            Some(id) => id?,
            None => {
                let id = vgpu.next_id();
                vgpu.connection.post(&CreateGraph { graph: GraphId(id) })?;
                let home = Home { vgpu: Arc::clone(vgpu), epoch: vgpu.epoch(), graph: id, spent: false };
                lock(&self.homes).insert(graph, home);
                id
            }
        };
        let answer = vgpu.call(&CreateGraphCondition { graph: GraphId(id), value, flags })?;
        Ok(vgpu.connection.read(CreateGraphCondition::decode_reply(&answer.body))?.handle)
    }

    /// The server's graph of a graph with handles.
    pub(super) fn home(&self, graph: Graph, vgpu: &Arc<Vgpu>) -> CudaResult<u64> {
        lock(&self.homes).get(&graph).ok_or(CudaError::INVALID_VALUE)?.open(vgpu)
    }

    /// The nodes of a plan are about to be sent: its graph takes no others.
    pub(super) fn spend_home(&self, plan: &Plan) {
        let mut homes = lock(&self.homes);
        if let Some(home) = plan.conditions.and_then(|graph| homes.get_mut(&graph)) {
            home.spent = true;
        }
    }

    /// A graph with handles is gone.
    pub(super) fn end_home(&self, graph: Graph) {
        let Some(home) = lock(&self.homes).remove(&graph) else { return };
        if !home.spent && home.epoch == home.vgpu.epoch() {
            // A link that has failed is what the next call reports.
            let _ = home.vgpu.connection.post(&DestroyGraph { graph: GraphId(home.graph) });
        }
    }

    /// All nodes of an instantiated graph do what those of a plan of its shape do, one by one: its handles are another
    /// graph's no more than its nodes are.
    pub(super) fn update_in_place(&self, exec: &ExecState, plan: &Plan) -> CudaResult<()> {
        for (node, place) in plan.nodes.iter().zip(&exec.parts.places) {
            let is_node = matches!(place, NodeLocation::Node { .. });
            if !node.work.is_idle() && self.is_device_work(&node.work, &exec.vgpu)? != is_node {
                log!(Warn, "cuGraphExecUpdate: a copy that moves between host and device is not supported");
                return Err(CudaError::NOT_SUPPORTED);
            }
        }
        for (node, place) in plan.nodes.iter().zip(&exec.parts.places) {
            let NodeLocation::Node { graph, node: number } = *place else { continue };
            if !matches!(node.work, Work::Conditional(_)) {
                self.send_change(&exec.vgpu, GraphId(graph), number, &node.work)?;
            }
        }
        Ok(())
    }
}
