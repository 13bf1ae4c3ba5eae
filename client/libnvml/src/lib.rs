//! The client's `libnvidia-ml.so.1`: every name NVIDIA's library exports, over what the daemons of this process's vGPUs say.
//! C's calls come in, the boundary types them, the files here answer, one per noun of `api/nvml`. It never attaches a
//! session: a monitor takes no vGPU, and loading the library does nothing.
#![deny(unsafe_code)]

mod device;
mod memory;
mod mode;
mod process;
mod sensor;
mod server;
mod system;
mod topology;
mod vgpu;
mod vgpus;

use vgpus::Vgpus;

floe_nvml::export_nvml! { library: Vgpus = Vgpus::of_process(), marker: floe_client_marker }

floe_glibc::thunks!();
