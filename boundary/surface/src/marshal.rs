//! Marshallers written by hand, for calls whose C form does not follow from the table. Each noun has a module, and each
//! function has its symbol's name. C arguments come in, an implementation's methods are called. They decide nothing
//! that an implementation should decide.
//!
//! All of them rest on the same promise, which the exported functions pass on: the program keeps the C contract of the
//! function it called. NULL is checked where CUDA says that it is an error.

mod code;
pub mod context;
mod data;
pub mod device;
pub mod error;
pub mod graph;
pub mod graph_memory;
pub mod lookup;
pub mod stream;
pub mod stream_memory;

pub use code::{kernel, launch, library, link, module, occupancy};
pub use data::{array, copy, memory, pointer, pool, tensor_map, texture_reference, virtual_memory};

/// Defines marshallers: the driver is their first argument and their names are C's.
macro_rules! marshallers {
    ($($(#[$attribute:meta])* fn $name:ident($driver:ident $(, $argument:ident: $type:ty)* $(,)?) $body:block)*) => {$(
        $(#[$attribute])*
        ///
        /// # Errors
        /// INVALID_VALUE for a missing pointer, else as described or as the implementation says.
        ///
        /// # Safety
        /// The program's contract of the function of this name.
        #[allow(non_snake_case, clippy::too_many_arguments, unused_variables, reason = "name and arguments are C's")]
        pub unsafe fn $name<D: crate::Driver>($driver: &'static D $(, $argument: $type)*) -> CudaResult<()> $body
    )*};
}
pub(crate) use marshallers;
