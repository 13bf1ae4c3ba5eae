//! The client's knowledge of its vGPUs: handles, shadow state, order. The driver API's typed calls come in. The client
//! answers what it can; the rest goes to the servers as posts, where CUDA allows it, or as calls. It never dereferences
//! an address of the program's: the surface's ranges do that.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "a test may fail"))]

mod activities;
mod calls;
mod client;
pub mod log;
mod lookup;
mod memory;
mod objects;
#[cfg(test)]
#[path = "../tests/scripted/server.rs"]
mod scripted;
pub mod settings;
mod start;
mod trace;
mod vgpu;

pub use activities::caller::Caller;
pub use calls::collective::{Collective, MadeComm, NcclFailure, NcclResult, NewComm, Origin};
pub use client::Client;
pub use log::Level;
pub use vgpu::connection::{Canceller, ConnectError, Inquiry, Migration, MigrationNews};
pub use vgpu::statistics::{Class, Snapshot as StatisticsSnapshot};

/// A client is the whole driver API.
fn _is_a_driver(client: Client) -> impl floe_surface::Driver {
    client
}
