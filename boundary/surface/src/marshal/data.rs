//! Marshallers of the nouns about device memory: allocations, arrays, copies, pools, pointers, tensor maps, texture references. It only lists them.

pub mod array;
pub mod copy;
pub mod memory;
pub mod pointer;
pub mod pool;
pub mod tensor_map;
pub mod texture_reference;
pub mod virtual_memory;
