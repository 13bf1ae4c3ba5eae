//! The CUDA driver API as a typed library, loaded from the `libcuda.so.1` one names: NVIDIA's or floe's CPU device, which
//! look the same from here. Typed calls come in, C calls of the library go out. It knows nothing of sessions, and no
//! number from the wire reaches it without the worker's tables in between. NVIDIA's management library is found here too.

mod content;
mod driver;
mod generated;
mod graph;
mod host_memory;
mod image;
mod launch;
mod link;
mod module;
mod nvml;
mod open;
mod pitched;
mod tensor_map;

pub use content::Content;
pub use driver::Driver;
pub use generated::Calls;
pub use graph::GraphKernel;
pub use host_memory::HostMemory;
pub use image::LoadImage;
pub use launch::{HostCall, LaunchRequest};
pub use link::LinkInput;
pub use module::{LoadLog, LoadOption};
pub use nvml::open_nvml;
/// The types of NVIDIA's management library.
pub use nvml_wrapper;
pub use open::{OpenError, Tried};
