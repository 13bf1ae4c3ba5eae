//! From an accepted connection to an authenticated request.
//! In: connections from anybody. Out: the requests of peers that have proved who they are, or the end of their
//! connections.
//! Nothing here starts a worker.

pub(crate) mod admission;
pub(crate) mod closing;
pub(crate) mod conversation;
pub(crate) mod gate;
pub(crate) mod handed;
pub(crate) mod host;
pub(crate) mod limits;
pub(crate) mod listen;
pub(crate) mod notify;
pub(crate) mod reception;
pub(crate) mod token;
pub(crate) mod tokens;
pub(crate) mod users;
mod waiting;
