//! The messages, one file per noun of `api/messages`.
//! Everything here is re-exported by the crate's root; it holds no logic.
// Made by `cargo xtask gen` from api/messages; edit the tables, not this file.

mod activity;
mod array;
mod collective;
mod context;
mod copy;
mod dispatch;
mod event;
mod graph;
mod launch;
mod library;
mod link;
mod memory;
mod migrate;
mod mirror;
mod peer;
#[cfg(test)]
mod sample;
mod session;
mod sharing;
mod stream;
mod stream_memory;
mod telemetry;
mod tensor_map;
mod texture;

pub use activity::*;
pub use array::*;
pub use collective::*;
pub use context::*;
pub use copy::*;
pub use dispatch::{Push, Request};
pub use event::*;
pub use graph::*;
pub use launch::*;
pub use library::*;
pub use link::*;
pub use memory::*;
pub use migrate::*;
pub use mirror::*;
pub use peer::*;
#[cfg(test)]
pub(crate) use sample::{PUSH_SAMPLES, REQUEST_SAMPLES, push_sample, request_sample};
pub use session::*;
pub use sharing::*;
pub use stream::*;
pub use stream_memory::*;
pub use telemetry::*;
pub use tensor_map::*;
pub use texture::*;
