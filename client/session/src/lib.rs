//! What a client process knows of its vGPUs: handles, shadow state, order.
#![forbid(unsafe_code)]

mod addresses;
mod blocks;
mod handles;
mod limits;
mod log;
mod order;
pub mod settings;
mod snapshot;
mod statistics;
