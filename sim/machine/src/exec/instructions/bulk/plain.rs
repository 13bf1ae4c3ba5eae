//! Bulk copies of plain bytes: two addresses and a number come in, the bytes move. Both addresses are multiples of 16; the
//! number may be any, as on an H200.

use super::plan::{BulkLane, BulkMove};
use super::{BulkFault, aligned, combine};
use crate::exec::address::{Global, Shared, Span};
use crate::exec::context::Context;
use crate::fault::FaultKind;
use crate::tensor::UNIT;

/// Bytes that move at a time.
const PIECE: usize = 512;

/// Moves the bytes and says how many, which a barrier hears of; `None` where they do not fit in shared memory.
pub(super) fn copy(context: &Context, moves: BulkMove, lane: &BulkLane) -> Result<Option<u32>, BulkFault> {
    let BulkLane { shared, far, bytes, .. } = *lane;
    aligned(far, UNIT.into())?;
    aligned(shared, UNIT.into())?;
    let missing = |address| (FaultKind::IllegalAddress, address);
    let global = || Span::of::<Global>(context, far, bytes.into()).ok_or(missing(far));
    let own = || Span::of::<Shared>(context, shared, bytes.into());
    let (source, target) = match moves {
        BulkMove::Prefetch => return global().map(|_| None),
        BulkMove::Load => match own() {
            Some(own) => (global()?, own),
            None => return Ok(None),
        },
        BulkMove::Within | BulkMove::ReduceWithin(_) => match own() {
            Some(own) => (Span::of::<Shared>(context, far, bytes.into()).ok_or(missing(far))?, own),
            None => return Ok(None),
        },
        BulkMove::Store | BulkMove::Reduce(_) => (own().ok_or(missing(shared))?, global()?),
        BulkMove::ReduceTensor(_) => return Err((FaultKind::IllegalInstruction, far)),
    };
    let mut piece = [0; PIECE];
    for at in (0..bytes as usize).step_by(PIECE) {
        let piece = &mut piece[..PIECE.min(bytes as usize - at)];
        source.read(at, piece);
        match moves {
            BulkMove::Reduce(combination) | BulkMove::ReduceWithin(combination) => {
                combine(combination, &target, at, piece)
            }
            _ => target.write(at, piece),
        }
    }
    Ok(Some(bytes))
}
