//! The CPU device's `libcuda.so.1`: every symbol of NVIDIA's library, over a device that runs PTX on the host's cores.
//! Loaded by floe's worker, or put on a program's library path with no server at all; both find the same device.
//! Nothing stands here but the exports, those of CUPTI among them: what they do is in `simulator`.

mod cupti;
mod simulator;

pub use simulator::Simulator;

floe_surface::export_driver! { driver: Simulator = Simulator::of_process(), marker: floe_cpu_device_marker }
