//! The client's `libcupti.so.13`: CUPTI's activity API, as PyTorch's profiler uses it, for work on GPUs of other machines.
//! C's calls come in; what is recorded comes from the session in floe's `libcuda.so.1`, by one table of functions. Records go
//! out in the program's buffers, in the layouts of CUDA 13.0. Loading it does nothing.
#![deny(unsafe_code)]

#[allow(unsafe_code, reason = "symbols are exported")]
mod absent;
#[allow(unsafe_code, reason = "C's pointers are read and written here, and symbols are exported")]
mod entry;
mod records;
#[allow(unsafe_code, reason = "the session's functions are C's")]
mod session;

/// Exported by floe's client libraries and by no other.
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "a symbol is exported")]
pub static floe_client_marker: u8 = 0;

floe_glibc::thunks!();
