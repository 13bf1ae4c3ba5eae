//! Memory of a program whose touches are seen. Pages at addresses of the owner's choice go out, opened and closed by it; a
//! thread that touches a closed page stands until the owner, asked in a thread of its own, has opened it or given it up.
//! It knows nothing of devices, and a fault elsewhere goes where it went before this was there.

mod chain;
mod queue;
mod registry;
mod signal;
mod span;
mod watch;

pub use registry::{FaultHandler, HostFunctionContext, PageFault};
pub use signal::install;
pub use span::{Access, PAGE, Span};
pub use watch::Watch;
