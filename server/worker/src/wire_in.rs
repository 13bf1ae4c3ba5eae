//! From the client's connections to the thread that issues commands.
//! In: frames and bulk data as they come. Out: batches of commands in order, data in pinned memory.
//! Nothing here looks into a command or calls the device, but for room in pinned memory.

pub(crate) mod batch;
pub(crate) mod queue;
pub(crate) mod reader;
pub(crate) mod rest;
pub(crate) mod stripes;
