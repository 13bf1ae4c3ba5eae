//! The client's `libcuda.so.1`: every name NVIDIA's library exports, over this process's client. C's calls come in, the
//! surface types them, the session answers. There is no logic here, and loading the library does nothing: `cuInit` connects.
//! The one name that is not NVIDIA's lets a program count its own waits.

mod activity;
mod collective;

use floe_session::Client;

floe_surface::export_driver! { driver: Client = Client::of_process(), marker: floe_client_marker }

/// The number of driver calls of this process that have waited for a server so far. CUDA has no such name: a program
/// that measures its steps finds it with `dlsym` in floe's library, not in NVIDIA's.
#[unsafe(no_mangle)]
pub extern "C" fn floe_waits() -> u64 {
    Client::of_process().statistics().waited.iter().sum()
}

floe_glibc::thunks!();
