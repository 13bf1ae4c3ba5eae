//! The CUDA driver API as C sees it: exported symbols, version look-up, hidden tables; turned into typed Rust calls.
//! A cdylib that expands [`export_driver!`] gets every name NVIDIA's library has and needs one value that implements
//! [`Driver`]. The surface knows nothing of clients, servers or devices.

pub mod advice;
mod beyond;
mod c_pointers;
mod context_storage;
mod copy;
#[doc(hidden)]
pub mod expansion;
mod export_tables;
pub mod generated;
pub mod graph;
mod host;
mod host_block;
mod integrity;
mod jit;
mod launch;
pub mod link;
mod look_up;
#[doc(hidden)]
pub mod marshal;
mod pointer;
mod prelude;
mod process;
pub mod refusals;
mod trace;

pub use beyond::{Beyond, Call};
pub use copy::{CopyBox, CopyEnd, CopyPlace, CopyRow};
pub use floe_image::Image;
pub use generated::traits::*;
pub use host::{HostFunction, HostRange, StreamCallback, UnifiedRange};
pub use host_block::{HostBlock, PAGE};
pub use jit::JitOptions;
pub use launch::{KernelArguments, KernelLayout, Launch, ParameterLayout, ParameterRoom};
pub use pointer::PointerAttribute;
