//! floed: listens, authenticates, admits, starts one worker process per session.
//! In: options, connections. Out: sessions. Each is a process of its own, which gets the connection.
//! It never loads CUDA and never touches a session's data. A peer's mistake only makes it refuse.
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
pub use options::{CachePlace, Options, ServerFlags, Settings, tokens_folder};

/// What floed does, as its help says it.
pub const ABOUT: &str = "Offers this machine's GPUs to CUDA programs on other machines (and on this one)";

/// Writes a line for the operator to stderr.
fn log(words: std::fmt::Arguments<'_>) {
    log_entry(&format!("floed: {words}\n"));
}

/// Writes whole lines for the operator, each with its source.
fn log_entry(entry: &str) {
    // Not `eprintln`, which panics when stderr is closed: the daemon continues without a log.
    let _ = std::io::stderr().write_all(entry.as_bytes());
}
