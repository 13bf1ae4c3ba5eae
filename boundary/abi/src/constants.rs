//! Named numbers of the driver API, one module per enumeration, grouped by noun. They come from the CUDA headers by way
//! of the bindings crate and go wherever a number from C is compared. None of them is a Rust enum, on purpose: C may
//! pass any number.

mod array;
mod context;
mod device;
mod event;
mod graph;
mod launch;
mod lookup;
mod memory;
mod module;
mod stream;

pub use array::*;
pub use context::*;
pub use device::*;
pub use event::*;
pub use graph::*;
pub use launch::*;
pub use lookup::*;
pub use memory::*;
pub use module::*;
pub use stream::*;
