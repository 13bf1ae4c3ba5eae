//! The C library's socket calls, as this executable answers them for libraries that it loads: NCCL's reach other workers
//! through the daemon, all others the system as ever.
//! In: C calls. Out: what `floe_device::nccl::sockets` says, or the system. It decides nothing.
#![allow(unsafe_code, reason = "symbols of the C library are exported")]

floe_device::export_sockets!();
