//! Memory of a program with page faults that floe handles. Pages at addresses of the owner's choice go out; the owner
//! opens and closes them. A thread that touches a closed page sleeps until the owner's fault handler, in a thread of
//! its own, has opened or refused it. Of other memory the kernel notes which pages are written, and
//! private pages are exchanged for a file's. It knows nothing of devices, and faults of other pages go to the program.

mod chain;
mod exchange;
mod forks;
mod mapping;
mod moves;
mod pages;
mod queue;
mod registry;
mod shutter;
mod signal;
mod span;
mod watch;
mod written;

pub use exchange::Exchanged;
pub use forks::before_forks;
pub use mapping::{Mapping, shared_file};
pub use registry::{FaultHandler, HostFunctionContext, PageFault};
pub use shutter::Shutter;
pub use signal::install;
pub use span::{Access, PAGE, Span};
pub use watch::Watch;
pub use written::{Written, devices_may_write};
