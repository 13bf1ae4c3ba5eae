//! floed: listens, authenticates, admits, starts one worker process per session.
//! In: options, connections. Out: sessions. Each is a process of its own, which gets the connection.
//! It never loads CUDA and never touches a session's data. A peer's mistake only makes it refuse.
#![forbid(unsafe_code)]

mod account;
mod entrance;
mod error;
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
pub use journal::lines::log_failure;
use journal::lines::{log, warn};
pub use life::run;
pub use options::{CachePlace, Options, ServerFlags, Settings, flags, tokens_folder};

/// What floed does, as its help says it.
pub const ABOUT: &str = "Offers this machine's GPUs to CUDA programs on other machines (and on this one)";
