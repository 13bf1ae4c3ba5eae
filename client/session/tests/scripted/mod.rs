//! Both sides of a test: a scripted server, and a program whose client it serves.
#![allow(dead_code, unreachable_pub, missing_docs, reason = "each test file uses a part of it, and it is no interface")]
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "a test may fail")]

mod program;
mod server;

pub use program::*;
#[allow(unused_imports, reason = "some test files use it")]
pub(crate) use server::join;
#[allow(unused_imports, reason = "some test files use them")]
pub use server::*;
