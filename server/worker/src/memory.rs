//! The session's memory: transfer buffers, host memory shared or mirrored, its window of addresses, and what it may take.
//! In: wishes for room. Out: room, or a refusal with the numbers.
//! Nothing here reads a message of the client.

pub(crate) mod asking;
pub(crate) mod budget;
pub(crate) mod ledger;
pub(crate) mod mirrors;
mod range_allocator;
pub(crate) mod shared_pages;
pub(crate) mod transfer_buffers;
pub(crate) mod upload;
pub(crate) mod window;
