//! Compute shares of one GPU: which of its sessions may submit work next, and until when.
//! In: sessions with their terms, what their workers report, the time. Out: orders to workers, and the next deadline.
//! Pure: it has no clock, sends nothing, and knows no user, worker or GPU beyond a key.
//!
//! It is a fair queue over virtual time (stride scheduling, with a bounded credit for latency classes as in BVT). One unit has
//! the GPU at a time, so its GPU time is the time that it has it. A unit is the sessions of one user, or one session with terms
//! of its own. A GPU on which nobody has terms is not scheduled: the driver's own time slices are even.
#![forbid(unsafe_code)]

mod fractions;
mod scheduler;
mod terms;

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests;

pub use scheduler::{Order, Orders, Scheduler, Totals, Usage};
pub use terms::{Class, MOST_WEIGHT, Member, NoShare, Terms, WHOLE};
