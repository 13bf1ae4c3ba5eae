//! Scheduling: a launch comes in, its outcome goes out.
//! `pool` picks a grid, `grid` a block, `block` a warp, and `warp` the next instruction.
//! It never executes an instruction itself: handlers do.

mod barrier;
mod block;
mod builtin;
mod call;
mod format;
mod grid;
mod pool;
mod warp;

pub use grid::{Grid, Outcome};
pub use pool::{Completion, Pool};

pub(crate) use barrier::kind as barrier_kind;
pub(crate) use call::FRAMES_LIMIT;
