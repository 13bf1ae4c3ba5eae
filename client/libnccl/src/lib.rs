//! The client's `libnccl.so.2`: NCCL's names, for programs whose ranks are on several servers.
//! C's calls come in; what is to be done beside the GPUs goes to the session in floe's `libcuda.so.1`, by one table of functions.
//! It keeps communicators' handles and groups that are not ended yet. Loading it does nothing.
#![deny(unsafe_code)]

#[allow(unsafe_code, reason = "callers are told apart by the address that they return to")]
mod callers;
mod comms;
#[allow(unsafe_code, reason = "C's pointers are read and written here")]
mod entry;
#[allow(unsafe_code, reason = "symbols are exported")]
mod generated;
mod groups;
#[allow(unsafe_code, reason = "the session's functions are C's")]
mod session;

/// Exported by floe's client libraries and by no other.
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "a symbol is exported")]
pub static floe_client_marker: u8 = 0;

floe_glibc::thunks!();
