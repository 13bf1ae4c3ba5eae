//! Between the daemon and a worker: the task and the reports, connections passed on, and the cache of modules.
//! In and out: plain data and descriptors. The daemon uses the one end of each, the worker the other.
//! Nothing here reads a message of the client.

pub mod cache_channel;
pub mod contract;
pub mod descriptor_passing;
pub mod end_notices;
pub mod move_notices;
pub mod mps;
pub mod peer_notices;
pub mod turn_notices;
