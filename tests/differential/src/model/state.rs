//! What the model knows: blocks, graphs and what is over before what.
//! In: nothing. Out: types that the operations' files change. It admits nothing itself.

use std::collections::BTreeMap;

use super::block::Block;
use crate::operation::{Id, Kernel, Node, Place, Step, Stream, Work};
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
    /// Each vGPU is of a process of its own.
    pub(crate) processes: bool,
    /// They have managed memory.
    pub(crate) managed: bool,
    /// A copy reads pinned memory in the order of the default stream. NVIDIA's driver reads a few KiB at the call where the copy's own
    /// stream has nothing to wait for (docs/facts/h200.md).
    pub(crate) reads_in_order: bool,
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

pub(super) fn possible(condition: bool) -> Admission {
    if condition { Ok(()) } else { Err(Refusal::Impossible) }
}

impl Model {
    pub(crate) fn new(can: Capabilities) -> Self {
        let (blocks, graphs, instances) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { can, order: Order::default(), blocks, graphs, instances }
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
    pub(super) fn forget(&mut self) {
        let host = self.order.host();
        for block in self.blocks.values_mut() {
            block.accesses.retain(|access| !access.moment.is_before(host));
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Graph {
    pub(crate) vgpu: usize,
    pub(crate) nodes: Vec<Node>,
    /// Its nodes have no handles, or not its own.
    pub(crate) is_captured: bool,
    /// How its graph was made.
    pub(crate) was_captured: bool,
    /// Every block that it names, and the version that it had.
    pub(super) versions: Vec<(Id, u32)>,
    /// Of an instance: its graph.
    pub(super) graph: Id,
}

impl Graph {
    pub(crate) fn has_memory(&self) -> bool {
        self.nodes.iter().any(|node| !matches!(node.what, Step::Work(_)))
    }

    pub(super) fn has_shape_of(&self, other: &Self) -> bool {
        let pairs = || self.nodes.iter().zip(&other.nodes);
        self.nodes.len() == other.nodes.len()
            && self.vgpu == other.vgpu
            && pairs().all(|(one, two)| one.lane == two.lane && one.after == two.after && one.what.resembles(&two.what))
    }
}

impl Step {
    /// Whether one may take the other's place in an instance.
    pub(crate) fn resembles(&self, other: &Self) -> bool {
        let (Self::Work(one), Self::Work(two)) = (self, other) else { return false };
        match (one, two) {
            (Work::Fill { at: a, rows: 1, .. }, Work::Fill { at: b, rows: 1, .. }) => a.at.block == b.at.block,
            (Work::Copy { to: a, from: b, .. }, Work::Copy { to: c, from: d, .. }) => {
                a.block == c.block && b.block == d.block
            }
            (Work::Kernel(one), Work::Kernel(two)) => std::mem::discriminant(one) == std::mem::discriminant(two),
            (Work::Function { .. }, Work::Function { .. }) => true,
            _ => false,
        }
    }
}
