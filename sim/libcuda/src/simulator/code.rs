//! Code on the CPU device: images become programs, programs modules and libraries, their kernels functions.
//! In: fat binaries, PTX, cubins. Out: what can be launched.
//! Nothing here runs a kernel.

pub(crate) mod dry_run;
mod instance;
pub(crate) mod kernel;
pub(crate) mod library;
mod link;
pub(crate) mod module;
