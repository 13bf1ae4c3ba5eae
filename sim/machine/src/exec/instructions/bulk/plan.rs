//! Operands of bulk copies: lowering fills the plans in, `bulk` executes them with the values of a lane.
//! Plain data; no plan checks its slots.

use super::combination::{Combination, Operator};
use crate::tensor::TENSOR_AXES;

/// A bulk copy: where its operands are, as slots.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BulkPlan {
    pub(crate) moves: BulkMove,
    /// The end in shared memory; prefetches have none.
    pub(crate) shared: Option<BulkAddress>,
    /// The other end: bytes of global memory, a map, or the source of a copy within shared memory.
    pub(crate) far: BulkAddress,
    /// Number of bytes, where no map says it.
    pub(crate) bytes: Option<u32>,
    pub(crate) tensor: Option<BulkTensor>,
    pub(crate) barrier: Option<BulkAddress>,
    /// Mask of the cluster's blocks that get the bytes.
    pub(crate) blocks: Option<u32>,
}

/// The box of a copy by a map.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BulkTensor {
    pub(crate) axes: usize,
    /// Slots of the coordinates; as many count as there are axes.
    pub(crate) coordinates: [u32; TENSOR_AXES],
}

/// An address: a slot of 64 bits and what is added to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BulkAddress {
    pub(crate) slot: u32,
    pub(crate) offset: i64,
}

/// The way of the bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BulkMove {
    /// From global to shared memory.
    Load,
    /// From shared to global memory.
    Store,
    /// From shared to shared memory.
    Within,
    /// Nowhere: only checked.
    Prefetch,
    /// As `Store`, combined with what is there.
    Reduce(Combination),
    /// As `Within`, combined with what is there.
    ReduceWithin(Combination),
    /// As `Reduce`, of the type that the map says.
    ReduceTensor(Operator),
}

/// The operands of one lane.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BulkLane {
    pub(crate) shared: u64,
    pub(crate) far: u64,
    pub(crate) bytes: u32,
    pub(crate) coordinates: [i32; TENSOR_AXES],
    pub(crate) barrier: Option<u64>,
    pub(crate) blocks: u32,
}
