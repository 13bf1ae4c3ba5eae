//! floed: listens, authenticates, admits, starts one worker process per session.
//! In: options, connections. Out: sessions, each a process of its own that has the connection from then on.
//! It never loads CUDA, never touches a session's data, and no peer can make it do more than refuse.
#![forbid(unsafe_code)]

use std::io::Write as _;

mod account;
mod accounting;
mod closing;
mod conversation;
mod door;
mod driver_settings;
mod error;
mod gate;
mod journal;
mod life;
mod limits;
mod lines;
mod listen;
mod module_cache;
mod module_keeper;
mod options;
mod probe;
pub mod protection;
mod second_look;
mod server;
mod sessions;
mod status;
mod supervision;
mod telemetry;
mod token;
mod worker_process;

pub use error::DaemonError;
pub use floe_worker::version;
pub use life::run;
pub use options::{CachePlace, FileOptions, Options, Settings};

/// A line for the operator, on stderr.
fn log(words: std::fmt::Arguments<'_>) {
    log_entry(&format!("floed: {words}\n"));
}

/// Whole lines for the operator, each with who says it.
fn log_entry(entry: &str) {
    // Not `eprintln`, which panics when nobody reads stderr any more: the daemon serves on without a log.
    let _ = std::io::stderr().write_all(entry.as_bytes());
}
