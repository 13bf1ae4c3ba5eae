//! floed: listens, authenticates, admits, starts one worker process per session.
//! In: options, connections. Out: sessions, each a process of its own that has the connection from then on.
//! It never loads CUDA, never touches a session's data, and no peer can make it do more than refuse.
#![forbid(unsafe_code)]

use std::io::Write as _;

mod account;
mod entrance;
mod error;
pub mod flags;
mod journal;
mod life;
mod modules;
mod options;
pub mod protection;
mod server;
mod status;
mod usage;
mod workers;

pub use error::DaemonError;
pub use life::run;
pub use options::{CachePlace, Options, ServerFlags, Settings};

/// A line for the operator, on stderr.
fn log(words: std::fmt::Arguments<'_>) {
    log_entry(&format!("floed: {words}\n"));
}

/// Whole lines for the operator, each with who says it.
fn log_entry(entry: &str) {
    // Not `eprintln`, which panics when nobody reads stderr any more: the daemon serves on without a log.
    let _ = std::io::stderr().write_all(entry.as_bytes());
}
