//! Operations: a decoded instruction and the lanes of a mask come in, changed registers and memory go out.
//! Each file holds the operations of one family. None of them decides which instruction is next.

pub(super) mod alu;
pub(super) mod async_copy;
pub(crate) mod atomic;
pub(super) mod bulk;
pub(super) mod control;
pub(super) mod matrix;
pub(super) mod matrix_memory;
pub(super) mod matrix_plan;
pub(super) mod mbarrier;
pub(super) mod memory;
pub(super) mod mov;
pub(super) mod run;
pub(super) mod run_plan;
pub(super) mod shuffle;
pub(super) mod stack;
pub(super) mod texture;
pub(super) mod texture_plan;
