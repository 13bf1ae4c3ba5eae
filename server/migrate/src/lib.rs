//! A move of a session from one worker to another: the phases by name, and what is decided in each.
//! In: what the two workers say, what becomes of them, the time. Out: what to tell whom, and one result.
//! It is pure: no socket, no process, no device, no clock. The daemon carries out what it says.
#![forbid(unsafe_code)]

mod action;
mod coordinator;
mod outcome;
mod phase;
mod said;

pub use action::Action;
pub use coordinator::{Coordinator, Input, Output, RETRIES, TIME_LIMIT, Terms};
pub use outcome::{Outcome, Record, Why};
pub use phase::{Phase, Progress};
pub use said::{Described, Said, Side};
