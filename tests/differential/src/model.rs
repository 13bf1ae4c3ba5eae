//! What memory must hold, and which operations have one result.
//! In: operations in the program's order. Out: each is admitted, or refused with the streams that it is not ordered
//! behind; admitted ones change the bytes at once, since no order that CUDA allows gives others. It never calls CUDA.

mod block;
mod graph;
mod host;
mod memory;
mod state;
mod touch;
mod work;

pub(crate) use block::Block;
pub(crate) use memory::VARIABLE_BYTES;
pub(crate) use state::{Capabilities, Graph, Model, Refusal};

use crate::operation::Operation;
use state::{Admission, possible};

impl Model {
    /// Carries an operation out, or says why it cannot be.
    pub(crate) fn admit(&mut self, operation: &Operation) -> Admission {
        match operation {
            Operation::Allocate { .. }
            | Operation::Free { .. }
            | Operation::Remap { .. }
            | Operation::Register { .. }
            | Operation::Unregister { .. }
            | Operation::Prefetch { .. }
            | Operation::Open { .. }
            | Operation::Close { .. }
            | Operation::Reset { .. } => self.admit_memory(operation),
            Operation::HostWrite { .. } | Operation::HostRead { .. } | Operation::Read { .. } => {
                self.admit_of_host(operation)
            }
            Operation::Do { stream, work } => self.admit_work(*stream, work),
            Operation::Graph { .. }
            | Operation::Instantiate { .. }
            | Operation::Update { .. }
            | Operation::SetNode { .. }
            | Operation::LaunchGraph { .. }
            | Operation::DropGraph { .. }
            | Operation::DropInstance { .. } => self.admit_graph(operation),
            _ => self.admit_order(operation),
        }
    }

    fn admit_order(&mut self, operation: &Operation) -> Admission {
        match *operation {
            Operation::CreateStream { stream, blocking } => {
                possible(stream.vgpu < self.can.vgpus && !self.order.streams_of(stream.vgpu).contains(&stream))?;
                self.order.create(stream, blocking);
            }
            Operation::DestroyStream { stream } => {
                possible(self.order.streams_of(stream.vgpu).contains(&stream))?;
                self.order.destroy(stream);
            }
            Operation::Record { event, stream } => {
                possible(self.order.has(stream) && self.order.may_record(event, stream.vgpu))?;
                self.order.record(event, stream);
            }
            Operation::WaitEvent { event, stream } => {
                possible(self.can.across || self.order.has_event(event, stream.vgpu))?;
                possible(self.order.has(stream) && self.order.wait_event(event, stream))?;
            }
            Operation::OpenEvent { event, vgpu } => {
                let is_others = self.order.vgpu_of(event).is_some_and(|of| of != vgpu);
                possible(self.can.processes && is_others && vgpu < self.can.vgpus && self.order.open_event(event))?;
            }
            Operation::SynchronizeEvent { event, vgpu, .. } => {
                possible(self.order.has_event(event, vgpu))?;
                possible(self.order.synchronize_event(event))?;
                self.forget();
            }
            Operation::SynchronizeStream { stream, .. } => {
                possible(self.order.has(stream))?;
                self.order.synchronize_stream(stream);
                self.forget();
            }
            Operation::SynchronizeContext { vgpu } => {
                self.order.synchronize_vgpu(vgpu);
                self.forget();
            }
            Operation::Signal { from, to, .. } => {
                possible(from != to && from.vgpu == to.vgpu && self.order.has(from) && self.order.has(to))?;
                self.order.signal(from, to);
            }
            _ => return Err(Refusal::Impossible),
        }
        Ok(())
    }

    /// The vGPU whose process carries an operation out; asked before the operation is admitted.
    pub(crate) fn vgpu_of(&self, operation: &Operation) -> Option<usize> {
        let of_block = |block| self.blocks.get(block).map(|block| block.vgpu);
        let of_instance = |instance| self.instances.get(instance).map(|instance| instance.vgpu);
        match operation {
            Operation::Allocate { vgpu, .. }
            | Operation::Read { vgpu, .. }
            | Operation::Open { vgpu, .. }
            | Operation::Close { vgpu, .. }
            | Operation::OpenEvent { vgpu, .. }
            | Operation::SynchronizeEvent { vgpu, .. }
            | Operation::SynchronizeContext { vgpu }
            | Operation::Graph { vgpu, .. }
            | Operation::Reset { vgpu } => Some(*vgpu),
            Operation::Free { stream: Some(stream), .. }
            | Operation::Prefetch { stream, .. }
            | Operation::Do { stream, .. }
            | Operation::CreateStream { stream, .. }
            | Operation::DestroyStream { stream }
            | Operation::Record { stream, .. }
            | Operation::WaitEvent { stream, .. }
            | Operation::SynchronizeStream { stream, .. }
            | Operation::Signal { from: stream, .. }
            | Operation::LaunchGraph { stream, .. } => Some(stream.vgpu),
            Operation::Free { block, .. }
            | Operation::Remap { block }
            | Operation::Register { block }
            | Operation::Unregister { block } => of_block(block),
            Operation::HostWrite { at, .. } | Operation::HostRead { at, .. } => of_block(&at.block),
            Operation::Instantiate { graph, .. } | Operation::DropGraph { graph } => {
                self.graphs.get(graph).map(|graph| graph.vgpu)
            }
            Operation::Update { instance, .. }
            | Operation::SetNode { instance, .. }
            | Operation::DropInstance { instance } => of_instance(instance),
        }
    }

    /// Whether an operation would be admitted.
    pub(crate) fn admit_copy(&self, operation: &Operation) -> bool {
        self.clone().admit(operation).is_ok()
    }
}
