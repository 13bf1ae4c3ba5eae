//! The launcher: starts workers as users of their own, for a daemon that has no rights any more.
//! In: ids that the operator set aside, one executable, and requests of the daemon, which may have been taken over. Out:
//! processes of that executable with those ids, their ends.
//! It has one thread. It reads no byte of a peer, opens no file, and starts nothing else.
#![forbid(unsafe_code)]

mod descriptors;
mod ids;
mod launch;
mod request;
mod rights;
mod sweep;

pub use descriptors::{receive, send};
pub use ids::{Ids, NotIds};
pub use launch::Launcher;
pub use request::{MOST_BYTES, NotARequest, READY, Request, Word};
pub use rights::{NEEDED, become_launcher, keep_what_sweeps_need, pass_nothing_on};
pub use sweep::{SWEEP, sweep};

/// The argument by which the worker's executable becomes a launcher. Ids, the daemon's user and its group follow.
pub const LAUNCHER: &str = "--launcher";

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests;
