//! Bulk data of a session, over several connections at once.
//! In: borrowed buffers with the commands they belong to, and chunks of an untrusted peer. Out: the data in place at
//! the other end, and word of each complete transfer.
//! It carries no commands: those use the main connection.

mod assembly;
mod pull;
mod queue;
mod scheduler;
mod sizes;
mod staging;
mod stripes;
mod transfers;
mod writers;

pub use pull::pull;
pub use queue::Load;
pub use sizes::{STRIPED_FROM, transfer_bytes, transfers};
pub use stripes::{MOST_CONNECTIONS, Stripes, suitable_connections, suitable_copiers};
pub use transfers::{Taken, Target, Transfers};
pub use writers::Help;
