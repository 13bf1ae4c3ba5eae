//! Graphs and captures of streams, for both of our libraries: nodes, edges, copies of graphs, captures, and the calls
//! that CUDA refuses meanwhile. Calls with work that an implementation has checked come in; plans that it runs go out.
//! Nothing here runs work, asks a device or knows a link.

mod attributes;
mod capture;
mod condition;
mod conditional;
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
pub use condition::ConditionalWork;
pub use exec::ExecFlags;
pub(crate) use exec::{place_for, updated};
pub use memory::{AllocWork, FreeWork, Reserved, record_alloc, settle};
pub(crate) use memory::{Target, wish};
pub(crate) use plan::instantiate_result;
pub use plan::{Plan, PlanEdge, PlanNode, Within};
pub use rules::exchange_mode;
pub use store::{Edge, Graphs};
pub use user_objects::Destructor;
pub use work::{CopyWork, FillWork, HostWork, KernelWork, OwnWork, ParameterBlock, WordsWork, Work};
