//! The CUDA driver API as C sees it: exported symbols, version look-up, hidden tables; turned into typed Rust calls.
//! A cdylib that expands [`export_driver!`] gets every name NVIDIA's library has and needs one value that implements
//! [`Driver`]. The surface knows nothing of clients, servers or devices.

pub mod advice;
mod arguments;
mod beyond;
#[doc(hidden)]
pub mod expansion;
mod export_tables;
pub mod generated;
pub mod graph;
pub mod link;
mod look_up;
#[doc(hidden)]
pub mod marshal;
mod prelude;
mod process;
pub mod texture_references;

pub use arguments::attributes::{
    check_attribute, check_preferred_cluster, check_stream_attribute, unset_stream_attribute,
};
pub use arguments::copy::{CopyBox, CopyEnd, CopyPlace, CopyRow, PeerBox};
pub use arguments::host::{HostFunction, HostRange, StreamCallback, UnifiedRange};
pub use arguments::host_block::{HostBlock, HostPages, PAGE};
pub use arguments::jit::JitOptions;
pub use arguments::launch::{KernelArguments, KernelLayout, Launch, ParameterLayout, ParameterRoom};
pub use arguments::pointer::PointerAttribute;
pub use arguments::shareable::{ShareableHandle, ShareableKind};
pub use arguments::wishes::{
    accessing_device, check_context_flags, check_handle_types, check_memory_flags, check_pool, device_of_place,
    granted_memory,
};
pub use beyond::{Beyond, Call};
pub use floe_image::Image;
pub use generated::traits::*;
pub use process::refusals;
