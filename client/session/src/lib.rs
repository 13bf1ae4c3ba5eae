//! What a client process knows of its vGPUs: handles, shadow state, order. The driver API's typed calls come in; what can be
//! answered here is, the rest goes to the servers as posts, where CUDA lets it, or calls. It never dereferences an address
//! of the program's: the surface's ranges do that.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "a test may fail"))]

mod addresses;
mod arena;
mod array;
mod attributes;
mod beyond;
mod blocks;
mod capture;
mod client;
mod connection;
mod content;
mod context;
mod copy;
mod device;
mod errors;
mod event;
mod graph;
mod handles;
mod host_memory;
mod kernel;
mod launch;
mod lent;
mod library;
mod limits;
mod link;
pub mod log;
mod managed;
mod memory;
mod memset;
mod mirrors;
mod module;
mod occupancy;
mod order;
mod pointer;
mod pool;
mod profiler;
mod recent;
mod session;
pub mod settings;
mod sharing;
mod snapshot;
mod staging;
mod statistics;
mod stream;
mod stream_memory;
mod table;
mod tally;
mod tensor_map;
mod texture;
mod thread;
mod virtual_memory;

pub use client::Client;
pub use connection::{ConnectError, Inquiry};
pub use log::Level;
pub use statistics::{Class, Snapshot as StatisticsSnapshot};

/// What a client can be: the whole driver API.
fn _is_a_driver(client: Client) -> impl floe_surface::Driver {
    client
}
