//! What memory must hold, and which operations have one result.
//! In: operations in the program's order. Out: each is admitted, or refused with the streams that it is not ordered
//! behind; admitted ones change the bytes at once, since no order that CUDA allows gives others. It never calls CUDA.

mod block;
mod graph;
mod host;
mod memory;
mod touch;
mod work;

use std::collections::BTreeMap;

pub(crate) use block::Block;
pub(crate) use graph::Graph;
pub(crate) use memory::VARIABLE_BYTES;

use crate::operation::{Id, Kernel, Operation, Place, Stream, Work};
use crate::order::Order;

/// What the device under test can do; asked for once, or given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Capabilities {
    pub(crate) vgpus: usize,
    /// Kernels reach pinned memory.
    pub(crate) mapped: bool,
    /// Kernels reach the memory of other vGPUs.
    pub(crate) peers: bool,
    /// Streams wait for events of other vGPUs.
    pub(crate) across: bool,
    /// They have managed memory.
    pub(crate) managed: bool,
}

/// Why an operation is not admitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It would race with work of these streams.
    Unordered(Vec<Stream>),
    /// Something it names is not there, or it makes no sense.
    Impossible,
}

/// Whether an operation is admitted.
pub(crate) type Admission = Result<(), Refusal>;

#[derive(Debug, Clone)]
pub(crate) struct Model {
    pub(crate) can: Capabilities,
    pub(crate) order: Order,
    pub(crate) blocks: BTreeMap<Id, Block>,
    pub(crate) graphs: BTreeMap<Id, Graph>,
    pub(crate) instances: BTreeMap<Id, Graph>,
}

fn possible(condition: bool) -> Admission {
    if condition { Ok(()) } else { Err(Refusal::Impossible) }
}

impl Model {
    pub(crate) fn new(can: Capabilities) -> Self {
        let (blocks, graphs, instances) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { can, order: Order::default(), blocks, graphs, instances }
    }

    /// Carries an operation out, or says why it cannot be.
    pub(crate) fn admit(&mut self, operation: &Operation) -> Admission {
        match operation {
            Operation::Allocate { .. }
            | Operation::Free { .. }
            | Operation::Remap { .. }
            | Operation::Register { .. }
            | Operation::Unregister { .. }
            | Operation::Prefetch { .. }
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
                possible(self.order.has(stream))?;
                self.order.record(event, stream);
            }
            Operation::WaitEvent { event, stream } => {
                let is_of_it = self.order.events_of(stream.vgpu).contains(&event);
                possible(self.can.across || is_of_it)?;
                possible(self.order.has(stream) && self.order.wait_event(event, stream))?;
            }
            Operation::SynchronizeEvent { event, .. } => {
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

    /// Whether an operation would be admitted.
    pub(crate) fn admit_copy(&self, operation: &Operation) -> bool {
        self.clone().admit(operation).is_ok()
    }

    /// Whether every block that work names is there.
    pub(crate) fn is_there(&self, work: &Work) -> bool {
        let is_held = |at: &Place| self.blocks.contains_key(&at.block);
        match work {
            Work::Copy { to, from, .. } => is_held(to) && is_held(from),
            Work::Kernel(Kernel::Bytes { at, .. }) => is_held(at),
            _ => true,
        }
    }

    /// Forgets accesses that the host knows to be over: everything from here on is behind them.
    fn forget(&mut self) {
        let host = self.order.host();
        for block in self.blocks.values_mut() {
            block.accesses.retain(|access| !access.moment.is_before(host));
        }
    }
}
