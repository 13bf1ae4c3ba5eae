//! Moves of sessions to other workers: who may have one, what carries it out, and who hears of it.
//! In: requests of peers that proved who they are. Out: sessions at other workers, or where they were.
//! What is decided in a move is decided by `floe-migrate`.

mod admission;
pub(crate) mod attend;
mod driver;
pub(crate) mod registry;
mod watch;
