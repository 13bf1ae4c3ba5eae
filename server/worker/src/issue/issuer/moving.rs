//! A session's objects as they go from one worker to another.
//! In: commands, and what another worker says of them. Out: images, replays, and what stands in the way of a move.
//! It holds no phase of a move.

mod arriving;
mod aside;
pub(crate) mod drain;
pub(crate) mod image;
pub(crate) mod leaving;
mod time;
