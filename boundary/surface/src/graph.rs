//! Graphs and the capture of streams, as both of our libraries have them: nodes, edges, copies of graphs, which stream is
//! in which capture, and what CUDA refuses meanwhile. Calls come in with what an implementation has checked; plans go out
//! that it runs. Nothing here runs work, asks a device or knows a link.

mod attributes;
mod capture;
mod dot;
mod edges;
mod exec;
mod handles;
mod memory;
mod plan;
mod rules;
mod store;
mod user_objects;
mod work;

pub use capture::{CaptureInfo, CaptureStream};
pub use exec::ExecFlags;
pub(crate) use exec::{place_for, updated};
pub use memory::{AllocWork, FreeWork, Reserved, record_alloc, settle};
pub(crate) use memory::{Target, wish};
pub(crate) use plan::instantiate_result;
pub use plan::{Plan, PlanEdge, PlanNode};
pub use rules::exchange_mode;
pub use store::{Edge, Graphs};
pub use user_objects::Destructor;
pub use work::{CopyWork, FillWork, HostWork, KernelWork, ParameterBlock, WordsWork, Work};
