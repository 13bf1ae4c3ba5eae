//! The client's `libnvidia-ml.so.1`: all names that NVIDIA's library exports, with answers from the daemons of this
//! process's vGPUs.
//! Calls from C come in, the boundary types them, and the files here answer, one per noun of `api/nvml`. It never
//! attaches a session: a monitor takes no vGPU. Loading the library does nothing.
#![deny(unsafe_code)]

mod bus;
mod device;
mod memory;
mod mode;
mod nvlink;
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
