//! Memory of vGPUs and of the program, and the ways bytes take between them: blocks and addresses, pinned memory, mirrors, managed
//! memory, staging. Addresses and ranges come in, messages of a vGPU go out. No call is answered here.

mod addresses;
mod allocate;
pub(crate) mod blocks;
pub(crate) mod host_memory;
pub(crate) mod ipc;
pub(crate) mod managed;
mod mappings;
pub(crate) mod mirroring;
pub(crate) mod mirrors;
pub(crate) mod peers;
pub(crate) mod sending;
pub(crate) mod staging;
pub(crate) mod virtual_memory;
