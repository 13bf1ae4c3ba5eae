//! C's arguments as typed values: host memory, copies, launches, options of module loads, and answers about pointers. Raw
//! pointers come in and values that implementations read go out. Nothing here calls an implementation.

pub(crate) mod attributes;
pub(crate) mod c_pointers;
pub(crate) mod copy;
pub(crate) mod host;
pub(crate) mod host_block;
pub(crate) mod jit;
pub(crate) mod launch;
pub(crate) mod pointer;
pub(crate) mod shareable;
pub(crate) mod wishes;
