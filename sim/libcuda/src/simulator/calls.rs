//! The calls of the driver API, a file for each noun.
//! In: typed calls of the surface. Out: work for the executor, changed objects, answers.
//! Memory, code and the device's own numbers have folders of their own beside this one.

pub(crate) mod array;
mod capture;
pub(crate) mod context;
mod copy;
mod event;
pub(crate) mod graph;
mod graph_memory;
mod ipc;
mod launch;
mod memset;
mod pointer;
pub(crate) mod pool;
mod profiler;
pub(crate) mod stream;
mod stream_memory;
mod tensor_map;
pub(crate) mod texture;
mod virtual_memory;
