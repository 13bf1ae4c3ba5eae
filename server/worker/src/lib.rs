//! One session's process: decodes a client's commands, checks them, owns the session's objects and quota, drives the device.
//! In: a connection on which a session was attached, and what it may have. Out: the session, served until it ends.
//! It trusts nothing the client says, and it never waits for the GPU where a command need not.
#![deny(unsafe_code)]

mod complete;
mod daemon;
mod issue;
mod life;
mod memory;
mod peer;
pub mod sandbox;
mod wire_in;

pub use complete::output::Output;
pub use daemon::{
    cache_channel, contract, descriptor_passing, end_notices, move_notices, mps, peer_notices, turn_notices,
};
pub use issue::cache::Cache;
pub use issue::stands::{STANDS_VARIABLE, Stands};
pub use life::carried::Carried;
pub use life::ending::Ending;
pub use life::joining::Joining;
pub use life::log::{Log, one_entry};
pub use life::moving::arrive::arrive;
pub use life::moving::ends::{MoveEnds, MoveReports};
pub use life::moving::keep::keep;
pub use life::process::{
    allocate_from_one_heap, bound_host_memory, close_inherited, end, leave_no_room, without_randomization,
};
pub use life::ring_handshake::use_rings;
pub use life::serve::{Continued, Plan, serve, serve_from};
pub use life::watch::{Process, Resumption};
pub use life::watchdog::Watchdog;
pub use memory::asking::{ASK_EVERY, Asking};
pub use memory::ledger::{Granted, Grants};
pub use peer::ends::{PATIENCE as PEER_PATIENCE, PeerEnds, PeerReports};

#[cfg(test)]
mod tests;
