//! Lowering: a kernel's syntax tree and those of the functions it reaches become one image of decoded instructions.
//! Comes from `program`, goes to `exec`. Opcodes get their meaning here, once per kernel. An unknown instruction fails
//! the kernel by name and line; it is never skipped or guessed.

mod arithmetic;
mod asynchronous;
mod builder;
mod constants;
mod control;
mod frame;
mod function;
mod handlers;
pub(crate) mod image;
mod liveness;
mod matrix;
mod memory;
mod moves;
mod names;
mod operand;
mod parameters;
mod special;
mod texture;
mod warp;

pub(crate) use builder::lower;
pub(crate) use parameters::kernel_parameters;
