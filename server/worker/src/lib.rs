//! One session's process: decodes a client's commands, checks them, owns the session's objects and quota, drives the device.
//! In: a connection on which a session was attached, and what it may have. Out: the session, served until it ends.
//! It trusts nothing the client says, and it never waits for the GPU where a command need not.
#![deny(unsafe_code)]

mod batch;
mod budget;
mod cache;
pub mod cache_channel;
mod completer;
pub mod contract;
mod ending;
mod events;
mod failures;
mod fault;
pub mod hand_over;
mod host_functions;
mod joining;
mod ledger;
mod log;
mod mirrors;
mod objects;
mod output;
mod printing;
mod process;
mod queue;
mod reader;
mod ring;
mod rings;
pub mod sandbox;
mod serve;
mod session;
mod shared;
mod staging;
mod stripes;
mod threads;
mod version;
mod vigil;
mod watch;
mod watchdog;
mod window;

pub use cache::Cache;
pub use ending::Ending;
pub use joining::Joining;
pub use ledger::{Granted, Grants};
pub use log::{Log, one_entry};
pub use output::Output;
pub use process::{close_inherited, end, without_randomization};
pub use rings::use_rings;
pub use serve::{Plan, serve};
pub use version::version;
pub use watch::{Lasting, Process};
pub use watchdog::Watchdog;

#[cfg(test)]
mod tests;
