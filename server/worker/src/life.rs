//! The session from its first connection to its end: its threads, the connections that join, the watchers, and the
//! reason of its end.
//! In: connections and a plan. Out: the ending.
//! Nothing here knows what a command means.

pub(crate) mod carried;
pub(crate) mod ending;
pub(crate) mod exports;
pub(crate) mod joining;
pub(crate) mod log;
pub(crate) mod moving;
pub(crate) mod parking;
pub(crate) mod process;
pub(crate) mod recording;
pub(crate) mod ring_handshake;
pub(crate) mod serve;
pub(crate) mod shared;
pub(crate) mod threads;
mod turns;
pub(crate) mod watch;
pub(crate) mod watchdog;
