//! From an accepted connection to a request that may be answered.
//! In: connections of anybody. Out: what a peer asks for, once it has proved that it may, or the end of its connection.
//! Nothing here starts a worker.

mod closing;
pub(crate) mod conversation;
pub(crate) mod gate;
pub(crate) mod limits;
pub(crate) mod listen;
pub(crate) mod token;
