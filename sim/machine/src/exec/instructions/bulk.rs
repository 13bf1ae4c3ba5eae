//! Bulk copies: a thread moves many bytes, or a box of a tensor, between shared and global memory. A plan and a lane's
//! addresses come in; the bytes move at once, and the barrier hears of them. So there is nothing to wait for, and no state
//! outlives the instruction. A copy that does not fit in shared memory does nothing, as on an H200.

mod combination;
mod plain;
mod plan;
mod tensor;

pub(crate) use combination::{Combination, Operator};
pub(crate) use plan::{BulkAddress, BulkLane, BulkMove, BulkPlan, BulkTensor};

use super::atomic::update_in;
use super::mbarrier::complete_bytes;
use crate::exec::address::{Span, shared_place};
use crate::exec::context::Context;
use crate::fault::FaultKind;

/// A fault and its address.
pub(crate) type BulkFault = (FaultKind, u64);

/// The one block of a launch without clusters, as a mask.
const OWN_BLOCK: u32 = 1;

/// Executes the plan for one lane and says how many bytes it moved.
pub(crate) fn copy(context: &Context, plan: &BulkPlan, lane: &BulkLane) -> Result<u32, BulkFault> {
    if lane.blocks != OWN_BLOCK {
        return Err((FaultKind::IllegalInstruction, lane.shared));
    }
    if let Some(barrier) = lane.barrier {
        shared_place(context, 0, false, barrier, 0, 8)?;
    }
    let moved = match &plan.tensor {
        Some(tensor) => tensor::copy(context, plan.moves, tensor.axes, lane)?,
        None => plain::copy(context, plan.moves, lane)?,
    };
    if let (Some(barrier), Some(bytes)) = (lane.barrier, moved) {
        complete_bytes(context, barrier, bytes)?;
    }
    Ok(moved.unwrap_or(0))
}

/// An address that must be a multiple of a number.
fn aligned(address: u64, bytes: u64) -> Result<(), BulkFault> {
    if address.is_multiple_of(bytes) { Ok(()) } else { Err((FaultKind::Misaligned, address)) }
}

/// Combines the elements of the source with those of the target from a place on, each indivisibly. Bytes that are no whole
/// element stay.
fn combine(combination: Combination, target: &Span<'_>, place: usize, source: &[u8]) {
    match combination {
        Combination::Half(combine) => {
            for (at, new) in (place..).step_by(2).zip(source.as_chunks().0) {
                update_in::<u16>(target, at, |old| combine(old, u16::from_le_bytes(*new)));
            }
        }
        Combination::Word(combine) => {
            for (at, new) in (place..).step_by(4).zip(source.as_chunks().0) {
                update_in::<u32>(target, at, |old| combine(old, u32::from_le_bytes(*new)));
            }
        }
        Combination::Long(combine) => {
            for (at, new) in (place..).step_by(8).zip(source.as_chunks().0) {
                update_in::<u64>(target, at, |old| combine(old, u64::from_le_bytes(*new)));
            }
        }
    }
}
