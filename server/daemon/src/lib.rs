//! floed: listens, authenticates, admits, starts one worker process per session.
//! In: options, connections. Out: sessions, each a process of its own that has the connection from then on.
//! It never loads CUDA, never touches a session's data, and no peer can make it do more than refuse.
#![forbid(unsafe_code)]

use std::io::Write as _;

mod conversation;
mod door;
mod error;
mod life;
mod listen;
mod options;
mod probe;
mod server;
mod sessions;
mod status;
mod telemetry;
mod token;
mod worker_process;

pub use error::DaemonError;
pub use life::run;
pub use options::{FileOptions, Options, Settings};

/// A line for the operator, on stderr.
fn log(words: std::fmt::Arguments<'_>) {
    // Not `eprintln`, which panics when nobody reads stderr any more: the daemon serves on without a log.
    let _ = std::io::stderr().write_all(format!("floed: {words}\n").as_bytes());
}
