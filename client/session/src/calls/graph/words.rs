//! Nodes that write words of memory and wait for them. Operations of the program's come in, checked at every sending: a word
//! may have gone since its node was made. Launches of graphs that wait for host memory keep it sent meanwhile.

use std::sync::Arc;

use floe_abi::CudaResult;
use floe_surface::graph::{Plan, WordsWork, Work};
use floe_wire::{GraphId, LaunchGraph, MemoryOperation};

use crate::calls::memory::stream_memory::Waits;
use crate::client::Client;
use crate::objects::exec::ExecState;
use crate::objects::stream::StreamState;
use crate::vgpu::Vgpu;

/// The places of a plan's nodes of this kind, which no change of what nodes do moves.
pub(super) fn places(plan: &Plan) -> Vec<usize> {
    let nodes = plan.nodes.iter().enumerate();
    nodes.filter(|(_, node)| matches!(node.work, Work::Words(_))).map(|(at, _)| at).collect()
}

impl Client {
    /// The operations of a node as they travel.
    pub(super) fn words_on_wire(&self, work: &WordsWork, vgpu: &Arc<Vgpu>) -> CudaResult<Vec<MemoryOperation>> {
        self.checked_operations(&work.operations, vgpu).map(|(operations, _)| operations)
    }

    /// Posts the launch of a graph of the server's.
    pub(super) fn post_graph(&self, exec: &ExecState, plan: &Plan, stream: &StreamState, graph: u64) -> CudaResult<()> {
        let _leaving = stream.vgpu.flush_for_launch(stream.id().0)?;
        let message = LaunchGraph { graph: GraphId(graph), stream: stream.id() };
        if exec.words.is_empty() {
            return stream.post(&message);
        }
        let mut waits = Waits::default();
        for at in &exec.words {
            if let Some(Work::Words(words)) = plan.nodes.get(*at).map(|node| &node.work) {
                waits = waits.with(self.checked_operations(&words.operations, &exec.vgpu)?.1);
            }
        }
        Self::post_words(stream, &message, waits)
    }
}
